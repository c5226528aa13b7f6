//! Usage of ResourceClaims: devices by class and by extended resource.
//!
//! *Source*: `pkg/quota/v1/evaluator/core/resource_claims.go`; `extendedresourcecache` of
//! `dynamic-resource-allocation`.

use std::collections::BTreeMap;

use pintle_sdk::quantity::Quantity;

use crate::evaluator::Evaluator;
use crate::pods::{self, Pods};
use crate::resource_list::{ONE, ResourceList, number};
use crate::types::{DeviceClass, Pod, ResourceClaim};

/// The name of the number of objects.
#[doc(alias = "ClaimObjectCountName")]
const COUNT: &str = "count/resourceclaims.resource.k8s.io";

/// The text after the name of a class.
#[doc(alias = "ResourceClaimsPerClass")]
const DEVICES: &str = ".deviceclass.resource.k8s.io/devices";

/// Largest number of devices for one request.
#[doc(alias = "AllocationResultsMaxSize")]
const MOST_DEVICES: i64 = 32;

/// The classes of devices, and the extended resources whose requests they serve.
#[doc(alias = "ExtendedResourceCache")]
#[derive(Default)]
pub struct DeviceClasses(BTreeMap<String, Option<String>>);

impl FromIterator<DeviceClass> for DeviceClasses {
    fn from_iter<I: IntoIterator<Item = DeviceClass>>(classes: I) -> Self {
        Self(classes.into_iter().map(|class| (class.metadata.name, class.spec.extended_resource_name)).collect())
    }
}

impl DeviceClasses {
    /// Whether a class serves requests for this extended resource, by the name in its spec or by its own name.
    #[doc(alias = "GetDeviceClass")]
    fn serve(&self, resource: &str) -> bool {
        let is_own = || resource.strip_prefix(pods::DEVICE_CLASS).is_some_and(|class| self.0.contains_key(class));
        is_own() || self.0.values().any(|name| name.as_deref() == Some(resource))
    }

    #[doc(alias = "GetExtendedResource")]
    fn extended_resource(&self, class: &str) -> Option<&str> {
        self.0.get(class)?.as_deref().filter(|name| !name.is_empty())
    }
}

/// Other objects in the namespace of a claim.
pub trait Neighbours {
    /// A Pod.
    fn pod(&self, namespace: &str, name: &str) -> Option<Pod>;
    /// The claims that the Pod with this uid controls.
    fn claims(&self, namespace: &str, pod: &str) -> Vec<ResourceClaim>;
}

/// Usage of ResourceClaims.
pub struct ResourceClaims<'a, N> {
    /// The classes of devices.
    pub classes: &'a DeviceClasses,
    /// The other objects in the namespace.
    pub neighbours: &'a N,
    /// Usage of Pods.
    pub pods: Pods,
}

impl<N: Neighbours> Evaluator for ResourceClaims<'_, N> {
    type Object = ResourceClaim;

    fn measures(&self, resource: &str) -> bool {
        let is_served = || resource.strip_prefix(pods::REQUESTS).is_some_and(|name| self.classes.serve(name));
        resource == COUNT || resource.ends_with(DEVICES) || pods::is_extended(resource) && is_served()
    }

    fn usage(&self, claim: &ResourceClaim) -> ResourceList {
        let mut devices: BTreeMap<&str, i64> = BTreeMap::new();
        for request in &claim.spec.devices.requests {
            // For the alternatives of a request: the largest number of devices of each class.
            let mut most: BTreeMap<&str, i64> = BTreeMap::new();
            for one in &request.first_available {
                let n = n_devices(&one.allocation_mode, one.count);
                if n > 0 {
                    let known = most.entry(&one.device_class_name).or_default();
                    *known = n.max(*known);
                }
            }
            if let Some(one) = request.exactly.as_ref().filter(|_| request.first_available.is_empty()) {
                most.insert(&one.device_class_name, n_devices(&one.allocation_mode, one.count));
            }
            for (class, n) in most {
                let sum = devices.entry(class).or_default();
                *sum = sum.saturating_add(n);
            }
        }
        let mut used = ResourceList::from([(COUNT.to_owned(), ONE)]);
        let pod = self.verified_pod_usage(claim).unwrap_or_default();
        for (class, n) in devices {
            let amount = number(usize::try_from(n).unwrap_or(0));
            used.insert(format!("{class}{DEVICES}"), amount);
            if !class.is_empty() {
                self.add_extended(&mut used, class, amount, &pod);
            }
        }
        used
    }

    fn handles_update(&self, subresource: &str, _: &ResourceClaim, _: &ResourceClaim) -> bool {
        subresource.is_empty()
    }
}

