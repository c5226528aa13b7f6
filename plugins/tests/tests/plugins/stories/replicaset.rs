//! Successive runs of a ReplicaSet's key: it reaches the right number of Pods, whatever fails.
//!
//! Some writes are rejected, Pods become ready, fail and are deleted at random, and the user changes the size and the
//! labels of Pods.

use std::time::Duration;

use pintle_sdk::testing::{Cluster, Fault, Plugin, Run, seeds};
use pintle_sdk::{Action, Key, Kind};
use serde_json::{Value, json};

use super::objects::is_deleting;
use crate::replicaset::plugin;

const SET: Kind = Kind::new("apps", "v1", "ReplicaSet");
const POD: Kind = Kind::new("", "v1", "Pod");

struct Story {
    cluster: Cluster,
    plugin: Plugin<'static>,
    key: Key,
}

impl Story {
    fn new(seed: u64) -> Self {
        let pod = json!({"spec": {"nodeName": "node"}, "status": {"phase": "Pending"}});
        let mut cluster = Cluster::new(seed).defaults(&POD, pod);
        cluster.insert(json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet",
            "metadata": {"name": "web", "namespace": "default", "uid": "set"},
            "spec": {
                "replicas": 5, "minReadySeconds": 3, "selector": {"matchLabels": {"app": "web"}},
                "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": []}},
            },
            "status": {"replicas": 0},
        }));
        let plugin = plugin();
        let key = plugin.key(&SET, "default", "web");
        Self { cluster, plugin, key }
    }

    fn run(&mut self) -> Run {
        self.cluster.run(&self.plugin, &self.key)
    }

    fn resize(&mut self, replicas: u64) {
        self.cluster.edit(&SET, "default", "web", |set| set["spec"]["replicas"] = replicas.into());
    }

    fn settle(&mut self) {
        let keys = [(&self.plugin, &self.key)];
        let is_busy = |pod: &Value| pod["status"]["phase"] == "Pending" || is_deleting(pod);
        let mut others = |cluster: &mut Cluster| {
            live(cluster, false);
            cluster.list(&POD).any(is_busy)
        };
        while let Some(after) = self.cluster.settle(&keys, &mut others) {
            self.cluster.advance(after);
        }
    }

    fn set(&self) -> &Value {
        self.cluster.get(&SET, "default", "web").expect("nobody deletes it")
    }

    fn n_own(&self) -> usize {
        let is_own = |pod: &&Value| {
            let meta = &pod["metadata"];
            meta["labels"]["app"] == "web"
                && meta["ownerReferences"][0]["uid"] == "set"
                && !is_deleting(pod)
                && pod["status"]["phase"] != "Failed"
        };
        self.cluster.list(&POD).filter(is_own).count()
    }
}

/// Advances a second: Pods become ready, fail, lose their labels, or are deleted.
fn live(cluster: &mut Cluster, trouble: bool) {
    cluster.advance(Duration::from_secs(1));
    let now = cluster.now();
    let pods: Vec<Value> = cluster.list(&POD).cloned().collect();
    for pod in pods {
        let name = pod["metadata"]["name"].as_str().expect("Pods have names");
        let chance = cluster.random(if trouble { 12 } else { 4 });
        let mut edit = |change: &dyn Fn(&mut Value)| cluster.edit(&POD, "default", name, change);
        match chance {
            0 if is_deleting(&pod) => cluster.remove(&POD, "default", name),
            0..=2 if pod["status"]["phase"] == "Pending" => edit(&|pod| {
                let ready = json!({"type": "Ready", "status": "True", "lastTransitionTime": now});
                pod["status"] = json!({"phase": "Running", "conditions": [ready]});
            }),
            10 if trouble => edit(&|pod| pod["status"] = json!({"phase": "Failed"})),
            11 if trouble => edit(&|pod| pod["metadata"]["labels"]["app"] = "debug".into()),
            _ => {}
        }
    }
}

