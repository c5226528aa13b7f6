//! The texts kept of each cached object, and reading a plugin's declared fields from them.
//!
//! Flow: projections that plugins declare -> at most [`MAX_TEXTS`] texts ([`TextSet`]) -> the fields of one plugin
//! ([`Reader`]).
//!
//! Invariants:
//! 1. Up to [`MAX_TEXTS`] different projections have a text each. Beyond that, projections share a text, which has the
//!    fields that its readers declare, and no others.
//! 2. A plugin reads the same from any text: fields that it did not declare are cut out.
//! 3. The set depends on the projections alone, not on their order or history.
//!
//! Not here: extracting the texts from objects (`ingest`), replacing an old set by a new one (`pintle-cache`).

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;

use crate::object::field::{FieldMask, FieldPath};
use crate::object::project::{MAX_TEXTS, Projector};

/// The fields of an object that a plugin reads.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Projection {
    /// Everything but `managedFields`.
    Whole,
    /// These fields.
    Fields(FieldMask),
}

/// The projection of each text of an object.
#[derive(Debug, Default)]
pub struct TextSet {
    projections: Vec<Projection>,
}

/// The text that a reader reads from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    text: usize,
    /// The text has no other fields.
    is_exact: bool,
}

/// Reads one projection from texts that have at least its fields.
#[derive(Debug)]
pub struct Reader {
    projection: Projection,
    /// Cuts out fields of other readers.
    projector: Projector,
}

impl TextSet {
    /// Computes the texts for these projections.
    pub fn shared_by(projections: &BTreeSet<Projection>) -> Self {
        let masks = projections.iter().filter_map(Projection::fields).collect();
        let whole = projections.contains(&Projection::Whole).then_some(Projection::Whole);
        let n_texts = MAX_TEXTS - usize::from(whole.is_some());
        Self {
            projections: whole.into_iter().chain(merge(masks, n_texts).into_iter().map(Projection::Fields)).collect(),
        }
    }

    /// The projection of each text.
    pub fn projections(&self) -> &[Projection] {
        &self.projections
    }

    /// Whether all of these projections can be read, and none shares a text while there is room for another one.
    pub fn suits(&self, projections: &BTreeSet<Projection>) -> bool {
        let is_full = self.projections.len() == MAX_TEXTS && projections.len() > MAX_TEXTS;
        projections.iter().all(|wanted| self.source(wanted).is_some_and(|source| source.is_exact || is_full))
    }

    /// The source of a projection: its own text, or the one with the fewest other fields. A text of whole objects is
    /// read only by projections of whole objects. `None` if the texts do not have its fields.
    pub fn source(&self, wanted: &Projection) -> Option<Source> {
        if let Some(text) = self.projections.iter().position(|ours| ours == wanted) {
            return Some(Source { text, is_exact: true });
        }
        let wanted = wanted.fields()?;
        let texts = self.projections.iter().enumerate().filter_map(|(text, ours)| Some((text, ours.fields()?)));
        let covering = texts.filter(|(_, ours)| ours.covers_all(wanted));
        covering.min_by_key(|(_, ours)| ours.paths().count()).map(|(text, _)| Source { text, is_exact: false })
    }
}

impl Projection {
    fn fields(&self) -> Option<&FieldMask> {
        match self {
            Self::Whole => None,
            Self::Fields(mask) => Some(mask),
        }
    }
}

impl Source {
    /// The object's text, or the item that belongs to it. The text may have more fields than the projection.
    pub fn of<T>(self, texts: &[T]) -> Option<&T> {
        texts.get(self.text)
    }
}

impl Reader {
    /// Creates a reader of this projection.
    pub fn new(projection: Projection) -> Self {
        let mask = projection.fields().map(FieldMask::with_identity).unwrap_or_default();
        Self { projector: Projector::new(&mask), projection }
    }

    /// The source in these texts.
    pub fn source(&self, texts: &TextSet) -> Option<Source> {
        texts.source(&self.projection)
    }

    /// Cost of [`read`](Self::read) in units of [`Work`](crate::object::work::Work): a text with other fields must be
    /// parsed.
    pub fn cost(&self, source: Source, texts: &[Arc<str>]) -> u64 {
        const BYTES_PER_UNIT: u64 = 8;
        let n_bytes = source.of(texts).filter(|_| !source.is_exact).map_or(0, |text| text.len() as u64);
        1 + n_bytes / BYTES_PER_UNIT
    }

    /// Returns exactly the fields of the projection.
    pub fn read(&self, source: Source, texts: &[Arc<str>]) -> Option<Arc<str>> {
        let text = source.of(texts)?;
        // On a parse error, return nothing rather than too much; texts made by the host are always objects.
        if source.is_exact { Some(text.clone()) } else { self.projector.project(text).ok().map(Arc::from) }
    }
}

/// Masks that share a text.
struct Group {
    mask: FieldMask,
    n_masks: usize,
    /// One bit for each field that any mask names.
    fields: Vec<u64>,
}

/// Merges masks until `n_texts` are left. Each step merges the two groups whose readers then skip the fewest fields of
/// others; for a field that holds an object, the fields in it that any projection names count as well.
fn merge(masks: Vec<&FieldMask>, n_texts: usize) -> Vec<FieldMask> {
    let named: BTreeSet<&FieldPath> = masks.iter().flat_map(|mask| mask.paths()).collect();
    let mut groups: Vec<Group> = masks.into_iter().map(|mask| Group::new(mask, &named)).collect();
    while groups.len() > n_texts {
        let pairs = (0..groups.len()).flat_map(|second| (0..second).map(move |first| (first, second)));
        let Some((first, second)) = pairs.min_by_key(|&(a, b)| groups[a].waste_with(&groups[b])) else { break };
        let merged = groups.remove(second);
        groups[first].absorb(merged);
    }
    groups.into_iter().map(|group| group.mask).collect()
}

