//! The metrics APIs: requests, responses and errors.
//!
//! *Source*: upstream's `metrics/client.go`, the clients of `k8s.io/metrics`, and for error texts
//! `NewGenericServerResponse` of apimachinery.

use std::collections::BTreeMap;
use std::time::Duration;

use pintle_sdk::quantity::Quantity;
use pintle_sdk::time::{Timestamp, go_duration};
use pintle_sdk::{ApiError, Lister, Need, group_version};
use plugin_lib::selector::Selector;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};

use crate::context::{Stop, Within};
use crate::replica_calculator::ReplicaCalculator;
use crate::scale;
use crate::types::Reference;

const RESOURCE: &str = "metrics.k8s.io";
const CUSTOM: &str = "custom.metrics.k8s.io";
const EXTERNAL: &str = "external.metrics.k8s.io";
/// Supported versions of custom metrics; the last one is for tests.
const VERSIONS: [&str; 3] = ["v1beta2", "v1beta1", "__internal"];
const NO_VERSION: &str = "no known available metric versions found";
/// Default window of a custom metric sample, in seconds.
const DEFAULT_WINDOW: i64 = 60;

/// A value of a Pod, in thousandths.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sample {
    pub(crate) value: i64,
    pub(crate) time: Option<Timestamp>,
    pub(crate) window: Duration,
}

/// Samples by Pod name.
pub(crate) type Samples = BTreeMap<String, Sample>;

#[derive(Deserialize)]
#[serde(bound = "T: DeserializeOwned")]
struct List<T> {
    #[serde(default = "Vec::new", deserialize_with = "pintle_sdk::api::or_default")]
    items: Vec<T>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Name {
    name: String,
}

/// Type of `metrics.k8s.io`.
#[derive(Default, Deserialize)]
#[serde(default)]
struct PodMetrics {
    metadata: Name,
    timestamp: Option<Timestamp>,
    #[serde(deserialize_with = "duration")]
    window: Duration,
    #[serde(deserialize_with = "pintle_sdk::api::or_default")]
    containers: Vec<ContainerMetrics>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ContainerMetrics {
    name: String,
    usage: BTreeMap<String, Quantity>,
}

/// Type of `custom.metrics.k8s.io`: `window_seconds` in v1beta2, `window` in v1beta1.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct MetricValue {
    described_object: Name,
    timestamp: Option<Timestamp>,
    window_seconds: Option<i64>,
    window: Option<i64>,
    value: Quantity,
}

/// Type of `external.metrics.k8s.io`.
#[derive(Default, Deserialize)]
#[serde(default)]
struct ExternalValue {
    value: Quantity,
}

/// The versions of a group.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ApiGroup {
    preferred_version: Version,
    versions: Vec<Version>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Version {
    group_version: String,
}

/// A duration in Go's format; a negative one becomes zero.
fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(deserializer)?;
    let nanos = go_duration(&text).ok_or_else(|| D::Error::custom(format!("time: invalid duration {text:?}")))?;
    Ok(Duration::from_nanos(nanos.try_into().unwrap_or(0)))
}

