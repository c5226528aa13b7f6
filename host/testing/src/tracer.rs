//! A fake recorder of traces.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;
use pintle_core::ports::trace::{PartKind, RunTracer, SpanCounts, SpanRef, TracedRequest, TracedRun, TracedWait};

/// A fake recorder of traces. Its ids count up.
pub struct FakeTracer {
    /// Whether runs are recorded.
    pub samples: AtomicBool,
    /// Calls of `sample`.
    pub n_asked: AtomicU64,
    next_id: AtomicU64,
    /// The runs, in the order of their ends.
    pub runs: Mutex<Vec<TracedRun>>,
    /// The waits, in the order of their ends.
    pub waits: Mutex<Vec<TracedWait>>,
}

impl Default for FakeTracer {
    fn default() -> Self {
        let (n_asked, next_id) = (AtomicU64::new(0), AtomicU64::new(1));
        Self { samples: AtomicBool::new(true), n_asked, next_id, runs: Mutex::default(), waits: Mutex::default() }
    }
}

impl FakeTracer {
    /// A recorder that samples every run, or none.
    pub fn sampling(samples: bool) -> Arc<Self> {
        Arc::new(Self { samples: AtomicBool::new(samples), ..Self::default() })
    }

    /// The runs as text: a line for each, and one for each part.
    pub fn text(&self) -> String {
        let runs = self.runs.lock();
        let lines = runs.iter().flat_map(|run| {
            let TracedRun { plugin, version, key, attempt, waited, took, end, n_mutations, n_live_reads, n_omitted, .. } = run;
            let error = end.error.as_deref().unwrap_or("-");
            let counts = format!("{n_mutations} mutations, {n_live_reads} live reads, {n_omitted} omitted");
            let failed = format!("{} failed, {} denied, requeue {:?}", end.n_failed, end.n_denied, end.requeue_after);
            let head = format!(
                "{plugin} {version} {key} attempt {attempt}: {} {error} after {waited:?} in {took:?}, held {}; {counts}; {failed}",
                end.result, end.waits_for_caches
            );
            std::iter::once(head).chain(run.parts.iter().map(|part| {
                let what = match &part.what {
                    PartKind::Call(call) => format!("call fault {:?} {:?}", call.fault, call.reads),
                    PartKind::Mutation(request) => format!("mutation {}", request_text(request)),
                    PartKind::LiveRead(request) => format!("live read {}", request_text(request)),
                };
                format!("  {} at {:?} for {:?}: {what}", part.span_id, part.at, part.took)
            }))
        });
        lines.map(|line| line + "\n").collect()
    }
}

fn request_text(request: &TracedRequest) -> String {
    let TracedRequest { verb, method, kind, object, path, subresource, code, result, reason, is_tolerated, n_resent } =
        request;
    let kind = kind.as_ref().map_or_else(String::new, ToString::to_string);
    format!(
        "{verb} {kind} {object} {subresource:?} {path:?} by {method:?}: {result} {code:?} {reason:?} tolerated {is_tolerated} resent {n_resent}"
    )
}

impl RunTracer for FakeTracer {
    fn sample(&self) -> Option<SpanRef> {
        let trace_id = u128::from(self.n_asked.fetch_add(1, Ordering::Relaxed)) + 1;
        self.samples.load(Ordering::Relaxed).then(|| SpanRef { trace_id, span_id: self.span_id() })
    }

    fn span_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    fn record(&self, run: TracedRun) {
        self.runs.lock().push(run);
    }

    fn record_wait(&self, wait: TracedWait) {
        self.waits.lock().push(wait);
    }

    fn counts(&self) -> SpanCounts {
        SpanCounts { exported: self.runs.lock().len() as u64, ..SpanCounts::default() }
    }
}
