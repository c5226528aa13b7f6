//! Whole rollouts: successive runs, each on the results of the previous one, until nothing is left to do.
//!
//! ReplicaSets approach their size as their controller would, in random small steps, with Pods that become available
//! later than they are created.

use std::time::Duration;

use pintle_sdk::testing::{Cluster, Fault, Plugin, seeds};
use pintle_sdk::{Key, Kind};
use serde_json::{Value, json};

use crate::deployment::plugin;

const DEPLOYMENT: Kind = Kind::new("apps", "v1", "Deployment");
const SET: Kind = Kind::new("apps", "v1", "ReplicaSet");
const REVISION: &str = "/metadata/annotations/deployment.kubernetes.io~1revision";
const HISTORY: &str = "/metadata/annotations/deployment.kubernetes.io~1revision-history";

struct Story {
    cluster: Cluster,
    plugin: Plugin<'static>,
    key: Key,
}

impl Story {
    fn new(spec: &Value, seed: u64) -> Self {
        let mut deployment = json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "web", "namespace": "default"},
            "spec": {
                "replicas": 10,
                "progressDeadlineSeconds": 600,
                "revisionHistoryLimit": 2,
                "selector": {"matchLabels": {"app": "web"}},
                "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "1"}]}},
            },
            "status": {},
        });
        merge(&mut deployment["spec"], spec);
        let mut cluster = Cluster::new(seed).defaults(&SET, json!({"status": {"replicas": 0}}));
        cluster.insert(deployment);
        let plugin = plugin();
        let key = plugin.key(&DEPLOYMENT, "default", "web");
        Self { cluster, plugin, key }
    }

    /// A change by the user.
    fn edit(&mut self, spec: &Value) {
        self.cluster.edit(&DEPLOYMENT, "default", "web", |deployment| merge(&mut deployment["spec"], spec));
    }

    /// Runs everything until nothing changes. `check` is called after each run.
    fn settle(&mut self, broken: Option<&str>, check: impl Fn(&Self)) {
        for _ in 0..500 {
            self.cluster.advance(Duration::from_secs(1));
            let is_quiet = self.run();
            check(self);
            let is_busy = replica_sets_follow(&mut self.cluster, broken);
            if is_quiet && !is_busy {
                return;
            }
        }
        panic!("it never rests: {:#} {:?}", self.deployment()["status"], self.events());
    }

    /// Runs the controller once. Returns whether it had nothing to do.
    fn run(&mut self) -> bool {
        let n_written = self.cluster.writes().len();
        let with_pods: Vec<Value> = self.sets().filter(|set| set["status"]["replicas"] != 0).cloned().collect();
        let run = self.cluster.run(&self.plugin, &self.key);
        assert!(run.result.is_ok(), "{run:?}");
        for write in &self.cluster.writes()[n_written..] {
            assert!(write.rejected.as_ref().is_none_or(|reason| reason == "InternalError"), "{write}");
            let is_it = |set: &Value| set["metadata"]["name"] == *write.object.name;
            assert!(write.verb != "delete" || !with_pods.iter().any(is_it), "{write}, with its Pods");
        }
        run.is_quiet()
    }

    fn deployment(&self) -> &Value {
        self.cluster.get(&DEPLOYMENT, "default", "web").expect("nobody deletes it")
    }

    fn sets(&self) -> impl Iterator<Item = &Value> {
        self.cluster.list(&SET)
    }

    fn n_sets(&self) -> usize {
        self.sets().count()
    }

    fn events(&self) -> Vec<&str> {
        self.cluster.events().iter().map(|event| event.message.as_str()).collect()
    }

    fn sum(&self, path: &str) -> i64 {
        self.sets().filter_map(|set| set.pointer(path)?.as_i64()).sum()
    }

    /// Available Pods within the desired size: scaled-down Pods do not count.
    fn available(&self) -> i64 {
        self.sets().map(|set| count(set, "/status/availableReplicas").min(count(set, "/spec/replicas"))).sum()
    }

    fn reason(&self) -> &str {
        let conditions = self.deployment()["status"]["conditions"].as_array();
        let progressing = conditions.and_then(|all| all.iter().find(|condition| condition["type"] == "Progressing"));
        progressing.and_then(|condition| condition["reason"].as_str()).expect("it has the condition")
    }

    fn revision(&self) -> &str {
        self.deployment().pointer(REVISION).and_then(Value::as_str).expect("it has a revision")
    }
}

