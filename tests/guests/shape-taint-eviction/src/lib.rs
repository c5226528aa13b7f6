//! The shape of the taint eviction controller: a change of a Node runs its Pods, which an index finds. When a Pod first has to go is
//! kept in the state, by the clock that nobody sets, so that a taint that is removed in time cancels the eviction.

use std::time::Duration;

use pintle_sdk::{Error, Event, Key, Lister, Moment, Mutation, Outcome, PatchType, Resource, Step};
use plugin_lib::nodes::{Taint, Toleration};
use serde::{Deserialize, Serialize};
use serde_json::json;

pintle_sdk::types!(
    "manifest.yaml",
    "v1/Node": ["spec.taints": Vec<Taint>],
    "v1/Pod": ["metadata.deletionTimestamp", "spec.nodeName", "spec.tolerations": Vec<Toleration>],
);

/// A Pod that will go.
#[derive(Deserialize, Serialize)]
struct Planned {
    uid: String,
    /// Since when, in seconds since the start of the host.
    since: f64,
}

pub fn reconcile(key: &Key, lister: &impl Lister) -> Result<Outcome, Error> {
    let state = format!("evict/{}/{}", key.namespace, key.name);
    let planned: Option<Planned> = match lister.state(&state) {
        Some(text) => Some(serde_json::from_str(&text).map_err(|error| Error::Terminal(error.to_string()))?),
        None => None,
    };
    let pod = lister.get::<Pod>(&key.namespace, &key.name)?;
    let Some(pod) = pod.filter(|pod| pod.metadata.deletion_timestamp.is_none()) else {
        return Ok(if planned.is_some() { Outcome::new().forget(state) } else { Outcome::new() });
    };
    // A Pod of the same name is another one.
    let planned = planned.filter(|planned| planned.uid == pod.metadata.uid);
    let node = lister.get::<Node>("", &pod.spec.node_name)?;
    let Some(after) = node.and_then(|node| tolerated_for(&node.spec.taints, &pod.spec.tolerations)) else {
        let cancelled = planned.map(|_| {
            let message = format!("Cancelling deletion of Pod {}/{}", key.namespace, key.name);
            Mutation::event(Event::normal(&Pod::KIND, &pod.metadata, "TaintManagerEviction", message))
        });
        let outcome = if cancelled.is_some() { Outcome::new().forget(state) } else { Outcome::new() };
        return Ok(outcome.step(Step::sequential(cancelled)));
    };
    let now = lister.uptime().as_secs_f64();
    let since = planned.as_ref().map_or(now, |planned| planned.since);
    let left = since + after.as_secs_f64() - now;
    if left > 0.0 {
        let kept = Planned { uid: pod.metadata.uid, since };
        let outcome = Outcome::new().requeue_after(Duration::from_secs_f64(left));
        return Ok(if planned.is_some() { outcome } else { outcome.keep(state, json!(kept).to_string()) });
    }
    let message = format!("Marking for deletion Pod {}/{}", key.namespace, key.name);
    let event = Event::normal(&Pod::KIND, &pod.metadata, "TaintManagerEviction", message);
    let condition = json!({
        "type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager",
        "message": "Taint manager: deleting due to NoExecute taint", "lastTransitionTime": lister.now()?,
    });
    let body = json!({"status": {"conditions": [condition]}});
    let mark = Mutation::patch(&Pod::KIND, pod.metadata.key(), PatchType::StrategicMerge, body).subresource("status");
    let delete = Mutation::delete(&Pod::KIND, &key.namespace, &key.name).uid(&pod.metadata.uid);
    let writes = [Mutation::event(event), mark.uid(&pod.metadata.uid), delete];
    let outcome = Outcome::new().step(Step::sequential(writes));
    let Some(deleted) = outcome.last_place() else { return Ok(outcome) };
    Ok(outcome.observe_at(Moment::Done(deleted), "taint_eviction_controller_pod_deletions_total", Vec::new(), 1.0))
}

/// How long the Pod may stay: `None` without end, at once if a taint is not tolerated.
fn tolerated_for(taints: &[Taint], tolerations: &[Toleration]) -> Option<Duration> {
    let taints: Vec<&Taint> = taints.iter().filter(|taint| taint.effect == "NoExecute").collect();
    let mut shortest: Option<i64> = None;
    for taint in &taints {
        let mut tolerating = tolerations.iter().filter(|toleration| toleration.tolerates(taint, false)).peekable();
        if tolerating.peek().is_none() {
            return Some(Duration::ZERO);
        }
        let seconds = tolerating.filter_map(|toleration| toleration.toleration_seconds).min();
        shortest = shortest.into_iter().chain(seconds).min();
    }
    shortest.map(|seconds| Duration::from_secs(seconds.max(0).unsigned_abs()))
}

pintle_sdk::export!(reconcile);