impl<N: Neighbours> ResourceClaims<'_, N> {
    /// Adds the devices by the names of extended resources, without those that are usage of the claim's Pod.
    #[doc(alias = "addExtendedResourceQuota")]
    fn add_extended(&self, used: &mut ResourceList, class: &str, amount: Quantity, pod: &ResourceList) {
        let own = format!("{}{class}", pods::DEVICE_CLASS);
        let named = self.classes.extended_resource(class).map(str::to_owned);
        for name in [Some(own), named].into_iter().flatten() {
            let name = format!("{}{name}", pods::REQUESTS);
            let rest = pod.get(&name).map_or(amount, |counted| amount - *counted);
            if rest > Quantity::ZERO {
                used.insert(name, rest);
            }
        }
    }

    /// The usage of the Pod for whose extended resources the scheduler has created this claim.
    #[doc(alias = "getVerifiedPodUsage")]
    fn verified_pod_usage(&self, claim: &ResourceClaim) -> Option<ResourceList> {
        let metadata = &claim.metadata;
        let (name, uid) = pod_of(claim)?;
        let pod = self.neighbours.pod(&metadata.namespace, name).filter(|pod| pod.metadata.uid == uid)?;
        let is_its_own = match &pod.status.extended_resource_claim_status {
            Some(status) => status.resource_claim_name == metadata.name,
            // The first of several claims counts.
            None => {
                let others = self.neighbours.claims(&metadata.namespace, uid);
                let place = |claim: &ResourceClaim| (claim.metadata.creation_timestamp, claim.metadata.name.clone());
                let is_before = |other: &ResourceClaim| {
                    pod_of(other).is_some_and(|(_, owner)| owner == uid) && place(other) < place(claim)
                };
                !others.iter().any(is_before)
            }
        };
        is_its_own.then(|| self.pods.usage(&pod))
    }
}

/// Name and uid of the Pod for whose extended resources the claim was created.
#[doc(alias = "extendedResourceClaimPodUIDOwnerIndex")]
fn pod_of(claim: &ResourceClaim) -> Option<(&str, &str)> {
    let owner = claim.metadata.controller().filter(|owner| owner.kind == "Pod" && owner.api_version == "v1")?;
    let is_made = claim.metadata.annotations.extended_resource_claim.as_deref() == Some("true");
    is_made.then_some((owner.name.as_str(), owner.uid.as_str()))
}

