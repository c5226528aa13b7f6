//! Replicas from metric values, the Pods that count, and their requests.
//!
//! *Source*: upstream's `replica_calculator.go` and `metrics/utilization.go`, and `PodRequests` of component-helpers.
//! Where Go's conversions to 32 bits are undefined, values saturate.

use std::collections::BTreeMap;
use std::time::Duration;

use pintle_sdk::quantity::Quantity;
use pintle_sdk::time::Timestamp;
use plugin_lib::number;
use plugin_lib::pods::is_ready;
use plugin_lib::selector::Selector;

use crate::context::Context;
use crate::metrics::{Sample, Samples};
use crate::types::{Pod, PodSpecInitContainers, Quantities};

const NO_PODS: &str = "no pods returned by selector while calculating replica count";

/// The earliest time, used for an absent one.
const NEVER: Timestamp = Timestamp::from_micros(i64::MIN);

/// The target of an autoscaler, and its Pods.
pub(crate) struct ReplicaCalculator<'a, L> {
    pub(crate) run: &'a Context<'a, L>,
    pub(crate) selector: &'a Selector,
    pub(crate) pods: &'a [Pod],
    pub(crate) replicas: i32,
    pub(crate) status_replicas: i32,
}

/// The target usage of Pods, in thousandths, or a share of their requests in percent.
struct Goal<'a> {
    target: i64,
    requests: Option<BTreeMap<&'a str, i64>>,
}

/// Average usage of Pods: in relation to the goal, in thousandths, and in percent of the requests.
pub(crate) struct Usage {
    ratio: f64,
    pub(crate) average: i64,
    pub(crate) utilization: Option<i32>,
}

/// How a Pod and its sample count.
enum Group {
    Ready,
    Unready,
    Missing,
    Ignored,
}

impl Goal<'_> {
    /// # Errors
    /// None of the values belongs to a Pod with a request.
    #[doc(alias = "GetMetricUsageRatio", alias = "GetResourceUtilizationRatio")]
    fn usage(&self, values: &BTreeMap<&str, i64>) -> Result<Usage, String> {
        let Some(requests) = &self.requests else {
            let average = sum(values.values()) / number::count(values.len()).max(1);
            return Ok(Usage { ratio: average as f64 / self.target as f64, average, utilization: None });
        };
        let known: Vec<_> = values.iter().filter_map(|(pod, value)| Some((value, requests.get(pod)?))).collect();
        let (total, requested) = (sum(known.iter().map(|one| one.0)), sum(known.iter().map(|one| one.1)));
        if requested == 0 {
            return Err("no metrics returned matched known pods".into());
        }
        let percent = i128::from(total) * 100 / i128::from(requested);
        let utilization = percent.clamp(i32::MIN.into(), i32::MAX.into()) as i32;
        let ratio = f64::from(utilization) / self.target as f64;
        Ok(Usage { ratio, average: total / number::count(known.len()), utilization: Some(utilization) })
    }

    /// The assumed value of a Pod without a sample, when the others use less than the target.
    fn most(&self, pod: &str) -> i64 {
        let Some(requests) = &self.requests else { return self.target };
        requests.get(pod).map_or(0, |request| request.saturating_mul(self.target.max(100)) / 100)
    }
}

