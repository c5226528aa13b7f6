//! Computes the proposal of an autoscaler's metrics.
//!
//! *Source*: `computeReplicasForMetrics`, `computeReplicasForMetric` and `computeStatusFor...` of upstream's `horizontal.go`.

use pintle_sdk::quantity::{Format, Quantity};
use pintle_sdk::{Error, Lister, Need, conditions, log};
use plugin_lib::selector::Selector;
use plugin_lib::selector::valid::printed;

use crate::context::{ACTIVE, Context, Stop, Within};
use crate::replica_calculator::ReplicaCalculator;
use crate::scale::Scale;
use crate::types::{Amount, Metric, MetricId, Pod, Reference, Source};
use crate::writes::action;

const INVALID_TYPE: &str = "InvalidMetricSourceType";

/// A number of replicas, the name of the metric in conditions and events, and its current value.
type Proposal = (i32, String, Amount);

/// A number of replicas, the name of the metric, and its state; or the reason of the condition and of the event, and the error.
type Computed = Result<(i32, String, Metric), (&'static str, Stop)>;

impl<L: Lister> Context<'_, L> {
    /// The highest proposal of the metrics, and the name of that metric. The metrics' states become those of the
    /// status.
    #[doc(alias = "computeReplicasForMetrics")]
    pub(crate) fn propose(&mut self, scale: &Scale) -> Result<(i32, String), Stop> {
        let Some((text, selector)) = &scale.selector else {
            self.warn("SelectorRequired", "selector is required");
            self.set(ACTIVE, false, "InvalidSelector", "the HPA target's scale is missing a selector");
            return Err("selector is required".to_owned().into());
        };
        let pods = self.select(selector)?;
        self.keep_selector(selector);
        let computed = self.compute(selector, &pods, scale.replicas, scale.status_replicas)?;
        // It reads all autoscalers of the namespace: once in a run, not in each round.
        self.check_overlap(text, &pods)?;
        let (n, mut n_failed) = (computed.len(), 0);
        let (mut most, mut name, mut first) = (0, String::new(), None);
        for (spec, computed) in self.hpa.spec.metrics.iter().zip(computed) {
            let (action, fault, status) = match computed {
                Ok((replicas, of, status)) => {
                    if most == 0 || replicas > most {
                        (most, name) = (replicas, of);
                    }
                    (action(self.hpa.status.current_replicas, replicas), "none", status)
                }
                Err((reason, Stop::Failed { error, whole })) => {
                    self.warn(reason, &error);
                    n_failed += 1;
                    first.get_or_insert((reason, error, whole));
                    ("none", if reason == INVALID_TYPE { "spec" } else { "internal" }, Metric::default())
                }
                Err((_, stop)) => return Err(stop),
            };
            self.writes.computations.push([action.into(), fault.into(), spec.type_.clone()]);
            self.status.current_metrics.push(status);
        }
        // The API server rejects an object without metrics.
        let none = || (INVALID_TYPE, "there are no metrics".to_owned(), String::new());
        let error = first
            .as_ref()
            .map(|(.., whole)| format!("invalid metrics ({n_failed} invalid out of {n}), first error is: {whole}"));
        // The other metrics may only scale up.
        if n_failed >= n || n_failed > 0 && most < scale.replicas {
            let (reason, why, _) = first.unwrap_or_else(none);
            self.set(ACTIVE, false, reason, format!("the HPA was unable to compute the replica count: {why}"));
            return Err(error.unwrap_or(why).into());
        }
        let message = format!("the HPA was able to successfully calculate a replica count from {name}");
        self.set(ACTIVE, true, "ValidMetricFound", message);
        if let Some(error) = error {
            log::warn(&error);
            self.writes.fault = Some("internal");
        }
        Ok((most, name))
    }

    /// The proposal of each metric.
    ///
    /// # Errors
    /// [`Error::Needs`] of all metrics, each once.
    fn compute(
        &self,
        selector: &Selector,
        pods: &[Pod],
        replicas: i32,
        status_replicas: i32,
    ) -> Result<Vec<Computed>, Error> {
        let target = ReplicaCalculator { run: self, selector, pods, replicas, status_replicas };
        let computed: Vec<Computed> = self.hpa.spec.metrics.iter().map(|spec| target.compute(spec)).collect();
        let mut needs: Vec<Need> = Vec::new();
        for one in &computed {
            let Err((_, Stop::Run(Error::Needs(more)))) = one else { continue };
            needs.extend(more.iter().filter(|need| !needs.contains(need)).cloned().collect::<Vec<_>>());
        }
        if needs.is_empty() { Ok(computed) } else { Err(Error::Needs(needs)) }
    }

    /// The metrics' needs if the scale has the same selector as in the last run, which saves a round. With another
    /// selector, the next round asks for its needs.
    pub(crate) fn foreseen(&self) -> Vec<Need> {
        let is_active = conditions::is_true(&self.hpa.status.conditions, ACTIVE);
        let Some(selector) = self.last_selector().filter(|_| is_active) else { return Vec::new() };
        // A metric is read before it is compared with Pods and replicas.
        match self.compute(&selector, &[], 0, 0) {
            Err(Error::Needs(needs)) => needs,
            _ => Vec::new(),
        }
    }
}

