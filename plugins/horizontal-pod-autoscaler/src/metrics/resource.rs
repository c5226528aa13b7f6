//! Usage of resources by Pods: `metrics.k8s.io`.

use pintle_sdk::Lister;
use plugin_lib::selector::Selector;

use super::answer::{List, PodMetrics, decode};
use super::{Missing, Request, Sample, Samples, get, query, route};

const GROUP: &str = "metrics.k8s.io";

/// What the Pods use of a resource, or their containers of this name, unless that is empty. Pods with a container that has no value
/// are left out.
pub(crate) fn resource(
    lister: &impl Lister,
    namespace: &str,
    selector: &Selector,
    resource: &str,
    container: &str,
) -> Result<Samples, Missing> {
    let within = |error: &str| format!("unable to fetch metrics from resource metrics API: {error}");
    let list = list(lister, namespace, selector).map_err(|missing| missing.within(within))?;
    if list.is_empty() {
        return Err(Missing::Error("no metrics returned from resource metrics API".into()));
    }
    let samples = list.into_iter().filter_map(|pod| {
        let value = if container.is_empty() { of_pod(&pod, resource) } else { of_container(&pod, resource, container) };
        Some((pod.metadata.name, Sample { value: value?, time: pod.timestamp, window: pod.window }))
    });
    Ok(samples.collect())
}

fn list(lister: &impl Lister, namespace: &str, selector: &Selector) -> Result<Vec<PodMetrics>, Missing> {
    let route = route(&["apis", GROUP, "v1beta1", "namespaces", namespace, "pods"])?;
    let path = route + &query(&[("labelSelector", selector.to_string())]);
    let text = get(lister, path, &Request { resource: "pods", group: GROUP, name: "" })?;
    decode::<List<PodMetrics>>(&text).map(|list| list.items)
}

fn of_pod(pod: &PodMetrics, resource: &str) -> Option<i64> {
    if pod.containers.is_empty() {
        return None;
    }
    let usage = |sum: i64, value: i64| sum.saturating_add(value);
    let values = pod.containers.iter().map(|container| container.usage.get(resource).map(|value| value.milli_value()));
    values.collect::<Option<Vec<i64>>>().map(|values| values.into_iter().fold(0, usage))
}

fn of_container(pod: &PodMetrics, resource: &str, name: &str) -> Option<i64> {
    let container = pod.containers.iter().find(|container| container.name == name)?;
    container.usage.get(resource).map(|value| value.milli_value())
}
