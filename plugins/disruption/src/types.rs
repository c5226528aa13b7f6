//! The types that the controller reads.

pintle_sdk::types!(
    "manifest.yaml",
    "policy/v1/PodDisruptionBudget": [
        "metadata.generation",
        "spec.maxUnavailable",
        "spec.minAvailable",
        "spec.selector",
        "status.conditions",
        "status.currentHealthy",
        "status.desiredHealthy",
        "status.disruptedPods",
        "status.disruptionsAllowed",
        "status.expectedPods",
        "status.observedGeneration",
    ],
    "policy/v1/PodDisruptionBudget" as ListedBudget: [],
    "v1/Pod": [
        "metadata.deletionTimestamp",
        "metadata.generation",
        "metadata.labels",
        "status.conditions.lastTransitionTime",
        "status.conditions.reason",
        "status.conditions.status",
        "status.conditions.type",
        "status.phase",
    ],
    "v1/Pod" as CountedPod: [
        "metadata.deletionTimestamp",
        "metadata.ownerReferences.apiVersion",
        "metadata.ownerReferences.controller",
        "metadata.ownerReferences.kind",
        "metadata.ownerReferences.name",
        "metadata.ownerReferences.uid",
        "status.conditions.lastTransitionTime",
        "status.conditions.status",
        "status.conditions.type",
    ],
);

/// Queues.
pub(crate) const DISRUPTION: &str = "disruption";
pub(crate) const RECHECK: &str = "disruption_recheck";
pub(crate) const STALE: &str = "stale_pod_disruption";
pub(crate) const CHANGED: &str = "disruption_pod";
