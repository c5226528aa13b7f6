//! The types that the controller reads.

use plugin_lib::services::ServicePort;

pintle_sdk::types!(
    "manifest.yaml",
    "v1/Service": [
        "metadata.creationTimestamp",
        "metadata.labels",
        "spec.clusterIP",
        "spec.ipFamilies",
        "spec.ports": Vec<ServicePort>,
        "spec.publishNotReadyAddresses",
        "spec.selector",
        "spec.type",
    ],
    "v1/Pod" = plugin_lib::services::Pod,
    "v1/Endpoints" = plugin_lib::subsets::Endpoints,
    "v1/Endpoints" as Leftover: [
        "metadata.annotations['control-plane.alpha.kubernetes.io/leader']",
        "metadata.creationTimestamp",
    ],
);

/// The queue of Endpoints that may have no Service.
pub(crate) const LEFTOVERS: &str = "endpoint_leftovers";
