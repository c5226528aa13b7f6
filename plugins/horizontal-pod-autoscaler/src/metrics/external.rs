//! Metrics from outside of the cluster: `external.metrics.k8s.io`.

use pintle_sdk::Lister;
use plugin_lib::selector::Selector;

use super::answer::{ExternalValue, List, decode};
use super::{Missing, Request, get, query, route};
use crate::types::MetricId;

const GROUP: &str = "external.metrics.k8s.io";

/// The sum of the values of a metric, in thousandths.
pub(crate) fn external(
    lister: &impl Lister,
    namespace: &str,
    metric: &MetricId,
    metric_selector: &Selector,
) -> Result<i64, Missing> {
    let values = || -> Result<Vec<ExternalValue>, Missing> {
        let route = route(&["apis", GROUP, "v1beta1", "namespaces", namespace, &metric.name])?;
        let path = route + &query(&[("labelSelector", metric_selector.to_string())]);
        let text = get(lister, path, &Request { resource: &metric.name, group: GROUP, name: "" })?;
        decode::<List<ExternalValue>>(&text).map(|list| list.items)
    };
    let within = |error: &str| format!("unable to fetch metrics from external metrics API: {error}");
    let values = values().map_err(|missing| missing.within(within))?;
    if values.is_empty() {
        return Err(Missing::Error("no metrics returned from external metrics API".into()));
    }
    Ok(values.iter().map(|value| value.value.milli_value()).fold(0, i64::saturating_add))
}
