//! Incomplete quotas go into the priority queue, and no new object stays uncounted.

use pintle_sdk::Kind;
use pintle_sdk::testing::{Cluster, Fault, Plugin, seeds};
use plugin_resourcequota::keys_of;
use serde_json::{Value, json};

use super::objects::name_of;
use crate::resourcequota::plugin;

const QUOTA: Kind = Kind::new("", "v1", "ResourceQuota");
const POD: Kind = Kind::new("", "v1", "Pod");

/// Queues: of deleted and of new objects.
const PRIMARY: &str = "resourcequota_primary";
const CHANGES: &str = "resource_quota_controller_resource_changes";

/// The limit of Pods.
const HARD: usize = 8;

fn quota(hard: &Value, status: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "rq", "namespace": "default"},
        "spec": {"hard": hard}, "status": status})
}

/// As `TestAddQuota` of resource_quota_controller_test.go.
#[test]
fn quotas_without_usage_come_first() {
    let cluster = Cluster::new(1);
    let fixture = cluster.fixture(&plugin(), &plugin().key(&QUOTA, "default", "rq"));
    let (cpu, extended) = (json!({"cpu": "4"}), json!({"requests.example/foobars.example.com": "4"}));
    let unknown = json!({"foobars.example.com": "4"});
    for (name, quota, is_first) in [
        ("no status", quota(&cpu, &json!({})), true),
        ("status, no usage", quota(&cpu, &json!({"hard": cpu})), true),
        ("status, no usage, of extended resources", quota(&extended, &json!({"hard": extended})), true),
        ("status, mismatch", quota(&cpu, &json!({"hard": {"cpu": "6"}, "used": {"cpu": "0"}})), true),
        ("missing usage that nobody can count", quota(&unknown, &json!({"hard": unknown})), false),
        ("ready", quota(&cpu, &json!({"hard": {"cpu": "4000m"}, "used": {"cpu": "0"}})), false),
    ] {
        let keys = keys_of(&QUOTA, None, Some(&quota.to_string()), &fixture.lister);
        let queues: Vec<&str> = keys.iter().map(|wake| wake.key.queue.as_str()).collect();
        assert_eq!(queues, [if is_first { "resourcequota_priority" } else { "resourcequota_primary" }], "{name}");
        assert_eq!(keys[0].key.object().to_string(), "default/rq");
    }
    assert!(keys_of(&QUOTA, Some(&quota(&cpu, &json!({})).to_string()), None, &fixture.lister).is_empty());
}

#[test]
fn a_pod_that_ends_runs_the_quotas_of_pods() {
    let mut cluster = Cluster::new(1);
    let named = |name: &str, hard: &Value| {
        let mut quota = quota(hard, &json!({ "hard": hard }));
        quota["metadata"]["name"] = json!(name);
        quota
    };
    cluster.insert(named("of-pods", &json!({"pods": "1"})));
    cluster.insert(named("of-secrets", &json!({"secrets": "1"})));
    let fixture = cluster.fixture(&plugin(), &plugin().key(&QUOTA, "default", "rq"));
    let pod = |phase: &str| {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "default"}, "status": {"phase": phase}})
            .to_string()
    };
    let names = |old: &str, new: &str| -> Vec<String> {
        let keys = keys_of(&POD, Some(&pod(old)), Some(&pod(new)), &fixture.lister);
        keys.into_iter().map(|wake| wake.key.name).collect()
    };
    assert_eq!(names("Running", "Succeeded"), ["of-pods"]);
    assert!(names("Pending", "Running").is_empty());
}

/// The API server counts a Pod before it creates it. A run in between reduces the count, and the run after the creation
/// counts the Pod again.
#[test]
fn a_pod_that_is_counted_early_is_counted_at_rest() {
    let mut cluster = Cluster::new(1);
    let two = json!({"pods": "2"});
    let used = |n: &str| json!({"hard": {"pods": "2"}, "used": {"pods": n}});
    let pod =
        |name: &str| json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}});
    cluster.insert(pod("a"));
    cluster.insert(pod("gone"));
    cluster.insert(quota(&two, &used("2")));
    let n_used = |cluster: &Cluster| cluster.get(&QUOTA, "default", "rq").map(|quota| quota["status"]["used"].clone());
    let mut key = plugin().key(&QUOTA, "default", "rq");
    // One Pod is deleted, and the next one is counted but not created yet.
    cluster.remove(&POD, "default", "gone");
    cluster.run(&plugin(), &key);
    assert_eq!(n_used(&cluster), Some(json!({"pods": "1"})));
    cluster.insert(pod("b"));
    key.queue = CHANGES.into();
    cluster.run(&plugin(), &key);
    assert_eq!(n_used(&cluster), Some(json!({"pods": "2"})));
    // The same run never reduces a count.
    cluster.remove(&POD, "default", "b");
    let run = cluster.run(&plugin(), &key);
    assert!(run.is_quiet() && n_used(&cluster) == Some(json!({"pods": "2"})), "{run:?}");
}

