//! Shadow mode: a new version runs in parallel to the current one; its outcomes are compared and never written.
//!
//! ```text
//! run of the present version ──views, answers──> comparison task ──> same | differs | fault
//! ```
//!
//! Invariants:
//! 1. The new version gets the same inputs as the current one: snapshot, time, state, failures and answers.
//! 2. Runs of the current version never wait for the new one: while [`MAX_COMPARED`] comparisons are in progress,
//!    further runs are not compared.
//!
//! Not here: the comparison (`pintle_core::lifecycle::comparison`), the consequences of its result (`manager`).

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use pintle_core::lifecycle::comparison;
use pintle_core::lifecycle::{Difference, Shadow, ShadowReport, StageProgress};
use pintle_core::object::id::Key;
use pintle_core::ports::guest::Answer;
use pintle_core::ports::view::View;
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::Instant;

use super::{Controller, Version};
use crate::large::beside_workers;

/// Maximum concurrent comparisons: each holds a snapshot of the caches.
const MAX_COMPARED: usize = 4;
/// Maximum keys that the report counts.
const MAX_KEYS: usize = 50_000;
/// Maximum differences kept for `pintle plugin diff`.
const MAX_KEPT: usize = 50;
/// Maximum bytes of a kept difference, as text. For a larger one, only the sizes are kept.
const MAX_DIFFERENCE_BYTES: usize = 256 << 10;

/// The shadow run in progress, and the report of the last one.
#[derive(Default)]
pub(super) struct Shadows {
    present: RwLock<Option<Arc<Shadowing>>>,
    last: Mutex<Option<ShadowReport>>,
}

/// A shadow run in progress.
pub(crate) struct Shadowing {
    pub(super) candidate: Arc<Version>,
    rules: Shadow,
    /// Latest time of its end.
    until: Option<Instant>,
    report: Mutex<ShadowReport>,
    /// Keys of the compared runs.
    keys: Mutex<HashSet<Key>>,
    fault: Mutex<Option<String>>,
    slots: Arc<Semaphore>,
    /// Whether enough runs were compared.
    over: watch::Sender<bool>,
}

/// A run of the current version to compare.
pub(super) struct Sample {
    pub(super) shadowing: Arc<Shadowing>,
    _slot: OwnedSemaphorePermit,
    /// The input for the new version, and the answers to the current one.
    rounds: Vec<(Arc<dyn View>, Answer)>,
}

impl Sample {
    pub(super) fn round(&mut self, view: Arc<dyn View>, answer: &Answer) {
        self.rounds.push((view, answer.clone()));
    }
}

/// An outcome in the form that is kept.
fn bounded(outcome: Value) -> Value {
    match outcome.to_string().len() {
        n_bytes if n_bytes > MAX_DIFFERENCE_BYTES / 2 => {
            format!("an outcome of {n_bytes} bytes, too large to keep").into()
        }
        _ => outcome,
    }
}

impl Shadowing {
    fn new(candidate: Arc<Version>, rules: Shadow) -> Arc<Self> {
        let limit = Duration::from_millis(rules.for_ms.into());
        let until = (!limit.is_zero()).then(|| Instant::now() + limit);
        Arc::new(Self {
            candidate,
            rules,
            until,
            report: Mutex::default(),
            keys: Mutex::default(),
            fault: Mutex::new(None),
            slots: Arc::new(Semaphore::new(MAX_COMPARED)),
            over: watch::Sender::new(false),
        })
    }

    pub(super) fn sample(self: &Arc<Self>) -> Option<Sample> {
        let Ok(slot) = self.slots.clone().try_acquire_owned() else {
            self.report.lock().n_skipped += 1;
            return None;
        };
        Some(Sample { shadowing: self.clone(), _slot: slot, rounds: Vec::new() })
    }

    /// Latest time of its end.
    pub(crate) fn until(&self) -> Option<Instant> {
        self.until
    }

    fn progress(&self) -> StageProgress {
        let remaining = self.until.map(|until| until.saturating_duration_since(Instant::now()));
        StageProgress {
            n_runs: self.report.lock().n_runs,
            wanted_runs: self.rules.runs,
            remaining_ms: remaining.and_then(|left| u64::try_from(left.as_millis()).ok()),
            unsynced: Vec::new(),
        }
    }

    /// Waits until enough runs were compared, too many of them differ, or the new version has faulted.
    ///
    /// # Cancel safety
    /// Safe.
    pub(crate) async fn over(&self) {
        // The sender lives as long as `self`.
        let _ = self.over.subscribe().wait_for(|over| *over).await;
    }

    pub(crate) fn report(&self) -> ShadowReport {
        self.report.lock().clone()
    }

