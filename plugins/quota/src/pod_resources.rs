//! Requests and limits of a Pod: the sum over its containers, or the peak of its init containers if that is larger.
//! During a resize: the largest of the requested, the allocated and the actual amounts.
//!
//! *Source*: `component-helpers/resource/helpers.go`, with the options `UseStatusResources` and, by the feature gate
//! `PodLevelResources`, `SkipPodLevelResources`.

use pintle_sdk::quantity::Quantity;

use crate::resource_list::{ResourceList, add, raise};
use crate::types::{Pod, PodSpecContainers, PodSpecContainersResources, PodStatusContainerStatuses};

static NOTHING: ResourceList = ResourceList::new();

/// The requests of a Pod. `pod_level`: whether `spec.resources` counts.
#[doc(alias = "PodRequests")]
#[doc(alias = "AggregateContainerRequests")]
pub fn requests<'p>(pod: &'p Pod, pod_level: bool) -> ResourceList {
    let is_infeasible = is_resize_infeasible(pod);
    let asked = |container: &'p PodSpecContainers| -> &'p ResourceList {
        if is_infeasible { &NOTHING } else { &container.resources.requests }
    };
    let actuated = sum(pod, |container, status| match status {
        Some(status) if !actual(status).requests.is_empty() => &actual(status).requests,
        Some(status) if !status.allocated_resources.is_empty() => &status.allocated_resources,
        _ => asked(container),
    });
    let allocated = sum(pod, |container, status| match status {
        Some(status) if !status.allocated_resources.is_empty() => &status.allocated_resources,
        _ => asked(container),
    });
    let mut requests = sum(pod, |container, _| asked(container));
    raise(&mut requests, &actuated);
    raise(&mut requests, &allocated);
    if let Some(own) = pod.spec.resources.as_ref().filter(|own| pod_level && has_supported(&own.requests)) {
        requests.extend(supported(&own.requests));
    }
    add(&mut requests, &pod.spec.overhead);
    requests
}

/// The limits of a Pod. `pod_level`: whether `spec.resources` counts.
#[doc(alias = "PodLimits")]
#[doc(alias = "AggregateContainerLimits")]
pub fn limits<'p>(pod: &'p Pod, pod_level: bool) -> ResourceList {
    let is_infeasible = is_resize_infeasible(pod);
    let asked = |container: &'p PodSpecContainers| -> &'p ResourceList {
        if is_infeasible { &NOTHING } else { &container.resources.limits }
    };
    let actuated = sum(pod, |container, status| match status {
        Some(status) if !actual(status).limits.is_empty() => &actual(status).limits,
        _ => asked(container),
    });
    let mut limits = sum(pod, |container, _| asked(container));
    raise(&mut limits, &actuated);
    if let Some(own) = pod.spec.resources.as_ref().filter(|_| pod_level && is_pod_level_set(pod)) {
        limits.extend(supported(&own.limits));
    }
    for (name, overhead) in &pod.spec.overhead {
        if let Some(limit) = limits.get_mut(name).filter(|limit| !limit.is_zero()) {
            *limit += *overhead;
        }
    }
    limits
}

/// Whether `spec.resources` has a resource that counts.
#[doc(alias = "IsPodLevelResourcesSet")]
pub fn is_pod_level_set(pod: &Pod) -> bool {
    pod.spec.resources.as_ref().is_some_and(|own| has_supported(&own.requests) || has_supported(&own.limits))
}

/// Sums up one list of each container.
#[doc(alias = "aggregateContainerResourcesByFn")]
fn sum<'p>(
    pod: &'p Pod,
    list: impl Fn(&'p PodSpecContainers, Option<&'p PodStatusContainerStatuses>) -> &'p ResourceList,
) -> ResourceList {
    let statuses = || pod.status.container_statuses.iter().chain(&pod.status.init_container_statuses);
    let list =
        |container: &'p PodSpecContainers| list(container, statuses().find(|status| status.name == container.name));
    let mut total = ResourceList::new();
    for container in &pod.spec.containers {
        add(&mut total, list(container));
    }
    let (mut sidecars, mut peak) = (ResourceList::new(), ResourceList::new());
    for container in &pod.spec.init_containers {
        let own = list(container);
        if container.restart_policy.as_deref() == Some("Always") {
            add(&mut total, own);
            add(&mut sidecars, own);
            raise(&mut peak, &sidecars);
        } else {
            let mut beside = own.clone();
            add(&mut beside, &sidecars);
            raise(&mut peak, &beside);
        }
    }
    raise(&mut total, &peak);
    total
}

/// The actual resources of a container, from its status.
fn actual(status: &PodStatusContainerStatuses) -> &PodSpecContainersResources {
    static NONE: PodSpecContainersResources =
        PodSpecContainersResources { limits: ResourceList::new(), requests: ResourceList::new() };
    status.resources.as_ref().unwrap_or(&NONE)
}

