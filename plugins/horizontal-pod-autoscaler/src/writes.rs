//! What a run wants, and what it counts.

use std::cmp::Ordering;

use pintle_sdk::api::meta::ObjectMeta;
use pintle_sdk::document::Document;
use pintle_sdk::{Event, Lister, Moment, Mutation, Outcome, Place, Resource, Step};
use plugin_lib::selector::Selector;

use crate::overlap;
use crate::types::{Autoscaler, Status};

const PREFIX: &str = "horizontal_pod_autoscaler_controller";

/// Whose fault an error is, as the metrics name it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    Spec,
    Internal,
}

impl Fault {
    fn label(fault: Option<Self>) -> &'static str {
        match fault {
            None => "none",
            Some(Self::Spec) => "spec",
            Some(Self::Internal) => "internal",
        }
    }
}

/// The writes and metrics of a run.
#[derive(Default)]
pub(crate) struct Writes {
    pub(crate) events: Vec<Mutation>,
    pub(crate) scale: Option<Mutation>,
    status: Option<Mutation>,
    /// `scale_up` or `scale_down`, if there is a write of the scale.
    pub(crate) action: &'static str,
    pub(crate) fault: Option<Fault>,
    /// That of the target, if it is valid.
    pub(crate) selector: Option<Selector>,
    /// Labels of the metrics that were computed.
    computations: Vec<[String; 3]>,
}

impl Writes {
    pub(crate) fn computed(&mut self, type_: &str, replicas: Ordering) {
        let action = match replicas {
            Ordering::Greater => "scale_up",
            Ordering::Less => "scale_down",
            Ordering::Equal => "none",
        };
        self.computations.push([action.into(), "none".into(), type_.into()]);
    }

    pub(crate) fn not_computed(&mut self, type_: &str, is_spec: bool) {
        let error = Fault::label(Some(if is_spec { Fault::Spec } else { Fault::Internal }));
        self.computations.push(["none".into(), error.into(), type_.into()]);
    }

    /// Writes the status, if it differs.
    pub(crate) fn write_status(&mut self, hpa: &Autoscaler, status: &Status, mut document: Document) {
        if hpa.status == *status {
            return;
        }
        document.set(&["status"], status);
        let failed = Event::warning(&Autoscaler::KIND, &hpa.metadata, "FailedUpdateStatus", "{error}");
        self.status = Some(Mutation::update_status(&Autoscaler::KIND, document).on_failure(failed));
    }

    /// The outcome, without what the autoscaler remembers. `desired` is the last desired number of replicas.
    pub(crate) fn outcome(self, lister: &impl Lister, own: &ObjectMeta, desired: Option<i32>) -> Outcome {
        let place =
            self.scale.as_ref().and_then(|_| Some(Place { step: 0, position: u32::try_from(self.events.len()).ok()? }));
        let mut outcome = Outcome::new()
            .step(Step::sequential(self.events.into_iter().chain(self.scale)))
            .step(Step::sequential(self.status));
        let action = if place.is_some() { self.action } else { "none" };
        let labels = [("action", action), ("error", Fault::label(self.fault))];
        for (name, value) in labels {
            outcome = outcome.run_label(name, value);
        }
        // A change that is refused is counted by the run that reports it.
        let at = place.map_or(Moment::Now, Moment::Done);
        let values = labels.iter().map(|(_, value)| (*value).to_owned()).collect();
        outcome = outcome.observe_at(at, format!("{PREFIX}_reconciliations_total"), values, 1.0);
        for labels in self.computations {
            outcome = outcome.observe(format!("{PREFIX}_metric_computation_total"), labels.into(), 1.0);
        }
        outcome = gauges(own, desired, outcome);
        match &self.selector {
            Some(selector) => overlap::keep(lister, own, selector, outcome),
            None => outcome,
        }
    }
}

/// The values that belong to the autoscaler.
pub(crate) fn gauges(own: &ObjectMeta, desired: Option<i32>, outcome: Outcome) -> Outcome {
    let outcome = outcome.observe(format!("{PREFIX}_num_horizontal_pod_autoscalers"), Vec::new(), 1.0);
    let labels = vec![own.namespace.clone(), own.name.clone()];
    match desired {
        Some(desired) => outcome.observe(format!("{PREFIX}_desired_replicas"), labels, f64::from(desired)),
        None => outcome,
    }
}
