//! A cache of owners that do not exist according to the API server, so that a thousand dependents cause one request.
//!
//! An absent owner is identified by all fields of the reference and the namespace of the lookup: an invalid reference
//! must not make a valid one look absent. An absent owner stays absent, because uids are never reused. Concurrent runs
//! may overwrite each other's entries, which costs a read.

use pintle_sdk::api::meta::OwnerReference;
use pintle_sdk::{Lister, Outcome};
use plugin_lib::state::Record;

const STATE: &str = "absent-owners";

/// Most owners in the cache, as upstream.
const MOST: usize = 500;

/// Most bytes of a cached owner. References may have names of any length, and a plugin's state is limited.
const LONGEST: usize = 1024;

/// The stored owners, and those that a run adds. Each is one text, because runs parse and search the list.
#[doc(alias = "ReferenceCache", alias = "absentOwnerCache")]
pub(crate) struct Absent {
    record: Record<Vec<String>>,
    owners: Vec<String>,
}

impl Absent {
    pub(crate) fn load(lister: &impl Lister) -> Self {
        let record = Record::read(lister, STATE);
        Self { owners: record.get().cloned().unwrap_or_default(), record }
    }

    /// Whether the owner is known to be absent from the namespace.
    #[doc(alias = "Has")]
    pub(crate) fn has(&self, owner: &OwnerReference, namespace: &str) -> bool {
        self.owners.contains(&text(owner, namespace))
    }

    #[doc(alias = "Add")]
    pub(crate) fn learn(&mut self, owner: &OwnerReference, namespace: &str) {
        let text = text(owner, namespace);
        if text.len() <= LONGEST {
            self.owners.push(text);
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

/// An owner of a served kind in a namespace (empty if cluster-scoped). Users choose the uid and the name: the uid has its
/// length, and the name comes last. The other parts contain no spaces.
#[doc(alias = "objectReference", alias = "ownerReferenceCoordinates")]
fn text(owner: &OwnerReference, namespace: &str) -> String {
    let OwnerReference { api_version, kind, name, uid, .. } = owner;
    format!("{} {uid} {api_version} {kind} {namespace} {name}", uid.len())
}
