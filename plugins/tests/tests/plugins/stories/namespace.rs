//! A whole deletion: successive runs, each on the results of the previous one, until the namespace is deleted.

use std::collections::BTreeMap;
use std::time::Duration;

use pintle_sdk::testing::{Cluster, Fault, Plugin, Write};
use pintle_sdk::time::Timestamp;
use pintle_sdk::{Key, Kind};
use serde_json::{Value, json};

use super::objects::{is_deleting, name_of};
use crate::namespace::plugin;

const SERVICE: Kind = Kind::new("", "v1", "Service");
const NAMESPACE: Kind = Kind::new("", "v1", "Namespace");
const POD: Kind = Kind::new("", "v1", "Pod");
const KINDS: [Kind; 3] = [POD, Kind::new("", "v1", "ConfigMap"), SERVICE];

struct Story {
    cluster: Cluster,
    plugin: Plugin<'static>,
    key: Key,
    /// The namespace as it last was.
    namespace: Value,
    deleted_at: Timestamp,
    /// Duration of an object's finalizers or containers, by name.
    takes: BTreeMap<String, Duration>,
    /// Their end, by name.
    ends: BTreeMap<String, Timestamp>,
}

/// An object, and the seconds until its removal.
type Object = (Value, u64);

impl Story {
    fn new(objects: Vec<Object>) -> Self {
        Self::with_further_kinds(objects, 0)
    }

    /// As if the API server had `n_further` more kinds, without objects.
    fn with_further_kinds(objects: Vec<Object>, n_further: u32) -> Self {
        let resource = |kind: &str, plural: &str| {
            json!({"kind": kind, "plural": plural, "namespaced": true, "preferred": true,
                "verbs": ["list", "delete", "deletecollection"]})
        };
        let mut resources = vec![
            resource("v1/ConfigMap", "configmaps"),
            resource("v1/Pod", "pods"),
            resource("v1/Service", "services"),
        ];
        resources.extend((0..n_further).map(|i| resource(&format!("x/v1/Kind{i}"), &format!("kind{i}s"))));
        let resources = serde_json::from_value(resources.into()).expect("these are resources");
        let mut cluster = Cluster::new(1).resources(resources);
        let deleted_at = cluster.now();
        cluster.insert(json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": "team", "deletionTimestamp": deleted_at}, "status": {"phase": "Terminating"},
        }));
        cluster.advance(Duration::from_secs(5));
        let mut takes = BTreeMap::new();
        for (object, seconds) in objects {
            takes.insert(name_of(&object), Duration::from_secs(seconds));
            cluster.insert(object);
        }
        let plugin = plugin();
        let key = plugin.key(&NAMESPACE, "", "team");
        Self { cluster, plugin, key, namespace: Value::Null, deleted_at, takes, ends: BTreeMap::new() }
    }

    /// Runs once, and returns the delay of the next run.
    fn run(&mut self) -> Option<Duration> {
        let run = self.cluster.run(&self.plugin, &self.key);
        let unexpected = |failure: &&pintle_sdk::MutationFailure| failure.message != "not now";
        assert_eq!(run.failures.iter().find(unexpected), None);
        assert!(run.result.is_ok(), "{run:?}");
        match self.cluster.get(&NAMESPACE, "", "team") {
            Some(namespace) => self.namespace = namespace.clone(),
            None => assert_eq!(self.left(), [""; 0], "nothing is left behind"),
        }
        self.end();
        run.requeue_after()
    }

    /// Ends finalizers and containers of objects that are being deleted when their time has passed.
    fn end(&mut self) {
        let now = self.cluster.now();
        for kind in KINDS {
            let names: Vec<String> =
                self.cluster.list(&kind).filter(|object| is_deleting(object)).map(name_of).collect();
            for name in names {
                let end = *self.ends.entry(name.clone()).or_insert(now.plus(self.takes[&name]));
                if end > now {
                    continue;
                }
                if kind == POD {
                    self.cluster.remove(&kind, "team", &name);
                } else {
                    self.cluster.edit(&kind, "team", &name, |object| object["metadata"]["finalizers"] = json!([]));
                }
            }
        }
    }

    fn advance(&mut self, after: Duration) {
        self.cluster.advance(Duration::from_secs(after.as_secs()));
        self.end();
    }

    fn seconds(&self) -> u64 {
        self.cluster.now().since(self.deleted_at).as_secs()
    }

    /// Runs until the namespace is deleted. Returns the number of runs.
    fn settle(&mut self) -> u32 {
        for n_runs in 1..200 {
            let after = self.run();
            if self.cluster.get(&NAMESPACE, "", "team").is_none() {
                return n_runs;
            }
            self.advance(after.expect("it waits for something"));
        }
        panic!("the namespace stays: {:?} {:#}", self.log(), self.namespace);
    }

    /// Names of the remaining objects.
    fn left(&self) -> Vec<String> {
        KINDS.iter().flat_map(|kind| self.cluster.list(kind).map(name_of)).collect()
    }

    /// All writes, in order.
    fn log(&self) -> Vec<String> {
        let line = |write: &Write| match (write.verb, write.subresource.as_deref()) {
            ("delete-collection", None) => format!("delete {}", write.kind.name),
            ("update", Some(subresource)) => subresource.to_owned(),
            _ => panic!("{write}"),
        };
        self.cluster.writes().iter().map(line).collect()
    }

    /// The conditions that are true.
    fn trouble(&self) -> Vec<&str> {
        let conditions = self.namespace["status"]["conditions"].as_array().expect("it has conditions");
        let is_true = |condition: &&Value| condition["status"] == "True";
        conditions.iter().filter(is_true).filter_map(|condition| condition["type"].as_str()).collect()
    }
}

