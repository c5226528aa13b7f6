//! What each metric of an autoscaler asks for.
//!
//! *Source*: `computeReplicasForMetric` and `computeStatusFor...` of upstream's `horizontal.go`.

use std::collections::BTreeMap;

use pintle_sdk::Lister;
use pintle_sdk::quantity::{Format, Quantity};
use plugin_lib::selector::Selector;
use plugin_lib::selector::valid::printed;

use crate::metrics::{self, Missing};
use crate::pods::{self, Readiness};
use crate::replica_calculator::{self, Goal, Measured, Proposal, Tolerances};
use crate::types::Pod;
use crate::types::{Current, MetricSource, MetricSpec, MetricStatus, ResourceSource, ResourceStatus, SourceStatus};

/// What all metrics of an autoscaler share.
pub(crate) struct Input<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) selector: &'a Selector,
    pub(crate) pods: &'a [Pod],
    pub(crate) replicas: i32,
    pub(crate) status_replicas: i32,
    pub(crate) tolerances: Tolerances,
    pub(crate) readiness: Readiness,
    pub(crate) with_pod_level: bool,
}

/// What a metric asks for.
pub(crate) struct Computed {
    pub(crate) replicas: i32,
    /// As conditions and events name it.
    pub(crate) name: String,
    pub(crate) status: MetricStatus,
}

/// Why a metric asks for nothing.
pub(crate) struct Failed {
    /// Of the condition and of the event.
    pub(crate) reason: &'static str,
    pub(crate) error: String,
    /// The error of the whole computation.
    pub(crate) summary: String,
    /// The fault is in the object.
    pub(crate) is_spec: bool,
}

pub(crate) enum Stopped {
    Needs(Vec<pintle_sdk::Need>),
    Failed(Failed),
}

type Result<T, E = Missing> = std::result::Result<T, E>;