fn count(object: &Value, path: &str) -> i64 {
    object.pointer(path).and_then(Value::as_i64).unwrap_or(0)
}

fn image_of(set: &Value) -> Option<&str> {
    set.pointer("/spec/template/spec/containers/0/image").and_then(Value::as_str)
}

/// Some ReplicaSets take a step towards their size, unless their Pods are `broken`. Returns whether there is more to
/// do.
fn replica_sets_follow(cluster: &mut Cluster, broken: Option<&str>) -> bool {
    let step = |cluster: &mut Cluster, most: i64| {
        let most = u64::try_from(most).unwrap_or(0);
        if most == 0 { 0 } else { 1 + i64::try_from(cluster.random(most)).unwrap_or(0) }
    };
    let mut is_busy = false;
    let sets: Vec<Value> = cluster.list(&SET).cloned().collect();
    for set in sets {
        let (wanted, actual) = (count(&set, "/spec/replicas"), count(&set, "/status/replicas"));
        let available = count(&set, "/status/availableReplicas");
        let is_broken = image_of(&set) == broken;
        let came = step(cluster, wanted - actual);
        let ready = if is_broken { 0 } else { step(cluster, actual - available) };
        // A status may be stale: not every ReplicaSet is updated each time.
        if cluster.random(4) == 0 {
            is_busy |= wanted != actual || ready > 0;
            continue;
        }
        let available = (available + ready).min(wanted);
        let status = json!({
            "replicas": (actual + came).min(wanted), "readyReplicas": available, "availableReplicas": available,
            "terminatingReplicas": 0, "observedGeneration": set["metadata"]["generation"],
        });
        if set["status"] != status {
            let name = set["metadata"]["name"].as_str().expect("ReplicaSets have names");
            cluster.edit(&SET, "default", name, |set| set["status"] = status);
            is_busy = true;
        }
    }
    is_busy
}

fn merge(base: &mut Value, over: &Value) {
    match (base, over) {
        (Value::Object(base), Value::Object(over)) => {
            for (name, value) in over {
                merge(base.entry(name.clone()).or_insert(Value::Null), value);
            }
        }
        (base, over) => *base = over.clone(),
    }
}

fn image(image: &str) -> Value {
    json!({"template": {"spec": {"containers": [{"name": "c", "image": image}]}}})
}