impl<L> ReplicaCalculator<'_, L> {
    /// Replicas from samples of Pods. `resource` is empty for other metrics. The target is a share of the requests of
    /// one container, or of all if its name is empty; otherwise an amount.
    ///
    /// # Errors
    /// No Pod counts, or one has no request.
    #[doc(alias = "GetResourceReplicas", alias = "calcPlainMetricReplicas", alias = "groupPods")]
    pub(crate) fn by_pods(
        &self,
        samples: &Samples,
        resource: &str,
        target: i64,
        of_container: Option<&str>,
    ) -> Result<(i32, Usage), String> {
        if self.pods.is_empty() {
            return Err(NO_PODS.into());
        }
        let mut values: BTreeMap<&str, i64> = samples.iter().map(|(pod, one)| (pod.as_str(), one.value)).collect();
        let (mut n_ready, mut missing, mut unready) = (0_i32, Vec::new(), Vec::new());
        for pod in self.pods {
            let name = pod.metadata.name.as_str();
            match self.group(pod, samples.get(name), resource) {
                Group::Ready => n_ready += 1,
                Group::Missing => missing.push(name),
                Group::Unready => {
                    values.remove(name);
                    unready.push(name);
                }
                Group::Ignored => {
                    values.remove(name);
                }
            }
        }
        if values.is_empty() {
            return Err("did not receive metrics for targeted pods (pods might be unready)".into());
        }
        let requests = of_container.map(|container| self.requests(container, resource)).transpose()?;
        let goal = Goal { target, requests };
        let usage = goal.usage(&values)?;
        let (ratio, current) = (usage.ratio, self.replicas);
        let rises_with_unready = !unready.is_empty() && ratio > 1.0;
        if !rises_with_unready && missing.is_empty() {
            let within = self.run.tolerates(ratio);
            return Ok((if within { current } else { ceil(ratio * f64::from(n_ready)) }, usage));
        }
        if ratio < 1.0 {
            values.extend(missing.iter().map(|pod| (*pod, goal.most(pod))));
        } else if ratio > 1.0 {
            values.extend(missing.iter().chain(&unready).map(|pod| (*pod, 0)));
        }
        let new = goal.usage(&values)?.ratio;
        let replicas = ceil(new * values.len() as f64);
        // An assumed value must not reverse the direction.
        let turns = ratio < 1.0 && new > 1.0 || ratio > 1.0 && new < 1.0;
        let turns = turns || new < 1.0 && replicas > current || new > 1.0 && replicas < current;
        Ok((if self.run.tolerates(new) || turns { current } else { replicas }, usage))
    }

    /// Replicas from a value shared by all ready Pods.
    ///
    /// # Errors
    /// There are no Pods.
    #[doc(alias = "getUsageRatioReplicaCount")]
    pub(crate) fn by_total(&self, usage: i64, target: i64) -> Result<i32, String> {
        let ratio = usage as f64 / target as f64;
        if self.replicas == 0 {
            return Ok(ceil(ratio));
        }
        if self.run.tolerates(ratio) {
            return Ok(self.replicas);
        }
        if self.pods.is_empty() {
            return Err(format!("unable to calculate ready pods: {NO_PODS}"));
        }
        let n_ready = self.pods.iter().filter(|pod| pod.status.phase == "Running" && is_ready(*pod)).count();
        Ok(ceil(ratio * n_ready as f64))
    }

    /// Replicas from a value divided by the number of replicas; and its average.
    #[doc(alias = "GetObjectPerPodMetricReplicas", alias = "GetExternalPerPodMetricReplicas")]
    pub(crate) fn by_share(&self, usage: i64, target: i64) -> (i32, i64) {
        let replicas = self.status_replicas;
        let within = self.run.tolerates(usage as f64 / (target as f64 * f64::from(replicas)));
        // Without replicas, Go's infinity becomes the lowest number; without usage, too.
        let average = match replicas {
            _ if usage == i64::MAX => i64::MAX,
            0 => i64::MIN,
            _ => (usage as f64 / f64::from(replicas)).ceil() as i64,
        };
        (if within { replicas } else { ceil(usage as f64 / target as f64) }, average)
    }

    /// Readiness matters for CPU only.
    fn group(&self, pod: &Pod, sample: Option<&Sample>, resource: &str) -> Group {
        match (pod.status.phase.as_str(), sample) {
            ("Failed", _) => Group::Ignored,
            _ if pod.metadata.is_deleting() => Group::Ignored,
            ("Pending", _) => Group::Unready,
            (_, None) => Group::Missing,
            (_, Some(sample)) if resource == "cpu" && self.is_unready(pod, sample) => Group::Unready,
            (_, Some(_)) => Group::Ready,
        }
    }

    /// Whether a CPU sample is not representative of the Pod's usual usage.
    fn is_unready(&self, pod: &Pod, sample: &Sample) -> bool {
        let ready = pod.status.conditions.iter().find(|condition| condition.type_ == "Ready");
        let (Some(ready), Some(start)) = (ready, pod.status.start_time) else { return true };
        let since = ready.last_transition_time.unwrap_or(NEVER);
        let is_false = ready.status == "False";
        if start.plus(Duration::from_millis(self.run.settings.cpu_initialization_period)) > self.run.now {
            // One window must have passed since the Pod became ready.
            is_false || sample.time.unwrap_or(NEVER) < since.plus(sample.window)
        } else {
            // The Pod has never been ready.
            is_false && start.plus(Duration::from_millis(self.run.settings.initial_readiness_delay)) > since
        }
    }

    /// The requests of each Pod, in thousandths; of one container, unless its name is empty.
    ///
    /// # Errors
    /// Upstream's error text.
    #[doc(alias = "calculateRequests")]
    fn requests(&self, container: &str, resource: &str) -> Result<BTreeMap<&str, i64>, String> {
        let with_pod_level = self.run.settings.pod_level_resources && container.is_empty();
        let request = |pod: &Pod| {
            let own = pod.spec.resources.as_ref().map(|resources| &resources.requests);
            match own.filter(|own| with_pod_level && own.keys().any(|name| is_pod_level(name))) {
                Some(own) => of_pod(pod, own, resource),
                None => of_containers(pod, container, resource),
            }
        };
        self.pods.iter().map(|pod| Ok((pod.metadata.name.as_str(), request(pod)?))).collect()
    }
}

