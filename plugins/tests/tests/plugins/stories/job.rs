//! Successive runs of Jobs: each Pod is counted once, whatever fails.
//!
//! Pods run, succeed, fail and are deleted at random, users suspend Jobs, writes are rejected, and the host crashes
//! between any two of them. A ledger records the fate of each Pod.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use pintle_sdk::testing::{Cluster, Fault, Plugin, seeds};
use pintle_sdk::{Key, Kind};
use serde_json::{Value, json};

use super::objects::{is_deleting, name_of};
use crate::job::plugin;

const JOB: Kind = Kind::new("batch", "v1", "Job");
const POD: Kind = Kind::new("", "v1", "Pod");
const TRACKING: &str = "batch.kubernetes.io/job-tracking";
const INDEX: &str = "batch.kubernetes.io/job-completion-index";

struct Story {
    cluster: Cluster,
    plugin: Plugin<'static>,
    key: Key,
    /// Last state of each Pod, by uid.
    pods: BTreeMap<String, Value>,
    /// Uids of Pods that ended or were deleted while they had the finalizer.
    ended: BTreeMap<String, &'static str>,
    /// Uids of those whose finalizers were removed before, because they were surplus.
    released: BTreeSet<String>,
}

/// Rates of Pod events.
#[derive(Clone, Copy)]
struct Life {
    /// A Pod fails in one of this many seconds, and is deleted in one of this many; never if 0.
    fails: u64,
    deleted: u64,
}

const TROUBLE: Life = Life { fails: 6, deleted: 25 };
const PEACE: Life = Life { fails: 0, deleted: 0 };

impl Story {
    fn new(seed: u64, spec: &Value) -> Self {
        let pod = json!({"spec": {"nodeName": "node"}, "status": {"phase": "Pending"}});
        let mut cluster = Cluster::new(seed).defaults(&POD, pod);
        let template = json!({
            "metadata": {"labels": {"job": "pi"}}, "spec": {"restartPolicy": "Never", "containers": [{"name": "c"}]},
        });
        let mut job = json!({
            "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "pi", "namespace": "default", "uid": "j"},
            "spec": {"selector": {"matchLabels": {"job": "pi"}}, "template": template},
        });
        for (name, value) in spec.as_object().expect("a spec is an object") {
            job["spec"][name] = value.clone();
        }
        cluster.insert(job);
        let plugin = plugin();
        let key = plugin.key(&JOB, "default", "pi");
        Self { cluster, plugin, key, pods: BTreeMap::new(), ended: BTreeMap::new(), released: BTreeSet::new() }
    }

    fn job(&self) -> &Value {
        self.cluster.get(&JOB, "default", "pi").expect("nobody deletes it")
    }

    fn status(&self, field: &str) -> i64 {
        self.job()["status"][field].as_i64().unwrap_or(0)
    }

    fn n_named(&self, result: &str) -> i64 {
        let named = self.job()["status"]["uncountedTerminatedPods"][result].as_array().map_or(0, Vec::len);
        i64::try_from(named).expect("it is small")
    }

    fn has_condition(&self, kind: &str) -> bool {
        let conditions = self.job()["status"]["conditions"].as_array();
        conditions.is_some_and(|all| all.iter().any(|one| one["type"] == kind && one["status"] == "True"))
    }

    fn is_finished(&self) -> bool {
        self.has_condition("Complete") || self.has_condition("Failed")
    }

    /// Records the changes of the Pods.
    fn take_down(&mut self) {
        // When a Job has failed, all its Pods fail, and lose their finalizers in the run that deletes them.
        let has_failed = self.has_condition("FailureTarget");
        for pod in self.cluster.list(&POD) {
            let uid = text(&pod["metadata"]["uid"]).to_owned();
            let is_tracked = is_tracked(pod);
            let phase = text(&pod["status"]["phase"]);
            let has_ended = ["Succeeded", "Failed"].contains(&phase) || is_deleting(pod);
            if has_ended && (is_tracked || has_failed) && !self.released.contains(&uid) {
                let result = if phase == "Succeeded" { "succeeded" } else { "failed" };
                self.ended.entry(uid.clone()).or_insert(result);
            } else if !is_tracked && !self.ended.contains_key(&uid) {
                self.released.insert(uid.clone());
            }
            self.pods.insert(uid, pod.clone());
        }
    }

