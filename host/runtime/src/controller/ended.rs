//! The consequences of a run for its plugin: the last error, health and probation.
//!
//! Flow: the result of a run -> [`ControllerState::run_ended`], under the lock -> [`Consequences`] -> the observers,
//! without it.
//!
//! Not here: the consequences for the key (`pintle_core::policy::keys`), reporting (`observers`).

use std::sync::Arc;
use std::time::Instant;

use pintle_core::lifecycle::probation::Ended;
use pintle_core::lifecycle::supervisor::Change;
use pintle_core::object::id::Key;
use pintle_core::policy::keys::{Awaited, Disposition, Repeats};
use pintle_core::policy::loops;
use pintle_core::policy::pending::PendingWrite;

use super::ControllerState;
use super::health::recent_faults;
use super::run::RunResult;

/// The changes that the end of a run caused for its plugin.
pub(super) struct Consequences {
    /// The fault of the run, for humans.
    pub(super) fault: Option<String>,
    /// Whether the fault differs from that of the previous run of the key.
    pub(super) is_new_fault: bool,
    /// Why the key runs only because of its own writes; set if this began with this run.
    pub(super) begun_loop: Option<Arc<str>>,
    /// Set if the plugin was paused, disabled or resumed.
    pub(super) health: Option<HealthChange>,
    /// Whether the status has changed significantly.
    pub(super) is_significant: bool,
}

/// A plugin was paused, disabled or resumed.
pub(super) struct HealthChange {
    pub(super) change: Change,
    /// Counts of the faults that led to it.
    pub(super) counts: String,
    /// The last fault.
    pub(super) last: Arc<str>,
}

impl ControllerState {
    /// Processes the end of a run. `is_present`: it ran with the current version. Returns `None` if this host is no
    /// longer the leader: the next leader runs the key again.
    pub(super) fn run_ended(
        &mut self,
        queue: usize,
        key: &Key,
        result: &RunResult,
        awaited: Awaited<impl Fn(&PendingWrite) -> bool>,
        is_present: bool,
        now: Instant,
    ) -> Option<(Disposition, Consequences)> {
        if !self.leads {
            self.keys.drop_run(queue, key, now);
            return None;
        }
        let end = self.keys.end(queue, key, result.run_end(), awaited, now)?;
        let consequences = self.consequences(key, result, &end, is_present, now);
        Some((end, consequences))
    }

    fn consequences(
        &mut self,
        key: &Key,
        result: &RunResult,
        end: &Disposition,
        is_present: bool,
        now: Instant,
    ) -> Consequences {
        if let Some(error) = result.error() {
            self.last_error = Some(format!("{key}: {error}"));
        }
        let fault = result.fault().map(|(kind, text)| {
            self.health.count(kind, &text);
            text
        });
        let is_new_fault = matches!(result, RunResult::Fault(_)) && self.health.is_new_fault(key, end.attempt);
        let (begun_loop, loops_changed) = self.repeated(key, end.repeats.as_ref());
        let ended = result.run_end().ended();
        let (health, health_changed) = self.supervise(key, ended, now);
        // A version whose writes repeat counts like one that faults.
        let (judged, was_bad) = match &end.repeats {
            Some(repeats) => (Ended::Fault, repeats.n_runs > loops::LIMIT),
            None => (ended, end.was_suspect),
        };
        // Runs of an earlier version do not count.
        if is_present {
            self.rollout.ran(key, judged, was_bad, self.last_error.as_deref().unwrap_or_default(), now);
        }
        Consequences { fault, is_new_fault, begun_loop, health, is_significant: loops_changed || health_changed }
    }

    /// Records whether a key runs again and again because of its own writes. Returns the reason when this begins, and
    /// whether anything has changed.
    fn repeated(&mut self, key: &Key, repeats: Option<&Repeats>) -> (Option<Arc<str>>, bool) {
        let Some(Repeats { kind, object, .. }) = repeats else {
            return (None, self.health.repeating.remove(key).is_some());
        };
        let before = self.health.repeating.get(key).cloned();
        let why = before.clone().unwrap_or_else(|| {
            format!(
                "{} runs in a row were caused by nothing but the writes of the run before, the last one of {kind} {object}: does it \
                 contain the time, a random value or a list without an order?",
                loops::LIMIT,
            )
            .into()
        });
        self.last_error = Some(format!("{key}: {why}"));
        if before.is_some() {
            return (None, false);
        }
        self.health.repeating.insert(key.clone(), why.clone());
        (Some(why), true)
    }

    /// Updates the plugin's health. Returns the state change, and whether the status has changed.
    fn supervise(&mut self, key: &Key, ended: Ended, now: Instant) -> (Option<HealthChange>, bool) {
        let health = &mut self.health;
        let faulted = ended == Ended::Fault;
        let failed_before = health.successes.all_fail(0, |_| 0).is_some();
        health.successes.ran(key, ended != Ended::Well);
        let failing = failed_before != health.successes.all_fail(0, |_| 0).is_some();
        let toggled = health.key_ran(key, faulted) | failing;
        let Some(change) = health.supervisor.ran(key, faulted, now) else { return (None, toggled) };
        let (counts, last) = (recent_faults(health.supervisor.recent()), health.last.clone());
        if matches!(change, Change::Disabled) {
            health.disabled_why = Some(format!("failure policy Disable: {counts}; the last: {last}"));
        }
        (Some(HealthChange { change, counts, last }), true)
    }
}
