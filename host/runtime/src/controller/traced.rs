//! The trace of a recorded run: its start, its end, and the wait of its key for the caches.

use pintle_core::contract::outcome::ReconcileError;
use pintle_core::policy::keys::Disposition;
use pintle_core::ports::trace::{RunEnd, TracedRun};

use super::observers::{EndedRun, Observers};
use super::run::RunResult;
use crate::traces::RunTrace;
use crate::writer::{NOT_GRANTED, Report};

impl Observers {
    /// The record of a run that begins now, if it is recorded.
    pub(super) fn begin_trace(&self, waited: std::time::Duration) -> Option<RunTrace> {
        RunTrace::begin(self.tracer.as_ref(), waited, || (self.clock)().into())
    }

    /// Reports a recorded run.
    pub(super) fn end_trace(&self, trace: RunTrace, run: &EndedRun<'_>) {
        let (span, begun, waited) = (trace.span, trace.begun_at, trace.waited);
        let EndedRun { key, attempt, version, took, .. } = *run;
        let end = run.result.end(run.followed.map(|(end, _)| end));
        trace.end(|noted| TracedRun {
            span,
            plugin: self.name.clone(),
            version: version.manifest().version.clone(),
            digest: version.digest().to_owned(),
            key: key.clone(),
            attempt,
            begun,
            waited,
            // The wait for the caches may already be over.
            took,
            end,
            parts: noted.parts,
            n_omitted: noted.n_omitted,
            n_mutations: noted.n_mutations,
            n_live_reads: noted.n_live_reads,
        });
    }
}

fn label(error: &ReconcileError) -> &'static str {
    match error {
        ReconcileError::Retry { .. } => "retry",
        ReconcileError::Terminal(_) => "terminal",
    }
}

impl RunResult {
    /// The result of a recorded run. `followed`: the decision of the key table; absent if this host is no longer the
    /// leader.
    fn end(&self, followed: Option<&Disposition>) -> RunEnd {
        let error = match self {
            Self::Done { error, report, .. } => {
                let denied = report.failures.iter().find(|failure| failure.reason == NOT_GRANTED);
                let failure = denied.or(report.failures.first()).map(|failure| failure.reason.as_str());
                failure.or_else(|| error.as_ref().map(label))
            }
            Self::NothingYet { .. } => None,
            Self::Declared(error) => Some(label(error)),
            Self::Fault(fault) => Some(fault.kind.as_str()),
        };
        let (requeue_after, declared, report) = match self {
            Self::Done { requeue_after, error, report, .. } => {
                // After a failure, the retry takes precedence.
                (requeue_after.filter(|_| report.failures.is_empty()), error.as_ref(), Some(report))
            }
            Self::NothingYet { again } => (Some(*again), None, None),
            Self::Declared(error) => (None, Some(error), None),
            Self::Fault(_) => (None, None, None),
        };
        let retry_after = declared.and_then(ReconcileError::after);
        RunEnd {
            result: if followed.is_some() { self.label() } else { "not_leading" },
            error: error.map(str::to_owned),
            n_failed: report.map_or(0, |report: &Report| report.n_failed),
            n_denied: report.map_or(0, |report| report.n_denied),
            requeue_after: [requeue_after, retry_after].into_iter().flatten().min(),
            waits_for_caches: followed.is_some_and(|end| end.wait.is_some()),
        }
    }
}