impl Input<'_> {
    /// # Errors
    /// Something is not read yet, or the metric cannot be computed.
    pub(crate) fn compute(&self, lister: &impl Lister, spec: &MetricSpec) -> Result<Computed, Stopped> {
        let (reason, what) = match spec.type_.as_str() {
            "Object" => ("FailedGetObjectMetric", "object metric value".to_owned()),
            "Pods" => ("FailedGetPodsMetric", "pods metric value".to_owned()),
            "Resource" => {
                let name = spec.resource.as_ref().map_or("", |source| &source.name);
                ("FailedGetResourceMetric", format!("{name} resource metric value"))
            }
            "ContainerResource" => {
                let name = spec.container_resource.as_ref().map_or("", |source| &source.container);
                ("FailedGetContainerResourceMetric", format!("{name} container metric value"))
            }
            "External" => {
                let name = spec.external.as_ref().map_or("", |source| &source.metric.name);
                ("FailedGetExternalMetric", format!("{name} external metric value"))
            }
            other => {
                let error = format!("unknown metric source type {other:?}");
                let summary = error.clone();
                return Err(Stopped::Failed(Failed {
                    reason: "InvalidMetricSourceType",
                    error,
                    summary,
                    is_spec: true,
                }));
            }
        };
        self.of_source(lister, spec).map_err(|missing| match missing {
            Missing::Needs(needs) => Stopped::Needs(needs),
            Missing::Error(error) => {
                let summary = format!("failed to get {what}: {error}");
                Stopped::Failed(Failed { reason, error, summary, is_spec: false })
            }
            Missing::Reported { error, whole } => {
                let summary = format!("failed to get {what}: {whole}");
                Stopped::Failed(Failed { reason, error, summary, is_spec: false })
            }
        })
    }

    fn of_source(&self, lister: &impl Lister, spec: &MetricSpec) -> Result<Computed> {
        let type_ = spec.type_.clone();
        match (spec.type_.as_str(), spec) {
            ("Object", MetricSpec { object: Some(source), .. }) => {
                let (replicas, name, current) = self.object(lister, source)?;
                let described_object = Some(source.described_object.clone());
                let object = Some(SourceStatus { metric: source.metric.clone(), current, described_object });
                Ok(Computed { replicas, name, status: MetricStatus { type_, object, ..MetricStatus::default() } })
            }
            ("Pods", MetricSpec { pods: Some(source), .. }) => {
                let Proposal { replicas, usage, .. } = self.pods(lister, source)?;
                let pods = Some(SourceStatus {
                    metric: source.metric.clone(),
                    current: average(usage),
                    described_object: None,
                });
                let name = format!("pods metric {}", source.metric.name);
                Ok(Computed { replicas, name, status: MetricStatus { type_, pods, ..MetricStatus::default() } })
            }
            ("Resource", MetricSpec { resource: Some(source), .. }) => {
                let (replicas, name, resource) = self.resource(lister, source, "", "")?;
                let resource = Some(resource);
                Ok(Computed { replicas, name, status: MetricStatus { type_, resource, ..MetricStatus::default() } })
            }
            ("ContainerResource", MetricSpec { container_resource: Some(source), .. }) => {
                let (replicas, name, resource) = self.resource(lister, source, &source.container, "container ")?;
                let container_resource = Some(resource);
                let status = MetricStatus { type_, container_resource, ..MetricStatus::default() };
                Ok(Computed { replicas, name, status })
            }
            ("External", MetricSpec { external: Some(source), .. }) => {
                let (replicas, current) = self.external(lister, source)?;
                let external = Some(SourceStatus { metric: source.metric.clone(), current, described_object: None });
                let name = external_name(source);
                Ok(Computed { replicas, name, status: MetricStatus { type_, external, ..MetricStatus::default() } })
            }
            // The API server does not let it pass.
            _ => Err(Missing::Error(format!("the metric has the type {type_}, but no source of it"))),
        }
    }

    fn resource(
        &self,
        lister: &impl Lister,
        source: &ResourceSource,
        container: &str,
        word: &str,
    ) -> Result<(i32, String, ResourceStatus)> {
        let ResourceSource { name, target, .. } = source;
        let format = if name == "memory" { Format::Binary } else { Format::Decimal };
        let amount = |usage| Some(Quantity::from_milli(usage, format));
        let status = |current| ResourceStatus { name: name.clone(), container: container.to_owned(), current };
        if let Some(average) = target.average_value {
            let within = |error: &str| format!("failed to get {name} usage: {error}");
            let proposal = self.resource_usage(lister, name, container, average.milli_value());
            let Proposal { replicas, usage, .. } = proposal.map_err(|missing| missing.within(within))?;
            let current = Current { average_value: amount(usage), ..Current::default() };
            return Ok((replicas, format!("{name} resource"), status(current)));
        }
        let Some(utilization) = target.average_utilization else {
            let why = "neither an average utilization target nor an average value (usage) target was set";
            return Err(Missing::Error(format!("invalid resource metric source: {why}")));
        };
        let within = |error: &str| format!("failed to get {name} utilization: {error}");
        let proposal = self.resource_utilization(lister, name, container, utilization);
        let Proposal { replicas, usage, utilization } = proposal.map_err(|missing| missing.within(within))?;
        let current =
            Current { average_value: amount(usage), average_utilization: Some(utilization), ..Current::default() };
        let shown = format!("{name} {word}resource utilization (percentage of request)");
        Ok((replicas, shown, status(current)))
    }

    fn samples_of(&self, lister: &impl Lister, resource: &str, container: &str) -> Result<metrics::Samples> {
        let within = |error: &str| format!("unable to get metrics for resource {resource}: {error}");
        let samples = metrics::resource(lister, self.namespace, self.selector, resource, container);
        samples.map_err(|missing| missing.within(within))
    }

    fn measured<'m>(&'m self, samples: metrics::Samples, resource: &'m str) -> Measured<'m> {
        Measured { pods: self.pods, samples, resource, readiness: &self.readiness }
    }

    fn resource_usage(&self, lister: &impl Lister, resource: &str, container: &str, target: i64) -> Result<Proposal> {
        let samples = self.samples_of(lister, resource, container)?;
        self.usage(samples, resource, target)
    }

    fn usage(&self, samples: metrics::Samples, resource: &str, target: i64) -> Result<Proposal> {
        let mut measured = self.measured(samples, resource);
        let groups = measured.groups()?;
        Ok(measured.propose(&groups, self.replicas, &Goal::Usage(target), self.tolerances)?)
    }

    fn resource_utilization(
        &self,
        lister: &impl Lister,
        resource: &str,
        container: &str,
        target: i32,
    ) -> Result<Proposal> {
        let samples = self.samples_of(lister, resource, container)?;
        let mut measured = self.measured(samples, resource);
        let groups = measured.groups()?;
        let requests: BTreeMap<String, i64> = pods::requests(self.pods, container, resource, self.with_pod_level)?;
        let goal = Goal::Utilization(target, &requests);
        Ok(measured.propose(&groups, self.replicas, &goal, self.tolerances)?)
    }

    fn pods(&self, lister: &impl Lister, source: &MetricSource) -> Result<Proposal> {
        let metric_selector = Selector::from_label_selector(source.metric.selector.as_ref())?;
        let Some(target) = source.target.average_value else {
            return Err(Missing::Error("invalid pods metric source: no average value target was set".into()));
        };
        let within = |error: &str| format!("unable to get metric {}: {error}", source.metric.name);
        let samples = metrics::pods(lister, self.namespace, self.selector, &source.metric, &metric_selector);
        self.usage(samples.map_err(|missing| missing.within(within))?, "", target.milli_value())
    }

    fn object(&self, lister: &impl Lister, source: &MetricSource) -> Result<(i32, String, Current)> {
        let MetricSource { described_object: object, metric, target } = source;
        let metric_selector = Selector::from_label_selector(metric.selector.as_ref())?;
        let usage = || {
            let within = |error: &str| {
                let (name, kind, namespace) = (&metric.name, &object.kind, self.namespace);
                format!("unable to get metric {name} on {kind} {namespace}/{}: {error}", object.name)
            };
            let usage = metrics::object(lister, self.namespace, object, metric, &metric_selector);
            usage.map_err(|missing| missing.within(within))
        };
        match (target.type_.as_str(), target.value, target.average_value) {
            ("Value", Some(value), _) => {
                let usage = usage()?;
                let replicas = replica_calculator::for_total(
                    self.replicas,
                    usage,
                    value.milli_value(),
                    self.tolerances,
                    self.pods,
                )?;
                let current = Current { value: Some(decimal(usage)), ..Current::default() };
                Ok((replicas, format!("{} metric {}", object.kind, metric.name), current))
            }
            ("AverageValue", _, Some(value)) => {
                let within = |error: &str| format!("failed to get {} object metric: {error}", metric.name);
                let usage = usage().map_err(|missing| missing.reported_within(within))?;
                let proposal =
                    replica_calculator::per_replica(self.status_replicas, usage, value.milli_value(), self.tolerances);
                Ok((proposal.replicas, external_name(source), average(proposal.usage)))
            }
            _ => {
                let why = "neither a value target nor an average value target was set";
                Err(Missing::Error(format!("invalid object metric source: {why}")))
            }
        }
    }

    fn external(&self, lister: &impl Lister, source: &MetricSource) -> Result<(i32, Current)> {
        let MetricSource { metric, target, .. } = source;
        let total = || -> Result<i64> {
            let metric_selector = Selector::from_label_selector(metric.selector.as_ref())?;
            let within = |error: &str| {
                let (namespace, name, selector) = (self.namespace, &metric.name, printed(metric.selector.as_ref()));
                format!("unable to get external metric {namespace}/{name}/{selector}: {error}")
            };
            let values = metrics::external(lister, self.namespace, metric, &metric_selector);
            let values = values.map_err(|missing| missing.within(within))?;
            Ok(values.into_iter().fold(0, i64::saturating_add))
        };
        if let Some(value) = target.average_value {
            let within = |error: &str| format!("failed to get {} external metric: {error}", metric.name);
            let total = total().map_err(|missing| missing.reported_within(within))?;
            let proposal =
                replica_calculator::per_replica(self.status_replicas, total, value.milli_value(), self.tolerances);
            return Ok((proposal.replicas, average(proposal.usage)));
        }
        let Some(value) = target.value else {
            let why = "neither a value target nor an average value target was set";
            return Err(Missing::Error(format!("invalid external metric source: {why}")));
        };
        let within = |error: &str| format!("failed to get external metric {}: {error}", metric.name);
        let total = total().map_err(|missing| missing.reported_within(within))?;
        let replicas =
            replica_calculator::for_total(self.replicas, total, value.milli_value(), self.tolerances, self.pods);
        let replicas = replicas.map_err(|error| Missing::Error(error).reported_within(within))?;
        Ok((replicas, Current { value: Some(decimal(total)), ..Current::default() }))
    }
}

/// Upstream names object metrics with an average value like this, too.
fn external_name(source: &MetricSource) -> String {
    format!("external metric {}({})", source.metric.name, printed(source.metric.selector.as_ref()))
}

const fn decimal(usage: i64) -> Quantity {
    Quantity::from_milli(usage, Format::Decimal)
}

fn average(usage: i64) -> Current {
    Current { average_value: Some(decimal(usage)), ..Current::default() }
}
