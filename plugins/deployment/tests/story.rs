//! Whole rollouts: run after run, each on what the one before has written, until nothing is left to do.
//!
//! The world is a list of objects. Writes are applied as the API server would (resourceVersions are checked), and ReplicaSets
//! follow their size as their controller would, in random small steps, with Pods that become available later than they come.

#![allow(clippy::unwrap_used, reason = "a test; its helpers are not known as such")]

use pintle_sdk::testing::Fixture;
use pintle_sdk::{Action, Mutation, PatchType};
use plugin_deployment::reconcile;
use serde_json::{Value, json};

const MANIFEST: &str = include_str!("../manifest.yaml");
const REVISION: &str = "/metadata/annotations/deployment.kubernetes.io~1revision";

struct World {
    deployment: Value,
    sets: Vec<Value>,
    events: Vec<String>,
    clock: i64,
    version: i64,
    seed: u64,
    /// Writes until one goes wrong, and how.
    mishap: Option<(usize, Mishap)>,
    failures: Vec<Value>,
}

#[derive(Clone, Copy, PartialEq)]
enum Mishap {
    /// The host ends after the write, and starts anew.
    Crash,
    /// The API server refuses the write.
    Refusal,
}

impl World {
    fn new(spec: Value, seed: u64) -> Self {
        let mut world = Self {
            deployment: Value::Null,
            sets: vec![],
            events: vec![],
            clock: 0,
            version: 0,
            seed,
            mishap: None,
            failures: vec![],
        };
        world.deployment = json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "web", "namespace": "default", "uid": "d", "resourceVersion": "0", "generation": 1},
            "spec": {
                "replicas": 10,
                "progressDeadlineSeconds": 600,
                "revisionHistoryLimit": 2,
                "selector": {"matchLabels": {"app": "web"}},
                "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "1"}]}},
            },
            "status": {},
        });
        merge(&mut world.deployment["spec"], &spec);
        world
    }

    fn random(&mut self, below: i64) -> i64 {
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        i64::try_from(self.seed >> 40).unwrap() % below
    }

    /// A change by the user.
    fn edit(&mut self, spec: &Value) {
        merge(&mut self.deployment["spec"], spec);
        touch(&mut self.deployment, &mut self.version, true);
    }

    /// Runs the controller once. Returns whether it wrote anything.
    fn run(&mut self) -> bool {
        let objects: Vec<&Value> = std::iter::once(&self.deployment).chain(&self.sets).collect();
        let input = json!({
            "key": {"kind": "apps/v1/Deployment", "namespace": "default", "name": "web"},
            "now": self.time(), "objects": objects,
            "attempt": self.failures.len(), "failures": self.failures,
        });
        let fixture = Fixture::parse(MANIFEST, &input.to_string()).unwrap();
        let outcome = fixture.outcome(reconcile).0.unwrap();
        self.failures.clear();
        let mut wrote = false;
        for step in outcome.steps {
            if !self.failures.is_empty() && !step.always {
                continue;
            }
            for mutation in step.mutations {
                wrote = true;
                match self.write(mutation) {
                    Some(Mishap::Crash) => return true,
                    Some(Mishap::Refusal) => break,
                    None => {}
                }
            }
        }
        wrote
    }

    fn write(&mut self, mutation: Mutation) -> Option<Mishap> {
        if let Some((left, mishap)) = self.mishap {
            self.mishap = (left > 0).then(|| (left - 1, mishap));
            if left == 0 {
                if mishap == Mishap::Refusal {
                    self.failures.push(failure(&mutation.action));
                    self.events.extend(mutation.on_failure.map(|event| event.message));
                }
                return Some(mishap);
            }
        }
        self.apply(mutation.action);
        None
    }

    fn time(&self) -> String {
        format!("2026-01-01T{:02}:{:02}:{:02}Z", self.clock / 3600, self.clock / 60 % 60, self.clock % 60)
    }

    fn apply(&mut self, action: Action) {
        match action {
            Action::Event(event) => self.events.push(event.message),
            Action::Create { object, .. } => {
                let mut object: Value = serde_json::from_str(&object).unwrap();
                let name = object["metadata"]["name"].as_str().unwrap().to_owned();
                assert!(self.sets.iter().all(|set| set["metadata"]["name"] != *name), "{name} is created twice");
                let meta = json!({"uid": format!("uid-{name}"), "generation": 1, "creationTimestamp": self.time()});
                merge(&mut object["metadata"], &meta);
                merge(&mut object, &json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "status": {"replicas": 0}}));
                touch(&mut object, &mut self.version, false);
                self.sets.push(object);
            }
            Action::Patch { object, patch_type: PatchType::Merge, body, preconditions, .. } => {
                let i = self.place(&object.name, preconditions.resource_version.as_deref());
                let body: Value = serde_json::from_str(&body).unwrap();
                let grows = body.get("spec").is_some();
                merge(&mut self.sets[i], &body);
                touch(&mut self.sets[i], &mut self.version, grows);
            }
            Action::Delete { object, preconditions, .. } => {
                let i = self.place(&object.name, preconditions.resource_version.as_deref());
                assert_eq!(self.sets[i]["status"]["replicas"], 0, "{} is deleted with its Pods", object.name);
                self.sets.remove(i);
            }
            Action::Update { object, subresource, .. } => {
                let object: Value = serde_json::from_str(&object).unwrap();
                assert_eq!(object["metadata"]["resourceVersion"], self.deployment["metadata"]["resourceVersion"]);
                if let Some(annotations) = object["metadata"].get("annotations") {
                    self.deployment["metadata"]["annotations"] = annotations.clone();
                }
                let part = if subresource.is_some() { "status" } else { "spec" };
                self.deployment[part] = object[part].clone();
                touch(&mut self.deployment, &mut self.version, part == "spec");
            }
            other => panic!("{other:?}"),
        }
    }

    fn place(&self, name: &str, version: Option<&str>) -> usize {
        let i = self.sets.iter().position(|set| set["metadata"]["name"] == *name).unwrap();
        assert_eq!(self.sets[i]["metadata"]["resourceVersion"].as_str(), version, "{name}: a conflict");
        i
    }

    /// Some ReplicaSets take a step towards their size, unless their Pods are `broken`.
    fn replica_sets_follow(&mut self, broken: Option<&str>) -> bool {
        let mut moved = false;
        for i in 0..self.sets.len() {
            let before = self.sets[i].clone();
            let count = |set: &Value, path: &str| set.pointer(path).and_then(Value::as_i64).unwrap_or(0);
            let (wanted, actual) = (count(&before, "/spec/replicas"), count(&before, "/status/replicas"));
            let available = count(&before, "/status/availableReplicas");
            let is_broken = before.pointer("/spec/template/spec/containers/0/image").and_then(Value::as_str) == broken;
            let came = if wanted > actual { 1 + self.random(wanted - actual) } else { 0 };
            let ready = if actual > available && !is_broken { 1 + self.random(actual - available) } else { 0 };
            // A status may be behind: not every ReplicaSet moves each time.
            if self.random(4) == 0 {
                moved |= wanted != actual || ready > 0;
                continue;
            }
            let available = (available + ready).min(wanted);
            let status = json!({
                "replicas": (actual + came).min(wanted), "readyReplicas": available, "availableReplicas": available,
                "terminatingReplicas": 0, "observedGeneration": before["metadata"]["generation"],
            });
            self.sets[i]["status"] = status;
            if self.sets[i] != before {
                touch(&mut self.sets[i], &mut self.version, false);
                moved = true;
            }
        }
        moved
    }

    /// Runs everything until it rests. `check` sees the world after each run.
    fn settle(&mut self, broken: Option<&str>, check: impl Fn(&Self)) {
        for _ in 0..500 {
            self.clock += 1;
            let mut busy = self.run();
            check(self);
            busy |= self.replica_sets_follow(broken);
            if !busy {
                return;
            }
        }
        panic!("it never rests: {:#} {:?}", self.deployment["status"], self.events);
    }

    fn sum(&self, path: &str) -> i64 {
        self.sets.iter().filter_map(|set| set.pointer(path)?.as_i64()).sum()
    }

    /// Pods that are available and wanted: what is scaled down counts as gone at once.
    fn available(&self) -> i64 {
        let count = |set: &Value, path: &str| set.pointer(path).and_then(Value::as_i64).unwrap_or(0);
        self.sets.iter().map(|set| count(set, "/status/availableReplicas").min(count(set, "/spec/replicas"))).sum()
    }

    fn reason(&self) -> &str {
        let conditions = self.deployment["status"]["conditions"].as_array().unwrap();
        conditions.iter().find(|c| c["type"] == "Progressing").unwrap()["reason"].as_str().unwrap()
    }

    fn revision(&self) -> &str {
        self.deployment.pointer(REVISION).and_then(Value::as_str).unwrap()
    }
}

