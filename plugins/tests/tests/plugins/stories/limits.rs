//! Large objects, and names of full length: no outcome exceeds a limit, which the cluster checks, and everything
//! completes.

use std::time::Duration;

use pintle_sdk::testing::{Cluster, Fault, Plugin};
use pintle_sdk::{Key, Kind};
use serde_json::{Value, json};

use super::objects::name_of;
use crate::{
    daemonset, deployment, disruption, ephemeral_volume, horizontal_pod_autoscaler, job, replicaset, statefulset,
};

const POD: Kind = Kind::new("", "v1", "Pod");
const CLAIM: Kind = Kind::new("", "v1", "PersistentVolumeClaim");
const REPLICA_SET: Kind = Kind::new("apps", "v1", "ReplicaSet");
const STATEFUL_SET: Kind = Kind::new("apps", "v1", "StatefulSet");

/// A namespace and a name of full length.
fn full_length() -> (String, String) {
    ("n".repeat(63), "a".repeat(253))
}

fn metadata(name: &str) -> Value {
    json!({"name": name, "namespace": "default", "uid": name, "labels": {"app": "web"}})
}

fn template() -> Value {
    json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "image:1"}]}})
}

fn insert_pods(cluster: &mut Cluster, names: impl IntoIterator<Item = String>, phase: &str) {
    for name in names {
        cluster.insert(json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": metadata(&name), "spec": {"nodeName": "node"},
            "status": {"phase": phase, "conditions": [{"type": "Ready", "status": "True"}]},
        }));
    }
}

fn n_owned(cluster: &Cluster, kind: &Kind) -> usize {
    cluster.list(kind).filter(|object| object["metadata"]["ownerReferences"][0].is_object()).count()
}

/// Runs a key until a run writes nothing.
fn settle(cluster: &mut Cluster, plugin: &Plugin<'_>, key: &Key) -> u32 {
    for n_runs in 0..100 {
        let run = cluster.run(plugin, key);
        assert!(run.result.is_ok(), "{:?}", run.result.err());
        if run.is_quiet() {
            return n_runs;
        }
    }
    panic!("it does not settle");
}

fn replica_set(replicas: u32) -> Value {
    let spec = json!({"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template()});
    json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata("web"), "spec": spec, "status": {}})
}

#[test]
fn a_replica_set_adopts_thousands_of_pods() {
    for (replicas, left) in [(1_100, 1_100), (0, 0)] {
        let mut cluster = Cluster::new(1);
        cluster.insert(replica_set(replicas));
        insert_pods(&mut cluster, (0..1_100).map(|i| format!("p{i}")), "Running");
        let plugin = replicaset::plugin();
        let key = plugin.key(&REPLICA_SET, "default", "web");
        settle(&mut cluster, &plugin, &key);
        let live = cluster.list(&POD).filter(|pod| pod["metadata"]["deletionTimestamp"].is_null()).count();
        assert_eq!((n_owned(&cluster, &POD), live), (1_100, left));
    }
}

/// Patches of the first ones by name always fail.
#[test]
fn pods_that_cannot_be_adopted_keep_no_others_from_it() {
    let mut cluster = Cluster::new(1);
    cluster.insert(replica_set(1_100));
    insert_pods(&mut cluster, (0..1_100).map(|i| format!("p{i:04}")), "Running");
    cluster.inject(Fault::reject(403, "Forbidden", "not these").verb("patch").times(1_000));
    let plugin = replicaset::plugin();
    let key = plugin.key(&REPLICA_SET, "default", "web");
    cluster.run(&plugin, &key);
    assert_eq!(n_owned(&cluster, &POD), 0);
    cluster.run(&plugin, &key);
    let owned = |pod: &&Value| pod["metadata"]["ownerReferences"][0].is_object();
    let others = cluster.list(&POD).filter(owned).filter(|pod| name_of(pod).as_str() >= "p1000").count();
    assert_eq!(others, 100, "they come first");
}

#[test]
fn a_deployment_adopts_and_scales_thousands_of_replica_sets() {
    const DEPLOYMENT: Kind = Kind::new("apps", "v1", "Deployment");
    let mut cluster = Cluster::new(1);
    let spec = json!({"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": template(),
        "strategy": {"type": "Recreate"}, "revisionHistoryLimit": 5_000});
    cluster.insert(
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata("web"), "spec": spec, "status": {}}),
    );
    for i in 0..1_300 {
        let mut set = replica_set(1);
        set["metadata"] = metadata(&format!("web-{i}"));
        set["spec"]["template"]["spec"]["containers"][0]["image"] = format!("old:{i}").into();
        cluster.insert(set);
    }
    let plugin = deployment::plugin();
    let key = plugin.key(&DEPLOYMENT, "default", "web");
    for _ in 0..10 {
        assert!(cluster.run(&plugin, &key).result.is_ok());
    }
    assert_eq!(n_owned(&cluster, &REPLICA_SET), 1_301);
    let scaled = cluster.list(&REPLICA_SET).filter(|set| set["spec"]["replicas"] == 0).count();
    assert_eq!(scaled, 1_300, "all old ones are scaled down");
}

