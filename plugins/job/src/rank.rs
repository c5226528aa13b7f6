//! Deletion order of active Pods.
//!
//! *Source*: job_controller.go, indexed_job_utils.go, controller_utils.go. Unlike for a ReplicaSet, neither annotations
//! nor neighbours count, and times are compared directly.

use std::cmp::Reverse;

use pintle_sdk::time::Timestamp;
use plugin_lib::pods::{self, HasContainers as _, Role};

use crate::context::Context;
use crate::types::Pod;

/// At least this many active Pods, in deletion order; for an Indexed Job, all Pods without a valid index, and all but
/// one of each index.
#[doc(alias = "activePodsForRemoval")]
pub(crate) fn surplus<'a>(context: &Context<'a>, at_least: usize) -> Vec<&'a Pod> {
    let (mut gone, mut left) = match context.n_indexes {
        None => (Vec::new(), context.active.clone()),
        Some(n_indexes) => duplicates(&context.active, n_indexes),
    };
    let more = at_least.saturating_sub(gone.len());
    if more > 0 {
        sort(&mut left);
        gone.extend(left.into_iter().take(more));
    }
    gone
}

/// The Pods to remove, and the rest.
#[doc(alias = "appendDuplicatedIndexPodsForRemoval", alias = "appendPodsWithSameIndexForRemovalAndRemaining")]
fn duplicates<'a>(active: &[&'a Pod], n_indexes: i64) -> (Vec<&'a Pod>, Vec<&'a Pod>) {
    let (mut gone, mut left) = (Vec::new(), Vec::new());
    // They are sorted by index.
    for same in active.chunk_by(|a, b| a.index() == b.index()) {
        let is_valid = same.first().is_some_and(|pod| pod.index_below(n_indexes).is_some());
        let mut same = same.to_vec();
        if is_valid {
            sort(&mut same);
            left.extend(same.pop());
        }
        gone.extend(same);
    }
    (gone, left)
}

#[doc(alias = "ActivePods")]
fn sort(pods: &mut [&Pod]) {
    pods.sort_by_cached_key(|pod| {
        let phase = match pod.status.phase.as_str() {
            "Unknown" => 1,
            "Running" => 2,
            _ => 0,
        };
        let ready = pods::is_ready(pod);
        let created = pod.metadata.creation_timestamp;
        let restarts = Reverse(restarts(pod));
        (
            !pod.spec.node_name.is_empty(),
            phase,
            ready,
            later_first(pods::ready_since(pod)),
            restarts,
            later_first(created),
        )
    });
}

/// Orders by an absent time first, then the latest.
#[doc(alias = "afterOrZero")]
fn later_first(time: Option<Timestamp>) -> Reverse<(bool, Option<Timestamp>)> {
    Reverse((time.is_none(), time))
}

/// Most restarts of a main container, and of a sidecar.
#[doc(alias = "maxContainerRestarts")]
fn restarts(pod: &Pod) -> (i32, i32) {
    let main = pod.status.container_statuses.iter().map(|status| status.restart_count);
    let sidecars = pod.containers().into_iter().filter(|container| container.role == Role::Sidecar);
    let of_name = |name: &str| pod.status.init_container_statuses.iter().find(|status| status.name == name);
    let sidecars = sidecars.filter_map(|container| of_name(container.name)).map(|status| status.restart_count);
    (main.max().unwrap_or(0), sidecars.max().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `name=.. node=.. phase=.. ready=SECOND created=SECOND restarts=..`; `ready=?` is ready without a time.
    fn pod(text: &str) -> Pod {
        let mut object = serde_json::json!({
            "metadata": {"name": "x"}, "spec": {"nodeName": "n"}, "status": {"phase": "Running"},
        });
        let time = |second: &str| format!("2026-01-01T00:00:{second:0>2}Z");
        for (field, value) in text.split_whitespace().map(|word| word.split_once('=').unwrap()) {
            match field {
                "node" => object["spec"]["nodeName"] = value.into(),
                "phase" => object["status"]["phase"] = value.into(),
                "created" => object["metadata"]["creationTimestamp"] = time(value).into(),
                "restarts" => {
                    object["status"]["containerStatuses"] =
                        serde_json::json!([{"name": "c", "restartCount": value.parse::<i32>().unwrap()}])
                }
                "ready" => {
                    let since = (value != "?").then(|| time(value));
                    let ready = serde_json::json!({"type": "Ready", "status": "True", "lastTransitionTime": since});
                    object["status"]["conditions"] = serde_json::json!([ready]);
                }
                other => panic!("what is {other}?"),
            }
        }
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn the_first_rule_that_tells_two_pods_apart_decides() {
        for (first, second) in [
            ("node= phase=Pending", "phase=Pending"),
            ("phase=Pending", "phase=Unknown"),
            ("phase=Unknown", "phase=Running"),
            ("restarts=0", "ready=9 restarts=5"),
            ("ready=?", "ready=9"),
            ("ready=9 restarts=0", "ready=8 restarts=5"),
            ("ready=9 restarts=2", "ready=9 restarts=1"),
            ("ready=9 created=3", "ready=9 created=2"),
            ("ready=9", "ready=9 created=9"),
        ] {
            let (a, b) = (pod(first), pod(second));
            for mut both in [[&a, &b], [&b, &a]] {
                sort(&mut both);
                assert!(std::ptr::eq(both[0], &a), "{first} before {second}");
            }
        }
    }
}
