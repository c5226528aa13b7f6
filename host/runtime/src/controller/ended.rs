//! What follows from the end of a run for its plugin: counts, log, events, health and probation.
//!
//! Not here: what follows for the key (`pintle_core::policy::keys`).

use std::sync::Arc;
use std::time::{Duration, Instant};

use pintle_core::contract::outcome::ReconcileError;
use pintle_core::lifecycle::probation::Ended;
use pintle_core::object::id::Key;
use pintle_core::policy::correlator::cut;
use pintle_core::policy::keys::{Disposition, Next};
use pintle_core::policy::loops;
use pintle_core::ports::guest::{FaultKind, PluginFault};

use super::run::{RunResult, is_refused};
use super::{Controller, ControllerState, Version};
use crate::writer::{NOT_GRANTED, NOT_LEADING, Report};

/// Longest text of a plugin's error in the log, in bytes.
const MAX_ERROR_BYTES: usize = 1024;

impl Controller {
    /// Handles the end of a run while this host leads.
    pub(super) fn ended(
        &self,
        inner: &mut ControllerState,
        version: &Arc<Version>,
        key: &Key,
        run_result: &RunResult,
        end: &Disposition,
        (now, took): (Instant, Duration),
    ) {
        let result = run_result.label();
        self.metrics.reconciled(result, took);
        inner.n_runs += 1;
        inner.runs.count(result);
        inner.latency.observe(took);
        tracing::debug!(plugin = %self.name, %key, attempt = end.attempt, ?took, result, held = end.wait.is_some(), "reconciled");
        match run_result {
            RunResult::Done { report, .. } if !report.failures.is_empty() => {
                self.writes_failed(inner, key, report, end);
            }
            RunResult::Done { error: Some(error), .. } | RunResult::Declared(error) => {
                self.error_declared(inner, key, error, end.attempt);
            }
            RunResult::Fault(fault) => self.plugin_faulted(inner, key, fault, end),
            RunResult::Done { .. } | RunResult::NothingYet { .. } => {}
        }
        match end.next {
            Next::GivenUp { n_failures, is_dropped } => {
                tracing::warn!(
                    plugin = %self.name, %key, failures = n_failures,
                    "too many retries: no retry until the key's next change or requeue"
                );
                if is_dropped {
                    self.metrics.dropped_key("max_retries");
                }
            }
            Next::Terminal { is_dropped: true } => self.metrics.dropped_key("terminal"),
            Next::Terminal { .. } | Next::Success | Next::Later | Next::Retry(_) => {}
        }
        self.runs_because_of_itself(inner, key, end.repeats.as_ref());
        let ended = run_result.run_end().ended();
        self.supervise(inner, key, ended, now);
        // A version whose writes repeat is as bad as one that faults.
        let (judged, was_bad) = match &end.repeats {
            Some(repeats) => (Ended::Fault, repeats.n_runs > loops::LIMIT),
            None => (ended, end.was_suspect),
        };
        self.judge_version(inner, version, key, judged, was_bad, now);
    }

    fn writes_failed(&self, inner: &mut ControllerState, key: &Key, report: &Report, end: &Disposition) {
        let Some(first) = report.failures.first() else { return };
        let (attempt, n_failures) = (end.attempt, report.n_failed);
        if report.only_conflicts {
            tracing::debug!(plugin = %self.name, %key, attempt, n_failures, "conflict: the key is requeued");
        } else if first.reason == NOT_LEADING {
            tracing::debug!(plugin = %self.name, %key, n_failures, "writes were not sent: this host does not lead");
        } else if report.n_denied > 0 && attempt > 0 {
            // The full error once: a grant that is missing stays missing.
            tracing::debug!(plugin = %self.name, %key, attempt, error = first.message, "writes failed again");
        } else {
            tracing::warn!(
                plugin = %self.name, %key, attempt, n_failures, n_denied = report.n_denied, verb = first.verb,
                kind = %first.kind, object = %first.object, code = first.code, reason = first.reason,
                error = first.message, "writes failed"
            );
        }
        if !report.only_conflicts {
            inner.last_error =
                Some(format!("{key}: {} {} {}: {}", first.verb, first.kind, first.object, first.message));
        }
        if report.n_denied > 0 {
            let denied = report.failures.iter().find(|failure| failure.reason == NOT_GRANTED).unwrap_or(first);
            let text = format!("{}: {}", FaultKind::Grant, denied.message);
            self.run_faulted(inner, key, FaultKind::Grant, &text, end.suspect);
        }
        // Once, until the key has succeeded.
        if let Some(refused) = report.failures.iter().find(is_refused).filter(|_| attempt == 0) {
            self.write_refused(key, refused);
        }
    }

    fn error_declared(&self, inner: &mut ControllerState, key: &Key, error: &ReconcileError, attempt: u32) {
        inner.last_error = Some(format!("{key}: {error}"));
        match error {
            ReconcileError::Retry { message, .. } => {
                let error = cut(message, MAX_ERROR_BYTES);
                tracing::info!(plugin = %self.name, %key, attempt, error, "the plugin requests a retry");
            }
            ReconcileError::Terminal(message) => {
                let error = cut(message, MAX_ERROR_BYTES);
                tracing::warn!(
                    plugin = %self.name, %key, attempt, error,
                    "terminal error of the plugin: no retry until the key's next change or requeue"
                );
            }
        }
    }

    fn plugin_faulted(&self, inner: &mut ControllerState, key: &Key, fault: &PluginFault, end: &Disposition) {
        let attempt = end.attempt;
        self.metrics.fault(fault.kind);
        self.run_faulted(inner, key, fault.kind, &fault.to_string(), end.suspect);
        inner.last_error = Some(format!("{key}: {fault}"));
        // The full error once; later attempts of the key repeat it, unless a new version faults.
        if inner.health.is_new_fault(key, attempt) {
            tracing::error!(plugin = %self.name, %key, %fault, "the plugin faulted");
        } else {
            tracing::debug!(plugin = %self.name, %key, attempt, %fault, "the plugin faulted again");
        }
    }
}
