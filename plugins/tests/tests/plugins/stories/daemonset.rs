//! Successive runs of a DaemonSet's key: upstream's tests of updates, and limits that always hold.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use pintle_sdk::testing::{Cluster, Fault, Plugin, seeds};
use pintle_sdk::{Key, Kind};
use serde_json::{Value, json};

use super::objects::{is_deleting, name_of};
use crate::daemonset::plugin;

const SET: Kind = Kind::new("apps", "v1", "DaemonSet");
const REVISION: Kind = Kind::new("apps", "v1", "ControllerRevision");
const POD: Kind = Kind::new("", "v1", "Pod");
const NODE: Kind = Kind::new("", "v1", "Node");

const HASH: &str = "controller-revision-hash";

struct Story {
    cluster: Cluster,
    plugin: Plugin<'static>,
    key: Key,
}

fn has_ended(pod: &Value) -> bool {
    pod["status"]["phase"] == "Failed" || pod["status"]["phase"] == "Succeeded"
}

fn node_of(pod: &Value) -> String {
    let required = &pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    let pinned = &required["nodeSelectorTerms"][0]["matchFields"][0]["values"][0];
    pinned.as_str().expect("Pods are pinned").to_owned()
}

fn is_ready(pod: &Value) -> bool {
    pod["status"]["conditions"][0]["status"] == "True" && !is_deleting(pod) && !has_ended(pod)
}

fn unavailable(number: Value) -> Value {
    json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": number}})
}

fn surge(number: Value) -> Value {
    json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": number}})
}

