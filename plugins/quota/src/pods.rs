//! Usage of Pods.
//!
//! *Source*: `pkg/quota/v1/evaluator/core/pods.go`; `GetPodQOS` of `pkg/apis/core/v1/helper/qos`; `IsNativeResource`
//! and `IsExtendedResourceName` of `pkg/apis/core/v1/helper`; `IsDRAExtendedResourceName` of `pkg/scheduler/util`. The
//! API server has checked that a Pod's resources have qualified names.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use pintle_sdk::time::Timestamp;

use crate::Scope;
use crate::evaluator::{Evaluator, selects};
use crate::pod_resources;
use crate::resource_list::{self, ONE, ResourceList};
use crate::types::{
    Pod, PodSpecAffinityPodAffinityPreferredDuringSchedulingIgnoredDuringExecutionPodAffinityTerm as Term,
    PodStatusContainerStatuses as Status,
};

pub(crate) const REQUESTS: &str = "requests.";
const LIMITS: &str = "limits.";
const COUNT: &str = "count/pods";
const HUGE_PAGES: &str = "hugepages-";

/// The prefix of an extended resource that names a class of devices.
pub(crate) const DEVICE_CLASS: &str = "deviceclass.resource.kubernetes.io/";

/// Resources with a request, the same request with the prefix `requests.`, and a limit.
const COMPUTE: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

/// Resources that each container must set if a quota limits them. Upstream calls this a mistake and does not repeat it
/// for other resources.
#[doc(alias = "validationSet")]
const REQUIRED: [&str; 6] = ["cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"];

/// Usage of Pods.
#[derive(Clone, Copy)]
pub struct Pods {
    /// The current time.
    pub now: Timestamp,
    /// Whether `spec.resources` counts.
    pub pod_level_resources: bool,
}

impl Evaluator for Pods {
    type Object = Pod;

    fn measures(&self, resource: &str) -> bool {
        let is_compute = || {
            let name = resource.strip_prefix(REQUESTS).or_else(|| resource.strip_prefix(LIMITS)).unwrap_or(resource);
            COMPUTE.contains(&name)
        };
        matches!(resource, COUNT | "pods")
            || is_compute()
            || resource.strip_prefix(REQUESTS).unwrap_or(resource).starts_with(HUGE_PAGES)
            || is_extended(resource)
    }

    #[doc(alias = "podMatchesScopeFunc")]
    fn is_in(&self, scope: &Scope, pod: &Pod) -> bool {
        match scope.scope_name.as_str() {
            "Terminating" => is_terminating(pod),
            "NotTerminating" => !is_terminating(pod),
            "BestEffort" => self.is_best_effort(pod),
            "NotBestEffort" => !self.is_best_effort(pod),
            "PriorityClass" => {
                selects(scope, Some(pod.spec.priority_class_name.as_str()).filter(|name| !name.is_empty()))
            }
            "CrossNamespacePodAffinity" => uses_other_namespaces(pod),
            _ => false,
        }
    }

    #[doc(alias = "PodUsageFunc")]
    fn usage(&self, pod: &Pod) -> ResourceList {
        // The count includes Pods that have ended.
        let mut used = ResourceList::from([(COUNT.to_owned(), ONE)]);
        if self.is_charged(pod) {
            let requests = pod_resources::requests(pod, self.pod_level_resources);
            let limits = pod_resources::limits(pod, self.pod_level_resources);
            resource_list::add(&mut used, &compute_usage(&requests, &limits));
        }
        used
    }

    #[doc(alias = "enforcePodContainerConstraints")]
    fn constraints(&self, required: &[&str], pod: &Pod) -> Result<(), String> {
        if self.pod_level_resources && pod_resources::is_pod_level_set(pod) {
            return Ok(());
        }
        let mut missing: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for container in pod.spec.containers.iter().chain(&pod.spec.init_containers) {
            let set = compute_usage(&container.resources.requests, &container.resources.limits);
            for name in required.iter().filter(|name| REQUIRED.contains(name) && !set.contains_key(**name)) {
                missing.entry(*name).or_default().insert(&container.name);
            }
        }
        if missing.is_empty() {
            return Ok(());
        }
        let of = |(name, containers): (&&str, &BTreeSet<&str>)| {
            format!("{name} for: {}", containers.iter().copied().collect::<Vec<_>>().join(","))
        };
        Err(format!("must specify {}", missing.iter().map(of).collect::<Vec<_>>().join("; ")))
    }

