//! What must be true of every history of Jobs, whoever ran their controller: each Pod is counted once.
//!
//! At each write:
//! 1. a Job counts and names no more Pods than have succeeded, and no more than have failed or were deleted;
//! 2. a Pod that is named no more is never named again;
//! 3. a Pod that has ended loses its finalizer only when its Job names it, or has its index, or neither of both is needed: the Job has
//!    ended or is being deleted, a rule may ignore the Pod, or it is the Job's no more.
//!
//! Indexed Jobs count indexes, so rule 1 looks at their failed Pods only.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::controller;
use crate::scenarios::history::{Effect, History, Write, text};

const TRACKING: &str = "batch.kubernetes.io/job-tracking";
const INDEX: &str = "batch.kubernetes.io/job-completion-index";

#[derive(Debug, Default)]
struct Job {
    object: Value,
    gone: bool,
    /// Uids that a status has named, and names no more.
    past: BTreeSet<String>,
    /// Uids of its Pods that have succeeded, and that have failed or were deleted.
    succeeded: BTreeSet<String>,
    failed: BTreeSet<String>,
}

/// The rules that a history broke, in words.
pub(super) fn broken(history: &History) -> Vec<String> {
    let mut jobs: BTreeMap<String, Job> = BTreeMap::new();
    let mut pods: BTreeMap<String, Value> = BTreeMap::new();
    let mut broken = Vec::new();
    for write in &history.writes {
        let uid = text(&write.object, "uid").to_owned();
        let breaks = match write.plural {
            "jobs" => {
                let job = jobs.entry(uid).or_default();
                job.gone |= write.effect == Effect::Deleted;
                job.next(&write.object)
            }
            "pods" => {
                let before = pods.insert(uid.clone(), write.object.clone());
                let owner = controller(&write.object).or_else(|| before.as_ref().and_then(controller));
                owner.and_then(|owner| jobs.get_mut(owner)).and_then(|job| job.pod(&uid, before.as_ref(), write))
            }
            _ => None,
        };
        if let Some(breaks) = breaks {
            broken.push(format!("{:?} {} {}: {breaks}", write.effect, write.plural, write.name()));
        }
    }
    broken
}

impl Job {
    /// Rules 1 and 2.
    fn next(&mut self, object: &Value) -> Option<String> {
        let before = self.named();
        self.object = object.clone();
        let now = self.named();
        self.past.extend(before.difference(&now).cloned());
        if let Some(uid) = now.intersection(&self.past).next() {
            return Some(format!("Pod {uid} is named again"));
        }
        let too_many = |result: &str, ended: &BTreeSet<String>| {
            let counted = self.object["status"][result].as_u64().unwrap_or(0);
            let named = list(&self.object["status"]["uncountedTerminatedPods"][result]).count();
            let n = counted + named as u64;
            (n > ended.len() as u64).then(|| format!("{n} Pods have {result}, but only {} did", ended.len()))
        };
        let of_succeeded = if self.is_indexed() { None } else { too_many("succeeded", &self.succeeded) };
        of_succeeded.or_else(|| too_many("failed", &self.failed))
    }

    /// Rule 3.
    fn pod(&mut self, uid: &str, before: Option<&Value>, write: &Write) -> Option<String> {
        let pod = &write.object;
        let phase = pod["status"]["phase"].as_str().unwrap_or_default();
        if phase == "Succeeded" {
            self.succeeded.insert(uid.to_owned());
        } else if phase == "Failed"
            || !pod["metadata"]["deletionTimestamp"].is_null()
            || write.effect == Effect::Deleted
        {
            self.failed.insert(uid.to_owned());
        }
        let loses = before.is_some_and(is_tracked) && (!is_tracked(pod) || write.effect == Effect::Deleted);
        let has_ended =
            before.is_some_and(|pod| ["Succeeded", "Failed"].map(Some).contains(&pod["status"]["phase"].as_str()));
        if !loses || !has_ended || self.gone || self.needs_no_count() || controller(pod).is_none() {
            return None;
        }
        let index = pod["metadata"]["annotations"][INDEX].as_str().and_then(|index| index.parse::<u64>().ok());
        let has_index = phase == "Succeeded" && self.is_indexed() && index.is_none_or(|index| self.has(index));
        (!has_index && !self.named().contains(uid)).then(|| "it is let go before it is counted".to_owned())
    }

    fn is_indexed(&self) -> bool {
        self.object["spec"]["completionMode"] == "Indexed"
    }

