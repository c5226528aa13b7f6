//! The types that the controller reads.

pintle_sdk::types!(
    "manifest.yaml",
    "v1/ResourceQuota" = [plugin_quota::ResourceQuota],
    "v1/Pod" = plugin_quota::Pod,
    "v1/Service" = plugin_quota::Service,
    "v1/PersistentVolumeClaim" = plugin_quota::PersistentVolumeClaim,
    "resource.k8s.io/v1/ResourceClaim" = plugin_quota::ResourceClaim,
    "resource.k8s.io/v1/DeviceClass" = plugin_quota::DeviceClass,
);
