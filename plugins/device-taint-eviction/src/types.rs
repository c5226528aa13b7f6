//! The types that the controller reads, its configuration and its queues.

use pintle_sdk::{Key, Resource};
use plugin_lib::nodes::Toleration;
use serde::Deserialize;

pintle_sdk::types!(
    "manifest.yaml",
    "resource.k8s.io/v1/ResourceClaim": [
        "metadata.ownerReferences",
        "status.allocation.devices.results.device",
        "status.allocation.devices.results.driver",
        "status.allocation.devices.results.pool",
        "status.allocation.devices.results.tolerations": Vec<Toleration>,
        "status.reservedFor",
    ],
);

/// A device that is allocated to a claim.
pub(crate) type AllocatedDevice = ResourceClaimStatusAllocationDevicesResults;

impl ResourceClaim {
    /// The devices that are allocated to it.
    pub(crate) fn devices(&self) -> &[AllocatedDevice] {
        self.status.allocation.as_ref().map_or(&[][..], |allocation| &allocation.devices.results[..])
    }
}

/// The settings.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Config {
    /// Whether DeviceTaintRules count: the feature gate `DRADeviceTaintRules`.
    pub(crate) rules: bool,
    /// Whether claims may be reserved for groups of Pods: the feature gate `DRAWorkloadResourceClaims`.
    pub(crate) pod_group_claims: bool,
}

/// Queues.
pub(crate) const MAIN: &str = "device-taint-eviction-controller";
pub(crate) const CLAIMS: &str = "device_taint_eviction_claims";
pub(crate) const EVICTED: &str = "device_taint_eviction_evicted";

/// The effect of taints that evict.
#[doc(alias = "DeviceTaintEffectNoExecute")]
pub(crate) const NO_EXECUTE: &str = "NoExecute";

/// The key that evicts a Pod.
pub(crate) fn pod_key(namespace: &str, name: &str) -> Key {
    Key::new(MAIN, Pod::KIND, namespace, name)
}

/// The key that writes the status of a rule.
#[doc(alias = "workItemForRule")]
pub(crate) fn rule_key(name: &str) -> Key {
    Key::new(MAIN, DeviceTaintRule::KIND, "", name)
}
