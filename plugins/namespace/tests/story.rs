//! A whole deletion: run after run, each on what the one before has written, until the namespace is let go.

#![allow(clippy::unwrap_used, reason = "a test; its helpers are not known as such")]

use std::collections::BTreeMap;
use std::time::Duration;

use pintle_sdk::testing::Fixture;
use pintle_sdk::{Action, Kind};
use plugin_namespace::reconcile;
use serde_json::{Value, json};

const MANIFEST: &str = include_str!("../manifest.yaml");
const DELETED_AT: i64 = 100;

struct World {
    namespace: Value,
    objects: Vec<Value>,
    state: BTreeMap<String, String>,
    /// Second of the clock; runs take no time.
    now: i64,
    /// Object -> when its finalizers or its Pods' containers are done.
    ends: BTreeMap<String, i64>,
    /// What was asked for, in order.
    log: Vec<String>,
    /// Deletions of this kind are refused so many times.
    refusals: (String, u32),
    failures: Vec<Value>,
    finalized: bool,
    /// Kinds without objects.
    further_kinds: u32,
}

impl World {
    fn new(objects: Vec<Value>) -> Self {
        Self {
            namespace: json!({
                "apiVersion": "v1", "kind": "Namespace",
                "metadata": {"name": "team", "uid": "n", "resourceVersion": "1", "deletionTimestamp": time(DELETED_AT)},
                "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Terminating"},
            }),
            objects,
            state: BTreeMap::new(),
            now: DELETED_AT + 5,
            ends: BTreeMap::new(),
            log: Vec::new(),
            refusals: (String::new(), 0),
            failures: Vec::new(),
            finalized: false,
            further_kinds: 0,
        }
    }

    /// Runs once, and says when to run again.
    fn run(&mut self) -> Option<Duration> {
        let mut objects = vec![self.namespace.clone()];
        objects.extend(self.objects.iter().cloned());
        let resource = |kind: &str, plural: &str| {
            json!({"kind": kind, "plural": plural, "namespaced": true, "preferred": true,
                "verbs": ["list", "delete", "deletecollection"]})
        };
        let mut resources = vec![
            resource("v1/ConfigMap", "configmaps"),
            resource("v1/Pod", "pods"),
            resource("v1/Service", "services"),
        ];
        resources.extend((0..self.further_kinds).map(|i| resource(&format!("x/v1/Kind{i}"), &format!("kind{i}s"))));
        let input = json!({
            "key": {"kind": "v1/Namespace", "name": "team"},
            "now": time(self.now), "objects": objects, "state": self.state, "failures": self.failures,
            "resources": resources,
        });
        let fixture = Fixture::parse(MANIFEST, &input.to_string()).unwrap();
        let outcome = fixture.outcome(reconcile).0.unwrap();
        self.failures.clear();
        for (name, value) in outcome.state {
            match value {
                Some(value) => drop(self.state.insert(name, value)),
                None => drop(self.state.remove(&name)),
            }
        }
        for action in outcome.steps.into_iter().flat_map(|step| step.mutations).map(|mutation| mutation.action) {
            self.apply(action);
        }
        outcome.requeue_after
    }

    fn apply(&mut self, action: Action) {
        match action {
            Action::DeleteCollection { kind, .. } => self.delete(&kind),
            Action::Update { object, subresource, .. } => {
                let object: Value = serde_json::from_str(&object).unwrap();
                assert_eq!(object["metadata"]["resourceVersion"], self.namespace["metadata"]["resourceVersion"]);
                let part = if subresource.as_deref() == Some("finalize") { "spec" } else { "status" };
                self.log.push(part.into());
                self.namespace[part] = object[part].clone();
                let version: u32 = object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
                self.namespace["metadata"]["resourceVersion"] = json!((version + 1).to_string());
                if part == "spec" {
                    assert!(self.objects.is_empty(), "{:?} are left behind", self.objects);
                    self.finalized = true;
                }
            }
            other => panic!("{other:?}"),
        }
    }

    fn delete(&mut self, kind: &Kind) {
        self.log.push(format!("delete {}", kind.name));
        if self.refusals.0 == kind.name && self.refusals.1 > 0 {
            self.refusals.1 -= 1;
            self.failures.push(json!({
                "verb": "delete-collection", "kind": kind.to_string(), "object": {"namespace": "team"},
                "code": 500, "reason": "InternalError", "message": "not now",
            }));
            return;
        }
        let now = self.now;
        let ends = &mut self.ends;
        for object in self.objects.iter_mut().filter(|object| object["kind"] == *kind.name) {
            let takes = object["takes"].as_i64().unwrap_or(0);
            ends.entry(object["metadata"]["name"].as_str().unwrap().to_owned()).or_insert(now + takes);
            object["metadata"]["deletionTimestamp"] = json!(time(now));
            if kind.name == "Pod" {
                object["metadata"]["deletionGracePeriodSeconds"] = object["grace"].clone();
            }
        }
        self.end();
    }

    /// Takes away what is done.
    fn end(&mut self) {
        let (now, ends) = (self.now, &self.ends);
        let name = |object: &Value| object["metadata"]["name"].as_str().unwrap().to_owned();
        self.objects.retain(|object| ends.get(&name(object)).is_none_or(|end| *end > now));
    }

    /// Runs until the namespace is let go. Returns how many runs that took.
    fn settle(&mut self) -> u32 {
        for runs in 1..200 {
            let after = self.run();
            if self.finalized {
                return runs;
            }
            let after = after.expect("it waits for something");
            self.now += i64::try_from(after.as_secs()).unwrap();
            self.end();
        }
        panic!("it is never let go: {:?} {:#}", self.log, self.namespace);
    }

    /// The conditions that are true.
    fn trouble(&self) -> Vec<&str> {
        let conditions = self.namespace["status"]["conditions"].as_array().unwrap();
        conditions.iter().filter(|c| c["status"] == "True").map(|c| c["type"].as_str().unwrap()).collect()
    }
}

