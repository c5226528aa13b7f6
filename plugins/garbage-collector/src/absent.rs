//! A cache of owners that do not exist according to the API server, so that a thousand dependents cause one request.
//!
//! An absent owner is identified by all fields of the reference and the namespace of the lookup: an invalid reference
//! must not make a valid one look absent. An absent owner stays absent, because uids are never reused. Concurrent runs
//! may overwrite each other's entries, which costs a read.

use pintle_sdk::api::meta::OwnerReference;
use pintle_sdk::{Lister, Outcome};
use plugin_lib::state::Record;

const STATE: &str = "absent-owners";

/// Most owners in the cache. Upstream keeps 500; this list is parsed whenever an owner is missing.
const MOST: usize = 64;

/// Most bytes of a cached owner. References may have names of any length, and a plugin's state is limited.
const LONGEST: usize = 1024;

/// Version, kind, namespace (empty if cluster-scoped), name and uid. Separate strings, because users choose these
/// values.
#[doc(alias = "objectReference")]
type Entry = [String; 5];

/// The stored owners, and those that a run adds.
#[doc(alias = "ReferenceCache", alias = "absentOwnerCache")]
pub(crate) struct Absent {
    record: Record<Vec<Entry>>,
    owners: Vec<Entry>,
}

impl Absent {
    pub(crate) fn load(lister: &impl Lister) -> Self {
        let record = Record::read(lister, STATE);
        Self { owners: record.get().cloned().unwrap_or_default(), record }
    }

    /// Whether the owner is known to be absent from the namespace.
    #[doc(alias = "Has")]
    pub(crate) fn has(&self, owner: &OwnerReference, namespace: &str) -> bool {
        self.owners.iter().any(|known| known.iter().zip(parts(owner, namespace)).all(|(known, part)| known == part))
    }

    #[doc(alias = "Add")]
    pub(crate) fn learn(&mut self, owner: &OwnerReference, namespace: &str) {
        let parts = parts(owner, namespace);
        if parts.iter().map(|part| part.len()).sum::<usize>() <= LONGEST {
            self.owners.push(parts.map(ToOwned::to_owned));
        }
    }

    pub(crate) fn keep(self, outcome: Outcome) -> Outcome {
        if self.owners.is_empty() {
            return outcome;
        }
        let first = self.owners.len().saturating_sub(MOST);
        self.record.keep(outcome, &self.owners[first..].to_vec())
    }
}

#[doc(alias = "ownerReferenceCoordinates")]
fn parts<'a>(owner: &'a OwnerReference, namespace: &'a str) -> [&'a str; 5] {
    [&owner.api_version, &owner.kind, namespace, &owner.name, &owner.uid]
}
