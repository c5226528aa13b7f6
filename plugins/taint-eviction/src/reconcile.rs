//! The eviction of one Pod.

use std::time::Duration;

use pintle_sdk::{Error, Event, EventType, Key, Lister, Moment, Mutation, Outcome, Resource, Step};
use plugin_lib::eviction::{self, Disruption};
use plugin_lib::state::Record;
use serde::Deserialize;

use crate::stay::Stay;
use crate::timer::{Timer, store};
use crate::types::{Node, Pod};

const DISRUPTION: Disruption =
    Disruption { reason: "DeletionByTaintManager", message: "Taint manager: deleting due to NoExecute taint" };

const DELETIONS: &str = "taint_eviction_controller_pod_deletions_total";
const DURATION: &str = "taint_eviction_controller_pod_deletion_duration_seconds";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Config {
    toleration_comparisons: bool,
}

/// What happens to a Pod.
#[derive(Debug, Default, PartialEq)]
struct Decision {
    /// The timer after this run.
    timer: Option<Timer>,
    /// Whether the last timer ends without a deletion.
    is_cancelled: bool,
    /// Deletes the Pod, this many seconds late.
    evicts: Option<f64>,
}

/// Computes the changes for one Pod.
///
/// # Errors
/// If the configuration or an object does not fit its type.
pub fn reconcile(key: &Key, lister: &impl Lister) -> Result<Outcome, Error> {
    let record = Record::<Timer>::read(lister, key.object().state_name("pod"));
    let Some(pod) = lister.get::<Pod>(&key.namespace, &key.name)? else {
        let gone = Decision { is_cancelled: record.get().is_some_and(|timer| !timer.fired), ..Decision::default() };
        return Ok(store(&record, None, cancel(key, &gone)));
    };
    let now = lister.uptime().as_secs_f64();
    let decision = decide(&pod, stay(&pod, lister)?, record.get(), now);
    let mut outcome = store(&record, decision.timer.as_ref(), cancel(key, &decision));
    if let Some(late) = decision.evicts.filter(|_| !is_evicted(&pod)) {
        outcome = evict(key, &pod, late, lister, outcome)?;
    }
    let pending = decision.timer.filter(|timer| !timer.fired);
    let left = pending.and_then(|timer| eviction::left(timer.due, now));
    Ok(left.into_iter().fold(outcome, Outcome::requeue_after))
}

/// How long the Pod may stay; `None` if it has no Node, or the Node is not in the cache.
#[doc(alias = "handlePodUpdate", alias = "handleNodeUpdate")]
fn stay(pod: &Pod, lister: &impl Lister) -> Result<Option<Stay>, Error> {
    if pod.spec.node_name.is_empty() {
        return Ok(None);
    }
    let Config { toleration_comparisons } = lister.config()?;
    let node = lister.get::<Node>("", &pod.spec.node_name)?;
    Ok(node.map(|node| Stay::of(&node.spec.taints, &pod.spec.tolerations, toleration_comparisons)))
}

/// Decides by the timer of the last run. `now` is in seconds since the host started.
#[doc(alias = "processPodOnNode")]
fn decide(pod: &Pod, stay: Option<Stay>, last: Option<&Timer>, now: f64) -> Decision {
    let is_running = last.is_some_and(|timer| !timer.fired);
    let own = last.filter(|timer| timer.uid == pod.metadata.uid);
    let started = |time: Duration| Timer { uid: pod.metadata.uid.clone(), due: now + time.as_secs_f64(), fired: false };
    let timer = match stay {
        // The Pod garbage collector deletes the Pod, or the timer does.
        None => own.cloned(),
        Some(Stay::Forever) => None,
        Some(Stay::No) => return Decision { timer: None, is_cancelled: is_running, evicts: Some(0.0) },
        Some(Stay::For(time)) => Some(own.cloned().unwrap_or_else(|| started(time))),
    };
    let is_cancelled = is_running && (timer.is_none() || own.is_none());
    match timer {
        Some(timer) if timer.fired || timer.due <= now => {
            let late = now - timer.due;
            Decision { timer: Some(Timer { fired: true, ..timer }), is_cancelled, evicts: Some(late) }
        }
        timer => Decision { timer, is_cancelled, evicts: None },
    }
}

/// Whether this controller has deleted the Pod, which terminates.
fn is_evicted(pod: &Pod) -> bool {
    pod.metadata.is_deleting() && DISRUPTION.is_set(&pod.status.conditions)
}

#[doc(alias = "cancelWorkWithEvent", alias = "emitCancelPodDeletionEvent")]
fn cancel(key: &Key, decision: &Decision) -> Outcome {
    let cancelled = decision.is_cancelled.then(|| event(key, "Cancelling deletion of Pod"));
    Outcome::new().step(Step::sequential(cancelled))
}

/// Marks and deletes the Pod, `late` seconds after its time.
#[doc(alias = "deletePodHandler", alias = "addConditionAndDeletePod", alias = "emitPodDeletionEvent")]
fn evict(key: &Key, pod: &Pod, late: f64, lister: &impl Lister, outcome: Outcome) -> Result<Outcome, Error> {
    // The first try has recorded the event.
    let marking = lister.failures().is_empty().then(|| event(key, "Marking for deletion Pod"));
    let Pod { metadata, status, .. } = pod;
    let mark = DISRUPTION.mark(metadata, &status.conditions, Some(metadata.generation), lister.now()?);
    let writes = marking.into_iter().chain(mark).chain([eviction::delete(metadata)]);
    let outcome = outcome.step(Step::sequential(writes));
    let Some(deleted) = outcome.last_place().map(Moment::Done) else { return Ok(outcome) };
    Ok(outcome.observe_at(deleted, DELETIONS, Vec::new(), 1.0).observe_at(deleted, DURATION, Vec::new(), late))
}

/// An event about the Pod of the key, as upstream without a uid.
fn event(key: &Key, message: &str) -> Mutation {
    let regarding = key.object();
    let message = format!("{message} {regarding}");
    Mutation::event(Event {
        regarding_kind: Pod::KIND,
        regarding,
        regarding_uid: String::new(),
        event_type: EventType::Normal,
        reason: "TaintManagerEviction".into(),
        message,
    })
}