    /// Whether the Job has an index, or none that is so large.
    fn has(&self, index: u64) -> bool {
        let is_beyond = self.object["spec"]["completions"].as_u64().is_some_and(|n| index >= n);
        let completed = self.object["status"]["completedIndexes"].as_str().unwrap_or_default();
        is_beyond
            || completed.split(',').any(|part| {
                let (first, last) = part.split_once('-').unwrap_or((part, part));
                first
                    .parse()
                    .is_ok_and(|first: u64| last.parse().is_ok_and(|last: u64| (first..=last).contains(&index)))
            })
    }

    fn needs_no_count(&self) -> bool {
        let has_ended = list(&self.object["status"]["conditions"])
            .any(|condition| ["Complete", "Failed"].map(Some).contains(&condition["type"].as_str()));
        let has_rules = !self.object["spec"]["podFailurePolicy"].is_null();
        has_ended || has_rules || !self.object["metadata"]["deletionTimestamp"].is_null()
    }

    /// Uids that the status names.
    fn named(&self) -> BTreeSet<String> {
        let uncounted = &self.object["status"]["uncountedTerminatedPods"];
        let both = list(&uncounted["succeeded"]).chain(list(&uncounted["failed"]));
        both.filter_map(|uid| uid.as_str().map(str::to_owned)).collect()
    }
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn is_tracked(pod: &Value) -> bool {
    list(&pod["metadata"]["finalizers"]).any(|finalizer| finalizer == TRACKING)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A history of one Job with the uid `j`.
    #[derive(Default)]
    struct Story(History);

    impl Story {
        fn write(mut self, plural: &'static str, effect: Effect, mut object: Value) -> Story {
            object["metadata"]["uid"] = object["metadata"]["name"].clone();
            self.0.writes.push(Write { plural, effect, object });
            self
        }

        fn status(self, status: Value) -> Story {
            let spec = json!({"completions": 2});
            self.write("jobs", Effect::Modified, json!({"metadata": {"name": "j"}, "spec": spec, "status": status}))
        }

        fn pod(self, name: &str, phase: &str, tracked: bool) -> Story {
            let finalizers: &[&str] = if tracked { &[TRACKING] } else { &[] };
            let owners = json!([{"uid": "j", "controller": true}]);
            let metadata = json!({"name": name, "finalizers": finalizers, "ownerReferences": owners});
            self.write("pods", Effect::Modified, json!({"metadata": metadata, "status": {"phase": phase}}))
        }

        fn check(&self, expected: &[&str]) {
            assert_eq!(broken(&self.0), expected);
        }
    }

    fn named(result: &str, uid: &str) -> Value {
        json!({"uncountedTerminatedPods": {result: [uid]}})
    }

    fn ended(phase: &str) -> Story {
        Story::default().status(json!({})).pod("a", "Running", true).pod("a", phase, true)
    }

    #[test]
    fn a_pod_that_is_named_let_go_and_counted_breaks_no_rule() {
        ended("Succeeded")
            .status(named("succeeded", "a"))
            .pod("a", "Succeeded", false)
            .status(json!({"succeeded": 1, "uncountedTerminatedPods": {}}))
            .check(&[]);
    }

    #[test]
    fn a_pod_that_is_counted_twice_is_reported() {
        let counted =
            ended("Failed").status(named("failed", "a")).pod("a", "Failed", false).status(json!({"failed": 1}));
        counted.status(json!({"failed": 2})).check(&["Modified jobs j: 2 Pods have failed, but only 1 did"]);
        ended("Failed")
            .status(named("failed", "a"))
            .status(json!({}))
            .status(named("failed", "a"))
            .check(&["Modified jobs j: Pod a is named again"]);
        let early = Story::default().status(json!({})).pod("a", "Running", true).status(named("succeeded", "a"));
        early.check(&["Modified jobs j: 1 Pods have succeeded, but only 0 did"]);
    }

    #[test]
    fn a_pod_that_is_lost_is_reported() {
        ended("Succeeded").pod("a", "Succeeded", false).check(&["Modified pods a: it is let go before it is counted"]);
        // A Job that has ended counts no more, and a Pod that is not wanted goes as it is.
        let over = json!({"conditions": [{"type": "Failed", "status": "True"}]});
        ended("Succeeded").status(over).pod("a", "Succeeded", false).check(&[]);
        Story::default().status(json!({})).pod("a", "Running", true).pod("a", "Running", false).check(&[]);
    }
}
