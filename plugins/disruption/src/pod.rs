//! Pods: warnings about several budgets, and stale `DisruptionTarget` conditions.
//!
//! A client that is about to delete a Pod sets the condition first. If the Pod is not being deleted two minutes later,
//! the condition is stale.

use std::time::Duration;

use pintle_sdk::time::Timestamp;
use pintle_sdk::{Error, Event, Key, Lister, Mutation, Outcome, PatchType, Resource, Step, Wake};
use plugin_lib::pods;
use serde_json::{Value, json};

use crate::types::{ListedBudget, Pod, STALE};

#[doc(alias = "DisruptionTarget")]
const DISRUPTION_TARGET: &str = "DisruptionTarget";

/// Time limit between the condition and the deletion of the Pod.
#[doc(alias = "stalePodDisruptionTimeout")]
const STALE_TIMEOUT: Duration = Duration::from_secs(120);

/// Handles a change of a Pod.
///
/// # Errors
/// If an object does not fit its type.
#[doc(alias = "addPod", alias = "updatePod", alias = "getPdbForPod")]
pub(crate) fn changed(key: &Key, lister: &impl Lister) -> Result<Outcome, Error> {
    let Some(pod) = lister.get::<Pod>(&key.namespace, &key.name)? else { return Ok(Outcome::new()) };
    let mut outcome = Outcome::new();
    let budgets: Vec<ListedBudget> = lister.selecting(&key.namespace, &pod.metadata.labels)?;
    if let [first, _, ..] = &budgets[..] {
        let message = format!(
            "Pod {:?}/{:?} matches multiple PodDisruptionBudgets.  Chose {:?} arbitrarily.",
            pod.metadata.namespace, pod.metadata.name, first.metadata.name
        );
        let event = Event::warning(&Pod::KIND, &pod.metadata, "MultiplePodDisruptionBudgets", message);
        outcome.push(Step::sequential([Mutation::event(event)]));
    }
    let now = lister.now()?;
    Ok(match stale_at(&pod) {
        Some(at) => {
            let key = Key::new(STALE, Pod::KIND, &key.namespace, &key.name);
            outcome.wake(Wake::after(key, at.since(now)))
        }
        None => outcome,
    })
}

/// Sets the condition to `False` if it is stale, or waits until then.
///
/// # Errors
/// If the Pod does not fit its type.
#[doc(alias = "syncStalePodDisruption")]
pub(crate) fn clear_stale(key: &Key, lister: &impl Lister) -> Result<Outcome, Error> {
    let Some(pod) = lister.get::<Pod>(&key.namespace, &key.name)? else { return Ok(Outcome::new()) };
    let Some(at) = stale_at(&pod) else { return Ok(Outcome::new()) };
    let now = lister.now()?;
    if at > now {
        return Ok(Outcome::new().requeue_at(at, now));
    }
    let metadata = &pod.metadata;
    // Upstream's condition has only these fields; null removes other fields of the old one.
    let mut condition = json!({
        "type": DISRUPTION_TARGET,
        "status": "False",
        "lastProbeTime": null,
        "lastTransitionTime": now.truncate(),
        "reason": null,
        "message": null,
    });
    if metadata.generation != 0 {
        condition["observedGeneration"] = json!(metadata.generation);
    }
    let order: Vec<Value> = pod.status.conditions.iter().map(|other| json!({"type": other.type_})).collect();
    let body = json!({"status": {"conditions": [condition], "$setElementOrder/conditions": order}});
    let patch = Mutation::patch(&Pod::KIND, metadata.key(), PatchType::StrategicMerge, body).subresource("status");
    // A newer condition may have another reason.
    let patch = patch.uid(&metadata.uid).resource_version(&metadata.resource_version);
    Ok(Outcome::new().step(Step::sequential([patch])))
}

/// When the condition becomes stale; `None` if it never does. The kubelet may take any time, and an ended Pod keeps its
/// conditions.
#[doc(alias = "nonTerminatingPodHasStaleDisruptionCondition")]
fn stale_at(pod: &Pod) -> Option<Timestamp> {
    let condition = pod.status.conditions.iter().find(|condition| condition.type_ == DISRUPTION_TARGET)?;
    let is_announced = condition.status == "True" && condition.reason != "TerminationByKubelet";
    if pod.metadata.is_deleting() || !is_announced || pods::is_terminal(pod) {
        return None;
    }
    let since = condition.last_transition_time.unwrap_or(Timestamp::from_micros(0));
    Some(since.plus(STALE_TIMEOUT))
}
