//! The types that the controller reads.

use plugin_lib::services::ServicePort;

pintle_sdk::types!(
    "manifest.yaml",
    "v1/Service": [
        "metadata.annotations['service.kubernetes.io/topology-aware-hints']",
        "metadata.annotations['service.kubernetes.io/topology-mode']",
        "metadata.creationTimestamp",
        "metadata.deletionTimestamp",
        "metadata.labels",
        "spec.clusterIP",
        "spec.ipFamilies",
        "spec.ports": Vec<ServicePort>,
        "spec.publishNotReadyAddresses",
        "spec.selector",
        "spec.trafficDistribution",
        "spec.type",
    ],
    // For a change of the Nodes.
    "v1/Service" as AnnotatedService: [
        "metadata.annotations['service.kubernetes.io/topology-aware-hints']",
        "metadata.annotations['service.kubernetes.io/topology-mode']",
    ],
    "v1/Pod" = plugin_lib::services::Pod,
    "discovery.k8s.io/v1/EndpointSlice" = plugin_lib::slices::EndpointSlice,
);

/// Queues.
pub(crate) const SERVICES: &str = "endpoint_slice";
pub(crate) const TOPOLOGY: &str = "endpoint_slice_topology";