/// What the next run is told of a write that was refused.
fn failure(action: &Action) -> Value {
    let (verb, kind, name) = match action {
        Action::Create { kind, object, .. } => {
            let object: Value = serde_json::from_str(object).unwrap();
            ("create", kind.to_string(), object["metadata"]["name"].as_str().unwrap().to_owned())
        }
        Action::Patch { kind, object, .. } => ("patch", kind.to_string(), object.name.clone()),
        Action::Delete { kind, object, .. } => ("delete", kind.to_string(), object.name.clone()),
        _ => ("update", "apps/v1/Deployment".to_owned(), "web".to_owned()),
    };
    let object = json!({"namespace": "default", "name": name});
    json!({"verb": verb, "kind": kind, "object": object, "code": 500, "reason": "InternalError", "message": "not now"})
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

fn touch(object: &mut Value, version: &mut i64, is_spec: bool) {
    *version += 1;
    object["metadata"]["resourceVersion"] = json!(version.to_string());
    if is_spec {
        let generation = object["metadata"]["generation"].as_i64().unwrap();
        object["metadata"]["generation"] = json!(generation + 1);
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
            let mut world = World::new(rolling(surge, unavailable), seed);
            world.settle(None, |_| {});
            assert_eq!((world.available(), world.reason(), world.revision()), (10, "NewReplicaSetAvailable", "1"));
            assert!(world.events[0].ends_with("from 0 to 10"), "{:?}", world.events);
            let what = format!("surge {surge}, unavailable {unavailable}, seed {seed}");
            for (i, tag) in ["2", "3", "4", "5"].into_iter().enumerate() {
                world.edit(&image(tag));
                world.settle(None, |world| {
                    assert!(world.sum("/spec/replicas") <= 10 + surge, "{what}: too many Pods");
                    assert!(world.available() >= 10 - unavailable, "{what}: too few Pods");
                });
                assert_eq!(world.sum("/spec/replicas"), 10, "{what}");
                assert_eq!(world.reason(), "NewReplicaSetAvailable", "{what}");
                assert_eq!(world.revision(), (i + 2).to_string(), "{what}");
                assert!(world.sets.len() <= 3, "{what}: the history has a limit");
            }
            // Back to a template that is still there: its ReplicaSet is used again.
            world.edit(&image("4"));
            world.settle(None, |_| {});
            assert_eq!((world.revision(), world.sets.len()), ("6", 3), "{what}");
        }
    }
}

