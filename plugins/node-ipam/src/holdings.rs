//! The ranges that each Node holds: those that it has, or those that are reserved for it and that a patch will give it.
//!
//! The state has them in 256 buckets, by a hash of the Node's name, so that a run reads and writes little.

use std::collections::BTreeMap;

use pintle_sdk::hash::fnv32a;
use pintle_sdk::{Lister, Outcome};
use plugin_lib::state::Record;
use serde::{Deserialize, Serialize};

/// What one Node holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Held {
    pub(crate) uid: String,
    /// In the order of the Node's list, without bits beyond the prefix.
    pub(crate) cidrs: Vec<String>,
    /// Whether the cache has not shown a Node with this uid yet: then its absence does not mean that it was deleted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) unseen: bool,
}

/// By name of the Node.
type Bucket = BTreeMap<String, Held>;

/// The holdings of all Nodes. Buckets are read when they are needed.
pub(crate) struct Holdings<'a, L> {
    lister: &'a L,
    buckets: BTreeMap<u8, (Record<Bucket>, Bucket)>,
}

impl<'a, L: Lister> Holdings<'a, L> {
    pub(crate) fn new(lister: &'a L) -> Self {
        Self { lister, buckets: BTreeMap::new() }
    }

    fn bucket(&mut self, number: u8) -> &mut Bucket {
        let lister = self.lister;
        let read = || {
            let record = Record::<Bucket>::read(lister, format!("held/{number:02x}"));
            let bucket = record.get().cloned().unwrap_or_default();
            (record, bucket)
        };
        &mut self.buckets.entry(number).or_insert_with(read).1
    }

    fn bucket_of(&mut self, node: &str) -> &mut Bucket {
        let [number, ..] = fnv32a(node.as_bytes()).to_le_bytes();
        self.bucket(number)
    }

    /// What a Node holds.
    pub(crate) fn get(&mut self, node: &str) -> Option<Held> {
        self.bucket_of(node).get(node).cloned()
    }

    /// Sets what a Node holds.
    pub(crate) fn set(&mut self, node: &str, held: Held) {
        self.bucket_of(node).insert(node.to_owned(), held);
    }

    /// Removes what a Node holds.
    pub(crate) fn remove(&mut self, node: &str) {
        self.bucket_of(node).remove(node);
    }

    /// The ranges of all Nodes but one.
    pub(crate) fn others(&mut self, node: &str) -> Vec<String> {
        let mut ranges = Vec::new();
        for number in 0..=u8::MAX {
            let others = self.bucket(number).iter().filter(|(name, _)| *name != node);
            ranges.extend(others.flat_map(|(_, held)| held.cidrs.iter().cloned()));
        }
        ranges
    }

    /// Removes what all Nodes hold, and returns it.
    pub(crate) fn take(&mut self) -> Bucket {
        (0..=u8::MAX).flat_map(|number| std::mem::take(self.bucket(number))).collect()
    }

    /// Stores the changes.
    pub(crate) fn keep(&self, outcome: Outcome) -> Outcome {
        self.buckets.values().fold(outcome, |outcome, (record, bucket)| match bucket.is_empty() {
            true => record.forget(outcome),
            false => record.keep(outcome, bucket),
        })
    }
}
