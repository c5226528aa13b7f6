//! Run after run, each on what the ones before have written: the number of Pods comes right whatever goes wrong.
//!
//! The world is a list of objects. Writes are applied as the API server would, some are refused, Pods come to life, fail and go
//! away at random, and the user changes the size and the labels of Pods. Seeds are in the messages of failures.

#![allow(clippy::unwrap_used, reason = "a test; its helpers are not known as such")]

use pintle_sdk::testing::Fixture;
use pintle_sdk::{Action, Mutation, Order};
use plugin_replicaset::reconcile;
use serde_json::{Value, json};

const MANIFEST: &str = include_str!("../manifest.yaml");

struct World {
    set: Value,
    pods: Vec<Value>,
    failures: Vec<Value>,
    version: u64,
    seconds: u64,
    seed: u64,
    /// Most Pods that the quota allows.
    quota: usize,
    /// One write of so many is refused, if not zero.
    refused: u64,
}

impl World {
    fn new(seed: u64) -> Self {
        let set = json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet",
            "metadata": {"name": "web", "namespace": "default", "uid": "set", "resourceVersion": "0", "generation": 1},
            "spec": {
                "replicas": 5, "minReadySeconds": 3, "selector": {"matchLabels": {"app": "web"}},
                "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": []}},
            },
            "status": {"replicas": 0},
        });
        Self { set, pods: vec![], failures: vec![], version: 0, seconds: 0, seed, quota: usize::MAX, refused: 0 }
    }

    fn random(&mut self, below: u64) -> u64 {
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.seed >> 33) % below
    }

    fn now(&self) -> String {
        format!("2026-01-01T{:02}:{:02}:{:02}Z", self.seconds / 3600, self.seconds / 60 % 60, self.seconds % 60)
    }

    /// Runs the key once. Says whether there was nothing to write and nothing to wait for.
    fn run(&mut self) -> bool {
        let mut objects = self.pods.clone();
        objects.push(self.set.clone());
        let input = json!({
            "key": {"kind": "apps/v1/ReplicaSet", "namespace": "default", "name": "web"},
            "now": self.now(), "objects": objects, "failures": std::mem::take(&mut self.failures),
        });
        let fixture = Fixture::parse(MANIFEST, &input.to_string()).unwrap();
        let outcome = fixture.outcome(reconcile).0.unwrap();
        let quiet = outcome.steps.is_empty() && outcome.requeue_after.is_none();
        let mut stopped = false;
        for step in outcome.steps.into_iter().filter(|step| !step.mutations.is_empty()) {
            if stopped && !step.always {
                continue;
            }
            let mut batch = 1;
            let mut rest = step.mutations.as_slice();
            while !rest.is_empty() {
                let size = if step.order == Order::SlowStart { batch.min(rest.len()) } else { rest.len() };
                let (now, later) = rest.split_at(size);
                let failed = now.iter().filter(|mutation| !self.write(mutation)).count();
                stopped |= failed > 0;
                if failed > 0 {
                    break;
                }
                rest = later;
                batch *= 2;
            }
        }
        quiet && !stopped
    }

    fn write(&mut self, mutation: &Mutation) -> bool {
        let refused = self.refused > 0 && self.random(self.refused) == 0;
        let full = matches!(mutation.action, Action::Create { .. }) && self.pods.len() >= self.quota;
        if refused || full {
            let verb = match mutation.action {
                Action::Create { .. } => "create",
                Action::Delete { .. } => "delete",
                Action::Patch { .. } => "patch",
                _ => "update",
            };
            let message = if full { "exceeded quota" } else { "etcd is away" };
            self.failures.push(json!({"verb": verb, "kind": "v1/Pod", "code": 500, "message": message}));
            return false;
        }
        self.version += 1;
        let version = self.version;
        match &mutation.action {
            Action::Create { object, .. } => {
                let mut pod: Value = serde_json::from_str(object).unwrap();
                let name = format!("web-{version}");
                pod["apiVersion"] = "v1".into();
                pod["kind"] = "Pod".into();
                pod["metadata"]["namespace"] = "default".into();
                pod["metadata"]["uid"] = format!("uid-{name}").into();
                pod["metadata"]["name"] = name.into();
                pod["metadata"]["creationTimestamp"] = self.now().into();
                pod["status"] = json!({"phase": "Pending"});
                self.pods.push(pod);
            }
            Action::Delete { object, preconditions, .. } => {
                let now = self.now();
                let pod = self.pods.iter_mut().find(|pod| pod["metadata"]["name"] == *object.name).unwrap();
                assert_eq!(pod["metadata"]["uid"].as_str(), preconditions.uid.as_deref());
                pod["metadata"]["deletionTimestamp"] = now.into();
            }
            Action::Patch { object, body, .. } => {
                let pod = self.pods.iter_mut().find(|pod| pod["metadata"]["name"] == *object.name).unwrap();
                let body: Value = serde_json::from_str(body).unwrap();
                let reference = &body["metadata"]["ownerReferences"][0];
                let released = reference["$patch"] == "delete";
                pod["metadata"]["ownerReferences"] = if released { json!([]) } else { json!([reference]) };
            }
            Action::Update { object, subresource, .. } => {
                let object: Value = serde_json::from_str(object).unwrap();
                assert_eq!(subresource.as_deref(), Some("status"));
                assert_eq!(object["metadata"]["resourceVersion"], self.set["metadata"]["resourceVersion"]);
                self.set["status"] = object["status"].clone();
                self.set["metadata"]["resourceVersion"] = version.to_string().into();
            }
            other => panic!("nobody asked for {other:?}"),
        }
        true
    }

    /// Time passes: Pods become ready, fail, lose their labels, go away.
    fn live(&mut self, trouble: bool) {
        self.seconds += 1;
        let now = self.now();
        let mut pods = std::mem::take(&mut self.pods);
        pods.retain_mut(|pod| match self.random(if trouble { 12 } else { 4 }) {
            0 if !pod["metadata"]["deletionTimestamp"].is_null() => false,
            0..=2 if pod["status"]["phase"] == "Pending" => {
                let ready = json!({"type": "Ready", "status": "True", "lastTransitionTime": now});
                pod["status"] = json!({"phase": "Running", "conditions": [ready]});
                true
            }
            10 if trouble => {
                pod["status"] = json!({"phase": "Failed"});
                true
            }
            11 if trouble => {
                pod["metadata"]["labels"]["app"] = "debug".into();
                true
            }
            _ => true,
        });
        self.pods = pods;
    }

    fn resize(&mut self, replicas: u64) {
        self.set["spec"]["replicas"] = replicas.into();
        let generation = self.set["metadata"]["generation"].as_u64().unwrap() + 1;
        self.set["metadata"]["generation"] = generation.into();
    }

    fn settle(&mut self) {
        for _ in 0..200 {
            if self.run() && self.pods.iter().all(|pod| pod["metadata"]["deletionTimestamp"].is_null()) {
                return;
            }
            self.live(false);
        }
        panic!("never quiet: {:#}", self.set);
    }

    fn own(&self) -> usize {
        let own = |pod: &&Value| {
            let meta = &pod["metadata"];
            meta["labels"]["app"] == "web"
                && meta["ownerReferences"][0]["uid"] == "set"
                && meta["deletionTimestamp"].is_null()
                && pod["status"]["phase"] != "Failed"
        };
        self.pods.iter().filter(own).count()
    }
}