    fn n_ended(&self, result: &str) -> i64 {
        let n = self.ended.values().filter(|ended| **ended == result).count();
        i64::try_from(n).expect("it is small")
    }

    fn run(&mut self) {
        self.cluster.run(&self.plugin, &self.key);
        self.take_down();
    }

    /// Advances a second: Pods start, end, and are deleted.
    fn live(&mut self, life: Life) {
        self.cluster.advance(Duration::from_secs(1));
        let now = self.cluster.now();
        let pods: Vec<Value> = self.cluster.list(&POD).cloned().collect();
        for pod in pods {
            let name = name_of(&pod);
            let phase = text(&pod["status"]["phase"]).to_owned();
            let mut one_in = |n: u64| n > 0 && self.cluster.random(n) == 0;
            let (ends, fails, deleted) = (one_in(4), one_in(life.fails), one_in(life.deleted));
            let status = |phase: &str| {
                let end = json!({"exitCode": i32::from(phase == "Failed"), "finishedAt": now});
                json!({"phase": phase, "containerStatuses": [{"name": "c", "state": {"terminated": end}}]})
            };
            let mut set = |status: Value| self.cluster.edit(&POD, "default", &name, |pod| pod["status"] = status);
            let is_over = ["Succeeded", "Failed"].contains(&phase.as_str());
            match phase.as_str() {
                _ if is_deleting(&pod) && !is_over => set(status("Failed")),
                "Pending" => set(json!({"phase": "Running"})),
                "Running" if fails => set(status("Failed")),
                "Running" if ends => set(status("Succeeded")),
                _ => {}
            }
            if deleted && !is_deleting(&pod) {
                self.cluster.delete(&POD, "default", &name);
            } else if is_deleting(&pod) && is_over && pod["metadata"]["finalizers"].as_array().is_none_or(Vec::is_empty)
            {
                self.cluster.remove(&POD, "default", &name);
            }
        }
        self.take_down();
    }

    /// Runs until the Job has finished, or nothing more happens.
    fn settle(&mut self) {
        for _ in 0..4000 {
            self.run();
            if self.is_finished() {
                return;
            }
            self.live(PEACE);
        }
        panic!("it does not finish: {:#}", self.job()["status"]);
    }

    /// Checks that the status never counts a Pod before it has ended, and never twice.
    fn check(&self) {
        for result in ["succeeded", "failed"] {
            let (counted, ended) = (self.status(result) + self.n_named(result), self.n_ended(result));
            assert!(counted <= ended, "{counted} {result} counted or named, {ended} ended: {:#}", self.job()["status"]);
        }
    }

