//! Checks that the feature gates of manifests are those that upstream's controllers use.

use std::collections::BTreeSet;
use std::path::Path;

use serde::Deserialize;

/// The version of upstream.
const KUBERNETES: &str = include_str!("../../../../kubernetes-version").trim_ascii();

/// Folders of plugins, the packages below upstream's `pkg` that they replace, and the gates used there.
const READ: &[(&str, &[&str], &[&str])] = &[
    ("bootstrap-signer", &["controller/bootstrap"], &[]),
    ("certificatesigningrequest-approving", &["controller/certificates/approver"], &[]),
    ("certificatesigningrequest-cleaner", &["controller/certificates/cleaner/cleaner.go"], &[]),
    (
        "certificatesigningrequest-signing",
        &["controller/certificates/signer", "controller/certificates/authority"],
        &[],
    ),
    ("clusterrole-aggregation", &["controller/clusterroleaggregation"], &[]),
    ("cronjob", &["controller/cronjob"], &[]),
    (
        "daemonset",
        &["controller/daemon"],
        &["StaleControllerConsistencyDaemonSet", "TaintTolerationComparisonOperators"],
    ),
    ("deployment", &["controller/deployment"], &["DeploymentReplicaSetTerminatingReplicas"]),
    (
        "device-taint-eviction",
        &["controller/devicetainteviction"],
        &["DRADeviceTaintRules", "DRADeviceTaints", "DRAWorkloadResourceClaims"],
    ),
    ("disruption", &["controller/disruption"], &[]),
    ("endpoints", &["controller/endpoint"], &[]),
    ("endpointslice", &["controller/endpointslice"], &["PreferSameTrafficDistribution"]),
    ("endpointslice-mirroring", &["controller/endpointslicemirroring"], &[]),
    ("ephemeral-volume", &["controller/volume/ephemeral"], &[]),
    ("garbage-collector", &["controller/garbagecollector"], &[]),
    (
        "horizontal-pod-autoscaler",
        &["controller/podautoscaler"],
        &[
            "HPAConfigurableTolerance",
            "HPAGeneration",
            "HPAOptimizedSelectorStore",
            "HPAScaleToZero",
            "PodLevelResources",
            "StaleControllerConsistencyHPA",
        ],
    ),
    (
        "job",
        &["controller/job"],
        &[
            "JobManagedBy",
            "MutableSchedulingDirectivesForSuspendedJobs",
            "StaleControllerConsistencyJob",
            "WorkloadWithJob",
        ],
    ),
    (
        "kube-apiserver-serving-clustertrustbundle-publisher",
        &["controller/certificates/clustertrustbundlepublisher"],
        &["ClusterTrustBundle"],
    ),
    ("legacy-serviceaccount-token-cleaner", &["controller/serviceaccount/legacy_serviceaccount_token_cleaner.go"], &[]),
    ("namespace", &["controller/namespace"], &[]),
    ("node-ipam", &["controller/nodeipam"], &[]),
    (
        "node-lifecycle",
        &["controller/nodelifecycle"],
        &["NodeControllerLeaseCircuitBreaker", "SeparateTaintEvictionController"],
    ),
    ("persistentvolume-protection", &["controller/volume/pvprotection"], &[]),
    (
        "persistentvolumeclaim-protection",
        &["controller/volume/pvcprotection"],
        &["PersistentVolumeClaimUnusedSinceTime"],
    ),
    ("pod-garbage-collector", &["controller/podgc"], &[]),
    ("podcertificaterequest-cleaner", &["controller/certificates/cleaner/pcrcleaner.go"], &["PodCertificateRequest"]),
    ("podgroup-protection", &["controller/scheduling/podgroupprotection"], &["GenericWorkload"]),
    (
        "replicaset",
        &["controller/replicaset", "controller/controller_utils.go"],
        &["DeploymentReplicaSetTerminatingReplicas", "PodDeletionCost", "StaleControllerConsistencyReplicaSet"],
    ),
    ("replicationcontroller", &["controller/replication", "controller/controller_utils.go"], &["PodDeletionCost"]),
    (
        "resourcequota",
        &["controller/resourcequota", "quota/v1"],
        &[
            "DRAExtendedResource",
            "DynamicResourceAllocation",
            "InPlacePodVerticalScaling",
            "PodLevelResources",
            "RecoverVolumeExpansionFailure",
            "VolumeAttributesClass",
        ],
    ),
    ("root-ca-certificate-publisher", &["controller/certificates/rootcacertpublisher"], &[]),
    ("service-cidr", &["controller/servicecidrs"], &[]),
    ("serviceaccount", &["controller/serviceaccount"], &[]),
    ("serviceaccount-token", &["controller/serviceaccount/tokens_controller.go"], &[]),
    (
        "statefulset",
        &["controller/statefulset"],
        &[
            "MaxUnavailableStatefulSet",
            "StaleControllerConsistencyStatefulSet",
            "StatefulSetRecreateStrategy",
            "StatefulSetSemanticRevisionComparison",
        ],
    ),
    (
        "taint-eviction",
        &["controller/tainteviction", "apis/core/v1/helper/helpers.go"],
        &["TaintTolerationComparisonOperators"],
    ),
    ("token-cleaner", &["controller/bootstrap"], &[]),
    ("ttl", &["controller/ttl"], &[]),
    ("ttl-after-finished", &["controller/ttlafterfinished"], &[]),
    ("volumeattributesclass-protection", &["controller/volume/vacprotection"], &[]),
];

