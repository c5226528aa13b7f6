//! What the subscribers of one informer need, merged into one ingest plan.
//!
//! Invariants:
//! 1. A slot keeps its number as long as somebody uses it; equal needs share a slot.
//! 2. The generation grows exactly when something is needed that the plan before did not take out of the objects.

use std::sync::Arc;

use pintle_core::contract::manifest::SelectorForm;
use pintle_core::object::field::{FieldMask, FieldPath};
use pintle_core::object::id::Kind;
use pintle_core::object::ingest::{IngestPlan, Projection};

/// What one watch of one plugin needs of every object.
#[derive(Clone, Debug, Default)]
pub(crate) struct Demand {
    pub(crate) fields: FieldMask,
    pub(crate) whole: bool,
    /// By name.
    pub(crate) indexes: Vec<(Arc<str>, FieldPath)>,
    pub(crate) selects: Option<(FieldPath, SelectorForm)>,
}

/// Where the informer puts what a demand asked for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Claim {
    /// Slot of the projection.
    pub(crate) slot: u16,
    /// Slot of the whole object.
    pub(crate) whole: Option<u16>,
    /// Slot of each index, by name.
    pub(crate) indexes: Vec<(Arc<str>, u16)>,
    /// Slot of the selector.
    pub(crate) selector: Option<u16>,
    /// The store must have been filled under this generation, or a later one, to have all of it.
    pub(crate) generation: u64,
}

/// Slots in use, and how often.
pub(crate) struct PlanBook {
    kind: Kind,
    slots: Counted<Projection>,
    indexes: Counted<FieldPath>,
    selectors: Counted<(FieldPath, SelectorForm)>,
    generation: u64,
    plan: Arc<IngestPlan>,
}

impl PlanBook {
    pub(crate) fn new(kind: Kind) -> Self {
        Self {
            plan: Arc::new(IngestPlan::new(kind.clone(), Vec::new(), Vec::new(), Vec::new())),
            kind,
            slots: Counted(Vec::new()),
            indexes: Counted(Vec::new()),
            selectors: Counted(Vec::new()),
            generation: 0,
        }
    }

    /// The plan and its generation.
    pub(crate) fn plan(&self) -> (Arc<IngestPlan>, u64) {
        (self.plan.clone(), self.generation)
    }

    /// Takes slots for a demand; a new generation begins if one of them is new.
    pub(crate) fn claim(&mut self, demand: &Demand) -> Claim {
        let mut widened = self.generation == 0;
        let slot = self.slots.take(Projection::Fields(demand.fields.clone()), &mut widened);
        let whole = demand.whole.then(|| self.slots.take(Projection::Whole, &mut widened));
        let indexes = demand.indexes.iter();
        let indexes =
            indexes.map(|(name, path)| (name.clone(), self.indexes.take(path.clone(), &mut widened))).collect();
        let selector = demand.selects.clone().map(|selects| self.selectors.take(selects, &mut widened));
        if widened {
            self.generation += 1;
            self.plan = Arc::new(IngestPlan::new(
                self.kind.clone(),
                self.slots.values(),
                self.indexes.values(),
                self.selectors.values(),
            ));
        }
        Claim { slot, whole, indexes, selector, generation: self.generation }
    }

    /// Gives slots back. What they held goes with the next generation.
    pub(crate) fn release(&mut self, claim: &Claim) {
        self.slots.give(claim.slot);
        claim.whole.into_iter().for_each(|slot| self.slots.give(slot));
        claim.indexes.iter().for_each(|(_, slot)| self.indexes.give(*slot));
        claim.selector.into_iter().for_each(|slot| self.selectors.give(slot));
    }
}

/// Values at numbered places, with the number of their users.
struct Counted<T>(Vec<(T, usize)>);

impl<T: Clone + PartialEq> Counted<T> {
    fn take(&mut self, value: T, widened: &mut bool) -> u16 {
        let at = match self.0.iter().position(|(ours, _)| *ours == value) {
            // Still (or again) in use: what nobody used may be missing in newer plans.
            Some(at) => {
                *widened |= self.0[at].1 == 0;
                at
            }
            None => {
                *widened = true;
                match self.0.iter().position(|(_, users)| *users == 0) {
                    Some(free) => {
                        self.0[free].0 = value;
                        free
                    }
                    None => {
                        self.0.push((value, 0));
                        self.0.len() - 1
                    }
                }
            }
        };
        self.0[at].1 += 1;
        // Manifests are far smaller than 65,536 entries; a host that has more would share the last slot.
        u16::try_from(at).unwrap_or(u16::MAX)
    }

    fn give(&mut self, at: u16) {
        if let Some((_, users)) = self.0.get_mut(usize::from(at)) {
            *users = users.saturating_sub(1);
        }
    }

    fn values(&self) -> Vec<Option<T>> {
        self.0.iter().map(|(value, users)| (*users > 0).then(|| value.clone())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn demand(fields: &[&str], whole: bool) -> Demand {
        let fields = FieldMask::new(fields.iter().map(|path| path.parse().unwrap()));
        Demand { fields, whole, ..Demand::default() }
    }

    #[test]
    fn equal_demands_share_slots_and_new_ones_start_a_generation() {
        let mut book = PlanBook::new(Kind::new("", "v1", "Pod"));
        let first = book.claim(&demand(&["spec.a"], false));
        let second = book.claim(&demand(&["spec.a"], false));
        assert_eq!((first.slot, first.generation), (second.slot, second.generation));
        let third = book.claim(&demand(&["spec.b"], true));
        assert_eq!((third.slot, third.whole, third.generation), (1, Some(2), 2));
        assert_eq!(book.plan().0.slots().iter().flatten().count(), 3);
    }

    #[test]
    fn a_slot_is_used_again_only_when_nobody_needs_it() {
        let mut book = PlanBook::new(Kind::new("", "v1", "Pod"));
        let first = book.claim(&demand(&["spec.a"], false));
        let second = book.claim(&demand(&["spec.a"], false));
        book.release(&first);
        assert_eq!(book.claim(&demand(&["spec.b"], false)).slot, 1);
        book.release(&second);
        let fourth = book.claim(&demand(&["spec.c"], false));
        assert_eq!((fourth.slot, fourth.generation), (0, 3));
        // The slot was given back and taken again by the same demand: newer objects may not have it.
        book.release(&fourth);
        assert_eq!(book.claim(&demand(&["spec.c"], false)).generation, 4);
    }
}