fn time(second: i64) -> String {
    format!("2026-01-01T{:02}:{:02}:{:02}Z", second / 3600, second / 60 % 60, second % 60)
}

/// An object that takes so long to go.
fn object(kind: &str, name: &str, takes: i64, finalizers: &[&str]) -> Value {
    json!({"apiVersion": "v1", "kind": kind, "takes": takes,
        "metadata": {"name": name, "namespace": "team", "finalizers": finalizers}})
}

fn pod(name: &str, takes: i64) -> Value {
    let mut pod = object("Pod", name, takes, &[]);
    pod["grace"] = json!(30);
    pod
}

#[test]
fn an_empty_namespace_goes_in_two_runs() {
    let mut world = World::new(vec![]);
    assert_eq!(world.settle(), 2);
    assert_eq!(world.log, ["status", "spec"]);
    assert!(world.state.is_empty(), "{:?}", world.state);
}

#[test]
fn pods_go_first_then_the_rest_then_the_namespace() {
    let mut world = World::new(vec![
        object("ConfigMap", "a", 0, &[]),
        pod("p", 12),
        pod("q", 0),
        object("Service", "s", 0, &[]),
        object("ConfigMap", "b", 0, &[]),
    ]);
    world.settle();
    assert_eq!(world.log, ["delete Pod", "status", "delete ConfigMap", "delete Service", "spec"]);
    assert_eq!(world.now, DELETED_AT + 5 + 16, "half of the Pods' grace period and a second");
    assert_eq!(world.trouble(), [""; 0]);
    assert!(world.state.is_empty(), "{:?}", world.state);
}

#[test]
fn finalizers_are_waited_for_and_named_meanwhile() {
    let mut world = World::new(vec![object("ConfigMap", "a", 20, &["x/y"]), object("Service", "s", 0, &[])]);
    world.run();
    world.run();
    assert_eq!(world.trouble(), ["NamespaceContentRemaining", "NamespaceFinalizersRemaining"]);
    world.settle();
    assert_eq!(world.trouble(), [""; 0], "all is said to be well before the end");
    assert_eq!(world.log.iter().filter(|line| line.starts_with("delete")).count(), 2, "{:?}", world.log);
}

#[test]
fn a_pod_that_stays_beyond_its_time_is_reported_and_waited_for() {
    let mut world = World::new(vec![pod("p", 90), object("Service", "s", 0, &[])]);
    while world.now < DELETED_AT + 31 {
        let after = world.run().unwrap();
        world.now += i64::try_from(after.as_secs()).unwrap();
    }
    world.run();
    assert_eq!(world.trouble(), ["NamespaceDeletionContentFailure"]);
    let runs = world.settle();
    assert!(runs < 40, "the delay grows: {runs} runs");
    assert!(!world.log[..world.log.len() - 3].contains(&"delete Service".to_owned()), "{:?}", world.log);
}

#[test]
fn pods_that_cannot_be_deleted_hold_up_nothing_but_the_end() {
    let mut world =
        World::new(vec![pod("p", 0), object("ConfigMap", "a", 20, &["x/y"]), object("Service", "s", 0, &[])]);
    world.refusals = ("Pod".into(), u32::MAX);
    let mut waited = Duration::ZERO;
    for _ in 0..20 {
        waited = world.run().unwrap();
    }
    assert_eq!(world.objects.iter().map(|o| &o["metadata"]["name"]).collect::<Vec<_>>(), ["p", "a"]);
    let trouble = ["NamespaceDeletionContentFailure", "NamespaceContentRemaining", "NamespaceFinalizersRemaining"];
    assert_eq!(world.trouble(), trouble);
    assert!(waited > Duration::from_secs(1), "the delay grows: {waited:?}");
    world.refusals.1 = 0;
    world.settle();
    assert_eq!(world.trouble(), [""; 0]);
}

#[test]
fn a_cluster_with_a_thousand_kinds_is_no_trouble() {
    let mut world = World::new(vec![object("ConfigMap", "a", 0, &[]), object("Service", "s", 0, &[])]);
    world.further_kinds = 1000;
    world.settle();
    assert_eq!(world.trouble(), [""; 0]);
}

#[test]
fn a_refusal_is_reported_and_overcome() {
    for kind in ["Pod", "Service"] {
        let mut world = World::new(vec![pod("p", 0), object("Service", "s", 0, &[])]);
        world.refusals = (kind.into(), 3);
        while world.namespace["status"].get("conditions").is_none() {
            world.run();
        }
        assert_eq!(world.trouble(), ["NamespaceDeletionContentFailure"], "{kind}");
        world.settle();
        assert_eq!(world.trouble(), [""; 0], "{kind}");
    }
}
