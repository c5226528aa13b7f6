//! The types that the controller reads.

use plugin_lib::nodes::{NodeAffinity, Taint, Toleration};

pintle_sdk::types!(
    "manifest.yaml",
    "apps/v1/DaemonSet": [
        "metadata.annotations",
        "metadata.generation",
        "metadata.deletionTimestamp",
        "spec.selector",
        "spec.template",
        "spec.updateStrategy",
        "spec.minReadySeconds",
        "spec.revisionHistoryLimit",
        "status",
    ],
    "apps/v1/DaemonSet" as ListedDaemonSet: [
        "spec.template.spec.nodeName",
        "spec.template.spec.hostNetwork",
        "spec.template.spec.nodeSelector",
        "spec.template.spec.affinity.nodeAffinity": NodeAffinity,
        "spec.template.spec.tolerations": Vec<Toleration>,
        "status.numberMisscheduled",
    ],
    "v1/Node": ["metadata.labels", "spec.taints": Vec<Taint>],
    "v1/Pod": [
        "metadata.labels",
        "metadata.ownerReferences.uid",
        "metadata.ownerReferences.controller",
        "metadata.creationTimestamp",
        "metadata.deletionTimestamp",
        "spec.nodeName",
        "spec.affinity.nodeAffinity": NodeAffinity,
        "status.phase",
        "status.conditions.type",
        "status.conditions.status",
        "status.conditions.lastTransitionTime",
    ],
    "apps/v1/ControllerRevision" = plugin_lib::history::ControllerRevision,
    "v1/Namespace" = plugin_lib::namespace::Namespace,
);
