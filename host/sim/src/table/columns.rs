//! Columns of the built-in kinds: `Name[:type][*]`, where `*` marks columns of `-o wide` only.

use serde_json::{Value, json};

use super::{Cells, cells as c, cells_batch as b, cells_network as n, cells_workloads as w};

/// Columns of all other kinds.
pub(super) const DEFAULT: &[&str] = &["Name", "Age"];

type Entry = (&'static str, &'static str, &'static [&'static str], Cells);

const REPLICAS: &[&str] =
    &["Name", "Desired:integer", "Current:integer", "Ready:integer", "Age", "Containers*", "Images*", "Selector*"];
const EVENT: &[&str] =
    &["Last Seen", "Type", "Reason", "Object", "Subobject*", "Source*", "Message", "First Seen*", "Count*", "Name*"];

const PRINTERS: &[Entry] = &[
    (
        "",
        "Pod",
        &["Name", "Ready", "Status", "Restarts", "Age", "IP*", "Node*", "Nominated Node*", "Readiness Gates*"],
        w::pod,
    ),
    ("", "ReplicationController", REPLICAS, w::replication_controller),
    ("apps", "ReplicaSet", REPLICAS, w::replica_set),
    (
        "apps",
        "Deployment",
        &["Name", "Ready", "Up-to-date", "Available", "Age", "Containers*", "Images*", "Selector*"],
        w::deployment,
    ),
    ("apps", "StatefulSet", &["Name", "Ready", "Age", "Containers*", "Images*"], w::stateful_set),
    (
        "apps",
        "DaemonSet",
        &[
            "Name",
            "Desired:integer",
            "Current:integer",
            "Ready:integer",
            "Up-to-date:integer",
            "Available:integer",
            "Node Selector",
            "Age",
            "Containers*",
            "Images*",
            "Selector*",
        ],
        w::daemon_set,
    ),
    (
        "batch",
        "Job",
        &["Name", "Status", "Completions", "Duration", "Age", "Containers*", "Images*", "Selector*"],
        w::job,
    ),
    (
        "batch",
        "CronJob",
        &[
            "Name",
            "Schedule",
            "Timezone",
            "Suspend:boolean",
            "Active:integer",
            "Last Schedule",
            "Age",
            "Containers*",
            "Images*",
            "Selector*",
        ],
        b::cron_job,
    ),
    ("apps", "ControllerRevision", &["Name", "Controller", "Revision", "Age"], b::revision),
    (
        "policy",
        "PodDisruptionBudget",
        &["Name", "Min Available", "Max Unavailable", "Allowed Disruptions:integer", "Age"],
        b::budget,
    ),
    (
        "autoscaling",
        "HorizontalPodAutoscaler",
        &["Name", "Reference", "Targets", "MinPods", "MaxPods", "Replicas", "Age"],
        b::autoscaler,
    ),
    (
        "",
        "PersistentVolume",
        &[
            "Name",
            "Capacity",
            "Access Modes",
            "Reclaim Policy",
            "Status",
            "Claim",
            "StorageClass",
            "VolumeAttributesClass",
            "Reason",
            "Age",
            "VolumeMode*",
        ],
        b::volume,
    ),
    (
        "",
        "PersistentVolumeClaim",
        &[
            "Name",
            "Status",
            "Volume",
            "Capacity",
            "Access Modes",
            "StorageClass",
            "VolumeAttributesClass",
            "Age",
            "VolumeMode*",
        ],
        b::claim,
    ),
    (
        "storage.k8s.io",
        "StorageClass",
        &["Name", "Provisioner", "ReclaimPolicy", "VolumeBindingMode", "AllowVolumeExpansion", "Age"],
        b::storage_class,
    ),
    ("", "Service", &["Name", "Type", "Cluster-IP", "External-IP", "Port(s)", "Age", "Selector*"], c::service),
    (
        "",
        "Node",
        &[
            "Name",
            "Status",
            "Roles",
            "Age",
            "Version",
            "Internal-IP*",
            "External-IP*",
            "OS-Image*",
            "Kernel-Version*",
            "Container-Runtime*",
        ],
        c::node,
    ),
    ("", "Namespace", &["Name", "Status", "Age"], c::namespace),
    ("", "Event", EVENT, c::event),
    ("events.k8s.io", "Event", EVENT, c::event),
    ("", "ConfigMap", &["Name", "Data", "Age"], c::config_map),
    ("", "Secret", &["Name", "Type", "Data", "Age"], c::secret),
    ("", "Endpoints", &["Name", "Endpoints", "Age"], n::endpoints),
    ("discovery.k8s.io", "EndpointSlice", &["Name", "AddressType", "Ports", "Endpoints", "Age"], n::endpoint_slice),
    ("networking.k8s.io", "ServiceCIDR", &["Name", "CIDRs", "Age"], n::service_cidr),
    ("networking.k8s.io", "IPAddress", &["Name", "ParentRef", "Age"], n::ip_address),
    (
        "certificates.k8s.io",
        "CertificateSigningRequest",
        &["Name", "Age", "SignerName", "Requestor", "RequestedDuration", "Condition"],
        c::certificate_signing_request,
    ),
    ("", "ResourceQuota", &["Name", "Request", "Limit", "Age"], c::resource_quota),
    ("coordination.k8s.io", "Lease", &["Name", "Holder", "Age"], c::lease),
    (
        "scheduling.k8s.io",
        "PriorityClass",
        &["Name", "Value:integer", "Global-Default:boolean", "Age", "PreemptionPolicy"],
        c::priority_class,
    ),
];

/// Columns and cells of a built-in kind.
pub(super) fn printer(group: &str, kind: &str) -> Option<(&'static [&'static str], Cells)> {
    let entry = PRINTERS.iter().find(|entry| entry.0 == group && entry.1 == kind)?;
    Some((entry.2, entry.3))
}

#[cfg(test)]
pub(super) fn kinds() -> impl Iterator<Item = (&'static str, &'static str)> {
    PRINTERS.iter().map(|entry| (entry.0, entry.1))
}

/// The `columnDefinitions` entry of one column.
pub(super) fn definition(column: &str) -> Value {
    let (column, priority) = column.strip_suffix('*').map_or((column, 0), |column| (column, 1));
    let (name, kind) = column.split_once(':').unwrap_or((column, "string"));
    let format = if name == "Name" && priority == 0 { "name" } else { "" };
    json!({"name": name, "type": kind, "format": format, "description": "", "priority": priority})
}
