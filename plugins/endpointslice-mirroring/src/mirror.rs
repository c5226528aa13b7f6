//! The slice of the endpoints with the same ports and the same address type.
//!
//! *Source*: `reconcileByPortMapping`, `totalChanges`, `newEndpointSlice`, `needRebuildExistingSlices`.

use std::collections::BTreeMap;

use pintle_sdk::Resource;
use plugin_lib::slices::{Changes, EndpointSet, MANAGED_BY, Port, SERVICE_NAME, Slice, equal_beyond_key};
use plugin_lib::subsets::Endpoints;
use plugin_lib::trigger_time;

/// Part of the API.
const CONTROLLER: &str = "endpointslicemirroring-controller.k8s.io";

/// kubectl's own annotation.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

type Texts = BTreeMap<String, String>;

/// Computes the changes of the slices with these ports and this address type, and the number of endpoints that change
/// in place.
#[doc(alias = "reconcileByPortMapping")]
pub(crate) fn mirror(
    endpoints: &Endpoints,
    existing: Vec<Slice>,
    mut desired: EndpointSet,
    ports: Vec<Port>,
    address_type: &str,
    most: usize,
) -> (Changes, usize) {
    let mut changes = Changes::default();
    if desired.is_empty() {
        changes.n_removed = existing.iter().map(Slice::n_endpoints).sum();
        changes.delete = existing;
        return (changes, 0);
    }
    let mut existing = existing.into_iter();
    let first = existing.next();
    // Each set of ports has one slice.
    changes.delete = existing.collect();
    let mut n_updated = 0;
    let mut n_kept = 0;
    for endpoint in first.iter().flat_map(|slice| &slice.object.endpoints) {
        match desired.get(endpoint) {
            None => changes.n_removed += 1,
            Some(wanted) => {
                n_kept += 1;
                n_updated += usize::from(!equal_beyond_key(wanted, endpoint));
            }
        }
    }
    // A slice may contain an endpoint twice.
    changes.n_added = desired.len().saturating_sub(n_kept);
    let is_equal = (changes.n_added, n_updated, changes.n_removed) == (0, 0, 0);
    match first {
        Some(slice) if is_equal && has_metadata_of(&slice, endpoints) => changes.unchanged.push(slice),
        first => {
            let mut slice = new_slice(endpoints, ports, address_type);
            while slice.n_endpoints() < most
                && let Some(endpoint) = desired.pop()
            {
                slice.object.endpoints.push(endpoint);
            }
            match first {
                Some(first) => changes.update.push(slice.instead_of(&first)),
                None => changes.create.push(slice),
            }
        }
    }
    (changes, n_updated)
}

/// Whether a slice has the desired labels, annotations and owner.
fn has_metadata_of(slice: &Slice, endpoints: &Endpoints) -> bool {
    let (present, wanted) = (&slice.object.metadata, &endpoints.metadata);
    let is_of_other = present
        .owner_references
        .iter()
        .any(|owner| owner.kind == Endpoints::KIND.name && owner.name == wanted.name && owner.uid != wanted.uid);
    without(&present.labels, &[MANAGED_BY, SERVICE_NAME]) == wanted.labels
        && present.annotations == annotations(endpoints)
        && !is_of_other
}

#[doc(alias = "newEndpointSlice")]
fn new_slice(endpoints: &Endpoints, ports: Vec<Port>, address_type: &str) -> Slice {
    let metadata = &endpoints.metadata;
    let mut labels = metadata.labels.clone();
    labels.insert(SERVICE_NAME.to_owned(), metadata.name.clone());
    labels.insert(MANAGED_BY.to_owned(), CONTROLLER.to_owned());
    let mut slice = Slice::new(&Endpoints::KIND, metadata, labels, address_type, ports);
    slice.object.metadata.annotations = annotations(endpoints);
    slice
}

/// The annotations to copy.
fn annotations(endpoints: &Endpoints) -> Texts {
    without(&endpoints.metadata.annotations, &[trigger_time::ANNOTATION, LAST_APPLIED])
}

#[doc(alias = "cloneAndRemoveKeys")]
fn without(texts: &Texts, keys: &[&str]) -> Texts {
    let texts = texts.iter().filter(|(key, _)| !keys.contains(&key.as_str()));
    texts.map(|(key, value)| (key.clone(), value.clone())).collect()
}