/// Whether the resource can be requested at the Pod level.
fn is_pod_level(resource: &str) -> bool {
    matches!(resource, "cpu" | "memory") || resource.starts_with("hugepages-")
}

#[doc(alias = "calculatePodLevelRequests")]
fn of_pod(pod: &Pod, own: &Quantities, resource: &str) -> Result<i64, String> {
    let own = own.get(resource).filter(|_| is_pod_level(resource)).copied();
    let requested = plus(own.or_else(|| aggregate(pod, resource)), pod.spec.overhead.get(resource).copied());
    let missing = || format!("missing pod-level request for {resource} in Pod {}", pod.metadata.name);
    Ok(requested.ok_or_else(missing)?.milli_value())
}

/// The sum over all containers, or the largest init container with the sidecars before it.
#[doc(alias = "AggregateContainerRequests")]
fn aggregate(pod: &Pod, resource: &str) -> Option<Quantity> {
    let main = pod.spec.containers.iter().map(|container| container.resources.requests.get(resource).copied());
    let (mut total, mut sidecars, mut most) = (main.fold(None, plus), None, None);
    for container in &pod.spec.init_containers {
        let own = container.resources.requests.get(resource).copied();
        let needed = plus(sidecars, own);
        if is_sidecar(container) {
            total = plus(total, own);
            sidecars = needed;
        }
        most = needed.max(most);
    }
    total.max(most)
}

fn plus(a: Option<Quantity>, b: Option<Quantity>) -> Option<Quantity> {
    a.into_iter().chain(b).reduce(|a, b| a + b)
}

fn is_sidecar(container: &PodSpecInitContainers) -> bool {
    container.restart_policy.as_deref() == Some("Always")
}

#[doc(alias = "calculatePodRequestsFromContainers")]
fn of_containers(pod: &Pod, name: &str, resource: &str) -> Result<i64, String> {
    let main = pod.spec.containers.iter().map(|container| (&container.name, &container.resources.requests));
    let sidecars = pod.spec.init_containers.iter().filter(|container| is_sidecar(container));
    let sidecars = sidecars.map(|container| (&container.name, &container.resources.requests));
    let mut named = main.chain(sidecars).filter(|(container, _)| name.is_empty() || *container == name).peekable();
    let pod = &pod.metadata.name;
    if named.peek().is_none() && !name.is_empty() {
        return Err(format!("container {name} not found in Pod {pod}"));
    }
    named.try_fold(0_i64, |total, (container, requests)| match requests.get(resource) {
        Some(request) => Ok(total.saturating_add(request.milli_value())),
        None => Err(format!("missing request for {resource} in container {container} of Pod {pod}")),
    })
}

/// A saturating sum.
fn sum<'a>(values: impl Iterator<Item = &'a i64>) -> i64 {
    values.fold(0, |sum, value| sum.saturating_add(*value))
}

fn ceil(value: f64) -> i32 {
    value.ceil() as i32
}