impl<L: Lister> ReplicaCalculator<'_, L> {
    /// Usage of a resource by the Pods, or by their containers with this name, unless that is empty. Pods with a
    /// container without a value are left out.
    #[doc(alias = "GetResourceMetric", alias = "getPodMetrics", alias = "getContainerMetrics")]
    pub(crate) fn of_resource(&self, resource: &str, container: &str) -> Result<Samples, Stop> {
        let list = self.items::<PodMetrics>(RESOURCE, "v1beta1", &["pods"], &[("labelSelector", self.selector)]);
        let sample = |pod: PodMetrics| {
            let n_counted = if container.is_empty() { usize::MAX } else { 1 };
            let is_counted = |one: &&ContainerMetrics| container.is_empty() || one.name == container;
            let counted = pod.containers.iter().filter(is_counted).take(n_counted);
            let values = counted.map(|one| one.usage.get(resource).map(|usage| usage.milli_value()));
            let value = values.collect::<Option<Vec<i64>>>()?.into_iter().reduce(i64::saturating_add)?;
            Some((pod.metadata.name, Sample { value, time: pod.timestamp, window: pod.window }))
        };
        Ok(some("resource", list)?.into_iter().filter_map(sample).collect())
    }

    /// The values of a metric of the Pods.
    #[doc(alias = "GetRawMetric")]
    pub(crate) fn of_each_pod(&self, metric: &str, metric_selector: &Selector) -> Result<Samples, Stop> {
        let selectors = [("labelSelector", self.selector), ("metricLabelSelector", metric_selector)];
        let of = ["pods", "*", metric];
        let list = self.version().and_then(|version| self.items::<MetricValue>(CUSTOM, version, &of, &selectors));
        let sample = |value: MetricValue| {
            let seconds = value.window_seconds.or(value.window).unwrap_or(DEFAULT_WINDOW);
            let window = Duration::from_secs(seconds.try_into().unwrap_or(0));
            let sample = Sample { value: value.value.milli_value(), time: value.timestamp, window };
            (value.described_object.name, sample)
        };
        Ok(some("custom", list)?.into_iter().map(sample).collect())
    }

    /// The value of a metric of one object, in thousandths.
    #[doc(alias = "GetObjectMetric")]
    pub(crate) fn of_object(&self, object: &Reference, metric: &str, selector: &Selector) -> Result<i64, Stop> {
        let value = || {
            let version = self.version()?;
            // A malformed group counts as empty, as in upstream's `FromAPIVersionAndKind`.
            let group = group_version(&object.api_version).unwrap_or_default().0;
            let dot = if group.is_empty() { "" } else { "." };
            let plural;
            let of = if object.kind == "Namespace" && group.is_empty() {
                // Always the autoscaler's own namespace, whatever the name.
                vec!["metrics", metric]
            } else {
                let resources = scale::resources(self.run.lister, group, &object.kind)
                    .within(format_args!("unable to map kind {}{dot}{group} to resource", object.kind))?;
                plural = format!("{}{dot}{group}", resources[0].plural);
                vec![&plural, &object.name, metric]
            };
            let values = self.items::<MetricValue>(CUSTOM, version, &of, &[("metricLabelSelector", selector)])?;
            let [value] = values.as_slice() else {
                let n = values.len();
                let why = format!("the custom metrics API server returned {n} results when we asked for exactly one");
                return Err(why.into());
            };
            Ok::<i64, Stop>(value.value.milli_value())
        };
        value().within("unable to fetch metrics from custom metrics API")
    }

    /// The sum of the values of an external metric, in thousandths.
    #[doc(alias = "GetExternalMetric")]
    pub(crate) fn of_outside(&self, metric: &str, selector: &Selector) -> Result<i64, Stop> {
        let list = self.items::<ExternalValue>(EXTERNAL, "v1beta1", &[metric], &[("labelSelector", selector)]);
        let values = some("external", list)?.into_iter().map(|value| value.value.milli_value());
        Ok(values.fold(0, i64::saturating_add))
    }

    /// The version of custom metrics to use.
    fn version(&self) -> Result<&'static str, Stop> {
        let group: ApiGroup = match self.run.lister.ask(Need::RawPath(format!("/apis/{CUSTOM}")))? {
            Ok(text) => decode(&text)?,
            Err(error) if error.code == 404 => {
                return Err(format!("no custom metrics API ({CUSTOM}) registered").into());
            }
            Err(error) => return Err(refusal(&error, "", CUSTOM, "").into()),
        };
        let mut served = std::iter::once(group.preferred_version).chain(group.versions);
        let known =
            |served: Version| VERSIONS.into_iter().find(|known| served.group_version == format!("{CUSTOM}/{known}"));
        served.find_map(known).ok_or_else(|| NO_VERSION.to_owned().into())
    }

    /// The items of a resource's list in the namespace, by selectors in the order of their names. `of` is the resource,
    /// the name of an object if there is one, and the metric.
    ///
    /// A version of custom metrics whose discovery is unavailable counts as absent, because upstream's client does not
    /// find it in the discovery of all groups (`convertAPIGroup` in client-go's `aggregated_discovery.go` leaves out
    /// stale versions).
    fn items<T: DeserializeOwned>(
        &self,
        group: &str,
        version: &str,
        of: &[&str],
        selectors: &[(&str, &Selector)],
    ) -> Result<Vec<T>, Stop> {
        let namespace = &self.run.hpa.metadata.namespace;
        let path = path(&[&["apis", group, version, "namespaces", namespace], of].concat(), selectors)?;
        let get = |path| self.run.lister.ask(Need::RawPath(path));
        let is_unavailable = |answer: &Result<_, ApiError>| matches!(answer, Err(error) if error.code == 503);
        let answer = get(path)?;
        if group == CUSTOM && is_unavailable(&answer) && is_unavailable(&get(format!("/apis/{group}/{version}"))?) {
            return Err(NO_VERSION.to_owned().into());
        }
        let name = of.get(1).copied().unwrap_or_default();
        let text = answer.map_err(|error| refusal(&error, of[0], group, name))?;
        Ok(decode::<List<T>>(&text)?.items)
    }
}

