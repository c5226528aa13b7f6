//! One run: from the object and its target to what is done.
//!
//! *Source*: `reconcileAutoscaler` and `computeReplicasForMetrics` of upstream's `horizontal.go`.

use pintle_sdk::document::Document;
use pintle_sdk::{Error, Event, Lister, Mutation, Need, Resource, conditions, log};
use plugin_lib::selector::Selector;

use crate::behavior::{ABLE, Question, rules};
use crate::memory::{Memory, Recommendation, Sent};
use crate::metric::{Computed, Input, Stopped};
use crate::overlap;
use crate::pods::{self, Readiness};
use crate::replica_calculator::Tolerances;
use crate::settings::Settings;
use crate::target::{self, NoScale, Scale};
use crate::types::{Autoscaler, MetricStatus, Status};
use crate::writes::{Fault, Writes};

const ACTIVE: &str = "ScalingActive";
const SCALED_TO_ZERO: &str = "ScaledToZero";

/// A run of one autoscaler.
pub(crate) struct Context<'a, L> {
    pub(crate) lister: &'a L,
    pub(crate) hpa: &'a Autoscaler,
    pub(crate) settings: &'a Settings,
    pub(crate) now: pintle_sdk::time::Timestamp,
    pub(crate) uptime: f64,
    pub(crate) memory: Memory,
    /// The new status.
    pub(crate) status: Status,
    pub(crate) writes: Writes,
}

/// What all metrics together ask for.
struct Proposed {
    replicas: i32,
    /// Of the metric that asks for most.
    name: String,
}