fn rolling(surge: i64, unavailable: i64) -> Value {
    json!({"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}})
}

#[test]
fn rolling_updates_keep_to_their_bounds_and_come_to_an_end() {
    for (surge, unavailable) in [(0, 1), (1, 0), (3, 2), (10, 0), (0, 10), (2, 5), (10, 10)] {
        for seed in [1, 77] {
            let mut story = Story::new(&rolling(surge, unavailable), seed);
            story.settle(None, |_| {});
            assert_eq!((story.available(), story.reason(), story.revision()), (10, "NewReplicaSetAvailable", "1"));
            assert!(story.events()[0].ends_with("from 0 to 10"), "{:?}", story.events());
            let what = format!("surge {surge}, unavailable {unavailable}, seed {seed}");
            for (i, tag) in ["2", "3", "4", "5"].into_iter().enumerate() {
                story.edit(&image(tag));
                story.settle(None, |story| {
                    assert!(story.sum("/spec/replicas") <= 10 + surge, "{what}: too many Pods");
                    assert!(story.available() >= 10 - unavailable, "{what}: too few Pods");
                });
                assert_eq!(story.sum("/spec/replicas"), 10, "{what}");
                assert_eq!(story.reason(), "NewReplicaSetAvailable", "{what}");
                assert_eq!(story.revision(), (i + 2).to_string(), "{what}");
                assert!(story.n_sets() <= 3, "{what}: the history has a limit");
            }
            // Back to an existing template: its ReplicaSet is reused.
            story.edit(&image("4"));
            story.settle(None, |_| {});
            assert_eq!((story.revision(), story.n_sets()), ("6", 3), "{what}");
        }
    }
}

#[test]
fn a_broken_template_takes_no_more_than_its_share_and_an_older_one_comes_back() {
    for seed in seeds(0..4) {
        let mut story = Story::new(&rolling(3, 2), seed);
        story.settle(None, |_| {});
        story.edit(&image("broken"));
        story.settle(Some("broken"), |story| assert!(story.available() >= 8));
        assert_eq!(story.sum("/spec/replicas"), 13, "seed {seed}");
        story.cluster.advance(Duration::from_secs(700));
        story.settle(Some("broken"), |_| {});
        assert_eq!(story.reason(), "ProgressDeadlineExceeded", "seed {seed}");
        story.edit(&image("1"));
        story.settle(Some("broken"), |story| assert!(story.available() >= 8));
        assert_eq!((story.reason(), story.revision()), ("NewReplicaSetAvailable", "3"), "seed {seed}");
        let first = story.sets().find(|set| image_of(set) == Some("1")).expect("the first ReplicaSet is used again");
        assert_eq!(first.pointer(HISTORY).and_then(Value::as_str), Some("1"), "seed {seed}");
    }
}

#[test]
fn recreate_never_has_pods_of_two_templates() {
    for seed in seeds(0..4) {
        let mut story = Story::new(&json!({"strategy": {"type": "Recreate"}}), seed);
        story.settle(None, |_| {});
        for tag in ["2", "3"] {
            story.edit(&image(tag));
            story.settle(None, |story| {
                let running = |set: &&Value| set["status"]["replicas"].as_i64() > Some(0);
                assert!(story.sets().filter(running).count() <= 1, "seed {seed}");
            });
        }
        assert_eq!((story.available(), story.reason(), story.revision()), (10, "NewReplicaSetAvailable", "3"));
    }
}

#[test]
fn scaling_in_the_middle_of_a_rollout_keeps_the_shares_and_the_rollout_goes_on() {
    for seed in seeds(0..4) {
        let mut story = Story::new(&rolling(3, 2), seed);
        story.settle(None, |_| {});
        story.edit(&image("2"));
        let is_midway = |story: &Story| story.sets().filter(|set| count(set, "/spec/replicas") > 0).count() == 2;
        for _ in 0..20 {
            if !is_midway(&story) {
                story.run();
                replica_sets_follow(&mut story.cluster, None);
            }
        }
        assert!(is_midway(&story), "seed {seed}");
        story.edit(&json!({"replicas": 30, "paused": true}));
        story.settle(None, |_| {});
        assert_eq!(story.sum("/spec/replicas"), 33, "seed {seed}");
        assert!(is_midway(&story), "seed {seed}: each keeps its share");
        assert_eq!(story.reason(), "DeploymentPaused", "seed {seed}");
        story.edit(&json!({"paused": false}));
        story.settle(None, |_| {});
        assert_eq!((story.sum("/spec/replicas"), story.available()), (30, 30), "seed {seed}");
        assert_eq!((story.reason(), story.revision()), ("NewReplicaSetAvailable", "2"), "seed {seed}");
    }
}

#[test]
fn after_a_mishap_at_any_write_a_rollout_ends_as_it_should() {
    for (mishap, may_report) in [(Fault::crash(), 0), (Fault::reject(500, "InternalError", "not now").times(1), 1)] {
        for strategy in [rolling(3, 2), json!({"strategy": {"type": "Recreate"}})] {
            let mut n_writes = 0;
            loop {
                let mut story = Story::new(&strategy, 5);
                story.cluster.inject(mishap.clone().skip(n_writes));
                for tag in ["1", "2", "1"] {
                    story.edit(&image(tag));
                    story.settle(None, |story| assert!(story.sum("/spec/replicas") <= 13, "after {n_writes} writes"));
                }
                let end = (story.sum("/spec/replicas"), story.available(), story.reason(), story.revision());
                assert_eq!(end, (10, 10, "NewReplicaSetAvailable", "3"), "after {n_writes} writes");
                assert_eq!(story.n_sets(), 2, "after {n_writes} writes");
                let reports = story.events().iter().filter(|event| event.starts_with("Failed to create")).count();
                assert!(reports <= may_report, "{:?}", story.events());
                if story.cluster.n_faults() > 0 {
                    break;
                }
                n_writes += 1;
            }
            assert!(n_writes > 10, "only {n_writes} writes");
        }
    }
}