    fn handles_update(&self, subresource: &str, old: &Pod, new: &Pod) -> bool {
        match subresource {
            "" => is_terminating(old) != is_terminating(new),
            "resize" => true,
            _ => false,
        }
    }
}

impl Pods {
    /// Whether a Pod uses more than `count/pods`: it has not ended, and its deletion is not overdue, as on a lost Node.
    #[doc(alias = "QuotaV1Pod")]
    pub fn is_charged(&self, pod: &Pod) -> bool {
        let metadata = &pod.metadata;
        let is_late = metadata
            .deletion_timestamp
            .zip(metadata.deletion_grace_period_seconds)
            .is_some_and(|(at, grace)| self.now > at.plus(Duration::from_secs(u64::try_from(grace).unwrap_or(0))));
        !matches!(pod.status.phase.as_str(), "Failed" | "Succeeded") && !is_late
    }

    /// Whether a change of a Pod may reduce the usage of a quota.
    #[doc(alias = "DefaultUpdateFilter")]
    pub fn makes_room(&self, old: &Pod, new: &Pod) -> bool {
        has_resources_changed(old, new)
            || is_terminating(old) != is_terminating(new)
            || self.is_charged(old) && !self.is_charged(new)
    }

    /// Whether a Pod requests no CPU and no memory.
    #[doc(alias = "GetPodQOS")]
    fn is_best_effort(&self, pod: &Pod) -> bool {
        if !pod.status.qos_class.is_empty() {
            return pod.status.qos_class == "BestEffort";
        }
        let has =
            |list: &ResourceList| ["cpu", "memory"].iter().any(|name| list.get(*name).is_some_and(|q| !q.is_zero()));
        match pod.spec.resources.as_ref().filter(|_| self.pod_level_resources && pod_resources::is_pod_level_set(pod)) {
            Some(own) => !has(&own.requests) && !has(&own.limits),
            None => {
                let mut containers = pod.spec.containers.iter().chain(&pod.spec.init_containers);
                !containers.any(|container| has(&container.resources.requests) || has(&container.resources.limits))
            }
        }
    }
}

/// The usage from requests and limits.
#[doc(alias = "podComputeUsageHelper")]
fn compute_usage(requests: &ResourceList, limits: &ResourceList) -> ResourceList {
    let mut used = ResourceList::from([("pods".to_owned(), ONE)]);
    for (name, amount) in requests {
        let (is_extended, is_own) = (is_extended_resource(name), name.starts_with(HUGE_PAGES));
        if is_own || COMPUTE.contains(&name.as_str()) {
            used.insert(name.clone(), *amount);
        }
        if is_own || is_extended || COMPUTE.contains(&name.as_str()) {
            used.insert(format!("{REQUESTS}{name}"), *amount);
        }
    }
    for (name, amount) in limits.iter().filter(|(name, _)| COMPUTE.contains(&name.as_str())) {
        used.insert(format!("{LIMITS}{name}"), *amount);
    }
    used
}

/// Whether this is the name of requests of an extended resource.
#[doc(alias = "isExtendedResourceNameForQuota")]
pub(crate) fn is_extended(resource: &str) -> bool {
    resource.strip_prefix(REQUESTS).is_some_and(|name| !is_native(resource) || name.starts_with(DEVICE_CLASS))
}

/// Whether this is the name of an extended resource in a container.
#[doc(alias = "IsDRAExtendedResourceName")]
fn is_extended_resource(name: &str) -> bool {
    !is_native(name) && !name.starts_with(REQUESTS) || name.starts_with(DEVICE_CLASS)
}

#[doc(alias = "IsNativeResource")]
fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// Whether the actual resources of a container have changed.
#[doc(alias = "hasResourcesChanged")]
fn has_resources_changed(old: &Pod, new: &Pod) -> bool {
    let differ = |old: &[Status], new: &[Status]| {
        old.iter().any(|old| new.iter().any(|new| new.name == old.name && new.resources != old.resources))
    };
    differ(&old.status.container_statuses, &new.status.container_statuses)
        || differ(&old.status.init_container_statuses, &new.status.init_container_statuses)
}

/// Whether a Pod has a deadline.
#[doc(alias = "IsTerminating")]
fn is_terminating(pod: &Pod) -> bool {
    pod.spec.active_deadline_seconds.is_some_and(|seconds| seconds >= 0)
}