impl Group {
    fn new(mask: &FieldMask, named: &BTreeSet<&FieldPath>) -> Self {
        let mut fields = vec![0; named.len().div_ceil(64)];
        for (i, _) in named.iter().enumerate().filter(|(_, field)| mask.covers(field)) {
            fields[i / 64] |= 1 << (i % 64);
        }
        Self { mask: mask.clone(), n_masks: 1, fields }
    }

    /// Number of additional fields of others that readers of both groups would skip. Among equals, groups with more
    /// common fields merge first.
    fn waste_with(&self, other: &Self) -> (usize, Reverse<usize>) {
        let n_both = self.fields.iter().zip(&other.fields).map(|(a, b)| (a & b).count_ones() as usize).sum();
        let (n_ours, n_others) = (n_fields(&self.fields), n_fields(&other.fields));
        (self.n_masks * (n_others - n_both) + other.n_masks * (n_ours - n_both), Reverse(n_both))
    }

    fn absorb(&mut self, other: Self) {
        self.mask.extend(other.mask.paths().cloned());
        self.n_masks += other.n_masks;
        self.fields.iter_mut().zip(other.fields).for_each(|(ours, others)| *ours |= others);
    }
}

fn n_fields(fields: &[u64]) -> usize {
    fields.iter().map(|word| word.count_ones() as usize).sum()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn projection(paths: &[String]) -> Projection {
        Projection::Fields(FieldMask::new(paths.iter().map(|path| path.parse().unwrap())))
    }

    fn path() -> impl Strategy<Value = String> {
        prop::sample::select(vec!["a", "a.b", "a.c", "b", "b.a", "c.a", "c.b", "c.b.a", "d", "e", "f"])
            .prop_map(String::from)
    }

    /// Merges two masks; also returns how many fields of the other mask their readers then skip, counted one by one.
    fn together(first: &FieldMask, second: &FieldMask, named: &BTreeSet<&FieldPath>) -> (FieldMask, usize) {
        let both = FieldMask::new(first.paths().chain(second.paths()).cloned());
        let n_more = |mask: &FieldMask| named.iter().filter(|field| both.covers(field) && !mask.covers(field)).count();
        let n_passed = n_more(first) + n_more(second);
        (both, n_passed)
    }

    proptest! {
        #[test]
        fn texts_are_few_and_have_what_is_declared_and_no_more(
            masks in prop::collection::vec(prop::collection::vec(path(), 0..4), 0..12),
            whole in any::<bool>(),
        ) {
            let mut projections: BTreeSet<Projection> = masks.iter().map(|paths| projection(paths)).collect();
            projections.extend(whole.then_some(Projection::Whole));
            let texts = TextSet::shared_by(&projections);
            prop_assert_eq!(texts.projections().len(), projections.len().min(MAX_TEXTS));
            prop_assert!(texts.suits(&projections));
            for text in texts.projections().iter().filter_map(Projection::fields) {
                let masks = || projections.iter().filter_map(Projection::fields);
                let no_more = text.paths().all(|path| masks().any(|mask| mask.paths().any(|ours| ours == path)));
                prop_assert!(no_more);
            }
            if projections.len() <= MAX_TEXTS {
                let exact = projections.iter().all(|wanted| texts.source(wanted).unwrap().is_exact);
                prop_assert!(exact);
            }
        }

        #[test]
        fn of_one_mask_too_many_those_go_together_that_fit_best(
            masks in prop::collection::btree_set(prop::collection::vec(path(), 0..4).prop_map(|paths| projection(&paths)), 5),
        ) {
            let fields: Vec<&FieldMask> = masks.iter().filter_map(Projection::fields).collect();
            let named: BTreeSet<&FieldPath> = fields.iter().flat_map(|mask| mask.paths()).collect();
            let texts: BTreeSet<_> = TextSet::shared_by(&masks).projections.into_iter().collect();
            let (mut fewest, mut chosen) = (usize::MAX, usize::MAX);
            for (i, first) in fields.iter().enumerate() {
                for second in &fields[i + 1..] {
                    let (both, n_passed) = together(first, second, &named);
                    let others = fields.iter().filter(|mask| *mask != first && *mask != second).map(|mask| (*mask).clone());
                    let of_pair: BTreeSet<_> = others.chain([both]).map(Projection::Fields).collect();
                    fewest = fewest.min(n_passed);
                    if of_pair == texts {
                        chosen = chosen.min(n_passed);
                    }
                }
            }
            prop_assert_eq!(chosen, fewest);
        }

        /// Adding a projection whose fields are all present, or removing one, changes no text.
        #[test]
        fn texts_stay_while_they_have_what_is_declared(
            masks in prop::collection::vec(prop::collection::vec(path(), 0..4), 0..12),
            gone in any::<prop::sample::Index>(),
        ) {
            let projections: BTreeSet<Projection> = masks.iter().map(|paths| projection(paths)).collect();
            let texts = TextSet::shared_by(&projections);
            if projections.len() > MAX_TEXTS {
                let with_part = projections.iter().cloned().chain(texts.projections().iter().cloned()).collect();
                prop_assert!(texts.suits(&with_part));
            }
            let mut rest = projections.clone();
            if let Some(gone) = (!masks.is_empty()).then(|| projection(&masks[gone.index(masks.len())])) {
                rest.remove(&gone);
            }
            prop_assert!(texts.suits(&rest) || rest.len() == MAX_TEXTS, "there is room again for a text each");
        }
    }
}