impl Story {
    fn new(seed: u64, n_nodes: usize, strategy: Value) -> Self {
        let mut cluster = Cluster::new(seed).defaults(&POD, json!({"status": {"phase": "Pending"}}));
        for i in 0..n_nodes {
            cluster.insert(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": format!("n{i:02}")}}));
        }
        cluster.insert(json!({
            "apiVersion": "apps/v1", "kind": "DaemonSet",
            "metadata": {"name": "agent", "namespace": "default", "uid": "set"},
            "spec": {
                "selector": {"matchLabels": {"app": "agent"}}, "updateStrategy": strategy, "revisionHistoryLimit": 2,
                "template": {"metadata": {"labels": {"app": "agent"}}, "spec": {"containers": [{"image": "image:0"}]}},
            },
            "status": {},
        }));
        let plugin = plugin();
        let key = plugin.key(&SET, "default", "agent");
        Self { cluster, plugin, key }
    }

    /// With a Pod that is ready on each Node.
    fn running(n_nodes: usize, strategy: Value) -> Self {
        let mut story = Self::new(1, n_nodes, strategy);
        assert_eq!(story.run(), (n_nodes, 0));
        story.make_ready(|_| true);
        story
    }

    /// Number of Pods that a run creates and deletes. Deleted ones are then removed.
    fn run(&mut self) -> (usize, usize) {
        let before = self.cluster.writes().len();
        let run = self.cluster.run(&self.plugin, &self.key);
        assert!(run.result.is_ok(), "{run:?}");
        let writes = &self.cluster.writes()[before..];
        let count = |verb: &str| writes.iter().filter(|write| write.verb == verb && write.kind == POD).count();
        let counts = (count("create"), count("delete"));
        self.finish_deletions();
        counts
    }

    /// Number of Pods that runs create and delete, until one writes no Pod.
    fn run_all(&mut self) -> (usize, usize) {
        let mut sum = (0, 0);
        loop {
            let (created, deleted) = self.run();
            if (created, deleted) == (0, 0) {
                return sum;
            }
            sum = (sum.0 + created, sum.1 + deleted);
        }
    }

    fn finish_deletions(&mut self) {
        let gone: Vec<String> = self.cluster.list(&POD).filter(|pod| is_deleting(pod)).map(name_of).collect();
        for pod in gone {
            self.cluster.remove(&POD, "default", &pod);
        }
    }

    fn edit(&mut self, change: impl FnOnce(&mut Value)) {
        self.cluster.edit(&SET, "default", "agent", |set| change(&mut set["spec"]));
    }

    fn set_image(&mut self, image: &str) {
        self.edit(|spec| spec["template"]["spec"]["containers"][0]["image"] = json!(image));
    }

    fn report(&mut self, pod: &str, phase: &str, ready: bool) {
        let now = self.cluster.now();
        self.cluster.edit(&POD, "default", pod, |pod| {
            let status = if ready { "True" } else { "False" };
            let ready = json!({"type": "Ready", "status": status, "lastTransitionTime": now});
            pod["status"] = json!({"phase": phase, "conditions": [ready]});
        });
    }

    fn make_ready(&mut self, which: impl Fn(&Value) -> bool) {
        let pods: Vec<String> = self
            .cluster
            .list(&POD)
            .filter(|pod| !is_ready(pod) && !is_deleting(pod) && which(pod))
            .map(name_of)
            .collect();
        for pod in pods {
            self.report(&pod, "Running", true);
        }
    }

    /// Hash of the revision with the highest number.
    fn hash(&self) -> Value {
        let newest = self.cluster.list(&REVISION).max_by_key(|revision| revision["revision"].as_i64());
        newest.map_or(Value::Null, |revision| revision["metadata"]["labels"][HASH].clone())
    }

    fn nodes_with(&self, which: impl Fn(&Value) -> bool) -> BTreeSet<String> {
        self.cluster.list(&POD).filter(|pod| which(pod)).map(node_of).collect()
    }

    fn status(&self, field: &str) -> u64 {
        let set = self.cluster.get(&SET, "default", "agent").expect("nobody deletes it");
        set["status"][field].as_u64().unwrap_or(0)
    }
}

/// As `TestDaemonSetUpdatesPods`.
#[test]
fn an_update_takes_as_many_steps_as_the_limit_wants() {
    let mut story = Story::running(5, unavailable(json!(2)));
    story.set_image("image:1");
    for n in [2, 2, 1] {
        assert_eq!(story.run(), (0, n));
        assert_eq!(story.run(), (n, 0));
        assert_eq!(story.run(), (0, 0), "the new ones are not ready");
        story.make_ready(|_| true);
    }
    assert_eq!(story.run(), (0, 0));
    assert_eq!(story.status("updatedNumberScheduled"), 5);
}

/// As `TestDaemonSetUpdatesPodsWithMaxSurge`.
#[test]
fn an_update_with_a_surge_takes_as_many_steps_as_the_surge_wants() {
    let mut story = Story::running(5, surge(json!(2)));
    story.set_image("image:1");
    for (created, deleted) in [(2, 0), (2, 2), (1, 2), (0, 1)] {
        assert_eq!(story.run_all(), (created, deleted));
        story.make_ready(|_| true);
    }
    assert_eq!(story.run_all(), (0, 0));
    assert_eq!(story.status("numberAvailable"), 5);
}

/// As `TestDaemonSetUpdatesPodsNotMatchTainstWithMaxSurge`.
#[test]
fn an_update_with_a_surge_leaves_a_node_that_no_longer_fits() {
    let mut story = Story::new(1, 5, surge(json!(1)));
    let tolerations = json!([{"key": "control-plane", "operator": "Exists"}]);
    story.edit(|spec| spec["template"]["spec"]["tolerations"] = tolerations);
    story.cluster.edit(&NODE, "", "n00", |node| {
        node["spec"]["taints"] = json!([{"key": "control-plane", "effect": "NoSchedule"}]);
    });
    assert_eq!(story.run(), (5, 0));
    story.make_ready(|_| true);
    story.edit(|spec| spec["template"]["spec"]["tolerations"] = Value::Null);
    for (created, deleted) in [(1, 1), (1, 1), (1, 1), (1, 1), (0, 1)] {
        assert_eq!(story.run_all(), (created, deleted));
        story.make_ready(|_| true);
    }
    assert_eq!(story.run_all(), (0, 0));
    assert_eq!((story.status("desiredNumberScheduled"), story.status("numberMisscheduled")), (4, 0));
}

/// As `TestDaemonSetUpdatesWhenNewPodIsNotReady` and `TestDaemonSetUpdatesSomeOldPodsNotReady`.
#[test]
fn pods_that_are_not_ready_are_updated_again_and_the_others_stay() {
    let mut story = Story::running(5, unavailable(json!(2)));
    for image in ["image:1", "image:2"] {
        story.set_image(image);
        assert_eq!(story.run(), (0, 2));
        assert_eq!(story.run(), (2, 0));
        assert_eq!(story.run(), (0, 0));
    }
    assert_eq!(story.nodes_with(is_ready).len(), 3);
}

/// As `TestDaemonSetUpdatesSaveOldHealthyPods`.
#[test]
fn pods_that_are_ready_stay_while_too_many_others_are_not() {
    let mut story = Story::running(20, unavailable(json!(10)));
    story.set_image("image:1");
    assert_eq!(story.run_all(), (10, 10));
    let kept: BTreeSet<String> = story.cluster.list(&POD).filter(|pod| is_ready(pod)).map(name_of).collect();
    for i in 0..10 {
        let limit = story.cluster.random(10);
        story.edit(|spec| spec["updateStrategy"] = unavailable(json!(limit)));
        story.set_image(&format!("image:3-{i}"));
        assert_eq!(story.run_all(), (10, 10), "at most {limit} unavailable");
        let ready: BTreeSet<String> = story.cluster.list(&POD).filter(|pod| is_ready(pod)).map(name_of).collect();
        assert_eq!(ready, kept);
    }
    story.edit(|spec| spec["updateStrategy"] = unavailable(json!(11)));
    story.set_image("image:4");
    assert_eq!(story.run_all(), (11, 11));
    assert_eq!(story.nodes_with(is_ready).len(), 9);
}

/// As `TestDaemonSetUpdatesAllOldNotReadyPodsAndNewNotReadyPods`.
#[test]
fn old_pods_that_are_not_ready_go_although_the_new_ones_are_not() {
    let mut story = Story::running(100, unavailable(json!(10)));
    let old = story.hash();
    story.set_image("image:1");
    for _ in 0..10 {
        assert_eq!(story.run(), (0, 10));
        assert_eq!(story.run(), (10, 0));
        story.make_ready(|_| true);
    }
    assert_eq!(story.run(), (0, 0));
    let names: Vec<String> = story.cluster.list(&POD).map(name_of).collect();
    for (i, pod) in names.iter().enumerate() {
        if i >= 10 {
            story.report(pod, "Running", false);
        }
        if i < 12 {
            story.cluster.edit(&POD, "default", pod, |pod| pod["metadata"]["labels"][HASH] = old.clone());
        }
    }
    assert_eq!(story.run(), (0, 2));
    assert_eq!(story.run(), (2, 0));
    assert_eq!(story.run(), (0, 0));
    assert!(names[10..12].iter().all(|pod| story.cluster.get(&POD, "default", pod).is_none()));
}

/// As `TestDaemonSetUpdatesAllOldPodsNotReady` and `TestDaemonSetUpdatesNoTemplateChanged`.
#[test]
fn all_old_pods_that_are_not_ready_go_at_once() {
    let mut story = Story::new(1, 5, json!({"type": "OnDelete"}));
    assert_eq!(story.run_all(), (5, 0));
    story.edit(|spec| spec["updateStrategy"] = unavailable(json!(3)));
    assert_eq!(story.run_all(), (0, 0), "the template is the same");
    story.set_image("image:1");
    assert_eq!(story.run(), (0, 5));
    assert_eq!(story.run(), (5, 0));
    assert_eq!(story.run(), (0, 0));
}

/// As `TestDaemonSetUpdatesAllOldPodsNotReadyMaxSurge`.
#[test]
fn a_surge_replaces_pods_that_are_not_ready_beyond_its_limit_and_waits_for_min_ready() {
    let mut story = Story::new(1, 5, surge(json!(3)));
    assert_eq!(story.run(), (5, 0));
    story.set_image("image:1");
    assert_eq!(story.run(), (5, 0), "no old Pod is ready");
    assert_eq!(story.run(), (0, 5));
    story.make_ready(|_| true);
    story.cluster.advance(Duration::from_secs(100));
    story.edit(|spec| spec["minReadySeconds"] = json!(15));
    story.set_image("image:2");
    assert_eq!(story.run(), (3, 0));
    let hash = story.hash();
    let is_new = |pod: &Value| pod["metadata"]["labels"][HASH] == hash;
    let surged = story.nodes_with(is_new);
    let ready: Vec<String> = surged.iter().take(2).cloned().collect();
    story.make_ready(|pod| is_new(pod) && ready.contains(&node_of(pod)));
    let sick = story.cluster.list(&POD).find(|pod| !surged.contains(&node_of(pod))).map(name_of).expect("two are left");
    story.report(&sick, "Running", false);
    story.cluster.advance(Duration::from_secs(10));
    assert_eq!(story.run(), (1, 0), "the Node of the Pod that is not ready");
    story.cluster.advance(Duration::from_secs(10));
    assert_eq!(story.run_all(), (1, 3));
    story.make_ready(is_new);
    story.cluster.advance(Duration::from_secs(20));
    assert_eq!(story.run_all(), (0, 2));
    story.cluster.advance(Duration::from_secs(10));
    assert_eq!(story.run_all(), (0, 0));
}

/// As `TestSimpleDaemonSetPodCreateErrors` and the first row of `TestSimpleDaemonSetUpdatesStatusError`.
#[test]
fn a_quota_costs_few_requests_and_the_status_is_written() {
    let mut story = Story::new(1, 100, json!({"type": "OnDelete"}));
    story.cluster.inject(Fault::reject(403, "Forbidden", "quota").verb("create").kind(&POD).from_objects(10));
    let (created, deleted) = story.run();
    assert!((11..=20).contains(&created) && deleted == 0, "{created} requests");
    assert_eq!(story.cluster.list(&POD).count(), 10);
    assert_eq!(story.status("desiredNumberScheduled"), 0, "the revision is written first, so nothing is certain");
    story.run();
    assert_eq!((story.status("desiredNumberScheduled"), story.status("currentNumberScheduled")), (100, 10));
}

#[test]
fn a_large_template_gets_all_its_pods_in_runs_of_bounded_outcomes() {
    for (n_nodes, n_bytes, n_runs) in [(260, 10, 2), (12, 1_000_000, 3)] {
        let mut story = Story::new(1, n_nodes, json!({"type": "OnDelete"}));
        story.edit(|spec| spec["template"]["metadata"]["annotations"] = json!({"a": "x".repeat(n_bytes)}));
        let created: Vec<usize> = (0..n_runs).map(|_| story.run().0).collect();
        assert!(created.iter().all(|n| *n > 0 && *n <= 250) && created.iter().sum::<usize>() == n_nodes, "{created:?}");
        assert_eq!(story.run(), (0, 0));
    }
}

#[test]
fn a_run_deletes_a_bounded_number_of_pods() {
    let mut story = Story::new(1, 260, unavailable(json!(1)));
    assert_eq!(story.run_all(), (260, 0));
    story.set_image("image:1");
    assert_eq!(story.run(), (0, 250), "none is ready");
    // Missing ones come first.
    assert_eq!(story.run(), (250, 0));
    assert_eq!(story.run(), (0, 10));
    assert_eq!(story.run(), (10, 0));
    assert_eq!(story.run(), (0, 0));
}

/// For each Node, whether each of its Pods is ready.
fn by_node(story: &Story) -> BTreeMap<String, Vec<bool>> {
    let mut nodes: BTreeMap<String, Vec<bool>> = BTreeMap::new();
    for pod in story.cluster.list(&POD).filter(|pod| !is_deleting(pod) && !has_ended(pod)) {
        nodes.entry(node_of(pod)).or_default().push(is_ready(pod));
    }
    nodes
}

/// Whatever users, kubelets and the API server do between runs, no run leaves a Node with too many Pods, or deletes
/// more ready Pods than the limits allow; at the end each Node has one Pod of the last template.
#[test]
fn the_limits_hold_whatever_goes_wrong() {
    for seed in seeds(0..20) {
        let mut story = Story::new(seed, 1, json!({"type": "OnDelete"}));
        let n_nodes = 1 + story.cluster.random(6);
        for i in 1..n_nodes {
            story.cluster.insert(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": format!("n{i:02}")}}));
        }
        let number = 1 + story.cluster.random(3);
        let has_surge = story.cluster.random(2) == 0;
        let strategy = if has_surge { surge(json!(number)) } else { unavailable(json!(number)) };
        story.edit(|spec| spec["updateStrategy"] = strategy);
        story.cluster.inject(Fault::reject(500, "InternalError", "etcd is away").one_in(6));
        story.cluster.inject(Fault::crash().one_in(200));
        for round in 0..60 {
            let before = story.nodes_with(is_ready).len();
            let run = story.cluster.run(&story.plugin, &story.key);
            assert!(run.result.is_ok(), "{run:?}");
            let nodes = by_node(&story);
            assert!(nodes.values().all(|pods| pods.len() <= 1 + usize::from(has_surge)), "{nodes:?}");
            let after = nodes.values().filter(|pods| pods.contains(&true)).count();
            let allowed = if has_surge { n_nodes } else { n_nodes.saturating_sub(number) };
            let floor = before.min(usize::try_from(allowed).expect("it is small"));
            assert!(
                after >= floor,
                "round {round}: {before} Nodes were served, {after} are left, of {n_nodes} - {number}"
            );
            live(&mut story, round);
        }
        story.cluster.clear_faults();
        let mut n_rounds = 0;
        loop {
            // Longer than any backoff.
            story.cluster.advance(Duration::from_secs(1000));
            let wanted = story.run_all();
            story.make_ready(|pod| pod["status"]["phase"] == "Pending");
            n_rounds += 1;
            if wanted == (0, 0) && story.run() == (0, 0) {
                break;
            }
            assert!(n_rounds < 60, "the update does not end");
        }
        let hash = story.hash();
        let pods: Vec<&Value> = story.cluster.list(&POD).collect();
        assert!(pods.iter().all(|pod| pod["metadata"]["labels"][HASH] == hash && is_ready(pod)), "{pods:#?}");
        assert_eq!((pods.len() as u64, story.nodes_with(|_| true).len() as u64), (n_nodes, n_nodes));
        for field in ["desiredNumberScheduled", "updatedNumberScheduled", "numberAvailable"] {
            assert_eq!(story.status(field), n_nodes, "{field}");
        }
        let n_revisions = story.cluster.list(&REVISION).count();
        assert!(n_revisions <= 3, "{n_revisions} revisions");
    }
}

/// Advances a second: Pods become ready, fail, or end; the user sometimes changes the template.
fn live(story: &mut Story, round: u64) {
    story.cluster.advance(Duration::from_secs(1));
    story.finish_deletions();
    if story.cluster.random(8) == 0 {
        // Occasionally an earlier one.
        let image = story.cluster.random(2 + round / 10);
        story.set_image(&format!("image:{image}"));
    }
    let pods: Vec<Value> = story.cluster.list(&POD).cloned().collect();
    for pod in pods {
        match story.cluster.random(20) {
            0..=5 if pod["status"]["phase"] == "Pending" => story.report(&name_of(&pod), "Running", true),
            6 if pod["status"]["phase"] == "Pending" => story.report(&name_of(&pod), "Failed", false),
            7 if pod["status"]["phase"] == "Running" => story.report(&name_of(&pod), "Failed", false),
            _ => {}
        }
    }
}
