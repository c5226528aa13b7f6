//! The types that the controller reads.

pintle_sdk::types!(
    "manifest.yaml",
    "v1/Endpoints" = plugin_lib::subsets::Endpoints,
    "discovery.k8s.io/v1/EndpointSlice" = plugin_lib::slices::EndpointSlice,
);
