//! Pods of replicas and groups, and of deleted Nodes.

use pintle_sdk::testing::{Cluster, Plugin};
use serde_json::{Value, json};

use super::*;
use crate::{pod_garbage_collector, podgroup_protection, replicaset, replicationcontroller, ttl};

/// All are adopted, deleted, and created again.
fn replicas(n: usize, plugin: &Plugin<'_>, mut owner: Value) {
    let mut cluster = Cluster::new(1);
    owner["spec"]["replicas"] = json!(n);
    owner["spec"]["template"] = template();
    cluster.insert(owner.clone());
    (0..n).for_each(|i| cluster.insert(pod(i)));
    let key = key(plugin, "", &owner);
    let kind = key.kind.clone();
    for replicas in [n, 0, n] {
        cluster.edit(&kind, &key.namespace, &key.name, |owner| owner["spec"]["replicas"] = json!(replicas));
        settle(&mut cluster, plugin, std::slice::from_ref(&key), kubelet);
        assert_eq!((n_live(&cluster, &POD), n_owned(&cluster, &POD)), (replicas, replicas));
        let status = &now(&cluster, &owner)["status"];
        assert_eq!(status["replicas"], replicas, "{status}");
    }
}

pub(super) fn replica_set(size: Size) {
    let n = size.n();
    let mut set = object("apps/v1", "ReplicaSet", "set", 0, LONGEST);
    set["spec"] = json!({"selector": selector()});
    replicas(n, &size.limit(replicaset::plugin()), set);
}

pub(super) fn replication_controller(size: Size) {
    let n = size.n();
    let mut controller = object("v1", "ReplicationController", "set", 0, LONGEST);
    controller["spec"] = json!({"selector": labels()});
    replicas(n, &size.limit(replicationcontroller::plugin()), controller);
}

pub(super) fn group(size: Size) {
    let n = size.n();
    let mut cluster = Cluster::new(1);
    let mut group = object("scheduling.k8s.io/v1beta1", "PodGroup", "group", 0, LONGEST);
    let mut finalizers: Vec<String> = (0..n).map(|i| format!("{}/x", name("f", i, LABEL))).collect();
    finalizers.insert(n / 2, "scheduling.k8s.io/podgroup-protection".into());
    group["metadata"]["finalizers"] = json!(finalizers);
    group["metadata"]["deletionTimestamp"] = json!(cluster.now());
    cluster.insert(group.clone());
    for i in 0..n {
        let mut pod = pod(i);
        pod["spec"]["schedulingGroup"] = json!({"podGroupName": group["metadata"]["name"]});
        cluster.insert(pod);
    }
    let plugin = size.limit(podgroup_protection::plugin());
    let keys = [key(&plugin, "", &group)];
    let n_finalizers = |cluster: &Cluster| now(cluster, &group)["metadata"]["finalizers"].as_array().map(Vec::len);
    settle(&mut cluster, &plugin, &keys, nobody);
    assert_eq!(n_finalizers(&cluster), Some(n + 1));
    edit_all(&mut cluster, &POD, |_| true, |pod| pod["status"]["phase"] = json!("Succeeded"));
    settle(&mut cluster, &plugin, &keys, nobody);
    assert_eq!(n_finalizers(&cluster), Some(n));
}

/// Pods of deleted Nodes, each of another one, and ended Pods.
pub(super) fn gone(size: Size) {
    let n = size.n();
    let mut cluster = Cluster::new(1);
    for i in 0..2 * n {
        let mut pod = pod(i);
        if i >= n {
            pod["status"]["phase"] = json!("Failed");
            pod["spec"] = json!({"nodeName": name("node", 2 * n, LONGEST)});
        } else {
            let conditions =
                (0..20).map(|i| json!({"type": format!("{}/c", name("type", i, LONGEST)), "status": "True"}));
            pod["status"]["conditions"] = conditions.collect();
        }
        cluster.insert(pod);
    }
    cluster.insert(global("v1", "Node", "node", 2 * n, LONGEST));
    let plugin = size.limit(pod_garbage_collector::plugin()).config("terminatedPodGCThreshold", 7);
    let keys = [key(&plugin, "", &json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "tick"}}))];
    for _ in 0..2 * n.div_ceil(256) + 2 + size.n_parts(3 * n) {
        settle_state(&mut cluster, &plugin, &keys);
        cluster.advance(Duration::from_secs(41));
    }
    assert_eq!(cluster.list(&POD).count(), 7);
    assert!(cluster.state(&plugin).is_empty(), "{:?}", cluster.state(&plugin).keys());
}

/// As [`settle`], but the state may change with the time.
fn settle_state(cluster: &mut Cluster, plugin: &Plugin<'_>, keys: &[Key]) {
    for key in keys {
        let run = cluster.run(plugin, key);
        assert!(run.result.is_ok() && run.failures.is_empty(), "{:?} {:?}", run.result.err(), run.failures.first());
    }
}

pub(super) fn nodes(size: Size) {
    let n = size.n();
    let mut cluster = Cluster::new(1);
    (0..n).for_each(|i| cluster.insert(global("v1", "Node", "node", i, LONGEST)));
    let plugin = size.limit(ttl::plugin());
    let keys = [0, n - 1].map(|i| key(&plugin, "", &global("v1", "Node", "node", i, LONGEST)));
    settle(&mut cluster, &plugin, &keys, nobody);
    let seconds = match n {
        0..=500 => "15",
        501..=2_000 => "60",
        _ => "300",
    };
    let set = |node: &&Value| node["metadata"]["annotations"]["node.alpha.kubernetes.io/ttl"] == seconds;
    assert_eq!(cluster.list(&NODE).filter(set).count(), 2);
}
