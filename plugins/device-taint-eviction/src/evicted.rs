//! How many Pods each rule has evicted since the controller started.
//!
//! A queue of its own counts them one after the other, because Pods are evicted at the same time.

use std::collections::{BTreeMap, BTreeSet};

use pintle_sdk::{Error, Key, Lister, Outcome, Query, Resource};
use plugin_lib::listing::fitting;
use plugin_lib::state::Record;

use crate::pod::{Planned, RULE_STATUS_PERIOD};
use crate::types::{DeviceTaintRule, Pod};

/// Name of the state entry.
const STATE: &str = "evicted";

/// Number of Pods, by uid of the rule.
#[doc(alias = "taintRuleStats")]
type Counts = BTreeMap<String, u64>;

/// Number of Pods that a rule has evicted.
#[doc(alias = "numEvictedPods")]
pub(crate) fn number_of(uid: &str, lister: &impl Lister) -> u64 {
    Record::<Counts>::read(lister, STATE).get().and_then(|counts| counts.get(uid).copied()).unwrap_or_default()
}

/// Counts a Pod once it is deleted, and forgets the numbers of rules that are gone.
///
/// # Errors
/// If the Pod does not fit its type.
pub(crate) fn count(key: &Key, lister: &impl Lister) -> Result<Outcome, Error> {
    let record = Record::<Counts>::read(lister, STATE);
    let mut counts = record.get().cloned().unwrap_or_default();
    let rules: BTreeSet<String> =
        fitting::<DeviceTaintRule>(lister, &Query::all()).map(|rule| rule.metadata.uid).collect();
    counts.retain(|uid, _| rules.contains(uid));
    let mut outcome = Outcome::new();
    let planned = Planned::read(key, lister);
    let evicted = planned.get().filter(|planned| key.kind == Pod::KIND && planned.evicted.is_some());
    if let Some(planned) = evicted {
        let pod = lister.get::<Pod>(&key.namespace, &key.name)?;
        if pod.is_some_and(|pod| pod.metadata.uid == planned.uid && !pod.metadata.is_deleting()) {
            // The deletion has failed so far.
            return Ok(outcome.requeue_after(RULE_STATUS_PERIOD));
        }
        for uid in planned.rules.values().filter(|uid| rules.contains(*uid)) {
            *counts.entry(uid.clone()).or_default() += 1;
        }
        outcome = planned.wake_rules(outcome);
    }
    Ok(if counts.is_empty() { record.forget(outcome) } else { record.keep(outcome, &counts) })
}
