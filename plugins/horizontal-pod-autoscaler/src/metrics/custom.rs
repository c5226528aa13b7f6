//! Metrics of objects: `custom.metrics.k8s.io`, in the version that the API server prefers.

use std::time::Duration;

use pintle_sdk::{ApiError, Lister, Need, group_version};
use plugin_lib::selector::Selector;

use super::answer::{ApiGroup, List, MetricValue, decode};
use super::{Missing, Request, Sample, Samples, get, query, refusal, route};
use crate::scale;
use crate::types::{MetricId, Reference};

const GROUP: &str = "custom.metrics.k8s.io";
/// Those that are understood; the last one is that of tests.
const VERSIONS: [&str; 3] = ["v1beta2", "v1beta1", "__internal"];
const NO_VERSION: &str = "no known available metric versions found";
/// Window of a sample that has none.
const DEFAULT_WINDOW: Duration = Duration::from_secs(60);

/// The values of a metric of the Pods.
pub(crate) fn pods(
    lister: &impl Lister,
    namespace: &str,
    selector: &Selector,
    metric: &MetricId,
    metric_selector: &Selector,
) -> Result<Samples, Missing> {
    let values = || -> Result<Vec<MetricValue>, Missing> {
        let version = version(lister)?;
        let route = route(&["apis", GROUP, version, "namespaces", namespace, "pods", "*", &metric.name])?;
        let parameters =
            [("labelSelector", selector.to_string()), ("metricLabelSelector", metric_selector.to_string())];
        let request = Request { resource: "pods", group: GROUP, name: "*" };
        let text = get_of(lister, version, route + &query(&parameters), &request)?;
        decode::<List<MetricValue>>(&text).map(|list| list.items)
    };
    let values = values().map_err(|missing| missing.within(unable))?;
    if values.is_empty() {
        return Err(Missing::Error("no metrics returned from custom metrics API".into()));
    }
    let sample = |value: &MetricValue| {
        let window = value.window_seconds.or(value.window);
        let window = window.map(|seconds| Duration::from_secs(u64::try_from(seconds).unwrap_or(0)));
        Sample { value: value.value.milli_value(), time: value.timestamp, window: window.unwrap_or(DEFAULT_WINDOW) }
    };
    Ok(values.iter().map(|value| (value.described_object.name.clone(), sample(value))).collect())
}

/// The value of a metric of one object, in thousandths.
pub(crate) fn object(
    lister: &impl Lister,
    namespace: &str,
    object: &Reference,
    metric: &MetricId,
    metric_selector: &Selector,
) -> Result<i64, Missing> {
    let values = || -> Result<Vec<MetricValue>, Missing> {
        let version = version(lister)?;
        // A group that is malformed is none, as in upstream's `FromAPIVersionAndKind`.
        let group = group_version(&object.api_version).unwrap_or_default().0;
        let plural = if object.kind == "Namespace" && group.is_empty() {
            None
        } else {
            let dot = if group.is_empty() { "" } else { "." };
            let unmapped = |why| format!("unable to map kind {}{dot}{group} to resource: {why}", object.kind);
            let resources = scale::resources(lister, group, &object.kind).map_err(unmapped)?;
            resources.into_iter().next().map(|resource| format!("{}{dot}{group}", resource.plural))
        };
        let (resource, name, path) = match &plural {
            // Always the autoscaler's own namespace, whatever the name.
            None => {
                let path = route(&["apis", GROUP, version, "namespaces", namespace, "metrics", &metric.name])?;
                ("metrics", &metric.name, path)
            }
            Some(plural) => {
                let path =
                    route(&["apis", GROUP, version, "namespaces", namespace, plural, &object.name, &metric.name])?;
                (plural.as_str(), &object.name, path)
            }
        };
        let path = path + &query(&[("metricLabelSelector", metric_selector.to_string())]);
        let text = get_of(lister, version, path, &Request { resource, group: GROUP, name })?;
        decode::<List<MetricValue>>(&text).map(|list| list.items)
    };
    let values = values().and_then(|values| match values.as_slice() {
        [value] => Ok(value.value.milli_value()),
        other => Err(Missing::Error(format!(
            "the custom metrics API server returned {} results when we asked for exactly one",
            other.len()
        ))),
    });
    values.map_err(|missing| missing.within(unable))
}

fn unable(error: &str) -> String {
    format!("unable to fetch metrics from custom metrics API: {error}")
}

/// The version to ask for.
fn version(lister: &impl Lister) -> Result<&'static str, Missing> {
    let need = Need::RawPath(format!("/apis/{GROUP}"));
    let group: ApiGroup = match lister.answer(&need) {
        None => return Err(Missing::Needs(vec![need])),
        Some(Ok(text)) => decode(&text)?,
        Some(Err(error)) if error.code == 404 => {
            return Err(Missing::Error(format!("no custom metrics API ({GROUP}) registered")));
        }
        Some(Err(error)) => {
            return Err(Missing::Error(refusal(&error, &Request { resource: "", group: GROUP, name: "" })));
        }
    };
    let known = |text: &str| VERSIONS.into_iter().find(|version| text == format!("{GROUP}/{version}"));
    let versions = std::iter::once(&group.preferred_version).chain(&group.versions);
    let mut known = versions.filter_map(|version| known(&version.group_version));
    known.next().ok_or_else(|| Missing::Error(NO_VERSION.into()))
}

/// Reads a path. A version whose own discovery is unavailable counts as none, because upstream's client does not find it in the
/// discovery of all groups.
///
/// *Source*: `convertAPIGroup` in client-go's `aggregated_discovery.go`, which leaves out what is stale.
fn get_of(lister: &impl Lister, version: &str, path: String, request: &Request<'_>) -> Result<String, Missing> {
    let is_unavailable = |answer: &Result<String, ApiError>| matches!(answer, Err(error) if error.code == 503);
    let need = Need::RawPath(path.clone());
    if lister.answer(&need).as_ref().is_some_and(is_unavailable) {
        let discovery = Need::RawPath(format!("/apis/{GROUP}/{version}"));
        match lister.answer(&discovery) {
            None => return Err(Missing::Needs(vec![discovery])),
            Some(answer) if is_unavailable(&answer) => return Err(Missing::Error(NO_VERSION.into())),
            Some(_) => {}
        }
    }
    get(lister, path, request)
}
