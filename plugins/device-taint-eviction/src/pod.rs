//! The eviction of one Pod.

use std::collections::BTreeMap;
use std::time::Duration;

use pintle_sdk::time::Timestamp;
use pintle_sdk::{Error, Event, Key, Lister, Moment, Mutation, Outcome, Resource, Step, Wake};
use plugin_lib::eviction::{self, Disruption};
use plugin_lib::state::Record;
use serde::{Deserialize, Serialize};

use crate::claims::{claims_of, uses};
use crate::taints::{Eviction, Taints};
use crate::types::{Config, EVICTED, Pod, ResourceClaim, rule_key};

const DISRUPTION: Disruption = Disruption {
    reason: "DeletionByDeviceTaintManager",
    message: "Device Taint manager: deleting due to NoExecute taint",
};

const DELETIONS: &str = "device_taint_eviction_controller_pod_deletions_total";
const DURATION: &str = "device_taint_eviction_controller_pod_deletion_duration_seconds";

/// Time between two updates of a rule's status, while Pods are evicted.
#[doc(alias = "ruleStatusPeriod")]
pub(crate) const RULE_STATUS_PERIOD: Duration = Duration::from_secs(10);

/// Time in which the caches usually show a deletion, before it is counted.
const SOON: Duration = Duration::from_secs(1);

/// How long an evicted Pod is remembered after its eviction, in seconds, so that it can be counted once it is gone.
const REMEMBERED: f64 = 60.0;

/// The eviction of a Pod, in the state.
#[doc(alias = "deletePodAt")]
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub(crate) struct Planned {
    /// `metadata.uid` of the Pod.
    pub(crate) uid: String,
    /// Time by the wall clock, in microseconds since 1970: it follows from the objects.
    when: i64,
    /// The same time, in seconds since the host started, as of the run that has first seen it.
    due: f64,
    /// The rules that are reasons: name and uid.
    pub(crate) rules: BTreeMap<String, String>,
    /// When the deletion began, in seconds since the host started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) evicted: Option<f64>,
}

impl Planned {
    /// Reads the eviction of the key's Pod.
    pub(crate) fn read(key: &Key, lister: &impl Lister) -> Record<Self> {
        Record::read(lister, key.object().state_name("pod"))
    }

    /// Runs the rules that are reasons after some time: more changes may follow.
    pub(crate) fn wake_rules(&self, outcome: Outcome) -> Outcome {
        let wake = |name| Wake::after(rule_key(name), RULE_STATUS_PERIOD);
        self.rules.keys().fold(outcome, |outcome, name| outcome.wake(wake(name)))
    }
}

/// Computes the changes for one Pod.
///
/// # Errors
/// If the configuration or an object does not fit its type.
#[doc(alias = "handlePod")]
pub(crate) fn sync(key: &Key, lister: &impl Lister) -> Result<Outcome, Error> {
    let record = Planned::read(key, lister);
    let Some(pod) = lister.get::<Pod>(&key.namespace, &key.name)? else { return Ok(gone(&record, lister)) };
    let own = record.get().filter(|planned| planned.uid == pod.metadata.uid);
    if pod.metadata.is_deleting() && own.is_some_and(|planned| planned.evicted.is_some()) {
        return Ok(Outcome::new());
    }
    let Some(Eviction { when, rules }) = eviction_of(&pod, lister)? else {
        let cancelled = own.map(|_| Mutation::event(event(&pod, "Cancelling deletion")));
        return Ok(record.forget(Outcome::new()).step(Step::sequential(cancelled)));
    };
    let now = lister.now()?;
    let uptime = lister.uptime().as_secs_f64();
    // A wall clock that is set in between does not matter.
    let known = own.filter(|planned| planned.when == when.as_micros());
    let due = known.map_or_else(|| uptime + when.since(now).as_secs_f64(), |planned| planned.due);
    let mut planned = Planned { uid: pod.metadata.uid.clone(), when: when.as_micros(), due, rules, evicted: None };
    let Some(left) = eviction::left(due, uptime) else {
        let earlier = own.and_then(|planned| planned.evicted);
        planned.evicted = earlier.or(Some(uptime));
        let is_first = earlier.is_none();
        return Ok(record.keep(evict(key, &pod, &planned, is_first, now), &planned));
    };
    let outcome = record.keep(Outcome::new(), &planned).requeue_after(left);
    Ok(if own == Some(&planned) { outcome } else { planned.wake_rules(outcome) })
}

/// When the Pod is evicted: the earliest time of the claims that it uses.
#[doc(alias = "podEvictionTime")]
fn eviction_of(pod: &Pod, lister: &impl Lister) -> Result<Option<Eviction>, Error> {
    let claims = claims_of(pod);
    if claims.is_empty() || pod.spec.node_name.is_empty() {
        return Ok(None);
    }
    let config: Config = lister.config()?;
    let mut taints = Taints::read(lister, config.rules);
    let mut eviction: Option<Eviction> = None;
    for (name, is_owned) in claims {
        let claim = lister.get::<ResourceClaim>(&pod.metadata.namespace, name)?;
        if let Some(claim) = claim.filter(|claim| uses(pod, claim, is_owned, config)) {
            eviction = Eviction::both(eviction, taints.eviction_of(&claim)?);
        }
    }
    Ok(eviction)
}

/// Marks and deletes the Pod. One that terminates for another reason counts as evicted, as upstream.
#[doc(alias = "maybeDeletePod")]
#[doc(alias = "addConditionAndDeletePod")]
fn evict(key: &Key, pod: &Pod, planned: &Planned, is_first: bool, now: Timestamp) -> Outcome {
    let Pod { metadata, status, .. } = pod;
    let mut outcome = Outcome::new();
    let mut deleted = Moment::Now;
    if !metadata.is_deleting() {
        let delete = eviction::delete(metadata);
        let marking = event(pod, "Marking for deletion");
        // Upstream records the event once it has read the Pod from the API server: not for one that is gone there.
        let writes = match DISRUPTION.mark(metadata, &status.conditions, None, now) {
            Some(mark) => vec![mark.on_success(marking), delete],
            None if is_first => vec![delete.on_success(marking)],
            None => vec![delete],
        };
        outcome.push(Step::sequential(writes));
        deleted = outcome.last_place().map_or(Moment::Now, Moment::Done);
    }
    let latency = now.since(Timestamp::from_micros(planned.when)).as_secs_f64();
    outcome =
        outcome.observe_at(deleted, DELETIONS, Vec::new(), 1.0).observe_at(deleted, DURATION, Vec::new(), latency);
    if is_first && !planned.rules.is_empty() {
        outcome = outcome.wake(Wake::after(Key { queue: EVICTED.to_owned(), ..key.clone() }, SOON));
    }
    planned.wake_rules(outcome)
}

/// The outcome for a Pod that is gone: nothing is recorded about it. An eviction is remembered until it is counted.
fn gone(record: &Record<Planned>, lister: &impl Lister) -> Outcome {
    let is_success = lister.failures().is_empty();
    let counted = record.get().filter(|planned| is_success && !planned.rules.is_empty());
    let end = counted.and_then(|planned| planned.evicted).map(|evicted| evicted + REMEMBERED);
    match end.and_then(|end| eviction::left(end, lister.uptime().as_secs_f64())) {
        Some(left) => Outcome::new().requeue_after(left),
        None => record.forget(Outcome::new()),
    }
}

#[doc(alias = "emitPodDeletionEvent", alias = "emitCancelPodDeletionEvent")]
fn event(pod: &Pod, message: &str) -> Event {
    Event::normal(&Pod::KIND, &pod.metadata, "DeviceTaintManagerEviction", message)
}
