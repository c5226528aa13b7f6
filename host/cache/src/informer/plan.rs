//! Merges the demands of an informer's subscribers into one ingest plan.
//!
//! Invariant: the generation grows exactly when the plan changes: when a demand needs something that the plan does not
//! extract, or a separate text for which there is room again. Texts that are no longer needed stay until then.

use std::sync::Arc;

use pintle_core::object::field::{FieldMask, FieldPath};
use pintle_core::object::id::Kind;
use pintle_core::object::ingest::{IngestPlan, Needs};
use pintle_core::object::selector::SelectorForm;
use pintle_core::object::texts::Projection;

/// The parts of every object that one watch of one plugin needs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Demand {
    pub(crate) fields: FieldMask,
    pub(crate) whole: bool,
    /// Indexes with their names.
    pub(crate) indexes: Vec<(Arc<str>, FieldPath)>,
    pub(crate) selects: Option<(FieldPath, SelectorForm)>,
}

/// The demands on one informer, and its plan.
pub(crate) struct FieldDemand {
    demands: Vec<Arc<Demand>>,
    generation: u64,
    plan: Arc<IngestPlan>,
}

impl FieldDemand {
    pub(crate) fn new(kind: Kind) -> Self {
        Self { demands: Vec::new(), generation: 0, plan: Arc::new(IngestPlan::new(kind, Needs::default())) }
    }

    /// The plan and its generation.
    pub(crate) fn plan(&self) -> (Arc<IngestPlan>, u64) {
        (self.plan.clone(), self.generation)
    }

    /// Adds a demand. Returns the minimum generation of a store that satisfies it.
    pub(crate) fn claim(&mut self, demand: Arc<Demand>) -> u64 {
        self.demands.push(demand);
        let mut needs = Needs::default();
        for demand in &self.demands {
            needs.projections.insert(Projection::Fields(demand.fields.clone()));
            needs.projections.extend(demand.whole.then_some(Projection::Whole));
            needs.indexes.extend(demand.indexes.iter().map(|(_, path)| path.clone()));
            needs.selectors.extend(demand.selects.clone());
        }
        if self.generation == 0 || !self.plan.suits(&needs) {
            self.generation += 1;
            self.plan = Arc::new(IngestPlan::new(self.plan.kind().clone(), needs));
        }
        self.generation
    }

    /// Removes a demand.
    pub(crate) fn release(&mut self, demand: &Arc<Demand>) {
        if let Some(at) = self.demands.iter().position(|ours| Arc::ptr_eq(ours, demand)) {
            self.demands.swap_remove(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn demand(fields: &[&str], whole: bool) -> Arc<Demand> {
        let fields = FieldMask::new(fields.iter().map(|path| path.parse().unwrap()));
        Arc::new(Demand { fields, whole, ..Demand::default() })
    }

    fn none() -> FieldDemand {
        FieldDemand::new(Kind::new("", "v1", "Pod"))
    }

    fn n_texts(all: &FieldDemand) -> usize {
        all.plan().0.texts().projections().len()
    }

    #[test]
    fn equal_demands_share_a_text_and_new_ones_start_a_generation() {
        let mut all = none();
        assert_eq!(all.claim(demand(&["spec.a"], false)), 1);
        assert_eq!(all.claim(demand(&["spec.a"], false)), 1);
        assert_eq!(all.claim(demand(&["spec.b"], true)), 2);
        assert_eq!(n_texts(&all), 3);
        let indexed = Demand { indexes: vec![("a".into(), "spec.a".parse().unwrap())], ..Demand::default() };
        let indexed = Arc::new(Demand { fields: demand(&["spec.a"], false).fields.clone(), ..indexed });
        assert_eq!(all.claim(indexed), 3);
    }

    #[test]
    fn a_text_that_nobody_needs_goes_with_the_next_generation() {
        let mut all = none();
        let (first, second) = (demand(&["spec.a"], false), demand(&["spec.b"], false));
        all.claim(first.clone());
        all.claim(second);
        all.release(&first);
        assert_eq!((n_texts(&all), all.claim(first.clone())), (2, 2));
        all.release(&first);
        assert_eq!((all.claim(demand(&["spec.c"], false)), n_texts(&all)), (3, 2));
        assert_eq!(all.claim(first), 4);
    }

    #[test]
    fn a_plugin_whose_fields_are_all_there_starts_no_list_and_one_that_leaves_neither() {
        let mut all = none();
        let first: Vec<_> = ["a", "b", "c", "d", "e"].map(|field| demand(&[&format!("spec.{field}")], false)).into();
        let generations: Vec<u64> = first.iter().map(|demand| all.claim(demand.clone())).collect();
        assert_eq!((generations.as_slice(), n_texts(&all)), (&[1, 2, 3, 4, 5][..], 4));
        let Projection::Fields(shared) = all.plan().0.texts().projections()[0].clone() else { panic!("no fields") };
        assert_eq!(shared.paths().count(), 2);
        let part = demand(&["spec.a"], false);
        assert_eq!(all.claim(part.clone()), 5);
        all.release(&part);
        all.release(&first[0]);
        assert_eq!(all.claim(first[0].clone()), 5 + u64::from(n_texts(&all) < 4));
        assert_eq!(all.claim(demand(&["spec.f"], false)), 6);
        // There is room again: the next demand gets its own text, and so do all others.
        first[..4].iter().for_each(|demand| all.release(demand));
        all.claim(demand(&["spec.f.g"], false));
        assert!(
            all.plan().0.suits(&Needs {
                projections: [Projection::Fields(first[4].fields.clone())].into(),
                ..Needs::default()
            })
        );
    }
}
