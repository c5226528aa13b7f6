//! The record of a traced run: its parts, with their times.
//!
//! Invariants:
//! 1. A run that is not sampled has no [`RunTrace`]: nothing is allocated or recorded for it.
//! 2. At most [`MAX_PARTS`] parts are kept; further ones are counted.
//!
//! Not here: the report at the end of a run (`controller::traced`), spans and their export (`pintle-trace`).

mod reads;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant, SystemTime};

use parking_lot::Mutex;
use pintle_core::contract::outcome::{Need, NeedError};
use pintle_core::object::id::ObjectKey;
use pintle_core::ports::api::ApiError;
use pintle_core::ports::guest::Run;
use pintle_core::ports::trace::{
    MAX_CHILDREN, PartKind, RunTracer, SpanRef, TracedCall, TracedPart, TracedRequest, TracedRun,
};

pub(crate) use self::reads::CountingView;

/// Maximum kept parts of a run. Its waits for a worker and for the caches are two more child spans.
const MAX_PARTS: usize = MAX_CHILDREN - 2;

/// A recorded run.
pub(crate) struct RunTrace {
    tracer: Arc<dyn RunTracer>,
    pub(crate) span: SpanRef,
    begun: Instant,
    pub(crate) begun_at: SystemTime,
    /// Time that the key waited for a worker.
    pub(crate) waited: Duration,
    parts: Mutex<Parts>,
}

#[derive(Default)]
struct Parts {
    kept: Vec<TracedPart>,
    n_omitted: usize,
    n_mutations: usize,
    n_live_reads: usize,
}

/// A part in progress.
#[derive(Clone, Copy)]
pub(crate) struct Begun {
    pub(crate) span: SpanRef,
    at: Instant,
}

/// The clock of waits and runs.
fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

impl RunTrace {
    /// Begins a run; `None` if it is not recorded. `at`: the wall-clock time.
    pub(crate) fn begin(
        tracer: Option<&Arc<dyn RunTracer>>,
        waited: Duration,
        at: impl FnOnce() -> SystemTime,
    ) -> Option<Self> {
        let tracer = tracer?;
        let span = tracer.sample()?;
        Some(Self { tracer: tracer.clone(), span, begun: now(), begun_at: at(), waited, parts: Mutex::default() })
    }

    /// Begins a part.
    pub(crate) fn part(&self) -> Begun {
        Begun { span: self.span.with_span(self.tracer.span_id()), at: now() }
    }

    /// Ends a part.
    pub(crate) fn ended(&self, part: Begun, what: PartKind) {
        let (at, took) = (part.at.saturating_duration_since(self.begun), now().saturating_duration_since(part.at));
        let mut parts = self.parts.lock();
        match &what {
            PartKind::Call(_) => {}
            PartKind::Mutation(_) => parts.n_mutations += 1,
            PartKind::LiveRead(_) => parts.n_live_reads += 1,
        }
        if parts.kept.len() < MAX_PARTS {
            parts.kept.push(TracedPart { span_id: part.span.span_id, at, took, what });
        } else {
            parts.n_omitted += 1;
        }
    }

    /// Ends a call of the guest.
    pub(crate) fn called(&self, part: Begun, run: &Run, view: &CountingView) {
        let call = TracedCall {
            fault: run.result.as_ref().err().map(|fault| fault.kind.as_str()),
            host_calls: run.usage.host_calls,
            bytes_read: run.usage.bytes_read,
            memory_bytes: run.usage.memory_bytes,
            reads: view.reads(),
        };
        self.ended(part, PartKind::Call(call));
    }