#[test]
fn a_broken_template_takes_no_more_than_its_share_and_an_older_one_comes_back() {
    for seed in 0..4 {
        let mut world = World::new(rolling(3, 2), seed);
        world.settle(None, |_| {});
        world.edit(&image("broken"));
        world.settle(Some("broken"), |world| assert!(world.available() >= 8));
        assert_eq!(world.sum("/spec/replicas"), 13, "seed {seed}");
        world.clock += 700;
        world.settle(Some("broken"), |_| {});
        assert_eq!(world.reason(), "ProgressDeadlineExceeded", "seed {seed}");
        world.edit(&image("1"));
        world.settle(Some("broken"), |world| assert!(world.available() >= 8));
        assert_eq!((world.reason(), world.revision()), ("NewReplicaSetAvailable", "3"), "seed {seed}");
        let history = "/metadata/annotations/deployment.kubernetes.io~1revision-history";
        assert_eq!(world.sets[0].pointer(history).and_then(Value::as_str), Some("1"), "seed {seed}");
    }
}

#[test]
fn recreate_never_has_pods_of_two_templates() {
    for seed in 0..4 {
        let mut world = World::new(json!({"strategy": {"type": "Recreate"}}), seed);
        world.settle(None, |_| {});
        for tag in ["2", "3"] {
            world.edit(&image(tag));
            world.settle(None, |world| {
                let running = |set: &&Value| set["status"]["replicas"].as_i64() > Some(0);
                assert!(world.sets.iter().filter(running).count() <= 1, "seed {seed}");
            });
        }
        assert_eq!((world.available(), world.reason(), world.revision()), (10, "NewReplicaSetAvailable", "3"));
    }
}

#[test]
fn scaling_in_the_middle_of_a_rollout_keeps_the_shares_and_the_rollout_goes_on() {
    for seed in 0..4 {
        let mut world = World::new(rolling(3, 2), seed);
        world.settle(None, |_| {});
        world.edit(&image("2"));
        for _ in 0..6 {
            world.run();
            world.replica_sets_follow(None);
        }
        world.edit(&json!({"replicas": 30, "paused": true}));
        world.settle(None, |_| {});
        let is_single = world.sets.iter().filter(|set| set["spec"]["replicas"].as_i64() > Some(0)).count() == 1;
        assert_eq!(world.sum("/spec/replicas"), if is_single { 30 } else { 33 }, "seed {seed}");
        assert_eq!(world.reason(), "DeploymentPaused", "seed {seed}");
        world.edit(&json!({"paused": false}));
        world.settle(None, |_| {});
        assert_eq!((world.sum("/spec/replicas"), world.available()), (30, 30), "seed {seed}");
        assert_eq!((world.reason(), world.revision()), ("NewReplicaSetAvailable", "2"), "seed {seed}");
    }
}

#[test]
fn after_a_mishap_at_any_write_a_rollout_ends_as_it_should() {
    for mishap in [Mishap::Crash, Mishap::Refusal] {
        for strategy in [rolling(3, 2), json!({"strategy": {"type": "Recreate"}})] {
            let mut n_writes = 0;
            loop {
                let mut world = World::new(strategy.clone(), 5);
                world.mishap = Some((n_writes, mishap));
                for tag in ["1", "2", "1"] {
                    world.edit(&image(tag));
                    world.settle(None, |world| assert!(world.sum("/spec/replicas") <= 13, "after {n_writes} writes"));
                }
                let end = (world.sum("/spec/replicas"), world.available(), world.reason(), world.revision());
                assert_eq!(end, (10, 10, "NewReplicaSetAvailable", "3"), "after {n_writes} writes");
                assert_eq!(world.sets.len(), 2, "after {n_writes} writes");
                let told = world.events.iter().filter(|event| event.starts_with("Failed to create")).count();
                assert!(told <= usize::from(mishap == Mishap::Refusal), "{:?}", world.events);
                if world.mishap.is_some() {
                    break;
                }
                n_writes += 1;
            }
            assert!(n_writes > 10, "only {n_writes} writes");
        }
    }
}