impl<L: Lister> ReplicaCalculator<'_, L> {
    #[doc(alias = "computeReplicasForMetric")]
    fn compute(&self, spec: &Metric) -> Computed {
        let mut status = spec.clone();
        let source = status.source().cloned();
        let Source { name, container, metric, .. } = source.clone().unwrap_or_default();
        let (reason, what, of): (_, _, fn(&Self, &Source) -> _) = match spec.type_.as_str() {
            "Object" => ("FailedGetObjectMetric", "object".to_owned(), Self::object),
            "Pods" => ("FailedGetPodsMetric", "pods".to_owned(), Self::pods),
            "Resource" => ("FailedGetResourceMetric", format!("{name} resource"), Self::resource),
            "ContainerResource" => {
                ("FailedGetContainerResourceMetric", format!("{container} container"), Self::resource)
            }
            "External" => ("FailedGetExternalMetric", format!("{} external", metric.name), Self::external),
            other => return Err((INVALID_TYPE, format!("unknown metric source type {other:?}").into())),
        };
        // The API server rejects a metric without a source.
        let missing = || format!("the metric has the type {}, but no source of it", spec.type_);
        let proposal = source.ok_or_else(|| missing().into()).and_then(|source| of(self, &source));
        let proposal = proposal.wholly_within(format_args!("failed to get {what} metric value"));
        let (replicas, name, current) = proposal.map_err(|stop| (reason, stop))?;
        if let Some(source) = status.source() {
            *source = Source { current, target: Amount::default(), ..source.clone() };
        }
        Ok((replicas, name, status))
    }

    #[doc(alias = "computeStatusForResourceMetricGeneric")]
    fn resource(&self, source: &Source) -> Result<Proposal, Stop> {
        let Source { name, container, target, .. } = source;
        let (what, (goal, of)) = match (target.average_value, target.average_utilization) {
            (Some(average), _) => ("usage", (average.milli_value(), None)),
            (None, Some(share)) => ("utilization", (share.into(), Some(container.as_str()))),
            (None, None) => {
                let why = "neither an average utilization target nor an average value (usage) target was set";
                return Err(format!("invalid resource metric source: {why}").into());
            }
        };
        let samples =
            self.of_resource(name, container).within(format_args!("unable to get metrics for resource {name}"));
        let computed = samples.and_then(|samples| Ok(self.by_pods(&samples, name, goal, of)?));
        let (replicas, usage) = computed.within(format_args!("failed to get {name} {what}"))?;
        let word = if container.is_empty() { "" } else { "container " };
        let shown = match of {
            None => format!("{name} resource"),
            Some(_) => format!("{name} {word}resource utilization (percentage of request)"),
        };
        let format = if name == "memory" { Format::Binary } else { Format::Decimal };
        let average_value = Some(Quantity::from_milli(usage.average, format));
        Ok((replicas, shown, Amount { average_value, average_utilization: usage.utilization, ..Amount::default() }))
    }

    #[doc(alias = "computeStatusForPodsMetric")]
    fn pods(&self, source: &Source) -> Result<Proposal, Stop> {
        let MetricId { name, selector } = &source.metric;
        let selector = Selector::from_label_selector(selector.as_ref())?;
        let Some(target) = source.target.average_value else {
            return Err("invalid pods metric source: no average value target was set".to_owned().into());
        };
        let samples = self.of_each_pod(name, &selector).within(format_args!("unable to get metric {name}"))?;
        let (replicas, usage) = self.by_pods(&samples, "", target.milli_value(), None)?;
        Ok((replicas, format!("pods metric {name}"), average(usage.average)))
    }

    #[doc(alias = "computeStatusForObjectMetric")]
    fn object(&self, source: &Source) -> Result<Proposal, Stop> {
        let Source { described_object: object, metric: MetricId { name, selector }, target, .. } = source;
        let selector = Selector::from_label_selector(selector.as_ref())?;
        let Reference { kind, name: of, .. } = object;
        let usage = || {
            let usage = self.of_object(object, name, &selector);
            usage.within(format_args!("unable to get metric {name} on {kind} {}/{of}", self.namespace()))
        };
        match (target.type_.as_str(), target.value, target.average_value) {
            ("Value", Some(target), _) => {
                let usage = usage()?;
                Ok((self.by_total(usage, target.milli_value())?, format!("{kind} metric {name}"), value(usage)))
            }
            ("AverageValue", _, Some(target)) => {
                let usage = usage().wholly_within(format_args!("failed to get {name} object metric"))?;
                Ok(self.share(&source.metric, usage, target))
            }
            _ => Err(without_target("object")),
        }
    }

    #[doc(alias = "computeStatusForExternalMetric")]
    fn external(&self, source: &Source) -> Result<Proposal, Stop> {
        let Source { metric, target, .. } = source;
        let (name, selector) = (&metric.name, metric.selector.as_ref());
        let usage = || {
            let usage = self.of_outside(name, &Selector::from_label_selector(selector)?);
            let (namespace, selector) = (self.namespace(), printed(selector));
            usage.within(format_args!("unable to get external metric {namespace}/{name}/{selector}"))
        };
        match (target.average_value, target.value) {
            (Some(target), _) => {
                let usage = usage().wholly_within(format_args!("failed to get {name} external metric"))?;
                Ok(self.share(metric, usage, target))
            }
            (None, Some(target)) => {
                let computed = usage().and_then(|usage| Ok((self.by_total(usage, target.milli_value())?, usage)));
                let (replicas, usage) = computed.wholly_within(format_args!("failed to get external metric {name}"))?;
                Ok((replicas, shown(metric), value(usage)))
            }
            (None, None) => Err(without_target("external")),
        }
    }

    fn share(&self, metric: &MetricId, usage: i64, target: Quantity) -> Proposal {
        let (replicas, usage) = self.by_share(usage, target.milli_value());
        (replicas, shown(metric), average(usage))
    }

    fn namespace(&self) -> &str {
        &self.run.hpa.metadata.namespace
    }
}

fn without_target(of: &str) -> Stop {
    format!("invalid {of} metric source: neither a value target nor an average value target was set").into()
}

/// Upstream uses the name format of external metrics for object metrics with an average value.
fn shown(metric: &MetricId) -> String {
    format!("external metric {}({})", metric.name, printed(metric.selector.as_ref()))
}

fn value(usage: i64) -> Amount {
    Amount { value: Some(Quantity::from_milli(usage, Format::Decimal)), ..Amount::default() }
}

fn average(usage: i64) -> Amount {
    Amount { average_value: Some(Quantity::from_milli(usage, Format::Decimal)), ..Amount::default() }
}
