//! Ordinary objects never exceed a limit: runs each plugin with thousands of all objects that it can own, claim, count,
//! select or report, with names, labels and uids of full length.
//!
//! The simulated cluster fails a test where the host would end the run, and rejects metadata that the API server
//! rejects. Each crowd runs twice: with the limits of the manifest, and with so few mutations per run that every
//! outcome is carried out in parts. Both reach the same result. A plugin without a crowd fails
//! [`every_plugin_has_a_crowd`].

mod identity;
mod network;
mod nodes;
mod pods;
mod policy;
mod storage;
mod workloads;

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use pintle_sdk::testing::{Cluster, Plugin};
use pintle_sdk::{Key, Kind};
use serde_json::{Value, json};

use crate::stories::objects::{is_deleting, name_of};

/// Number of objects of each kind.
#[derive(Clone, Copy)]
struct Size {
    /// Most mutations of one outcome, if fewer than in the manifest.
    mutations: Option<usize>,
}

impl Size {
    /// More than one run may write, unless `PINTLE_CROWD` sets another number.
    fn n(self) -> usize {
        self.beyond(1_000)
    }

    /// More than one run of a plugin does, which may be fewer than it may write.
    fn beyond(self, most: usize) -> usize {
        match self.mutations {
            Some(most) => 4 * most + 1,
            None => {
                std::env::var("PINTLE_CROWD").map_or(most + 1, |text| text.parse().expect("PINTLE_CROWD is a number"))
            }
        }
    }

    /// Number of runs for `n_mutations` mutations in parts.
    fn n_parts(self, n_mutations: usize) -> usize {
        self.mutations.map_or(0, |most| n_mutations.div_ceil(most))
    }

