//! Owners that the API server has said to be gone, so that a thousand dependents ask once.
//!
//! An absent owner is identified by all fields of the reference and the namespace of the lookup: a wrong reference must not make a
//! right one look absent. What is absent stays so, because a uid never comes back. Runs at the same time may overwrite each
//! other's entries; that costs a read.
//!
//! *Source*: `absentOwnerCache`.

use pintle_sdk::api::meta::OwnerReference;
use pintle_sdk::{Lister, Outcome};
use plugin_lib::state::Record;

const STATE: &str = "absent-owners";

/// How many owners are kept. Upstream keeps 500; a list of these is parsed whenever an owner is missing.
const MOST: usize = 64;

/// Most bytes of an owner that is kept. References may have names of any length, and the state of a plugin is limited.
const LONGEST: usize = 1024;

/// Version, kind, namespace (none if cluster-scoped), name and uid. Not one text: users choose these values.
type Entry = [String; 5];

/// What is known, and what a run has learned.
pub(crate) struct Absent {
    record: Record<Vec<Entry>>,
    owners: Vec<Entry>,
}

impl Absent {
    pub(crate) fn load(lister: &impl Lister) -> Self {
        let record = Record::read(lister, STATE);
        Self { owners: record.get().cloned().unwrap_or_default(), record }
    }

    /// Whether the owner is known not to be in the namespace.
    pub(crate) fn has(&self, owner: &OwnerReference, namespace: &str) -> bool {
        self.owners.iter().any(|known| known.iter().zip(parts(owner, namespace)).all(|(known, part)| known == part))
    }

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

fn parts<'a>(owner: &'a OwnerReference, namespace: &'a str) -> [&'a str; 5] {
    [&owner.api_version, &owner.kind, namespace, &owner.name, &owner.uid]
}