    /// Ends a live read, with `n_resent` repetitions; `None` if it was not sent.
    pub(crate) fn read(&self, part: Begun, need: &Need, answer: Result<(), &NeedError>, n_resent: Option<&AtomicU32>) {
        let nothing = || ObjectKey::new("", "");
        let (verb, kind, object) = match need {
            Need::LiveObject { kind, object, .. } => ("get", Some(kind.clone()), object.clone()),
            Need::LiveList { kind, namespace, .. } => ("list", Some(kind.clone()), ObjectKey::new(namespace, "")),
            Need::RawPath(_) => ("get", None, nothing()),
            Need::Discovery => ("discover", None, nothing()),
            Need::Review { kind, namespace, .. } => ("create", Some(kind.clone()), ObjectKey::new(namespace, "")),
            Need::SignJwt { .. } | Need::SignCertificate(_) => ("sign", None, nothing()),
            Need::Call { .. } => ("call", None, nothing()),
        };
        let path = match need {
            Need::RawPath(path) => Some(path.split('?').next().unwrap_or_default().to_owned()),
            _ => None,
        };
        let error = answer.err();
        let read = TracedRequest {
            verb,
            method: n_resent.map(|_| if matches!(need, Need::Review { .. }) { "POST" } else { "GET" }),
            kind,
            object,
            path,
            subresource: None,
            code: error.map(|error| error.code),
            result: if error.is_none() { "ok" } else { "error" },
            reason: error.map(|error| error.reason.clone()),
            is_tolerated: false,
            n_resent: n_resent.map_or(0, |n| n.load(Ordering::Relaxed)),
        };
        self.ended(part, PartKind::LiveRead(read));
    }

    /// Ends the run; `with` completes the record from the parts.
    pub(crate) fn end(self, with: impl FnOnce(RunParts) -> TracedRun) {
        let Parts { kept, n_omitted, n_mutations, n_live_reads } = self.parts.into_inner();
        let parts = RunParts { parts: kept, n_omitted, n_mutations, n_live_reads };
        self.tracer.record(with(parts));
    }
}

/// The recorded parts of a run.
pub(crate) struct RunParts {
    pub(crate) parts: Vec<TracedPart>,
    pub(crate) n_omitted: usize,
    pub(crate) n_mutations: usize,
    pub(crate) n_live_reads: usize,
}

/// A mutation of a run; does nothing if the run is not recorded.
pub(crate) struct MutationTrace<'t>(Option<(&'t RunTrace, Begun, TracedRequest)>);

impl<'t> MutationTrace<'t> {
    /// Begins a mutation.
    pub(crate) fn begin(trace: Option<&'t RunTrace>, request: impl FnOnce() -> TracedRequest) -> Self {
        Self(trace.map(|trace| (trace, trace.part(), request())))
    }

    /// Its span, for the request.
    pub(crate) fn span(&self) -> Option<SpanRef> {
        self.0.as_ref().map(|(_, part, _)| part.span)
    }

    /// Records that it is sent, with this method.
    pub(crate) fn sent(&mut self, method: &'static str) {
        self.note(|request| request.method = Some(method));
    }

    /// Records its result, as in the metric label.
    pub(crate) fn result(&mut self, result: &'static str) {
        self.note(|request| request.result = result);
    }

    /// Records that it failed.
    pub(crate) fn failed(&mut self, error: &ApiError, is_tolerated: bool) {
        self.note(|request| {
            (request.code, request.is_tolerated) = (Some(error.code), is_tolerated);
            request.reason = Some(error.reason.clone());
        });
    }

    /// Records that it is not granted, and failed with this reason.
    pub(crate) fn denied(&mut self, reason: &str) {
        self.note(|request| {
            request.result = "not_granted";
            request.reason = Some(reason.to_owned());
        });
    }

    /// Ends it.
    pub(crate) fn end(self, n_resent: u32) {
        if let Some((trace, part, request)) = self.0 {
            trace.ended(part, PartKind::Mutation(TracedRequest { n_resent, ..request }));
        }
    }

    fn note(&mut self, note: impl FnOnce(&mut TracedRequest)) {
        if let Some((.., request)) = &mut self.0 {
            note(request);
        }
    }
}