#[test]
fn the_number_comes_right_whatever_goes_wrong() {
    for seed in seeds(0..20) {
        let mut story = Story::new(seed);
        story.cluster.inject(Fault::reject(500, "InternalError", "etcd is away").one_in(5));
        for _ in 0..30 {
            if story.cluster.random(5) == 0 {
                let replicas = story.cluster.random(12);
                story.resize(replicas);
            }
            if story.cluster.random(6) == 0 {
                let name = format!("orphan-{}", story.cluster.version());
                let metadata = json!({"name": name, "namespace": "default", "labels": {"app": "web"}});
                story.cluster.insert(json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata}));
            }
            story.run();
            live(&mut story.cluster, true);
        }
        story.cluster.clear_faults();
        story.resize(7);
        story.settle();
        assert_eq!(story.n_own(), 7);
        assert_eq!(
            story.set()["status"],
            json!({
                "replicas": 7, "fullyLabeledReplicas": 7, "readyReplicas": 7, "availableReplicas": 7,
                "terminatingReplicas": 0, "observedGeneration": story.set()["metadata"]["generation"],
            }),
        );
        let strangers = story.cluster.list(&POD).filter(|pod| pod["metadata"]["labels"]["app"] == "debug");
        let owned = strangers
            .filter(|pod| pod["status"]["phase"] != "Failed" && pod["metadata"]["ownerReferences"][0].is_object());
        assert_eq!(owned.count(), 0, "strangers are released");
        let is_expected = |rejected: &String| rejected == "InternalError";
        let mut rejected = story.cluster.writes().iter().filter_map(|write| write.rejected.as_ref());
        assert!(rejected.all(is_expected), "{:#?}", story.cluster.writes());
    }
}

#[test]
fn a_quota_is_reported_until_it_is_raised() {
    let mut story = Story::new(1);
    story.cluster.inject(Fault::reject(403, "Forbidden", "exceeded quota").verb("create").kind(&POD).from_objects(2));
    for _ in 0..20 {
        story.run();
        live(&mut story.cluster, false);
    }
    assert_eq!(story.cluster.list(&POD).count(), 2);
    let condition = story.set()["status"]["conditions"][0].clone();
    assert_eq!((&condition["reason"], &condition["message"]), (&json!("FailedCreate"), &json!("exceeded quota")));
    let version = story.cluster.version();
    story.run();
    assert_eq!(story.set()["status"]["conditions"][0], condition);
    assert_eq!(story.cluster.version(), version, "nothing is written for the same refusal");
    story.cluster.clear_faults();
    story.settle();
    assert_eq!((story.n_own(), &story.set()["status"]["conditions"]), (5, &Value::Null));
}

/// The bytes and the number of Pods that an outcome creates.
fn created(run: &Run) -> (usize, usize) {
    let steps = run.result.iter().flat_map(|outcome| &outcome.steps);
    let sizes = steps.flat_map(|step| &step.mutations).filter_map(|mutation| match &mutation.action {
        Action::Create { object, .. } => Some(object.len()),
        _ => None,
    });
    sizes.fold((0, 0), |(bytes, n), size| (bytes + size, n + 1))
}

#[test]
fn large_templates_get_all_their_pods_in_runs_of_bounded_outcomes() {
    // A run creates as many Pods as fit, and at most 500.
    for (replicas, annotation_bytes, n_runs) in [(500, 20_000, 3), (12, 1_000_000, 3), (501, 10, 2)] {
        let mut story = Story::new(1);
        story.cluster.edit(&SET, "default", "web", |set| {
            set["spec"]["template"]["metadata"]["annotations"] = json!({"a": "x".repeat(annotation_bytes)});
        });
        story.resize(replicas);
        let mut runs = Vec::new();
        while story.n_own() < usize::try_from(replicas).expect("it is small") {
            let run = story.run();
            let (bytes, n) = created(&run);
            assert!(n > 0 && bytes <= 4 << 20, "{n} Pods of {bytes} bytes");
            runs.push(n);
        }
        assert_eq!(runs.len(), n_runs, "{runs:?}");
        story.settle();
        assert_eq!(story.set()["status"]["replicas"], replicas);
    }
}