/// kube-controller-manager decides at the start whether these run at all.
const RUN_BY_GATE: [&str; 4] = [
    "device-taint-eviction",
    "kube-apiserver-serving-clustertrustbundle-publisher",
    "podcertificaterequest-cleaner",
    "podgroup-protection",
];

fn plugins() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

fn read<T: for<'de> Deserialize<'de>>(path: &Path) -> T {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("read {}: {error}", path.display()));
    serde_norway::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Whether the gates of a group in `feature-gates.yaml` have only one value.
#[derive(Deserialize)]
struct Group {
    #[serde(default)]
    locked: bool,
    #[serde(default)]
    fixed: bool,
    gates: Vec<String>,
}

#[derive(Deserialize)]
struct Manifest {
    #[serde(rename = "builtIn")]
    built_in: BuiltIn,
}

#[derive(Deserialize)]
struct BuiltIn {
    #[serde(default, rename = "featureGates")]
    feature_gates: Vec<Gate>,
}

#[derive(Deserialize)]
struct Gate {
    name: String,
}

#[test]
fn each_gate_that_upstream_reads_is_declared_or_refused() {
    let groups: Vec<Group> = read(&plugins().join("feature-gates.yaml"));
    let of_one_value = groups.into_iter().filter(|group| group.locked || group.fixed).flat_map(|group| group.gates);
    let of_one_value: BTreeSet<String> = of_one_value.collect();
    let mut folders = BTreeSet::new();
    for (folder, _, gates) in READ {
        let manifest: Manifest = read(&plugins().join(folder).join("manifest.yaml"));
        let declared: BTreeSet<String> = manifest.built_in.feature_gates.into_iter().map(|gate| gate.name).collect();
        let expected = gates.iter().map(|gate| (*gate).to_owned()).filter(|gate| !of_one_value.contains(gate));
        assert_eq!(declared, expected.collect(), "{folder}");
        folders.insert((*folder).to_owned());
    }
    let entries = std::fs::read_dir(plugins()).expect("the folder is there").filter_map(Result::ok);
    let built = entries.filter(|entry| entry.path().join("manifest.yaml").exists());
    assert_eq!(
        folders,
        built.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect(),
        "all are listed"
    );
}

/// The folder of Kubernetes' sources in the module cache, as after a build of the control plane for tests.
#[test]
fn the_gates_that_upstream_reads_are_known() {
    let Some(home) = std::env::var_os("HOME") else { return };
    let sources = Path::new(&home).join(format!("go/pkg/mod/k8s.io/kubernetes@v{KUBERNETES}/pkg"));
    if !sources.exists() {
        return;
    }
    for (folder, packages, gates) in READ.iter().filter(|(folder, ..)| !RUN_BY_GATE.contains(folder)) {
        let mut found = BTreeSet::new();
        packages.iter().for_each(|package| find(&sources.join(package), &mut found));
        assert_eq!(found, gates.iter().map(|gate| (*gate).to_owned()).collect(), "{folder}");
    }
}

/// Collects `features.NAME` from the sources below a path.
fn find(path: &Path, found: &mut BTreeSet<String>) {
    if path.is_dir() {
        let entries = std::fs::read_dir(path).expect("it is a folder").filter_map(Result::ok);
        return entries.for_each(|entry| find(&entry.path(), found));
    }
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    if !name.ends_with(".go") || name.ends_with("_test.go") {
        return;
    }
    let text = std::fs::read_to_string(path).expect("it can be read");
    for rest in text.split("features.").skip(1) {
        let gate: String = rest.chars().take_while(char::is_ascii_alphanumeric).collect();
        if gate.starts_with(|first: char| first.is_ascii_uppercase()) {
            found.insert(gate);
        }
    }
}