    /// The plugin with these limits.
    fn limit(self, plugin: Plugin<'_>) -> Plugin<'_> {
        match self.mutations {
            Some(most) => plugin.mutations(most),
            None => plugin,
        }
    }
}

/// Tests by plugin folder.
macro_rules! crowds {
    ($($name:ident: $folder:literal, $crowd:path;)*) => {
        const FOLDERS: &[&str] = &[$($folder),*];
        $(#[test]
        fn $name() {
            $crowd(Size { mutations: None });
            $crowd(Size { mutations: Some(30) });
        })*
    };
}

crowds! {
    thousands_of_tokens_sign: "bootstrap-signer", network::signatures;
    a_request_is_of_a_user_in_thousands_of_groups: "certificatesigningrequest-approving", identity::approval;
    thousands_of_requests_are_old: "certificatesigningrequest-cleaner", identity::requests;
    a_request_has_thousands_of_conditions: "certificatesigningrequest-signing", identity::certificate;
    a_role_combines_thousands: "clusterrole-aggregation", policy::roles;
    a_cron_job_has_thousands_of_jobs: "cronjob", workloads::cron_job;
    a_daemon_set_runs_on_thousands_of_nodes: "daemonset", workloads::daemon_set;
    a_deployment_has_thousands_of_replica_sets: "deployment", workloads::deployment;
    a_device_is_used_by_thousands_of_pods: "device-taint-eviction", nodes::device;
    a_budget_has_thousands_of_owners: "disruption", policy::budget;
    endpoints_have_thousands_of_addresses: "endpoints", network::endpoints;
    a_service_has_thousands_of_pods: "endpointslice", network::slices;
    thousands_of_addresses_are_copied: "endpointslice-mirroring", network::mirrored;
    a_pod_has_thousands_of_volumes: "ephemeral-volume", storage::ephemeral;
    an_object_has_thousands_of_owners_and_dependents: "garbage-collector", policy::garbage;
    an_autoscaler_measures_thousands_of_pods: "horizontal-pod-autoscaler", workloads::autoscaler;
    a_job_has_thousands_of_indexes: "job", workloads::job;
    a_signer_has_thousands_of_bundles: "kube-apiserver-serving-clustertrustbundle-publisher", identity::bundles;
    thousands_of_tokens_are_not_used: "legacy-serviceaccount-token-cleaner", identity::unused;
    a_namespace_has_thousands_of_kinds: "namespace", policy::namespace;
    thousands_of_nodes_get_ranges: "node-ipam", nodes::ranges;
    thousands_of_nodes_fall_silent: "node-lifecycle", nodes::silent;
    a_volume_has_thousands_of_finalizers: "persistentvolume-protection", storage::volume;
    thousands_of_claims_are_in_use: "persistentvolumeclaim-protection", storage::claims;
    thousands_of_nodes_are_gone: "pod-garbage-collector", pods::gone;
    thousands_of_requests_of_pods_are_old: "podcertificaterequest-cleaner", identity::pod_requests;
    a_group_has_thousands_of_pods: "podgroup-protection", pods::group;
    a_replica_set_has_thousands_of_pods: "replicaset", pods::replica_set;
    a_replication_controller_has_thousands_of_pods: "replicationcontroller", pods::replication_controller;
    a_quota_counts_thousands_of_many_kinds: "resourcequota", policy::quota;
    a_config_map_has_thousands_of_entries: "root-ca-certificate-publisher", policy::root_ca;
    thousands_of_addresses_are_in_thousands_of_ranges: "service-cidr", network::ranges;
    a_namespace_has_thousands_of_accounts: "serviceaccount", policy::accounts;
    an_account_has_thousands_of_tokens: "serviceaccount-token", identity::tokens;
    a_stateful_set_has_thousands_of_pods_and_claims: "statefulset", workloads::stateful_set;
    a_node_has_thousands_of_taints: "taint-eviction", nodes::taints;
    thousands_of_tokens_have_expired: "token-cleaner", network::tokens;
    there_are_thousands_of_nodes: "ttl", pods::nodes;
    a_job_has_thousands_of_conditions: "ttl-after-finished", workloads::finished;
    a_class_is_named_by_thousands: "volumeattributesclass-protection", storage::class;
}

#[test]
fn every_plugin_has_a_crowd() {
    let plugins = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let folders = std::fs::read_dir(plugins).expect("the plugins are there");
    let built: BTreeSet<String> = folders
        .map(|folder| folder.expect("it can be read").path())
        .filter(|folder| folder.join("manifest.yaml").exists())
        .filter_map(|folder| Some(folder.file_name()?.to_str()?.to_owned()))
        .collect();
    let tested: BTreeSet<String> = FOLDERS.iter().map(ToString::to_string).collect();
    assert_eq!(built, tested, "each folder of a plugin has a line of `crowds!`");
}

const POD: Kind = Kind::new("", "v1", "Pod");
const NODE: Kind = Kind::new("", "v1", "Node");
const CLAIM: Kind = Kind::new("", "v1", "PersistentVolumeClaim");

/// Longest name of most kinds, of a label and of a namespace.
const LONGEST: usize = 253;
const LABEL: usize = 63;

/// A name with `n_bytes` bytes that ends with a number; the same number has another name with another word.
fn name(word: &str, number: usize, n_bytes: usize) -> String {
    let number = format!("-{number:06}");
    let padding = "x".repeat(n_bytes - word.len() - number.len());
    format!("{word}{padding}{number}")
}

fn home() -> String {
    name("home", 0, LABEL)
}

/// The key and the value of a label, both of full length.
fn label() -> (String, String) {
    (format!("{}/{}", name("key", 0, LONGEST), "k".repeat(LABEL)), "v".repeat(LABEL))
}

fn labels() -> Value {
    let (key, value) = label();
    json!({ key: value })
}

/// A uid in the API server's format.
fn uid(word: &str, number: usize) -> String {
    format!("{:0>8}-0000-4000-8000-{number:012}", &word[..word.len().min(8)])
}

/// An object with the label.
fn object(api_version: &str, kind: &str, word: &str, number: usize, n_bytes: usize) -> Value {
    json!({
        "apiVersion": api_version, "kind": kind,
        "metadata": {"name": name(word, number, n_bytes), "namespace": home(), "uid": uid(word, number), "labels": labels()},
    })
}

/// An object without a namespace.
fn global(api_version: &str, kind: &str, word: &str, number: usize, n_bytes: usize) -> Value {
    let mut object = object(api_version, kind, word, number, n_bytes);
    drop(object["metadata"].as_object_mut().and_then(|metadata| metadata.shift_remove("namespace")));
    object
}

/// A ready Pod.
fn pod(number: usize) -> Value {
    let mut pod = object("v1", "Pod", "pod", number, LONGEST);
    pod["spec"] = json!({"nodeName": name("node", number, LONGEST)});
    pod["status"] = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
    pod
}

/// The reference to a controller.
fn controlled_by(owner: &Value) -> Value {
    let metadata = &owner["metadata"];
    json!([{"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": metadata["name"], "uid": metadata["uid"],
        "controller": true, "blockOwnerDeletion": true}])
}

fn template() -> Value {
    json!({"metadata": {"labels": labels()}, "spec": {"containers": [{"name": "c".repeat(LABEL), "image": "image:1"}]}})
}

fn selector() -> Value {
    json!({"matchLabels": labels()})
}

/// The key of an object in a queue; the first one if it has no name.
fn key(plugin: &Plugin<'_>, queue: &str, object: &Value) -> Key {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let kind = Kind::from_api_version(&text(&object["apiVersion"]), &text(&object["kind"]));
    let mut key = plugin.key(&kind, &text(&object["metadata"]["namespace"]), &text(&object["metadata"]["name"]));
    if !queue.is_empty() {
        key.queue = queue.to_owned();
    }
    key
}

/// A run that leaves work to another one is followed by it within this time.
const AT_ONCE: Duration = Duration::from_millis(100);

/// Runs keys until no run writes or leaves work, and no other client changes anything; `others` simulates other
/// clients, and returns whether it has changed something.
fn settle(cluster: &mut Cluster, plugin: &Plugin<'_>, keys: &[Key], mut others: impl FnMut(&mut Cluster) -> bool) {
    for _ in 0..200 {
        let mut is_busy = false;
        for key in keys {
            let run = cluster.run(plugin, key);
            assert!(run.failures.is_empty(), "{}: {:?}", run.failures.len(), run.failures.first());
            let outcome = run.result.as_ref().unwrap_or_else(|error| panic!("{error:?}"));
            assert!(outcome.error.is_none(), "{:?}", outcome.error);
            is_busy |= !run.is_quiet() || run.requeue_after().is_some_and(|after| after < AT_ONCE);
        }
        if !others(cluster) && !is_busy {
            return;
        }
    }
    let last: Vec<String> = cluster.writes().iter().rev().take(5).map(ToString::to_string).collect();
    panic!("it does not settle: {last:#?}");
}

fn nobody(_: &mut Cluster) -> bool {
    false
}

/// Deletes Pods that are being deleted, unless finalizers hold them.
fn end_pods(cluster: &mut Cluster) -> bool {
    let goes = |pod: &&Value| is_deleting(pod) && pod["metadata"]["finalizers"].as_array().is_none_or(Vec::is_empty);
    let gone: Vec<String> = cluster.list(&POD).filter(goes).map(name_of).collect();
    gone.iter().for_each(|name| cluster.remove(&POD, &home(), name));
    !gone.is_empty()
}

/// Starts Pods.
fn start_pods(cluster: &mut Cluster) -> bool {
    let starts = |pod: &Value| !is_deleting(pod) && pod["status"]["phase"].is_null();
    edit_all(cluster, &POD, starts, |pod| {
        pod["status"] = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
    })
}

/// Simulates a kubelet.
fn kubelet(cluster: &mut Cluster) -> bool {
    end_pods(cluster) | start_pods(cluster)
}

fn edit_all(
    cluster: &mut Cluster,
    kind: &Kind,
    is_meant: impl Fn(&Value) -> bool,
    change: impl Fn(&mut Value),
) -> bool {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let meant: Vec<_> = cluster
        .list(kind)
        .filter(|object| is_meant(object))
        .map(|object| (text(&object["metadata"]["namespace"]), text(&object["metadata"]["name"])))
        .collect();
    let before = cluster.version();
    for (namespace, name) in &meant {
        cluster.edit(kind, namespace, name, &change);
    }
    cluster.version() != before
}

fn n_live(cluster: &Cluster, kind: &Kind) -> usize {
    cluster.list(kind).filter(|object| !is_deleting(object)).count()
}

fn n_owned(cluster: &Cluster, kind: &Kind) -> usize {
    cluster.list(kind).filter(|object| object["metadata"]["ownerReferences"][0]["controller"] == true).count()
}

/// The current object.
fn now<'a>(cluster: &'a Cluster, object: &Value) -> &'a Value {
    find(cluster, object).expect("it is there")
}

fn find<'a>(cluster: &'a Cluster, object: &Value) -> Option<&'a Value> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let kind = Kind::from_api_version(&text(&object["apiVersion"]), &text(&object["kind"]));
    cluster.get(&kind, &text(&object["metadata"]["namespace"]), &text(&object["metadata"]["name"]))
}

/// An object that is being deleted, with its own finalizer among many.
fn protected(cluster: &Cluster, mut object: Value, own: &str, n: usize) -> Value {
    let mut finalizers: Vec<String> = (0..n).map(|i| format!("{}/x", name("f", i, LABEL))).collect();
    finalizers.insert(n / 2, own.into());
    object["metadata"]["finalizers"] = json!(finalizers);
    object["metadata"]["deletionTimestamp"] = json!(cluster.now());
    object
}

fn n_finalizers(cluster: &Cluster, object: &Value) -> Option<usize> {
    now(cluster, object)["metadata"]["finalizers"].as_array().map(Vec::len)
}
