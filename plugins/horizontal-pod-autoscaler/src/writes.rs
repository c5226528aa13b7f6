//! The writes and metrics of a run.

use pintle_sdk::api::meta::Metadata;
use pintle_sdk::{Moment, Mutation, Outcome, Step};

const PREFIX: &str = "horizontal_pod_autoscaler_controller";

/// The writes and metrics of a run.
#[derive(Default)]
pub(crate) struct Writes {
    pub(crate) events: Vec<Mutation>,
    /// `scale_up` or `scale_down`, and the write.
    pub(crate) scale: Option<(&'static str, Mutation)>,
    pub(crate) status: Option<Mutation>,
    /// Error source label of the metrics: `spec` or `internal`.
    pub(crate) fault: Option<&'static str>,
    /// Labels of the computed metrics: action, error and type.
    pub(crate) computations: Vec<[String; 3]>,
    /// State entries about its target, by name.
    pub(crate) state: Vec<(String, String)>,
    /// Whether the run read nothing, because the status write failed.
    pub(crate) is_pause: bool,
}

/// The direction of a change as a metric label.
pub(crate) fn action(from: i32, to: i32) -> &'static str {
    match from {
        _ if from < to => "scale_up",
        _ if from > to => "scale_down",
        _ => "none",
    }
}

impl Writes {
    /// Skips everything until the next period.
    pub(crate) fn pause(&mut self) {
        (self.is_pause, self.fault) = (true, Some("internal"));
    }

    /// The outcome, without the autoscaler's state. `desired` is the last desired number of replicas.
    pub(crate) fn outcome(self, hpa: &impl Metadata, desired: Option<i32>) -> Outcome {
        let (action, scale) = self.scale.unzip();
        let is_change = scale.is_some();
        let mut outcome = Outcome::new().step(Step::sequential(self.events.into_iter().chain(scale)));
        // A failed change is counted by the run that reports it.
        let at = outcome.last_place().filter(|_| is_change).map_or(Moment::Now, Moment::Done);
        let labels = [("action", action.unwrap_or("none")), ("error", self.fault.unwrap_or("none"))];
        for (name, value) in labels {
            outcome = outcome.run_label(name, value);
        }
        if !self.is_pause {
            let values = labels.map(|(_, value)| value.to_owned()).into();
            outcome = outcome.observe_at(at, format!("{PREFIX}_reconciliations_total"), values, 1.0);
        }
        for labels in self.computations {
            outcome = outcome.observe(format!("{PREFIX}_metric_computation_total"), labels.into(), 1.0);
        }
        outcome = outcome.observe(format!("{PREFIX}_num_horizontal_pod_autoscalers"), Vec::new(), 1.0);
        if let Some(desired) = desired {
            let labels = vec![hpa.namespace().to_owned(), hpa.name().to_owned()];
            outcome = outcome.observe(format!("{PREFIX}_desired_replicas"), labels, desired.into());
        }
        outcome.state.extend(self.state.into_iter().map(|(name, value)| (name, Some(value))));
        outcome.step(Step::sequential(self.status))
    }
}