/// Largest number of devices of a request; 0 for an unknown mode.
fn n_devices(mode: &str, count: i64) -> i64 {
    match mode {
        "ExactCount" => count,
        "All" => MOST_DEVICES,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use pintle_sdk::time::Timestamp;
    use serde_json::{Value, json};

    use super::*;
    use crate::resource_list::text;

    struct Namespace {
        pods: Vec<Pod>,
        claims: Vec<ResourceClaim>,
    }

    impl Neighbours for Namespace {
        fn pod(&self, _: &str, name: &str) -> Option<Pod> {
            self.pods.iter().find(|pod| pod.metadata.name == name).cloned()
        }

        fn claims(&self, _: &str, _: &str) -> Vec<ResourceClaim> {
            self.claims.clone()
        }
    }

    fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
        serde_json::from_value(value).unwrap()
    }

    fn usage(claim: &Value, classes: &Value, neighbours: &Namespace) -> String {
        let classes: DeviceClasses = read::<Vec<DeviceClass>>(classes.clone()).into_iter().collect();
        let now = Timestamp::parse("2026-01-01T00:00:00Z").unwrap();
        let pods = Pods { now, pod_level_resources: true };
        let evaluator = ResourceClaims { classes: &classes, neighbours, pods };
        text(evaluator.usage(&read(claim.clone())).iter())
    }

    fn exactly(class: &str, mode: &str, count: i64) -> Value {
        json!({"name": "r", "exactly": {"deviceClassName": class, "allocationMode": mode, "count": count}})
    }

    fn claim(requests: Value) -> Value {
        json!({"metadata": {"name": "c", "namespace": "ns"}, "spec": {"devices": {"requests": requests}}})
    }

    const NOBODY: Namespace = Namespace { pods: Vec::new(), claims: Vec::new() };

    /// As rows of `TestResourceClaimEvaluatorUsage` of resource_claims_test.go.
    #[test]
    fn devices_are_counted_by_class() {
        let first = json!({"name": "r", "firstAvailable": [
            {"name": "a", "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 2},
            {"name": "b", "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1},
            {"name": "c", "deviceClassName": "tpu", "allocationMode": "All"},
            {"name": "d", "deviceClassName": "other", "allocationMode": "future"},
        ]});
        let all = "count/resourceclaims.resource.k8s.io=1";
        let own = "requests.deviceclass.resource.kubernetes.io";
        let none = json!([]);
        for (requests, expected) in [
            (json!([]), all.to_owned()),
            (
                json!([exactly("gpu", "ExactCount", 5)]),
                format!("{all},gpu.deviceclass.resource.k8s.io/devices=5,{own}/gpu=5"),
            ),
            (
                json!([exactly("gpu", "All", 0)]),
                format!("{all},gpu.deviceclass.resource.k8s.io/devices=32,{own}/gpu=32"),
            ),
            (
                json!([exactly("gpu", "ExactCount", 5), exactly("gpu", "ExactCount", 3)]),
                format!("{all},gpu.deviceclass.resource.k8s.io/devices=8,{own}/gpu=8"),
            ),
            (json!([exactly("gpu", "future", 5)]), format!("{all},gpu.deviceclass.resource.k8s.io/devices=0")),
            (
                json!([first]),
                format!(
                    "{all},gpu.deviceclass.resource.k8s.io/devices=2,{own}/gpu=2,{own}/tpu=32,\
                     tpu.deviceclass.resource.k8s.io/devices=32"
                ),
            ),
        ] {
            assert_eq!(usage(&claim(requests.clone()), &none, &NOBODY), expected, "{requests}");
        }
        let classes = json!([{"metadata": {"name": "gpu"}, "spec": {"extendedResourceName": "example.com/gpu"}}]);
        assert_eq!(
            usage(&claim(json!([exactly("gpu", "ExactCount", 1)])), &classes, &NOBODY),
            format!("{all},gpu.deviceclass.resource.k8s.io/devices=1,{own}/gpu=1,requests.example.com/gpu=1"),
        );
    }

    #[test]
    fn what_the_pod_of_a_claim_uses_is_counted_once() {
        let mut own = claim(json!([exactly("gpu", "ExactCount", 3)]));
        own["metadata"]["annotations"] = json!({"resource.kubernetes.io/extended-resource-claim": "true"});
        own["metadata"]["creationTimestamp"] = json!("2026-01-01T00:00:00Z");
        own["metadata"]["ownerReferences"] =
            json!([{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "controller": true}]);
        let classes = json!([{"metadata": {"name": "gpu"}, "spec": {"extendedResourceName": "example.com/gpu"}}]);
        let pod = |uid: &str, status: Value| -> Pod {
            let resources = json!({"requests": {"example.com/gpu": "2"}});
            read(json!({"metadata": {"name": "p", "namespace": "ns", "uid": uid},
                "spec": {"containers": [{"name": "c", "resources": resources}]}, "status": status}))
        };
        let mut earlier = own.clone();
        earlier["metadata"]["name"] = json!("b");
        let of = |name: &str| json!({"extendedResourceClaimStatus": {"resourceClaimName": name}});
        for (pod, others, rest) in [
            (pod("u", json!({})), vec![own.clone()], 1),
            (pod("u", of("c")), vec![], 1),
            (pod("u", of("other")), vec![], 3),
            (pod("another", json!({})), vec![own.clone()], 3),
            (pod("u", json!({})), vec![own.clone(), earlier], 3),
        ] {
            let neighbours = Namespace { pods: vec![pod], claims: others.into_iter().map(read).collect() };
            let expected = format!("requests.example.com/gpu={rest}");
            let used = usage(&own, &classes, &neighbours);
            assert!(used.ends_with(&expected), "{used} {expected}");
        }
    }

    /// As rows of `TestResourceClaimEvaluatorMatchingResources`.
    #[test]
    fn names_of_resources_are_those_of_upstream() {
        let class = json!([{"metadata": {"name": "gpu"}, "spec": {"extendedResourceName": "example.com/gpu"}}]);
        let classes: DeviceClasses = read::<Vec<DeviceClass>>(class).into_iter().collect();
        let now = Timestamp::parse("2026-01-01T00:00:00Z").unwrap();
        let pods = Pods { now, pod_level_resources: true };
        let evaluator = ResourceClaims { classes: &classes, neighbours: &NOBODY, pods };
        for (name, expected) in [
            ("count/resourceclaims.resource.k8s.io", true),
            ("any.deviceclass.resource.k8s.io/devices", true),
            ("requests.example.com/gpu", true),
            ("requests.deviceclass.resource.kubernetes.io/gpu", true),
            ("requests.deviceclass.resource.kubernetes.io/none", false),
            ("requests.example.com/none", false),
            ("example.com/gpu", false),
            ("count/pods", false),
        ] {
            assert_eq!(evaluator.measures(name), expected, "{name}");
        }
    }
}