/// Whether the requested resize is impossible on the Node.
#[doc(alias = "IsPodResizeInfeasible")]
fn is_resize_infeasible(pod: &Pod) -> bool {
    let pending = pod.status.conditions.iter().find(|condition| condition.type_ == "PodResizePending");
    pending.is_some_and(|condition| condition.reason == "Infeasible")
}

fn has_supported(list: &ResourceList) -> bool {
    supported(list).next().is_some()
}

/// The resources of `spec.resources` that count.
#[doc(alias = "IsSupportedPodLevelResource")]
fn supported(list: &ResourceList) -> impl Iterator<Item = (String, Quantity)> {
    let is_supported = |name: &str| matches!(name, "cpu" | "memory") || name.starts_with("hugepages-");
    list.iter().filter(move |(name, _)| is_supported(name)).map(|(name, amount)| (name.clone(), *amount))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::resource_list::text;

    fn check(pod: Value, expected: &str, expected_limits: &str) {
        let read: Pod = serde_json::from_value(pod.clone()).unwrap();
        assert_eq!(text(requests(&read, true).iter()), expected, "{pod}");
        assert_eq!(text(limits(&read, true).iter()), expected_limits, "{pod}");
    }

    fn container(name: &str, cpu: &str) -> Value {
        json!({"name": name, "resources": {"requests": {"cpu": cpu}, "limits": {"cpu": cpu}}})
    }

    fn sidecar(name: &str, cpu: &str) -> Value {
        let mut container = container(name, cpu);
        container["restartPolicy"] = json!("Always");
        container
    }

    /// As rows of `TestPodResourceRequests` of helpers_test.go.
    #[test]
    fn init_containers_count_where_they_need_more_at_a_time() {
        let both = |expected: &str, init: Value, main: Value| {
            check(json!({"spec": {"initContainers": init, "containers": main}}), expected, expected);
        };
        both("cpu=3", json!([]), json!([container("a", "1"), container("b", "2")]));
        both("cpu=5", json!([container("i", "5")]), json!([container("a", "1"), container("b", "2")]));
        both(
            "cpu=4",
            json!([container("i", "2"), sidecar("s", "1")]),
            json!([container("a", "1"), container("b", "2")]),
        );
        both("cpu=6", json!([sidecar("s", "1"), container("i", "5")]), json!([container("a", "1")]));
        both("cpu=5", json!([container("i", "5"), sidecar("s", "1"), sidecar("t", "2")]), json!([container("a", "1")]));
    }

    #[test]
    fn overhead_and_resources_of_the_pod_count() {
        let containers = json!([container("a", "1")]);
        let overhead = json!({"cpu": "100m", "memory": "64Mi"});
        check(json!({"spec": {"containers": containers, "overhead": overhead}}), "cpu=1100m,memory=64Mi", "cpu=1100m");
        let own =
            json!({"requests": {"cpu": "3", "memory": "1Gi", "ephemeral-storage": "1Gi"}, "limits": {"cpu": "4"}});
        let pod = json!({"spec": {"containers": containers, "resources": own}});
        check(pod.clone(), "cpu=3,memory=1Gi", "cpu=4");
        let pod: Pod = serde_json::from_value(pod).unwrap();
        assert_eq!(text(requests(&pod, false).iter()), "cpu=1");
    }

    /// As rows of `TestAggregateContainerRequestsAndLimits`.
    #[test]
    fn a_pod_that_is_resized_counts_with_the_most() {
        let pod = |spec: [&str; 2], allocated: [&str; 2], actual: [&str; 2], reason: &str| {
            let names = ["a", "b"];
            let containers: Vec<Value> = (0..2).map(|i| container(names[i], spec[i])).collect();
            let status = |i: usize| {
                let actual = json!({"requests": {"cpu": actual[i]}, "limits": {"cpu": actual[i]}});
                json!({"name": names[i], "allocatedResources": {"cpu": allocated[i]}, "resources": actual})
            };
            let conditions = json!([{"type": "PodResizePending", "status": "True", "reason": reason}]);
            json!({"spec": {"containers": containers},
                "status": {"containerStatuses": [status(0), status(1)], "conditions": conditions}})
        };
        check(pod(["1", "1"], ["1", "1"], ["1", "1"], ""), "cpu=2", "cpu=2");
        // The largest sum, not the sum of the largest.
        check(pod(["3", "1"], ["1", "3"], ["2", "2"], "Deferred"), "cpu=4", "cpu=4");
        check(pod(["1", "1"], ["2", "2"], ["3", "3"], ""), "cpu=6", "cpu=6");
        check(pod(["9", "9"], ["2", "2"], ["3", "1"], "Infeasible"), "cpu=4", "cpu=4");
    }
}
