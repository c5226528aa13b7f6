//! Nodes that Pods refer to and the cache lacks: after 40 seconds, as a Node may be new, the API server is asked.
//!
//! As upstream, a waiting Node keeps waiting if it comes back in the meantime, and after a check it waits again while
//! Pods refer to it.

use std::collections::{BTreeMap, BTreeSet};

use pintle_sdk::{Error, Lister, Need, Outcome, Resource, log};
use plugin_lib::state::Record;

use crate::types::Node;

/// Length of the quarantine, in seconds.
#[doc(alias = "quarantineTime")]
const QUARANTINE: f64 = 40.0;

/// Name of the state entry.
const STATE: &str = "quarantine";

/// Most reads of one run; the next run checks further Nodes.
const MAX_ASKED: usize = 256;

/// Nodes, and when their quarantine ends, in seconds since the host started.
#[doc(alias = "nodeQueue")]
pub(crate) struct Quarantine {
    record: Record<BTreeMap<String, f64>>,
    until: BTreeMap<String, f64>,
    now: f64,
}

impl Quarantine {
    /// Reads the state of earlier runs.
    pub(crate) fn read(lister: &impl Lister) -> Self {
        let record = Record::read(lister, STATE);
        Self { until: record.get().cloned().unwrap_or_default(), record, now: lister.uptime().as_secs_f64() }
    }

    /// Checks missing Nodes, and returns those that are deleted.
    #[doc(alias = "discoverDeletedNodes", alias = "checkIfNodeExists")]
    pub(crate) fn look<'a>(
        &mut self,
        lister: &impl Lister,
        missing: impl Iterator<Item = &'a String>,
    ) -> Result<BTreeSet<String>, Error> {
        let missing: BTreeSet<&String> = missing.collect();
        let ready = self.until.iter().filter(|(_, until)| **until <= self.now).map(|(node, _)| node.clone());
        let (asked, back): (Vec<String>, Vec<String>) = ready.partition(|node| missing.contains(node));
        for node in back {
            self.until.remove(&node);
        }
        let mut gone = BTreeSet::new();
        let mut needs = Vec::new();
        for node in asked.into_iter().take(MAX_ASKED) {
            let need = Need::live_object(&Node::KIND, "", &node);
            match lister.answer(&need) {
                None => needs.push(need),
                Some(Ok(_)) => {}
                Some(Err(error)) if error.code == 404 => {
                    gone.insert(node.clone());
                }
                // Checked again after another quarantine.
                Some(Err(error)) => log::warn(&format!("read Node {node}: {}", error.message)),
            }
            self.until.insert(node, self.now + QUARANTINE);
        }
        if !needs.is_empty() {
            return Err(Error::Needs(needs));
        }
        for node in missing {
            self.until.entry(node.clone()).or_insert(self.now + QUARANTINE);
        }
        Ok(gone)
    }

    /// Stores changes. Nodes with Pods that are `waiting` to be deleted are checked again immediately.
    pub(crate) fn keep<'a>(mut self, waiting: impl Iterator<Item = &'a String>, outcome: Outcome) -> Outcome {
        for node in waiting {
            self.until.insert(node.clone(), self.now);
        }
        match self.until.is_empty() {
            true => self.record.forget(outcome),
            false => self.record.keep(outcome, &self.until),
        }
    }
}
