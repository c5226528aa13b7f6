//! One run of an autoscaler: its inputs, its decisions so far, and why it stops.

use std::fmt::Display;

use pintle_sdk::api::meta::Condition;
use pintle_sdk::quantity::Quantity;
use pintle_sdk::time::Timestamp;
use pintle_sdk::{Error, Event, Mutation, Resource, conditions};

use crate::memory::Memory;
use crate::types::{HorizontalPodAutoscaler, Rules, Settings, Status};
use crate::writes::Writes;

pub(crate) const ABLE: &str = "AbleToScale";
pub(crate) const ACTIVE: &str = "ScalingActive";
pub(crate) const LIMITED: &str = "ScalingLimited";
pub(crate) const SCALED_TO_ZERO: &str = "ScaledToZero";

/// A run of one autoscaler.
pub(crate) struct Context<'a, L> {
    pub(crate) lister: &'a L,
    pub(crate) hpa: &'a HorizontalPodAutoscaler,
    pub(crate) settings: Settings,
    pub(crate) now: Timestamp,
    /// Seconds since the host started.
    pub(crate) uptime: f64,
    pub(crate) memory: Memory,
    /// The new status.
    pub(crate) status: Status,
    pub(crate) writes: Writes,
}

/// The reason why nothing is decided.
pub(crate) enum Stop {
    /// The run ends: a read is needed first, or an object does not fit its type.
    Run(Error),
    /// Upstream's errors: that of the condition and the event, and that of the whole computation.
    Failed { error: String, whole: String },
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Run(error)
    }
}

impl From<String> for Stop {
    fn from(error: String) -> Self {
        Self::Failed { whole: error.clone(), error }
    }
}

/// Adds a prefix to an error.
pub(crate) trait Within<T> {
    /// Adds a prefix to both of upstream's errors.
    fn within(self, text: impl Display) -> Result<T, Stop>;
    /// Adds a prefix to the error of the whole computation only.
    fn wholly_within(self, text: impl Display) -> Result<T, Stop>;
}

impl<T, E: Into<Stop>> Within<T> for Result<T, E> {
    fn within(self, text: impl Display) -> Result<T, Stop> {
        self.wholly_within(&text).map_err(|stop| match stop {
            Stop::Failed { error, whole } => Stop::Failed { error: format!("{text}: {error}"), whole },
            stop => stop,
        })
    }

    fn wholly_within(self, text: impl Display) -> Result<T, Stop> {
        self.map_err(|stop| match stop.into() {
            Stop::Failed { error, whole } => Stop::Failed { error, whole: format!("{text}: {whole}") },
            stop => stop,
        })
    }
}

impl<L> Context<'_, L> {
    /// Sets a condition in place; its transition time changes with its status only.
    #[doc(alias = "setCondition")]
    pub(crate) fn set(&mut self, kind: &str, status: bool, reason: &str, message: impl Into<String>) {
        let condition = Condition {
            type_: kind.to_owned(),
            status: if status { "True" } else { "False" }.to_owned(),
            reason: reason.to_owned(),
            message: message.into(),
            ..Condition::default()
        };
        self.status.conditions = conditions::set_condition(&self.status.conditions, condition, self.now);
    }

    pub(crate) fn warn(&mut self, reason: &str, message: &str) {
        let event = Event::warning(&HorizontalPodAutoscaler::KIND, &self.hpa.metadata, reason, message);
        self.writes.events.push(Mutation::event(event));
    }

    /// The minimum number of replicas, with upstream's default.
    pub(crate) fn least(&self) -> i32 {
        self.hpa.spec.min_replicas.unwrap_or(1)
    }

    #[doc(alias = "hasObjectOrExternalMetrics")]
    pub(crate) fn has_other_metrics(&self) -> bool {
        self.hpa.spec.metrics.iter().any(|metric| matches!(metric.type_.as_str(), "Object" | "External"))
    }

    /// Whether a ratio of usage to target is close enough to 1 to change nothing.
    #[doc(alias = "tolerancesForHpa", alias = "isWithin")]
    pub(crate) fn tolerates(&self, ratio: f64) -> bool {
        let behavior = self.hpa.spec.behavior.as_ref();
        let tolerance = |rules: Option<&Rules>| {
            let own = rules.and_then(|rules| rules.tolerance.as_ref()?.parse().ok());
            own.map_or(self.settings.tolerance, Quantity::approximate)
        };
        let down = tolerance(behavior.and_then(|behavior| behavior.scale_down.as_ref()));
        let up = tolerance(behavior.and_then(|behavior| behavior.scale_up.as_ref()));
        1.0 - down <= ratio && ratio <= 1.0 + up
    }
}
