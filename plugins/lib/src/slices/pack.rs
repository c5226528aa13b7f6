//! Distribution of endpoints to slices: with few changes rather than with few slices.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::{EndpointKey, EndpointSet, Slice, equal_beyond_key};

/// The changes of the slices of an owner.
#[derive(Clone, Debug, Default)]
#[doc(alias = "SliceInfo")]
#[doc(alias = "slicesByAction")]
pub struct Changes {
    /// New slices.
    pub create: Vec<Slice>,
    /// Slices with changes.
    pub update: Vec<Slice>,
    /// Slices to delete.
    pub delete: Vec<Slice>,
    /// Slices without changes.
    pub unchanged: Vec<Slice>,
    /// Number of added endpoints.
    pub n_added: usize,
    /// Number of removed endpoints.
    pub n_removed: usize,
}

impl Changes {
    /// Adds other changes.
    pub fn append(&mut self, mut other: Self) {
        self.create.append(&mut other.create);
        self.update.append(&mut other.update);
        self.delete.append(&mut other.delete);
        self.unchanged.append(&mut other.unchanged);
        self.n_added += other.n_added;
        self.n_removed += other.n_removed;
    }

    /// Number of slices afterwards.
    #[must_use]
    pub fn n_slices(&self) -> usize {
        self.create.len() + self.update.len() + self.unchanged.len()
    }

    /// Number of written slices.
    #[must_use]
    pub fn n_writes(&self) -> usize {
        self.create.len() + self.update.len() + self.delete.len()
    }

    /// Reuses deleted slices for new ones, to write less. A new slice prefers one that has an endpoint in common with
    /// it, so that the endpoint is never missing. `may_stay` selects the slices that may be reused; the address type of
    /// a slice cannot change.
    #[doc(alias = "recycleSlices")]
    pub fn recycle(&mut self, may_stay: impl Fn(&Slice) -> bool) {
        if self.create.is_empty() || self.delete.is_empty() {
            return;
        }
        let mut create: Vec<Option<Slice>> = std::mem::take(&mut self.create).into_iter().map(Some).collect();
        let (mut slices, kept): (Vec<Slice>, Vec<Slice>) =
            std::mem::take(&mut self.delete).into_iter().partition(may_stay);
        self.delete = kept;
        let mut place_of: BTreeMap<EndpointKey, usize> = BTreeMap::new();
        for (place, slice) in create.iter().flatten().enumerate() {
            place_of.extend(slice.object.endpoints.iter().map(|endpoint| (EndpointKey::of(endpoint), place)));
        }
        for has_common in [true, false] {
            let mut others = Vec::new();
            for old in slices {
                let fits = |place: &usize| {
                    create[*place].as_ref().is_some_and(|new| new.object.address_type == old.object.address_type)
                };
                let place = if has_common {
                    let keys = old.object.endpoints.iter().map(EndpointKey::of);
                    keys.filter_map(|key| place_of.get(&key).copied()).find(fits)
                } else {
                    (0..create.len()).find(fits)
                };
                match place.and_then(|place| create[place].take()) {
                    Some(new) => self.update.push(new.in_place_of(&old)),
                    None => others.push(old),
                }
            }
            slices = others;
        }
        self.delete.append(&mut slices);
        self.create = create.into_iter().flatten().collect();
    }
}

/// Distributes the desired endpoints of one set of ports to slices of at most `most`. Endpoints stay in their slices.
/// New ones go into slices that change anyway, the fullest first; then, if all of the rest fit into one slice, into the
/// fullest of these; then into new slices.
///
/// `labels` returns the desired labels of a slice, and whether the slice must be written for them.
#[doc(alias = "reconcileByPortMapping")]
pub fn pack(
    existing: Vec<Slice>,
    mut desired: EndpointSet,
    most: usize,
    labels: impl Fn(&Slice) -> (BTreeMap<String, String>, bool),
    new: impl Fn() -> Slice,
) -> Changes {
    let mut changes = Changes::default();
    for mut slice in existing {
        let n_before = slice.n_endpoints();
        let mut kept = Vec::with_capacity(n_before);
        let mut has_changed = false;
        for endpoint in &slice.object.endpoints {
            if let Some(wanted) = desired.take(endpoint) {
                has_changed |= !equal_beyond_key(&wanted, endpoint);
                kept.push(wanted);
            }
        }
        changes.n_removed += n_before - kept.len();
        has_changed |= kept.len() < n_before;
        let (labels, is_relabelled) = labels(&slice);
        if has_changed && kept.is_empty() {
            changes.delete.push(slice);
        } else if has_changed || is_relabelled {
            if has_changed {
                slice.object.endpoints = kept;
            }
            slice.object.metadata.labels = labels;
            changes.update.push(slice);
        } else {
            changes.unchanged.push(slice);
        }
    }
    changes.n_added = desired.len();
    if !desired.is_empty() {
        changes.update.sort_by_key(|slice| Reverse(slice.n_endpoints()));
        changes.update.iter_mut().for_each(|slice| fill(slice, &mut desired, most));
    }
    while !desired.is_empty() {
        let place = if desired.len() < most { slice_to_fill(&changes.unchanged, desired.len(), most) } else { None };
        let (mut slice, into) = match place {
            Some(place) => (changes.unchanged.remove(place), &mut changes.update),
            None => (new(), &mut changes.create),
        };
        fill(&mut slice, &mut desired, most.max(1));
        into.push(slice);
    }
    changes
}

fn fill(slice: &mut Slice, desired: &mut EndpointSet, most: usize) {
    while slice.n_endpoints() < most
        && let Some(endpoint) = desired.pop()
    {
        slice.object.endpoints.push(endpoint);
    }
}

/// The slice with the least room left after adding this number of endpoints; `None` if they fit into none.
#[doc(alias = "getSliceToFill")]
fn slice_to_fill(slices: &[Slice], n_endpoints: usize, most: usize) -> Option<usize> {
    let left = |slice: &Slice| most.checked_sub(slice.n_endpoints() + n_endpoints);
    let slices = slices.iter().enumerate().filter_map(|(place, slice)| Some((left(slice)?, place)));
    slices.min().map(|(_, place)| place)
}
