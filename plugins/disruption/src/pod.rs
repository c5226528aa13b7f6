//! Pods: warnings about several budgets, and conditions `DisruptionTarget` that outlive what they announced.
//!
//! Whoever is about to delete a Pod sets the condition first. If the Pod is not being deleted two minutes later, nobody will.
//!
//! *Source*: `addPod`, `updatePod`, `getPdbForPod`, `syncStalePodDisruption`, `nonTerminatingPodHasStaleDisruptionCondition`.

use std::time::Duration;

use pintle_sdk::time::Timestamp;
use pintle_sdk::{Error, Event, Key, Lister, Mutation, Outcome, PatchType, Resource, Step, Wake};
use plugin_lib::pods;
use serde_json::{Value, json};

use crate::types::{ListedBudget, Pod, STALE};

const DISRUPTION_TARGET: &str = "DisruptionTarget";

/// How long the condition may be there before the Pod is deleted.
const STALE_TIMEOUT: Duration = Duration::from_secs(120);

/// What a change of a Pod asks for.
///
/// # Errors
/// If an object does not fit its type.
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

/// Sets the condition to `False` if it is stale, or waits until it is.
///
/// # Errors
/// If the Pod does not fit its type.
pub(crate) fn clear_stale(key: &Key, lister: &impl Lister) -> Result<Outcome, Error> {
    let Some(pod) = lister.get::<Pod>(&key.namespace, &key.name)? else { return Ok(Outcome::new()) };
    let Some(at) = stale_at(&pod) else { return Ok(Outcome::new()) };
    let now = lister.now()?;
    if at > now {
        return Ok(Outcome::new().requeue_at(at, now));
    }
    let metadata = &pod.metadata;
    // Upstream's condition has nothing but these; null removes what the old one had.
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
    // A newer condition may announce something else.
    let patch = patch.uid(&metadata.uid).resource_version(&metadata.resource_version);
    Ok(Outcome::new().step(Step::sequential([patch])))
}

/// When the condition is stale; `None` if it does not become so. The kubelet may take any time, and a Pod that has ended keeps its
/// conditions.
fn stale_at(pod: &Pod) -> Option<Timestamp> {
    let condition = pod.status.conditions.iter().find(|condition| condition.type_ == DISRUPTION_TARGET)?;
    let is_announced = condition.status == "True" && condition.reason != "TerminationByKubelet";
    if pod.metadata.is_deleting() || !is_announced || pods::is_terminal(pod) {
        return None;
    }
    let since = condition.last_transition_time.unwrap_or(Timestamp::from_micros(0));
    Some(since.plus(STALE_TIMEOUT))
}