impl<L: Lister> Context<'_, L> {
    /// Looks at the target and its metrics, and decides.
    ///
    /// # Errors
    /// [`Error::Needs`], or an object does not fit its type.
    pub(crate) fn go(&mut self, document: Document) -> Result<(), Error> {
        let hpa = self.hpa;
        let reference = &hpa.spec.scale_target_ref;
        let scale = match target::scale(self.lister, &hpa.metadata.namespace, reference) {
            Ok(scale) => scale,
            Err(NoScale::Needs(mut needs)) => {
                needs.extend(self.foreseen());
                return Err(Error::Needs(needs));
            }
            Err(NoScale::Reference(error)) => {
                self.no_scale(&error, Fault::Spec, document);
                return Ok(());
            }
            Err(NoScale::Kind(error) | NoScale::Refused(error)) => {
                self.no_scale(&error, Fault::Internal, document);
                return Ok(());
            }
        };
        let message = "the HPA controller was able to get the target's current scale";
        self.status.set(ABLE, true, "SucceededGetScale", message, self.now);
        // Before anything that is recommended at this time.
        let first = || vec![Recommendation(self.uptime - 0.001, scale.replicas)];
        self.memory.recommendations.get_or_insert_with(first);
        self.decide(scale, document)
    }

    fn no_scale(&mut self, error: &str, fault: Fault, document: Document) {
        self.warn("FailedGetScale", error);
        let message = format!("the HPA controller was unable to get the target's current scale: {error}");
        self.status.set(ABLE, false, "FailedGetScale", message, self.now);
        self.writes.fault = Some(fault);
        self.writes.write_status(self.hpa, &self.status, document);
    }

    fn decide(&mut self, scale: Scale, document: Document) -> Result<(), Error> {
        let spec = &self.hpa.spec;
        let (current, least) = (scale.replicas, spec.min_replicas());
        let was_scaled_to_zero =
            self.settings.scale_to_zero && conditions::is_true(&self.status.conditions, SCALED_TO_ZERO);
        let from_zero = was_scaled_to_zero && (least != 0 || self.has_other_metrics());
        if current == 0 && !from_zero {
            let message = "scaling is disabled since the replica count of the target is zero";
            self.status.set(ACTIVE, false, "ScalingDisabled", message, self.now);
            if !self.settings.scale_to_zero {
                conditions::remove(&mut self.status.conditions, SCALED_TO_ZERO);
            }
            self.keep_size(current, Vec::new(), document);
        } else if current > spec.max_replicas && current != 0 {
            let reason = "Current number of replicas above Spec.MaxReplicas".into();
            self.rescale(scale, spec.max_replicas, reason, Vec::new(), document);
        } else if current < least && current != 0 {
            let reason = "Current number of replicas below Spec.MinReplicas".into();
            self.rescale(scale, least, reason, Vec::new(), document);
        } else {
            self.by_metrics(scale, was_scaled_to_zero, document)?;
        }
        Ok(())
    }

    fn by_metrics(&mut self, scale: Scale, was_scaled_to_zero: bool, document: Document) -> Result<(), Error> {
        let spec = &self.hpa.spec;
        let (current, least) = (scale.replicas, spec.min_replicas());
        let mut metrics = Vec::new();
        let proposed = match self.propose(&scale, &mut metrics)? {
            Ok(proposed) => proposed,
            Err(error) => {
                self.status.report(self.generation(), current, self.hpa.status.desired_replicas, metrics);
                self.writes.fault = Some(Fault::Internal);
                self.writes.write_status(self.hpa, &self.status, document);
                self.warn("FailedComputeMetricsReplicas", &error);
                return Ok(());
            }
        };
        // A number below zero, of a metric below zero, asks for nothing.
        let wanted = proposed.replicas.max(0);
        let mut reason = String::new();
        if wanted > current {
            reason = format!("{} above target", proposed.name);
        } else if wanted < current {
            reason = "All metrics below target".into();
        }
        let question = Question {
            spec,
            current,
            proposed: wanted,
            downscale_stabilization: self.settings.downscale_stabilization(),
            uptime: self.uptime,
            now: self.now,
        };
        let mut desired = question.decide(&mut self.memory, &mut self.status);
        if current == 0 && least != 0 && was_scaled_to_zero && desired < least {
            desired = least;
            if reason.is_empty() {
                reason = "Current number of replicas below Spec.MinReplicas".into();
            }
        }
        if desired == current {
            self.keep_size(current, metrics, document);
        } else {
            self.rescale(scale, desired, reason, metrics, document);
        }
        Ok(())
    }

    /// The size is right, or out of the autoscaler's hands.
    fn keep_size(&mut self, current: i32, metrics: Vec<MetricStatus>, document: Document) {
        self.status.report(self.generation(), current, current, metrics);
        self.memory.desired = Some(current);
        self.writes.write_status(self.hpa, &self.status, document);
    }

    fn rescale(&mut self, scale: Scale, to: i32, reason: String, metrics: Vec<MetricStatus>, document: Document) {
        let from = scale.replicas;
        self.status.report(self.generation(), from, self.hpa.status.desired_replicas, metrics);
        let period = self.hpa.spec.behavior.as_ref().map(|behavior| {
            let (up, down) = rules(behavior);
            if to > from { up.longest_period() } else { down.longest_period() }
        });
        let sent = Sent {
            uid: self.hpa.metadata.uid.clone(),
            kind: scale.kind.to_string(),
            from,
            to,
            reason,
            at: self.uptime,
            period,
            with_error: self.writes.fault.is_some(),
            status: self.status.clone(),
        };
        self.send(scale, sent, document);
    }

    /// Sends a change, and the status that it leads to.
    pub(crate) fn send(&mut self, scale: Scale, sent: Sent, document: Document) {
        let Sent { from, to, ref reason, ref status, with_error, .. } = sent;
        let mut status = status.clone();
        let metrics = std::mem::take(&mut status.current_metrics);
        let message = format!("the HPA controller was able to update the target scale to {to}");
        status.set(ABLE, true, "SucceededRescale", message, self.now);
        if self.settings.scale_to_zero {
            let is_zero = from > 0 && to == 0 && self.hpa.spec.min_replicas() == 0 && self.has_other_metrics();
            let (reason, message) = match is_zero {
                true => ("ScaledToZero", "the HPA controller scaled the workload to zero"),
                false => ("NotScaledToZero", "the HPA controller did not scale the workload to zero"),
            };
            status.set(SCALED_TO_ZERO, is_zero, reason, message, self.now);
        } else {
            conditions::remove(&mut status.conditions, SCALED_TO_ZERO);
        }
        // That which was decided on, which a conflict makes no newer.
        status.report(status.observed_generation, from, to, metrics);
        status.last_scale_time = Some(self.now.truncate());
        let event = format!("New size: {to}; reason: {reason}");
        let event = Event::normal(&Autoscaler::KIND, &self.hpa.metadata, "SuccessfulRescale", event);
        self.writes.fault = with_error.then_some(Fault::Internal);
        self.writes.action = if to > from { "scale_up" } else { "scale_down" };
        self.writes.scale = Some(scale.update(to).on_success(event));
        self.writes.write_status(self.hpa, &status, document);
        self.memory.sent = Some(sent);
    }

    /// What the status says was observed: 0 where the API server counts no generations, as upstream writes it.
    fn generation(&self) -> Option<i64> {
        self.settings.generation.then_some(self.hpa.metadata.generation)
    }

    fn has_other_metrics(&self) -> bool {
        self.hpa.spec.metrics.iter().any(|metric| matches!(metric.type_.as_str(), "Object" | "External"))
    }

    pub(crate) fn warn(&mut self, reason: &str, message: &str) {
        let event = Event::warning(&Autoscaler::KIND, &self.hpa.metadata, reason, message);
        self.writes.events.push(Mutation::event(event));
    }

    fn tolerances(&self) -> Tolerances {
        let default = self.settings.tolerance;
        let behavior = self.hpa.spec.behavior.as_ref();
        let of = |rules: Option<&crate::types::Rules>| {
            rules.and_then(|rules| rules.tolerance).map_or(default, pintle_sdk::quantity::Quantity::approximate)
        };
        Tolerances {
            down: of(behavior.and_then(|behavior| behavior.scale_down.as_ref())),
            up: of(behavior.and_then(|behavior| behavior.scale_up.as_ref())),
        }
    }

    /// The selector of the target, and its Pods.
    fn selector(&mut self, scale: &Scale) -> Result<Result<(Selector, Vec<crate::types::Pod>), String>, Error> {
        let Some((_, selector)) = scale.selector.clone() else {
            self.warn("SelectorRequired", "selector is required");
            let message = "the HPA target's scale is missing a selector";
            self.status.set(ACTIVE, false, "InvalidSelector", message, self.now);
            return Ok(Err("selector is required".into()));
        };
        let pods = pods::select(self.lister, &self.hpa.metadata.namespace, &selector)?;
        self.writes.selector = Some(selector.clone());
        Ok(Ok((selector, pods)))
    }

    /// Reports other autoscalers whose targets have some of the Pods. The error is upstream's.
    fn ambiguity(&mut self, scale: &Scale, pods: &[crate::types::Pod]) -> Result<Option<String>, Error> {
        let own = &self.hpa.metadata;
        let Some(rival) = overlap::rival(self.lister, own, pods, &mut self.memory)? else { return Ok(None) };
        let text = scale.selector.as_ref().map_or("", |(text, _)| text);
        let names = [&own.name, &rival].map(|name| format!("{}/{name}", own.namespace));
        let error = format!("pods by selector {text} are controlled by more than one HPA (e.g. [{}])", names.join(" "));
        self.warn("AmbiguousSelector", &error);
        self.status.set(ACTIVE, false, "AmbiguousSelector", &error, self.now);
        Ok(Some(error))
    }

    /// What each metric asks for.
    fn compute(
        &self,
        selector: &Selector,
        pods: &[crate::types::Pod],
        replicas: i32,
        status_replicas: i32,
    ) -> Vec<Result<Computed, Stopped>> {
        let input = Input {
            namespace: &self.hpa.metadata.namespace,
            selector,
            pods,
            replicas,
            status_replicas,
            tolerances: self.tolerances(),
            readiness: Readiness {
                cpu_initialization_period: self.settings.cpu_initialization_period(),
                initial_readiness_delay: self.settings.initial_readiness_delay(),
                now: self.now,
            },
            with_pod_level: self.settings.pod_level_resources,
        };
        self.hpa.spec.metrics.iter().map(|spec| input.compute(self.lister, spec)).collect()
    }

    /// What the metrics need if the scale has the same selector as in the last run, which saves a round. If it has another one, the next
    /// round asks for what that one needs.
    fn foreseen(&self) -> Vec<Need> {
        if !conditions::is_true(&self.hpa.status.conditions, ACTIVE) {
            return Vec::new();
        }
        let Some(selector) = overlap::kept(self.lister, &self.hpa.metadata) else { return Vec::new() };
        // A metric is read before it is compared with Pods and replicas.
        needs_of(&self.compute(&selector, &[], 0, 0))
    }

    /// What the metrics ask for. The inner error is upstream's.
    fn propose(&mut self, scale: &Scale, metrics: &mut Vec<MetricStatus>) -> Result<Result<Proposed, String>, Error> {
        let (selector, pods) = match self.selector(scale)? {
            Ok(found) => found,
            Err(error) => return Ok(Err(error)),
        };
        let specs = &self.hpa.spec.metrics;
        let computed = self.compute(&selector, &pods, scale.replicas, scale.status_replicas);
        let needs = needs_of(&computed);
        if !needs.is_empty() {
            return Err(Error::Needs(needs));
        }
        // It reads all autoscalers of the namespace: once in a run, not in each round.
        if let Some(error) = self.ambiguity(scale, &pods)? {
            return Ok(Err(error));
        }
        let mut most = Proposed { replicas: 0, name: String::new() };
        let (mut n_failed, mut first) = (0, None);
        for (spec, computed) in specs.iter().zip(computed) {
            match computed {
                Ok(Computed { replicas, name, status }) => {
                    self.writes.computed(&spec.type_, replicas.cmp(&self.hpa.status.current_replicas));
                    metrics.push(status);
                    if most.replicas == 0 || replicas > most.replicas {
                        most = Proposed { replicas, name };
                    }
                }
                Err(Stopped::Failed(failed)) => {
                    self.warn(failed.reason, &failed.error);
                    self.writes.not_computed(&spec.type_, failed.is_spec);
                    metrics.push(MetricStatus::default());
                    n_failed += 1;
                    first = first.or(Some(failed));
                }
                Err(Stopped::Needs(_)) => {}
            }
        }
        let error = first.as_ref().map(|first| {
            format!("invalid metrics ({n_failed} invalid out of {}), first error is: {}", specs.len(), first.summary)
        });
        // What is left may only scale up.
        if n_failed >= specs.len() || n_failed > 0 && most.replicas < scale.replicas {
            // The API server does not let an object without metrics pass.
            let none = ("InvalidMetricSourceType", "there are no metrics".to_owned());
            let (reason, why) = first.map_or(none, |first| (first.reason, first.error));
            let message = format!("the HPA was unable to compute the replica count: {why}");
            self.status.set(ACTIVE, false, reason, message, self.now);
            return Ok(Err(error.unwrap_or(why)));
        }
        let message = format!("the HPA was able to successfully calculate a replica count from {}", most.name);
        self.status.set(ACTIVE, true, "ValidMetricFound", message, self.now);
        if let Some(error) = error {
            log::warn(&error);
            self.writes.fault = Some(Fault::Internal);
        }
        Ok(Ok(most))
    }
}

/// All that metrics have not read yet, each once.
fn needs_of(computed: &[Result<Computed, Stopped>]) -> Vec<Need> {
    let mut needs: Vec<Need> = Vec::new();
    for one in computed {
        let Err(Stopped::Needs(more)) = one else { continue };
        for need in more {
            if !needs.contains(need) {
                needs.push(need.clone());
            }
        }
    }
    needs
}