/// Items, at least one.
fn some<T>(api: &str, items: Result<Vec<T>, Stop>) -> Result<Vec<T>, Stop> {
    let items = items.within(format_args!("unable to fetch metrics from {api} metrics API"))?;
    if items.is_empty() { Err(format!("no metrics returned from {api} metrics API").into()) } else { Ok(items) }
}

/// # Errors
/// The text does not fit its type.
fn decode<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    serde_json::from_str(text).map_err(|error| format!("decode the answer: {error}"))
}

/// The error text of a failed GET. One without a reason is not a Status, so its text is only part of the message.
#[doc(alias = "NewGenericServerResponse")]
pub(crate) fn refusal(error: &ApiError, resource: &str, group: &str, name: &str) -> String {
    if error.code == 0 || !error.reason.is_empty() {
        return error.message.clone();
    }
    let text = match error.code {
        400 => "the server rejected our request for an unknown reason",
        401 => "the server has asked for the client to provide credentials",
        403 | 406 | 415 => &error.message,
        404 => "the server could not find the requested resource",
        405 => "the server does not allow this method on the requested resource",
        409 => "the server reported a conflict",
        422 => "the server rejected our request due to an error in our request",
        429 => "the server has received too many requests and has asked us to try again later",
        503 => "the server is currently unable to handle the request",
        504 => {
            "the server was unable to return a response in the time allotted, but may still be processing the request"
        }
        500.. => &format!("an error on the server ({:?}) has prevented the request from succeeding", error.message),
        code => &format!("the server responded with the status code {code} but did not return more information"),
    };
    let dot = if group.is_empty() { "" } else { "." };
    let space = if name.is_empty() { "" } else { " " };
    format!("{text} (get {resource}{dot}{group}{space}{name})")
}

/// Path segments that the host rejects, because they give access to Pods.
const INTO_PODS: [&str; 5] = ["attach", "exec", "log", "portforward", "proxy"];

/// A path, and a query of the selectors that are not empty.
///
/// # Errors
/// A segment needs escapes, which the host does not accept.
fn path(segments: &[&str], selectors: &[(&str, &Selector)]) -> Result<String, String> {
    let is_plain = |segment: &str| {
        !matches!(segment, "" | "." | "..")
            && !INTO_PODS.contains(&segment)
            && segment.bytes().all(|byte| byte.is_ascii_graphic() && !b"#%/?\\".contains(&byte))
    };
    if let Some(segment) = segments.iter().find(|segment| !is_plain(segment)) {
        return Err(format!("{segment:?} cannot be part of the path of a metric"));
    }
    let given = selectors.iter().map(|(name, selector)| (name, escaped(&selector.to_string())));
    let given = given.filter(|(_, text)| !text.is_empty()).map(|(name, text)| format!("{name}={text}"));
    let query = given.collect::<Vec<_>>().join("&");
    let mark = if query.is_empty() { "" } else { "?" };
    Ok(format!("/{}{mark}{query}", segments.join("/")))
}

/// Go's `url.QueryEscape`.
fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => escaped.push(byte.into()),
            b' ' => escaped.push('+'),
            _ => escaped.push_str(&format!("%{byte:02X}")),
        }
    }
    escaped
}