/// Whether an affinity of a Pod refers to Pods of other namespaces.
#[doc(alias = "usesCrossNamespacePodAffinity")]
fn uses_other_namespaces(pod: &Pod) -> bool {
    let Some(affinity) = &pod.spec.affinity else { return false };
    let is_other = |term: &Term| !term.namespaces.is_empty() || term.namespace_selector.is_some();
    let (near, far) = (&affinity.pod_affinity, &affinity.pod_anti_affinity);
    near.as_ref().is_some_and(|near| {
        near.required_during_scheduling_ignored_during_execution.iter().any(is_other)
            || near
                .preferred_during_scheduling_ignored_during_execution
                .iter()
                .any(|one| is_other(&one.pod_affinity_term))
    }) || far.as_ref().is_some_and(|far| {
        far.required_during_scheduling_ignored_during_execution.iter().any(is_other)
            || far
                .preferred_during_scheduling_ignored_during_execution
                .iter()
                .any(|one| is_other(&one.pod_affinity_term))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::resource_list::text;

    fn pods() -> Pods {
        Pods { now: Timestamp::parse("2026-01-01T00:10:00Z").unwrap(), pod_level_resources: true }
    }

    fn pod(value: &Value) -> Pod {
        serde_json::from_value(value.clone()).unwrap()
    }

    fn requesting(requests: Value, limits: Value) -> Value {
        json!({"spec": {"containers": [{"name": "dummy", "resources": {"requests": requests, "limits": limits}}]}})
    }

    /// As rows of `TestPodEvaluatorUsage` of pods_test.go.
    #[test]
    fn usage_is_that_of_upstream() {
        let ended = |phase: &str| {
            let mut pod = requesting(json!({"cpu": "1m"}), json!({"cpu": "2m"}));
            pod["status"] = json!({"phase": phase});
            pod
        };
        let deleted = |at: &str| {
            let mut pod = requesting(json!({"cpu": "1m"}), json!({}));
            pod["metadata"] = json!({"deletionTimestamp": at, "deletionGracePeriodSeconds": 60});
            pod
        };
        for (value, expected) in [
            (
                requesting(json!({"cpu": "1m"}), json!({"cpu": "2m"})),
                "count/pods=1,cpu=1m,limits.cpu=2m,pods=1,requests.cpu=1m",
            ),
            (
                requesting(json!({"memory": "1Mi"}), json!({"memory": "2Mi"})),
                "count/pods=1,limits.memory=2Mi,memory=1Mi,pods=1,requests.memory=1Mi",
            ),
            (
                requesting(json!({"ephemeral-storage": "32Mi"}), json!({"ephemeral-storage": "64Mi"})),
                "count/pods=1,ephemeral-storage=32Mi,limits.ephemeral-storage=64Mi,pods=1,requests.ephemeral-storage=32Mi",
            ),
            (
                requesting(json!({"hugepages-2Mi": "100Mi"}), json!({"hugepages-2Mi": "100Mi"})),
                "count/pods=1,hugepages-2Mi=100Mi,pods=1,requests.hugepages-2Mi=100Mi",
            ),
            (
                requesting(json!({"example.com/dongle": "3"}), json!({"example.com/dongle": "3"})),
                "count/pods=1,pods=1,requests.example.com/dongle=3",
            ),
            (ended("Failed"), "count/pods=1"),
            (ended("Succeeded"), "count/pods=1"),
            (ended("Running"), "count/pods=1,cpu=1m,limits.cpu=2m,pods=1,requests.cpu=1m"),
            (deleted("2026-01-01T00:09:00Z"), "count/pods=1,cpu=1m,pods=1,requests.cpu=1m"),
            (deleted("2026-01-01T00:08:59Z"), "count/pods=1"),
        ] {
            assert_eq!(text(pods().usage(&pod(&value)).iter()), expected, "{value}");
        }
    }

    /// As rows of `TestPodConstraintsFunc`.
    #[test]
    fn containers_must_set_what_is_limited() {
        let container =
            |name: &str| json!({"name": name, "resources": {"requests": {"cpu": "1m"}, "limits": {"cpu": "2m"}}});
        let init =
            json!({"spec": {"initContainers": [container("foo"), container("bar")], "containers": [container("foo")]}});
        let set = json!({"spec": {"containers": [container("foo")], "resources": {"requests": {"cpu": "1m"}}}});
        for (value, required, expected) in [
            (&init, vec!["memory"], "must specify memory for: bar,foo"),
            (
                &init,
                vec!["limits.memory", "memory", "pods", "requests.example.com/dongle"],
                "must specify limits.memory for: bar,foo; memory for: bar,foo",
            ),
            (&init, vec!["requests.cpu", "limits.cpu", "ephemeral-storage"], ""),
            (&set, vec!["memory"], ""),
        ] {
            let result = pods().constraints(&required, &pod(value));
            assert_eq!(result.err().unwrap_or_default(), expected, "{required:?} {value}");
        }
    }

    /// As `TestHasResourcesChanged` of update_filter_test.go.
    #[test]
    fn room_is_made_by_ends_and_other_resources() {
        let status = |phase: &str, cpu: Option<&str>| {
            let resources = cpu.map(|cpu| json!({"requests": {"cpu": cpu}}));
            json!({"status": {"phase": phase, "containerStatuses": [{"name": "foo", "resources": resources}]}})
        };
        let ends = json!({"spec": {"activeDeadlineSeconds": 5}, "status": {"phase": "Running"}});
        let plain = json!({"status": {"phase": "Running"}});
        for (old, new, expected) in [
            (status("Running", Some("2")), status("Running", Some("2000m")), false),
            (status("Running", Some("2")), status("Running", Some("3")), true),
            (status("Pending", None), status("Running", None), false),
            (status("Pending", None), status("Running", Some("2")), true),
            (status("Running", None), status("Failed", None), true),
            (status("Failed", None), status("Succeeded", None), false),
            (plain.clone(), status("Running", Some("2")), false),
            (plain, ends, true),
        ] {
            assert_eq!(pods().makes_room(&pod(&old), &pod(&new)), expected, "{old} {new}");
        }
    }

    /// As rows of `TestPodEvaluatorMatchingScopes`.
    #[test]
    fn pods_are_in_the_scopes_of_upstream() {
        let other = json!({"namespaceSelector": {}, "topologyKey": "zone"});
        let weighted = json!({"weight": 1, "podAffinityTerm": other});
        let scope = |name: &str, operator: &str, values: &[&str]| Scope {
            scope_name: name.into(),
            operator: operator.into(),
            values: values.iter().map(|value| (*value).to_owned()).collect(),
        };
        let plain = json!({"spec": {"containers": [{"name": "c"}]}});
        let class = json!({"spec": {"priorityClassName": "class1", "activeDeadlineSeconds": 0}});
        let asks = requesting(json!({"cpu": "1m"}), json!({}));
        let near =
            json!({"spec": {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [other]}}}});
        let far = json!({"spec": {"affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [weighted]}}}});
        let same = json!({"spec": {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone"}]}}}});
        for (value, scope, expected) in [
            (&plain, scope("BestEffort", "Exists", &[]), true),
            (&plain, scope("NotBestEffort", "Exists", &[]), false),
            (&plain, scope("Terminating", "Exists", &[]), false),
            (&plain, scope("NotTerminating", "Exists", &[]), true),
            (&asks, scope("BestEffort", "Exists", &[]), false),
            (&class, scope("Terminating", "Exists", &[]), true),
            (&class, scope("PriorityClass", "Exists", &[]), true),
            (&class, scope("PriorityClass", "In", &["class1", "class2"]), true),
            (&class, scope("PriorityClass", "NotIn", &["class1"]), false),
            (&plain, scope("PriorityClass", "NotIn", &["class1"]), true),
            (&plain, scope("PriorityClass", "In", &["class1"]), false),
            (&plain, scope("PriorityClass", "DoesNotExist", &[]), true),
            (&near, scope("CrossNamespacePodAffinity", "Exists", &[]), true),
            (&far, scope("CrossNamespacePodAffinity", "Exists", &[]), true),
            (&same, scope("CrossNamespacePodAffinity", "Exists", &[]), false),
            (&plain, scope("VolumeAttributesClass", "Exists", &[]), false),
        ] {
            assert_eq!(pods().is_in(&scope, &pod(value)), expected, "{scope:?} {value}");
        }
    }

    #[test]
    fn names_of_resources_are_those_of_upstream() {
        for (name, expected) in [
            ("count/pods", true),
            ("pods", true),
            ("limits.ephemeral-storage", true),
            ("hugepages-2Mi", true),
            ("requests.hugepages-2Mi", true),
            ("limits.hugepages-2Mi", false),
            ("requests.example.com/dongle", true),
            ("example.com/dongle", false),
            ("requests.kubernetes.io/dongle", false),
            ("requests.deviceclass.resource.kubernetes.io/gpu", true),
            ("requests.storage", false),
            ("count/secrets", false),
        ] {
            assert_eq!(pods().measures(name), expected, "{name}");
        }
    }
}