    /// The reason to reject the new version, based on the comparisons so far.
    pub(crate) fn objection(&self) -> Option<(&'static str, String)> {
        let report = self.report.lock();
        if let Some(fault) = &*self.fault.lock() {
            return Some(("ShadowFaults", format!("the new version faulted in the shadow: {fault}")));
        }
        let probation = &self.candidate.spec.strategy.probation;
        if report.n_deletions > probation.max_deletions {
            let message = format!(
                "the new version would delete {} objects that the old one keeps, more than {} (strategy.probation.maxDeletions); `pintle plugin diff` shows them",
                report.n_deletions, probation.max_deletions
            );
            return Some(("ShadowDeletes", message));
        }
        (report.n_differences > self.rules.max_differences).then(|| {
            let message = format!(
                "{} of {} runs in the shadow differ, more than {}; `pintle plugin diff` shows them",
                report.n_differences, report.n_runs, self.rules.max_differences
            );
            ("ShadowDiffers", message)
        })
    }

    fn take_in(
        &self,
        key: Key,
        has_writes: bool,
        n_deletions: u32,
        difference: Option<Difference>,
        fault: Option<String>,
    ) {
        let mut keys = self.keys.lock();
        let is_new = keys.len() < MAX_KEYS && keys.insert(key);
        drop(keys);
        let mut report = self.report.lock();
        report.n_runs += 1;
        report.n_keys += u32::from(is_new);
        report.n_with_writes += u32::from(has_writes);
        report.n_deletions = report.n_deletions.saturating_add(n_deletions);
        let deletes = report.n_deletions > self.candidate.spec.strategy.probation.max_deletions;
        if let Some(difference) = difference {
            report.n_differences += 1;
            if report.differences.len() < MAX_KEPT {
                report.differences.push(difference);
            }
        }
        let differs = report.n_differences > self.rules.max_differences;
        let over = report.n_runs >= self.rules.runs || differs || deletes || fault.is_some();
        drop(report);
        if fault.is_some() {
            *self.fault.lock() = fault;
        }
        if over {
            self.over.send_replace(true);
        }
    }
}

impl Controller {
    /// Starts shadow mode. It continues until [`Controller::end_shadowing`].
    pub(crate) fn begin_shadowing(&self, candidate: Arc<Version>, rules: Shadow) -> Arc<Shadowing> {
        let shadowing = Shadowing::new(candidate, rules);
        *self.shadows.present.write() = Some(shadowing.clone());
        // So that an idle plugin is compared as well.
        self.run_all_again();
        shadowing
    }

    /// Ends shadow mode; its report stays.
    pub(crate) fn end_shadowing(&self) {
        let ended = self.shadows.present.write().take();
        if let Some(ended) = ended {
            *self.shadows.last.lock() = Some(ended.report());
        }
    }

    pub(super) fn shadow_progress(&self) -> Option<StageProgress> {
        self.shadows.present.read().as_ref().map(|shadowing| shadowing.progress())
    }

    /// The report of the current or last shadow run.
    pub(crate) fn shadow_report(&self) -> Option<ShadowReport> {
        let present = self.shadows.present.read().as_ref().map(|shadowing| shadowing.report());
        present.or_else(|| self.shadows.last.lock().clone())
    }

    pub(super) fn sample(&self) -> Option<Sample> {
        let shadowing = self.shadows.present.read().clone()?;
        let sample = shadowing.sample();
        if sample.is_none() {
            self.observers.metrics.shadowed("skipped");
        }
        sample
    }

    /// Runs the new version on the current one's input. Stops at the first difference, because later calls would have
    /// other answers.
    pub(super) async fn compare(self: Arc<Self>, key: Key, sample: Sample) {
        let Sample { shadowing, _slot, rounds } = sample;
        // A fault of the current version cannot be compared.
        if rounds.iter().any(|(_, answer)| answer.is_err()) {
            return;
        }
        let mut difference = None;
        let mut fault = None;
        let (mut has_writes, mut n_deletions) = (false, 0_u32);
        for (view, old) in rounds {
            let new = shadowing.candidate.guest.reconcile(&key, view).await.result;
            if let Err(why) = &new {
                fault = Some(format!("{key}: {why}"));
            }
            has_writes |= comparison::has_writes(&old) || comparison::has_writes(&new);
            n_deletions += comparison::n_deletions(&new).saturating_sub(comparison::n_deletions(&old));
            let (old, new) = (comparison::shown(&old), comparison::shown(&new));
            if old != new {
                let [old, new] = beside_workers(|| [old, new].map(bounded)).await;
                difference = Some(Difference { key: key.to_string(), at: self.wall_time(), old, new });
                break;
            }
        }
        let result = match (&difference, &fault) {
            (_, Some(_)) => "fault",
            (Some(_), None) => "differs",
            (None, None) => "same",
        };
        self.observers.metrics.shadowed(result);
        shadowing.take_in(key, has_writes, n_deletions, difference, fault);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_outcome_is_not_kept() {
        let of = |n_bytes: usize| Value::from("x".repeat(n_bytes - 2));
        let most = MAX_DIFFERENCE_BYTES / 2;
        assert_eq!(bounded(of(most)), of(most));
        assert_eq!(bounded(of(most + 1)), format!("an outcome of {} bytes, too large to keep", most + 1));
    }
}