    fn check_end(&self) {
        let named = &self.job()["status"]["uncountedTerminatedPods"];
        assert_eq!(named, &json!({}), "nothing is left to be counted");
        let tracked = self.cluster.list(&POD).filter(|pod| is_tracked(pod));
        assert_eq!(tracked.count(), 0, "nothing keeps the finalizer");
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Whether the Job has not counted a Pod yet.
fn is_tracked(pod: &Value) -> bool {
    pod["metadata"]["finalizers"].as_array().is_some_and(|all| all.contains(&TRACKING.into()))
}

/// Some seconds of failures: crashes, rejected writes, Pods that fail and are deleted.
fn trouble(story: &mut Story, n_seconds: u64, suspends: bool) {
    for _ in 0..n_seconds {
        if story.cluster.random(4) == 0 {
            let skip = u32::try_from(story.cluster.random(6)).expect("it is small");
            story.cluster.inject(Fault::crash().skip(skip));
        }
        if suspends && story.cluster.random(12) == 0 {
            let suspend = story.cluster.random(2) == 0;
            story.cluster.edit(&JOB, "default", "pi", |job| job["spec"]["suspend"] = suspend.into());
        }
        for _ in 0..=story.cluster.random(3) {
            story.run();
            story.check();
        }
        story.live(TROUBLE);
        if story.is_finished() {
            break;
        }
    }
    story.cluster.clear_faults();
}

#[test]
fn each_pod_is_counted_once_whatever_goes_wrong() {
    for seed in seeds(0..10) {
        let spec = json!({"completions": 25, "parallelism": 4, "backoffLimit": 1_000});
        let mut story = Story::new(seed, &spec);
        story.cluster.inject(Fault::reject(500, "InternalError", "etcd is away").one_in(7));
        trouble(&mut story, 60, true);
        story.cluster.edit(&JOB, "default", "pi", |job| job["spec"]["suspend"] = false.into());
        story.settle();
        story.check_end();
        assert!(story.has_condition("SuccessCriteriaMet") && story.has_condition("Complete"));
        assert_eq!(story.status("succeeded"), story.n_ended("succeeded"), "seed {seed}");
        assert_eq!(story.status("failed"), story.n_ended("failed"), "seed {seed}");
        let n_made = story.pods.len();
        assert!(story.ended.len() + story.released.len() <= n_made, "no Pod has two fates");
    }
}

#[test]
fn each_failed_pod_of_a_failed_job_is_counted_once() {
    for seed in seeds(0..8) {
        let spec = json!({"completions": 500, "parallelism": 6, "backoffLimit": 5});
        let mut story = Story::new(seed, &spec);
        story.cluster.inject(Fault::reject(500, "InternalError", "etcd is away").one_in(7));
        trouble(&mut story, 400, false);
        story.settle();
        story.check_end();
        assert!(story.has_condition("FailureTarget") && story.has_condition("Failed"), "{:#}", story.job());
        let counted = story.status("succeeded") + story.status("failed");
        assert_eq!(counted, i64::try_from(story.pods.len()).unwrap(), "all Pods of a Job that failed are counted");
        assert_eq!(story.status("succeeded"), story.n_ended("succeeded"), "seed {seed}");
        assert!(story.status("failed") > 5);
    }
}

#[test]
fn each_index_ends_once_and_has_one_pod_at_a_time() {
    for seed in seeds(0..8) {
        let spec = json!({
            "completions": 12, "parallelism": 4, "completionMode": "Indexed", "backoffLimit": 2_147_483_647,
            "backoffLimitPerIndex": 1,
        });
        let mut story = Story::new(seed, &spec);
        story.cluster.inject(Fault::reject(500, "InternalError", "etcd is away").one_in(7));
        for _ in 0..40 {
            trouble(&mut story, 1, true);
            let mut active = BTreeSet::new();
            for pod in story.cluster.list(&POD) {
                let is_active = ["Pending", "Running"].contains(&text(&pod["status"]["phase"])) && !is_deleting(pod);
                let index = text(&pod["metadata"]["annotations"][INDEX]);
                assert!(!is_active || active.insert(index.to_owned()), "two active Pods of index {index}");
            }
        }
        story.cluster.edit(&JOB, "default", "pi", |job| job["spec"]["suspend"] = false.into());
        story.settle();
        story.check_end();
        let indexes = |field: &str| -> BTreeSet<u32> {
            let numbers = |part: &str| {
                let (first, last) = part.split_once('-').unwrap_or((part, part));
                first.parse::<u32>().unwrap()..=last.parse().unwrap()
            };
            let all = text(&story.job()["status"][field]);
            all.split(',').filter(|part| !part.is_empty()).flat_map(numbers).collect()
        };
        let (completed, failed) = (indexes("completedIndexes"), indexes("failedIndexes"));
        assert_eq!(completed.intersection(&failed).count(), 0, "no index has two ends");
        assert_eq!(completed.len() + failed.len(), 12, "each index has an end: {completed:?} {failed:?}");
        assert_eq!(story.status("succeeded"), i64::try_from(completed.len()).unwrap());
        assert_eq!(story.status("failed"), story.n_ended("failed"), "seed {seed}");
        assert_eq!(story.has_condition("Failed"), !failed.is_empty());
    }
}

#[test]
fn the_back_off_counts_each_failure_once() {
    for seed in seeds(0..8) {
        let spec = json!({"completions": 1, "parallelism": 1, "backoffLimit": 100});
        let mut story = Story::new(seed, &spec);
        story.cluster.inject(Fault::reject(409, "Conflict", "it has changed").verb("update").one_in(2));
        let mut waits = Vec::new();
        let mut failed_at = story.cluster.now();
        for _ in 0..4 {
            while story.cluster.list(&POD).next().is_none_or(|pod| pod["status"]["phase"] == "Failed") {
                let before = story.pods.len();
                story.run();
                if story.pods.len() > before {
                    break;
                }
                story.cluster.advance(Duration::from_secs(1));
            }
            waits.push(story.cluster.now().since(failed_at).as_secs());
            let names: Vec<String> = story.cluster.list(&POD).map(name_of).collect();
            failed_at = story.cluster.now();
            for name in names {
                let end = json!({"exitCode": 1, "finishedAt": failed_at});
                let status =
                    json!({"phase": "Failed", "containerStatuses": [{"name": "c", "state": {"terminated": end}}]});
                story.cluster.edit(&POD, "default", &name, |pod| {
                    if pod["status"]["phase"] != "Failed" {
                        pod["status"] = status;
                    }
                });
            }
            story.take_down();
        }
        assert!(waits.windows(2).skip(1).all(|pair| (2 * pair[0]).abs_diff(pair[1]) <= 3), "{waits:?}");
        assert!((10..14).contains(&waits[1]), "{waits:?}");
    }
}

#[test]
fn no_pod_keeps_the_finalizer_after_its_job() {
    for seed in seeds(0..5) {
        let mut story = Story::new(seed, &json!({"completions": 30, "parallelism": 5, "backoffLimit": 100}));
        trouble(&mut story, 20, false);
        story.cluster.delete(&JOB, "default", "pi");
        let names: Vec<String> = story.cluster.list(&POD).map(name_of).collect();
        for name in &names {
            let key = Key::new("job_orphan_pod", POD, "default", name);
            story.cluster.run(&story.plugin, &key);
        }
        let tracked = story.cluster.list(&POD).filter(|pod| is_tracked(pod));
        assert_eq!(tracked.count(), 0);
        story.cluster.run(&story.plugin, &story.key);
        assert!(story.cluster.state(&story.plugin).is_empty(), "nothing is kept of a Job that is gone");
    }
}

#[test]
fn many_pods_are_counted_in_parts() {
    let mut story = Story::new(1, &json!({"completions": 700, "parallelism": 700, "backoffLimit": 5}));
    while story.cluster.list(&POD).count() < 700 {
        let before = story.cluster.list(&POD).count();
        story.run();
        assert!(story.cluster.list(&POD).count() <= before + 500, "a run creates at most 500");
    }
    let names: Vec<String> = story.cluster.list(&POD).map(name_of).collect();
    for name in &names {
        story.cluster.edit(&POD, "default", name, |pod| pod["status"] = json!({"phase": "Succeeded"}));
    }
    let mut parts = Vec::new();
    while !story.is_finished() {
        story.run();
        parts.push(story.n_named("succeeded"));
    }
    assert!(parts.iter().all(|n| *n <= 500) && parts.contains(&500), "a status names at most 500: {parts:?}");
    assert_eq!(story.status("succeeded"), 700);
    story.check_end();
}

#[test]
fn a_suspended_job_deletes_all_its_pods_at_once() {
    let mut story = Story::new(1, &json!({"completions": 2_000, "parallelism": 1_050}));
    while story.cluster.list(&POD).count() < 1_050 {
        story.run();
    }
    story.cluster.edit(&JOB, "default", "pi", |job| job["spec"]["suspend"] = true.into());
    let n_active = |story: &Story| story.cluster.list(&POD).filter(|pod| !is_deleting(pod)).count();
    let mut left = vec![n_active(&story)];
    while left.last() != Some(&0) {
        story.run();
        left.push(n_active(&story));
    }
    assert_eq!(left, [1_050, 0]);
    assert_eq!((story.status("succeeded"), story.status("failed")), (0, 0));
}
