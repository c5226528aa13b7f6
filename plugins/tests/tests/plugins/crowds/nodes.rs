//! Nodes that get ranges, fall silent or have taints, and devices with taints.

use std::collections::BTreeSet;

use pintle_sdk::testing::Cluster;
use pintle_sdk::{Key, Kind};
use serde_json::{Value, json};

use super::*;
use crate::{device_taint_eviction, node_ipam, node_lifecycle, taint_eviction};

fn node(number: usize) -> Value {
    global("v1", "Node", "node", number, LONGEST)
}

/// Each gets a range of its own.
pub(super) fn ranges(size: Size) {
    let n = size.n();
    let mut cluster = Cluster::new(1);
    let nodes: Vec<Value> = (0..n).map(node).collect();
    nodes.iter().for_each(|node| cluster.insert(node.clone()));
    let plugin = size.limit(node_ipam::plugin()).config("clusterCIDR", "10.0.0.0/8");
    let keys: Vec<Key> = nodes.iter().map(|node| key(&plugin, "", node)).collect();
    settle(&mut cluster, &plugin, &keys, nobody);
    let ranges: BTreeSet<String> = cluster.list(&NODE).map(|node| node["spec"]["podCIDR"].to_string()).collect();
    assert_eq!(ranges.len(), n);
}

/// All fall silent at once: all are marked, and none is tainted. The Pods of one of them are marked.
pub(super) fn silent(size: Size) {
    let n = size.n();
    let mut cluster = Cluster::new(1);
    for i in 0..n {
        let mut node = node(i);
        let now = cluster.now();
        node["status"] = json!({"conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": now}]});
        cluster.insert(node);
        let mut pod = pod(i);
        pod["spec"] = json!({"nodeName": name("node", 0, LONGEST)});
        cluster.insert(pod);
    }
    let plugin = size.limit(node_lifecycle::plugin());
    let monitor = Kind::new("pintle", "v1", "Tick");
    let monitor = plugin.key(&monitor, "", "node_lifecycle_controller_monitor");
    let monitor = [Key { queue: "node_lifecycle_controller_monitor".into(), ..monitor }];
    for _ in 0..8 {
        settle(&mut cluster, &plugin, &monitor, nobody);
        cluster.advance(Duration::from_secs(9));
    }
    let is_marked = |node: &&Value| node["status"]["conditions"][0]["status"] == "Unknown";
    assert_eq!(cluster.list(&NODE).filter(is_marked).count(), n);
    assert!(cluster.list(&NODE).all(|node| node["spec"]["taints"].is_null()));
    settle(&mut cluster, &plugin, &[key(&plugin, "node_lifecycle_controller_pods", &node(0))], nobody);
    let is_ready = |pod: &&Value| pod["status"]["conditions"][0]["status"] == "True";
    assert_eq!(cluster.list(&POD).filter(is_ready).count(), 0);
}

/// Of two Pods, one tolerates all taints of its Node, and the other one all but the last.
pub(super) fn taints(size: Size) {
    let n = size.n();
    let mut cluster = Cluster::new(1);
    let taint = |i| format!("{}/{}", name("taint", i, LONGEST), "t".repeat(LABEL));
    let mut tainted = node(0);
    tainted["spec"]["taints"] =
        (0..n).map(|i| json!({"key": taint(i), "value": "v".repeat(LABEL), "effect": "NoExecute"})).collect();
    cluster.insert(tainted);
    let tolerations = (0..n).map(|i| json!({"key": taint(i), "operator": "Exists", "tolerationSeconds": 3_600 + i}));
    let tolerations: Vec<Value> = tolerations.collect();
    let pods = [0, 1].map(|i| {
        let mut pod = pod(i);
        pod["spec"] = json!({"nodeName": name("node", 0, LONGEST), "tolerations": tolerations[..n - i]});
        pod
    });
    pods.iter().for_each(|pod| cluster.insert(pod.clone()));
    let plugin = size.limit(taint_eviction::plugin());
    let keys = pods.each_ref().map(|pod| key(&plugin, "", pod));
    settle(&mut cluster, &plugin, &keys, nobody);
    assert_eq!(pods.map(|pod| find(&cluster, &pod).is_some_and(|pod| !is_deleting(pod))), [true, false]);
    assert_eq!(cluster.state(&plugin).len(), 1, "only one waits");
}

/// All Pods use one claim of a device that a rule taints.
pub(super) fn device(size: Size) {
    let n = size.n();
    let mut cluster = Cluster::new(1);
    let pods: Vec<Value> = (0..n)
        .map(|i| {
            let mut pod = pod(i);
            pod["spec"]["resourceClaims"] = json!([{"name": "device", "resourceClaimName": name("claim", 0, LONGEST)}]);
            pod
        })
        .collect();
    pods.iter().for_each(|pod| cluster.insert(pod.clone()));
    let device = json!({"driver": name("driver", 0, LABEL), "pool": name("pool", 0, LONGEST), "device": name("device", 0, LABEL)});
    let mut claim = object("resource.k8s.io/v1", "ResourceClaim", "claim", 0, LONGEST);
    let consumer =
        |pod: &Value| json!({"resource": "pods", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]});
    claim["status"] = json!({
        "allocation": {"devices": {"results": [device]}}, "reservedFor": pods.iter().map(consumer).collect::<Vec<_>>(),
    });
    cluster.insert(claim.clone());
    let mut rule = global("resource.k8s.io/v1", "DeviceTaintRule", "rule", 0, LONGEST);
    let added = cluster.now();
    rule["spec"] = json!({
        "deviceSelector": device, "taint": {"key": name("taint", 0, LABEL), "effect": "NoExecute", "timeAdded": added},
    });
    cluster.insert(rule.clone());
    let plugin = size.limit(device_taint_eviction::plugin());
    let message = |cluster: &Cluster| now(cluster, &rule)["status"]["conditions"][0]["message"].clone();
    settle(&mut cluster, &plugin, &[key(&plugin, "", &rule)], nobody);
    assert_eq!(message(&cluster), format!("{n} pods need to be evicted in 1 namespace."));
    let run = cluster.run(&plugin, &key(&plugin, "device_taint_eviction_claims", &claim));
    let n_woken = run.result.map(|outcome| outcome.wake.len());
    assert_eq!(n_woken.ok(), Some(n));
    let mut keys: Vec<Key> = pods.iter().map(|pod| key(&plugin, "", pod)).collect();
    settle(&mut cluster, &plugin, &keys, nobody);
    assert_eq!(n_live(&cluster, &POD), 0);
    keys.iter_mut().for_each(|key| key.queue = "device_taint_eviction_evicted".into());
    for key in &keys {
        let run = cluster.run(&plugin, key);
        assert!(run.result.is_ok(), "{run:?}");
    }
    cluster.advance(Duration::from_secs(11));
    settle(&mut cluster, &plugin, &[key(&plugin, "", &rule)], nobody);
    assert_eq!(message(&cluster), format!("{n} pods evicted since starting the controller."));
}