#[test]
fn the_number_comes_right_whatever_goes_wrong() {
    for seed in 0..20 {
        let mut world = World::new(seed);
        world.refused = 5;
        for _ in 0..30 {
            if world.random(5) == 0 {
                let replicas = world.random(12);
                world.resize(replicas);
            }
            if world.random(6) == 0 {
                let name = format!("orphan-{}", world.version);
                let metadata = json!({"name": name, "namespace": "default", "uid": name, "labels": {"app": "web"}});
                let orphan =
                    json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "status": {"phase": "Pending"}});
                world.version += 1;
                world.pods.push(orphan);
            }
            world.run();
            world.live(true);
        }
        world.refused = 0;
        world.resize(7);
        world.settle();
        assert_eq!(world.own(), 7, "seed {seed}");
        assert_eq!(
            world.set["status"],
            json!({
                "replicas": 7, "fullyLabeledReplicas": 7, "readyReplicas": 7, "availableReplicas": 7,
                "terminatingReplicas": 0, "observedGeneration": world.set["metadata"]["generation"],
            }),
            "seed {seed}"
        );
        let strangers = world.pods.iter().filter(|pod| pod["metadata"]["labels"]["app"] == "debug");
        let owned = strangers
            .filter(|pod| pod["status"]["phase"] != "Failed" && pod["metadata"]["ownerReferences"][0].is_object());
        assert_eq!(owned.count(), 0, "seed {seed}: strangers are released");
    }
}

#[test]
fn a_quota_is_reported_until_it_is_raised() {
    let mut world = World::new(1);
    world.quota = 2;
    for _ in 0..20 {
        world.run();
        world.live(false);
    }
    assert_eq!(world.pods.len(), 2);
    let conditions = &world.set["status"]["conditions"];
    assert_eq!(
        (&conditions[0]["reason"], &conditions[0]["message"]),
        (&json!("FailedCreate"), &json!("exceeded quota"))
    );
    let since = conditions[0]["lastTransitionTime"].clone();
    let version = world.version;
    world.run();
    assert_eq!(world.set["status"]["conditions"][0]["lastTransitionTime"], since);
    assert_eq!(world.version, version, "nothing is written for the same refusal");
    world.quota = 100;
    world.settle();
    assert_eq!((world.own(), &world.set["status"]["conditions"]), (5, &Value::Null));
}