fn stateful_set(replicas: u32, image: &str) -> Value {
    let mut template = template();
    template["spec"]["containers"][0]["image"] = image.into();
    let spec = json!({
        "replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template, "podManagementPolicy": "Parallel",
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "100%"}}, "revisionHistoryLimit": 10,
    });
    json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": metadata("web"), "spec": spec, "status": {}})
}

#[test]
fn a_stateful_set_shrinks_and_rolls_at_once() {
    let mut cluster = Cluster::new(1);
    cluster.insert(stateful_set(600, "image:2"));
    // Of the previous revision, and adopted.
    insert_pods(&mut cluster, (0..1_200).map(|i| format!("web-{i}")), "Running");
    let plugin = statefulset::plugin().config("maxUnavailable", true);
    let key = plugin.key(&STATEFUL_SET, "default", "web");
    for _ in 0..20 {
        let run = cluster.run(&plugin, &key);
        assert!(run.result.is_ok() && run.failures.is_empty(), "{run:?}");
        let gone: Vec<String> =
            cluster.list(&POD).filter(|pod| super::objects::is_deleting(pod)).map(name_of).collect();
        gone.iter().for_each(|name| cluster.remove(&POD, "default", name));
    }
    let revision =
        cluster.get(&STATEFUL_SET, "default", "web").expect("it is there")["status"]["updateRevision"].clone();
    let updated =
        cluster.list(&POD).filter(|pod| pod["metadata"]["labels"]["controller-revision-hash"] == revision).count();
    assert_eq!((cluster.list(&POD).count(), updated), (600, 600));
}

#[test]
fn an_autoscaler_with_a_name_of_full_length_remembers() {
    const AUTOSCALER: Kind = Kind::new("autoscaling", "v2", "HorizontalPodAutoscaler");
    let (namespace, name) = full_length();
    let mut cluster = Cluster::new(1);
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
    cluster.insert(json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"namespace": namespace, "name": name},
        "spec": {"scaleTargetRef": target, "minReplicas": 2, "maxReplicas": 5, "metrics": []}, "status": {},
    }));
    cluster.insert(json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"namespace": namespace, "name": "web"},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}}, "status": {"replicas": 1},
    }));
    let plugin = horizontal_pod_autoscaler::plugin();
    let key = plugin.key(&AUTOSCALER, &namespace, &name);
    let run = cluster.run(&plugin, &key);
    assert!(run.result.is_ok(), "{:?}", run.result.err());
    // The removed state has the same names.
    cluster.remove(&AUTOSCALER, &namespace, &name);
    assert!(cluster.run(&plugin, &key).result.is_ok());
    assert!(cluster.state(&plugin).is_empty());
}

#[test]
fn a_daemon_set_with_a_name_of_full_length_replaces_a_failed_pod() {
    const DAEMON_SET: Kind = Kind::new("apps", "v1", "DaemonSet");
    let (namespace, name) = full_length();
    let mut cluster = Cluster::new(1);
    cluster.insert(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node"}}));
    cluster.insert(json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"namespace": namespace, "name": name, "uid": "set"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": template(), "updateStrategy": {"type": "OnDelete"}},
        "status": {},
    }));
    let plugin = daemonset::plugin();
    let key = plugin.key(&DAEMON_SET, &namespace, &name);
    cluster.run(&plugin, &key);
    let pod = cluster.list(&POD).map(name_of).next().expect("the Node has a Pod");
    cluster.edit(&POD, &namespace, &pod, |pod| pod["status"] = json!({"phase": "Failed"}));
    cluster.run(&plugin, &key);
    assert_eq!(cluster.list(&POD).filter(|pod| pod["metadata"]["deletionTimestamp"].is_null()).count(), 0);
    assert_eq!(cluster.state(&plugin).len(), 1);
}

#[test]
fn a_budget_reports_a_thousand_evictions_that_came_to_nothing() {
    const BUDGET: Kind = Kind::new("policy", "v1", "PodDisruptionBudget");
    let mut cluster = Cluster::new(1);
    insert_pods(&mut cluster, (0..1_100).map(|i| format!("p{i}")), "Running");
    let now = cluster.now();
    let disrupted: serde_json::Map<String, Value> = (0..1_100).map(|i| (format!("p{i}"), json!(now))).collect();
    cluster.insert(json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata("b"),
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}, "status": {"disruptedPods": disrupted},
    }));
    cluster.advance(Duration::from_secs(200));
    let plugin = disruption::plugin();
    let key = plugin.key(&BUDGET, "default", "b");
    settle(&mut cluster, &plugin, &key);
    let events = cluster.events().iter().filter(|event| event.reason == "NotDeleted");
    let about: std::collections::BTreeSet<&str> = events.clone().map(|event| event.regarding.name.as_str()).collect();
    assert_eq!((events.count(), about.len()), (1_100, 1_100), "each is reported once");
    let status = &cluster.get(&BUDGET, "default", "b").expect("it is there")["status"];
    assert_eq!((&status["disruptedPods"], &status["currentHealthy"]), (&Value::Null, &json!(1_100)));
}