/// An object whose finalizers take this many seconds.
fn object(kind: &str, name: &str, takes: u64, finalizers: &[&str]) -> Object {
    let metadata = json!({"name": name, "namespace": "team", "finalizers": finalizers});
    (json!({"apiVersion": "v1", "kind": kind, "metadata": metadata}), takes)
}

/// A Pod whose containers take this many seconds to shut down, of the 30 seconds of grace.
fn pod(name: &str, takes: u64) -> Object {
    let (mut pod, takes) = object("Pod", name, takes, &[]);
    pod["spec"] = json!({"nodeName": "node", "terminationGracePeriodSeconds": 30});
    (pod, takes)
}

#[test]
fn an_empty_namespace_goes_in_two_runs() {
    let mut story = Story::new(vec![]);
    assert_eq!(story.settle(), 2);
    assert_eq!(story.log(), ["status", "finalize"]);
    assert!(story.cluster.state(&story.plugin).is_empty());
}

#[test]
fn pods_go_first_then_the_rest_then_the_namespace() {
    let mut story = Story::new(vec![
        object("ConfigMap", "a", 0, &[]),
        pod("p", 12),
        pod("q", 0),
        object("Service", "s", 0, &[]),
        object("ConfigMap", "b", 0, &[]),
    ]);
    story.settle();
    assert_eq!(story.log(), ["delete Pod", "status", "delete ConfigMap", "delete Service", "finalize"]);
    assert_eq!(story.seconds(), 5 + 16, "half of the Pods' grace period and a second");
    assert_eq!(story.trouble(), [""; 0]);
    assert!(story.cluster.state(&story.plugin).is_empty());
}

#[test]
fn finalizers_are_waited_for_and_named_meanwhile() {
    let mut story = Story::new(vec![object("ConfigMap", "a", 20, &["x/y"]), object("Service", "s", 0, &[])]);
    story.run();
    story.run();
    assert_eq!(story.trouble(), ["NamespaceContentRemaining", "NamespaceFinalizersRemaining"]);
    story.settle();
    assert_eq!(story.trouble(), [""; 0], "the last status reports no trouble");
    assert_eq!(story.log().iter().filter(|line| line.starts_with("delete")).count(), 2, "{:?}", story.log());
}

#[test]
fn a_pod_that_stays_beyond_its_time_is_reported_and_waited_for() {
    let mut story = Story::new(vec![pod("p", 90), object("Service", "s", 0, &[])]);
    while story.seconds() < 31 {
        let after = story.run().expect("it waits for the Pod");
        story.advance(after);
    }
    story.run();
    assert_eq!(story.trouble(), ["NamespaceDeletionContentFailure"]);
    let n_runs = story.settle();
    assert!(n_runs < 40, "the delay grows: {n_runs} runs");
    let log = story.log();
    assert!(!log[..log.len() - 3].contains(&"delete Service".to_owned()), "{log:?}");
}

/// The object that blocks the Pods may be in the namespace, such as the parameter of an admission policy.
#[test]
fn all_else_goes_although_pods_cannot_be_deleted() {
    let mut story =
        Story::new(vec![pod("p", 0), object("ConfigMap", "a", 20, &["x/y"]), object("Service", "s", 0, &[])]);
    story.cluster.inject(Fault::reject(500, "InternalError", "not now").kind(&POD));
    let mut waited = Duration::ZERO;
    for _ in 0..40 {
        waited = waited.max(story.run().expect("it tries again"));
    }
    assert_eq!(story.left(), ["p", "a"], "and the finalizer is waited for");
    let log = story.log();
    assert_eq!(log[..3], ["delete Pod", "delete ConfigMap", "delete Service"]);
    assert!(log[3..].iter().all(|line| line == "delete Pod" || line == "status"), "{log:?}");
    let trouble = ["NamespaceDeletionContentFailure", "NamespaceContentRemaining", "NamespaceFinalizersRemaining"];
    assert_eq!(story.trouble(), trouble);
    assert!(waited > Duration::from_secs(1), "the delay grows: {waited:?}");
    story.cluster.clear_faults();
    story.settle();
    assert_eq!(story.trouble(), [""; 0]);
}

#[test]
fn a_cluster_may_have_thousands_of_kinds() {
    // Kinds are listed by name: Services, whose controller is here a ConfigMap, come last.
    let objects = vec![object("ConfigMap", "a", 20, &["x/y"]), object("Service", "s", 40, &["x/z"]), pod("p", 0)];
    let mut story = Story::with_further_kinds(objects, 1600);
    for _ in 0..30 {
        story.run();
    }
    assert_eq!(story.left(), ["a", "s"], "no part of the kinds waits for another one");
    assert!(story.cluster.list(&SERVICE).all(is_deleting));
    assert_eq!(story.trouble(), ["NamespaceContentRemaining", "NamespaceFinalizersRemaining"]);
    let conditions = story.namespace["status"]["conditions"].to_string();
    assert!(conditions.contains("configmaps. has 1 resource instances, services. has 1"), "{conditions}");
    story.settle();
    assert_eq!(story.trouble(), [""; 0]);
    assert!(story.cluster.state(&story.plugin).is_empty());
}

#[test]
fn a_refusal_is_reported_and_overcome() {
    for kind in [POD, SERVICE] {
        let mut story = Story::new(vec![pod("p", 0), object("Service", "s", 0, &[])]);
        story.cluster.inject(Fault::reject(500, "InternalError", "not now").kind(&kind).times(3));
        while story.namespace["status"].get("conditions").is_none() {
            story.run();
        }
        assert_eq!(story.trouble(), ["NamespaceDeletionContentFailure"], "{kind}");
        story.settle();
        assert_eq!(story.trouble(), [""; 0], "{kind}");
    }
}