/// A quota, and creators at once: the API server counts each Pod, and creates it later.
struct Story {
    cluster: Cluster,
    plugin: Plugin<'static>,
    /// Pods that are counted and not created yet.
    counted: Vec<String>,
    n_made: usize,
    /// A Pod was deleted since the last run of [`PRIMARY`].
    is_less: bool,
    /// A Pod was created since the last run of [`CHANGES`].
    is_more: bool,
}

impl Story {
    fn new(seed: u64) -> Self {
        let mut cluster = Cluster::new(seed);
        let hard = json!({"pods": HARD.to_string()});
        cluster.insert(quota(&hard, &json!({"hard": hard, "used": {"pods": "0"}})));
        Self { cluster, plugin: plugin(), counted: Vec::new(), n_made: 0, is_less: false, is_more: false }
    }

    fn used(&self) -> usize {
        let quota = self.cluster.get(&QUOTA, "default", "rq").expect("it is there");
        quota["status"]["used"]["pods"].as_str().and_then(|n| n.parse().ok()).expect("it is counted")
    }

    fn pods(&self) -> Vec<String> {
        self.cluster.list(&POD).map(name_of).collect()
    }

    fn place(&mut self, n: usize) -> usize {
        self.cluster.random(n.max(1) as u64) as usize
    }

    /// The API server admits a Pod.
    fn count(&mut self) {
        let used = self.used();
        if used < HARD {
            self.cluster.edit(&QUOTA, "default", "rq", |quota| {
                quota["status"]["used"]["pods"] = json!((used + 1).to_string());
            });
            self.n_made += 1;
            self.counted.push(format!("p{}", self.n_made));
        }
    }

    /// The API server creates an admitted Pod.
    fn create(&mut self) {
        let place = self.place(self.counted.len());
        if place < self.counted.len() {
            let name = self.counted.swap_remove(place);
            let metadata = json!({"name": name, "namespace": "default"});
            self.cluster.insert(json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata}));
            self.is_more = true;
        }
    }

    fn remove(&mut self) {
        let pods = self.pods();
        let place = self.place(pods.len());
        if let Some(name) = pods.get(place) {
            self.cluster.remove(&POD, "default", name);
            self.is_less = true;
        }
    }

    fn run(&mut self, queue: &'static str) {
        let mut key = self.plugin.key(&QUOTA, "default", "rq");
        key.queue = queue.into();
        let before = self.used();
        let run = self.cluster.run(&self.plugin, &key);
        let has_failed = run.result.is_err() || !run.failures.is_empty() || run.crashed;
        if queue == CHANGES {
            assert!(self.used() >= before, "a run for new objects reduces the usage");
            self.is_more &= has_failed;
        } else {
            self.is_less &= has_failed;
        }
    }

    fn step(&mut self) {
        match self.cluster.random(10) {
            0..=2 => self.count(),
            3..=4 => self.create(),
            5 => self.remove(),
            6 => self.run(PRIMARY),
            7 => self.run(CHANGES),
            // A Pod that is counted, and whose creation fails.
            8 => drop(self.counted.pop()),
            _ => {
                let fault = match self.cluster.random(3) {
                    0 => Fault::reject(409, "Conflict", "somebody else was faster").times(1),
                    1 => Fault::reject(500, "InternalError", "etcd is away").times(1),
                    _ => Fault::crash(),
                };
                self.cluster.inject(fault);
            }
        }
    }

    /// Creates what is counted, and makes the runs that the changes lead to, in any order.
    fn rest(&mut self) {
        self.cluster.clear_faults();
        while !self.counted.is_empty() {
            self.create();
        }
        while self.is_less || self.is_more {
            let (queue, is_due) =
                if self.cluster.random(2) == 0 { (PRIMARY, self.is_less) } else { (CHANGES, self.is_more) };
            if is_due {
                self.run(queue);
            }
        }
    }
}

#[test]
fn the_usage_is_never_below_what_exists_at_rest() {
    for seed in seeds(0..500) {
        let mut story = Story::new(seed);
        for _ in 0..4 {
            for _ in 0..20 {
                story.step();
            }
            story.rest();
            let (used, n) = (story.used(), story.pods().len());
            assert!(used >= n, "seed {seed}: {used} are counted, and there are {n}");
        }
        // The count of Pods whose creation failed goes with the next full count.
        story.run(PRIMARY);
        assert_eq!(story.used(), story.pods().len(), "seed {seed}");
    }
}