/// The host crashed between the status and the finalizers.
#[test]
fn a_job_goes_on_whose_status_names_all_the_pods_that_it_can() {
    const JOB: Kind = Kind::new("batch", "v1", "Job");
    const TRACKING: &str = "batch.kubernetes.io/job-tracking";
    let mut cluster = Cluster::new(1);
    let uids: Vec<String> = (0..500).map(|i| format!("p{i}")).collect();
    let spec = json!({"parallelism": 600, "completions": 600, "selector": {"matchLabels": {"app": "web"}}, "template": template()});
    cluster.insert(json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": metadata("job"), "spec": spec,
        "status": {"startTime": cluster.now(), "uncountedTerminatedPods": {"succeeded": uids}},
    }));
    insert_pods(&mut cluster, (0..600).map(|i| format!("p{i}")), "Succeeded");
    for i in 0..600 {
        let owner = json!([{"apiVersion": "batch/v1", "kind": "Job", "name": "job", "uid": "job", "controller": true}]);
        cluster.edit(&POD, "default", &format!("p{i}"), |pod| {
            pod["metadata"]["finalizers"] = json!([TRACKING]);
            pod["metadata"]["ownerReferences"] = owner;
        });
    }
    let plugin = job::plugin();
    let key = plugin.key(&JOB, "default", "job");
    settle(&mut cluster, &plugin, &key);
    let status = &cluster.get(&JOB, "default", "job").expect("it is there")["status"];
    assert_eq!(status["succeeded"], 600, "{status:#}");
}

#[test]
fn a_pod_has_a_thousand_ephemeral_volumes() {
    let mut cluster = Cluster::new(1);
    let volume = |i: u32| json!({"name": format!("v{i}"), "ephemeral": {"volumeClaimTemplate": {"spec": {"accessModes": ["ReadWriteOnce"]}}}});
    let volumes: Vec<Value> = (0..1_100).map(volume).collect();
    cluster.insert(json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata("p"), "spec": {"volumes": volumes}}));
    let plugin = ephemeral_volume::plugin();
    let key = plugin.key(&POD, "default", "p");
    settle(&mut cluster, &plugin, &key);
    assert_eq!(cluster.list(&CLAIM).count(), 1_100);
}

/// The claims `a-b-c` of `a-b` and of `a` have the same name.
#[test]
fn a_pod_whose_claim_has_the_name_of_another_one_runs_when_that_goes() {
    let mut cluster = Cluster::new(1);
    for (pod, volume, source) in [
        ("a", "b-c", "ephemeral"),
        ("a-b", "c", "ephemeral"),
        ("a-b-c", "d", "ephemeral"),
        ("a-b-c-d", "x", "emptyDir"),
    ] {
        let volume =
            json!({"name": volume, source: {"volumeClaimTemplate": {"spec": {"accessModes": ["ReadWriteOnce"]}}}});
        cluster.insert(
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata(pod), "spec": {"volumes": [volume]}}),
        );
    }
    let plugin = ephemeral_volume::plugin();
    let fixture = cluster.fixture(&plugin, &plugin.key(&POD, "default", "a"));
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "a-b-c", "namespace": "default"}}).to_string();
    let keys =
        |old: Option<&str>, new: Option<&str>| plugin_ephemeral_volume::keys_of(&CLAIM, old, new, &fixture.lister);
    assert_eq!(keys(Some(&claim), None), ["a", "a-b"].map(|pod| plugin.key(&POD, "default", pod)));
    assert_eq!(keys(Some(&claim), Some(&claim)), []);
    assert_eq!(keys(None, Some(&claim)), []);
}

/// Batches are 1, 2 and 1 replicas: the quota is exhausted in the middle of the second one.
#[test]
fn the_replicas_whose_claims_fit_into_a_quota_run() {
    let mut cluster = Cluster::new(1);
    let mut set = stateful_set(4, "image:1");
    let spec = json!({"accessModes": ["ReadWriteOnce"]});
    set["spec"]["volumeClaimTemplates"] = json!([{"metadata": {"name": "data"}, "spec": spec}]);
    cluster.insert(set);
    cluster.inject(Fault::reject(403, "Forbidden", "exceeded quota").verb("create").kind(&CLAIM).from_objects(2));
    let plugin = statefulset::plugin();
    let key = plugin.key(&STATEFUL_SET, "default", "web");
    let names = |cluster: &Cluster| cluster.list(&POD).map(name_of).collect::<Vec<_>>();
    for _ in 0..6 {
        cluster.run(&plugin, &key);
    }
    assert_eq!((names(&cluster).len(), cluster.list(&CLAIM).count()), (2, 2), "{:?}", names(&cluster));
    cluster.clear_faults();
    settle(&mut cluster, &plugin, &key);
    assert_eq!(names(&cluster), ["web-0", "web-1", "web-2", "web-3"]);
}
