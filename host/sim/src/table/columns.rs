//! Columns of the built-in kinds: `Name[:type][*]`, where `*` marks what only `-o wide` shows.

use serde_json::{Value, json};

use super::{Cells, cells as c, cells_workloads as w};

/// Columns of a kind without a printer of its own.
pub(super) const DEFAULT: &[&str] = &["Name", "Created At:date"];

type Entry = (&'static str, &'static str, &'static [&'static str], Cells);

const ADMISSION: &str = "admissionregistration.k8s.io";
const NETWORKING: &str = "networking.k8s.io";
const RBAC: &str = "rbac.authorization.k8s.io";
const STORAGE: &str = "storage.k8s.io";

const REPLICAS: &[&str] =
    &["Name", "Desired:integer", "Current:integer", "Ready:integer", "Age", "Containers*", "Images*", "Selector*"];
const EVENT: &[&str] =
    &["Last Seen", "Type", "Reason", "Object", "Subobject*", "Source*", "Message", "First Seen*", "Count*", "Name*"];
const BINDING: &[&str] = &["Name", "Role", "Age", "Users*", "Groups*", "ServiceAccounts*"];

const PRINTERS: &[Entry] = &[
    (
        "",
        "Pod",
        &["Name", "Ready", "Status", "Restarts", "Age", "IP*", "Node*", "Nominated Node*", "Readiness Gates*"],
        w::pod,
    ),
    ("", "PodTemplate", &["Name", "Containers", "Images", "Pod Labels"], w::pod_template),
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
    ("apps", "ControllerRevision", &["Name", "Controller", "Revision", "Age"], w::controller_revision),
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
        w::cron_job,
    ),
    ("", "Service", &["Name", "Type", "Cluster-IP", "External-IP", "Port(s)", "Age", "Selector*"], c::service),
    ("", "Endpoints", &["Name", "Endpoints", "Age"], c::endpoints),
    ("discovery.k8s.io", "EndpointSlice", &["Name", "AddressType", "Ports", "Endpoints", "Age"], c::endpoint_slice),
    (NETWORKING, "Ingress", &["Name", "Class", "Hosts", "Address", "Ports", "Age"], c::ingress),
    (NETWORKING, "IngressClass", &["Name", "Controller", "Parameters", "Age"], c::ingress_class),
    (NETWORKING, "NetworkPolicy", &["Name", "Pod-Selector", "Age"], c::network_policy),
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
    ("", "ServiceAccount", &["Name", "Age"], c::name_and_age),
    ("", "ResourceQuota", &["Name", "Request", "Limit", "Age"], c::resource_quota),
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
        c::persistent_volume,
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
        c::persistent_volume_claim,
    ),
    (
        "policy",
        "PodDisruptionBudget",
        &["Name", "Min Available", "Max Unavailable", "Allowed Disruptions:integer", "Age"],
        c::disruption_budget,
    ),
    (
        "autoscaling",
        "HorizontalPodAutoscaler",
        &["Name", "Reference", "Targets", "MinPods", "MaxPods", "Replicas", "Age"],
        c::autoscaler,
    ),
    (
        STORAGE,
        "StorageClass",
        &["Name", "Provisioner", "ReclaimPolicy", "VolumeBindingMode", "AllowVolumeExpansion", "Age"],
        c::storage_class,
    ),
    (STORAGE, "VolumeAttachment", &["Name", "Attacher", "PV", "Node", "Attached:boolean", "Age"], c::volume_attachment),
    (STORAGE, "CSINode", &["Name", "Drivers:integer", "Age"], c::csi_node),
    ("coordination.k8s.io", "Lease", &["Name", "Holder", "Age"], c::lease),
    (RBAC, "RoleBinding", BINDING, c::role_binding),
    (RBAC, "ClusterRoleBinding", BINDING, c::role_binding),
    (
        "certificates.k8s.io",
        "CertificateSigningRequest",
        &["Name", "Age", "SignerName", "Requestor", "RequestedDuration", "Condition"],
        c::signing_request,
    ),
    (
        "scheduling.k8s.io",
        "PriorityClass",
        &["Name", "Value:integer", "Global-Default:boolean", "Age", "PreemptionPolicy"],
        c::priority_class,
    ),
    ("node.k8s.io", "RuntimeClass", &["Name", "Handler", "Age"], c::runtime_class),
    (ADMISSION, "MutatingWebhookConfiguration", &["Name", "Webhooks:integer", "Age"], c::webhooks),
    (ADMISSION, "ValidatingWebhookConfiguration", &["Name", "Webhooks:integer", "Age"], c::webhooks),
    ("apiregistration.k8s.io", "APIService", &["Name", "Service", "Available", "Age"], c::api_service),
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
