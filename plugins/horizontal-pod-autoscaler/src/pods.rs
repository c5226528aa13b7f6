//! The Pods of a target: which of them count, and what they request.
//!
//! *Source*: `groupPods` and `calculateRequests` of upstream's `replica_calculator.go`, and `PodRequests` of component-helpers.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use pintle_sdk::quantity::Quantity;
use pintle_sdk::time::Timestamp;

use crate::metrics::{Sample, Samples};
use crate::types::{Pod, PodSpecInitContainers, PodStatusConditions, Quantities};

pub(crate) const CPU: &str = "cpu";

/// The oldest time that there is: that of a time that is absent.
const NEVER: Timestamp = Timestamp::from_micros(i64::MIN);

/// How young Pods are treated.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Readiness {
    pub(crate) cpu_initialization_period: Duration,
    pub(crate) initial_readiness_delay: Duration,
    pub(crate) now: Timestamp,
}

/// Pods by what their samples are worth.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    pub(crate) n_ready: usize,
    pub(crate) unready: BTreeSet<String>,
    pub(crate) missing: BTreeSet<String>,
    pub(crate) ignored: BTreeSet<String>,
}

impl Groups {
    /// Sorts Pods; only CPU is measured by readiness.
    pub(crate) fn new(pods: &[Pod], samples: &Samples, resource: &str, readiness: &Readiness) -> Self {
        let mut groups = Self::default();
        for pod in pods {
            let name = pod.metadata.name.clone();
            let sample = samples.get(&name);
            if pod.metadata.is_deleting() || pod.status.phase == "Failed" {
                groups.ignored.insert(name);
            } else if pod.status.phase == "Pending" {
                groups.unready.insert(name);
            } else if let Some(sample) = sample {
                if resource == CPU && is_unready(pod, sample, readiness) {
                    groups.unready.insert(name);
                } else {
                    groups.n_ready += 1;
                }
            } else {
                groups.missing.insert(name);
            }
        }
        groups
    }
}

/// Whether a sample of CPU says nothing about the Pod's usual work.
fn is_unready(pod: &Pod, sample: &Sample, readiness: &Readiness) -> bool {
    let ready = readiness_of(pod);
    let (Some(ready), Some(start)) = (ready, pod.status.start_time) else { return true };
    let since = ready.last_transition_time.unwrap_or(NEVER);
    let is_false = ready.status == "False";
    if start.plus(readiness.cpu_initialization_period) > readiness.now {
        // One window must have passed since it became ready.
        is_false || sample.time.unwrap_or(NEVER) < since.plus(sample.window)
    } else {
        // It has never been ready.
        is_false && start.plus(readiness.initial_readiness_delay) > since
    }
}

fn readiness_of(pod: &Pod) -> Option<&PodStatusConditions> {
    pod.status.conditions.iter().find(|condition| condition.type_ == "Ready")
}

/// How many of the Pods run and are ready.
pub(crate) fn n_ready(pods: &[Pod]) -> usize {
    let is_ready = |pod: &&Pod| pod.status.phase == "Running" && plugin_lib::pods::is_ready(pod);
    pods.iter().filter(is_ready).count()
}

/// What each Pod requests, in thousandths; of one container, unless its name is empty.
///
/// # Errors
/// The text of upstream's error.
pub(crate) fn requests(
    pods: &[Pod],
    container: &str,
    resource: &str,
    with_pod_level: bool,
) -> Result<BTreeMap<String, i64>, String> {
    let request = |pod: &Pod| {
        let is_pod_level = with_pod_level && container.is_empty() && pod_level(pod).keys().any(|name| has_level(name));
        if is_pod_level { of_pod(pod, resource) } else { of_containers(pod, container, resource) }
    };
    pods.iter().map(|pod| Ok((pod.metadata.name.clone(), request(pod)?))).collect()
}

/// The requests of the Pod itself.
fn pod_level(pod: &Pod) -> &Quantities {
    static NONE: Quantities = Quantities::new();
    pod.spec.resources.as_ref().map_or(&NONE, |resources| &resources.requests)
}

/// Whether Pods can request it themselves.
fn has_level(resource: &str) -> bool {
    matches!(resource, "cpu" | "memory") || resource.starts_with("hugepages-")
}

fn of_pod(pod: &Pod, resource: &str) -> Result<i64, String> {
    let own = pod_level(pod).get(resource).filter(|_| has_level(resource)).copied();
    let requested = own.or_else(|| aggregate(pod, resource));
    let overhead = pod.spec.overhead.get(resource).copied();
    match requested.into_iter().chain(overhead).reduce(|sum, more| sum + more) {
        Some(sum) => Ok(sum.milli_value()),
        None => Err(format!("missing pod-level request for {resource} in Pod {}", pod.metadata.name)),
    }
}

/// What all containers need at once, and each init container with the sidecars before it.
fn aggregate(pod: &Pod, resource: &str) -> Option<Quantity> {
    let sum = |a: Option<Quantity>, b: Option<Quantity>| a.into_iter().chain(b).reduce(|a, b| a + b);
    let mut total = None;
    for container in &pod.spec.containers {
        total = sum(total, container.resources.requests.get(resource).copied());
    }
    let (mut sidecars, mut most) = (None, None);
    for container in &pod.spec.init_containers {
        let own = container.resources.requests.get(resource).copied();
        let needed = if is_sidecar(container) {
            total = sum(total, own);
            sidecars = sum(sidecars, own);
            sidecars
        } else {
            sum(own, sidecars)
        };
        most = needed.max(most);
    }
    total.max(most)
}

fn is_sidecar(container: &PodSpecInitContainers) -> bool {
    container.restart_policy.as_deref() == Some("Always")
}

fn of_containers(pod: &Pod, name: &str, resource: &str) -> Result<i64, String> {
    let main = pod.spec.containers.iter().map(|container| (&container.name, &container.resources.requests));
    let sidecars = pod.spec.init_containers.iter().filter(|container| is_sidecar(container));
    let sidecars = sidecars.map(|container| (&container.name, &container.resources.requests));
    let mut total = 0_i64;
    for (container, requests) in main.chain(sidecars) {
        if !name.is_empty() && container != name {
            continue;
        }
        let Some(request) = requests.get(resource) else {
            let pod = &pod.metadata.name;
            return Err(format!("missing request for {resource} in container {container} of Pod {pod}"));
        };
        total = total.saturating_add(request.milli_value());
        // Names are unique.
        if container == name {
            return Ok(total);
        }
    }
    if name.is_empty() { Ok(total) } else { Err(format!("container {name} not found in Pod {}", pod.metadata.name)) }
}
