//! Incomplete quotas go into the priority queue, and no new object stays uncounted.

use pintle_sdk::Kind;
use pintle_sdk::testing::Cluster;
use plugin_resourcequota::keys_of;
use serde_json::{Value, json};

use crate::resourcequota::plugin;

const QUOTA: Kind = Kind::new("", "v1", "ResourceQuota");
const POD: Kind = Kind::new("", "v1", "Pod");

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
    key.queue = "resource_quota_controller_resource_changes".into();
    cluster.run(&plugin(), &key);
    assert_eq!(n_used(&cluster), Some(json!({"pods": "2"})));
    // The same run never reduces a count.
    cluster.remove(&POD, "default", "b");
    let run = cluster.run(&plugin(), &key);
    assert!(run.is_quiet() && n_used(&cluster) == Some(json!({"pods": "2"})), "{run:?}");
}
