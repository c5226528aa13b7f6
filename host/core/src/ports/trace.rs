//! Port to a trace recorder, between `pintle-runtime` and `pintle-trace`: the parts of a run, with their times.
//!
//! ```text
//! run begins ──sample──> not recorded: nothing follows
//!                    └─> recorded: calls, live reads and mutations are noted ──run ends──> record ──caches caught up──> record_wait
//! ```
//!
//! *Invariants*:
//! 1. A run that is not recorded costs one call of [`RunTracer::sample`].
//! 2. Nothing here contains the content of an object, an API server's message or a plugin's text: only names, codes and
//!    numbers.
//! 3. A run has at most [`MAX_CHILDREN`] child spans.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::object::id::{Key, Kind, ObjectKey};

/// Maximum child spans of a run, including its wait in the queue and its wait for the caches. A run may have 10,000
/// mutations; further ones are only counted.
pub const MAX_CHILDREN: usize = 128;
/// Maximum kinds in [`TracedCall::reads`]; reads of other kinds are summed up as [`OTHER_READS`].
pub const MAX_READ_KINDS: usize = 32;
/// Replaces the kind for reads of several kinds (dependents, objects by uid), and for kinds beyond [`MAX_READ_KINDS`].
pub const OTHER_READS: &str = "other";

/// A recorded span. Child spans and requests refer to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpanRef {
    /// Id of the trace; not zero.
    pub trace_id: u128,
    /// Id of this span; not zero.
    pub span_id: u64,
}

impl SpanRef {
    /// Another span of the same trace.
    pub fn with_span(self, span_id: u64) -> Self {
        Self { span_id, ..self }
    }
}

/// The value of the HTTP header `traceparent` of W3C Trace Context, version 00, with the flag `sampled`.
impl fmt::Display for SpanRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{:032x}-{:016x}-01", self.trace_id, self.span_id)
    }
}

/// Records runs as traces. No method blocks, even if earlier traces were not exported.
pub trait RunTracer: Send + Sync {
    /// Decides whether the run that begins now is recorded; returns its span if so.
    fn sample(&self) -> Option<SpanRef>;
    /// Returns a new span id.
    fn span_id(&self) -> u64;
    /// Records a finished run. It may be dropped, and is then counted.
    fn record(&self, run: TracedRun);
    /// Records the finished wait of a recorded run's key for the caches.
    fn record_wait(&self, wait: TracedWait);
    /// Span counts so far, for metrics.
    fn counts(&self) -> SpanCounts;
}

/// Span counts since the start of the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpanCounts {
    /// Accepted by the collector.
    pub exported: u64,
    /// Dropped because the export queue was full.
    pub queue_full: u64,
    /// Dropped because the collector did not answer or rejected them.
    pub export_failed: u64,
}

/// A recorded run.
#[derive(Clone, Debug)]
pub struct TracedRun {
    /// Its span.
    pub span: SpanRef,
    /// The plugin.
    pub plugin: Arc<str>,
    /// Version in the plugin's manifest.
    pub version: String,
    /// SHA-256 of the component, in hexadecimal; empty if there is none.
    pub digest: String,
    /// The reconciled key.
    pub key: Key,
    /// Consecutive failures of the key before this run.
    pub attempt: u32,
    /// Time when a worker took the key.
    pub begun: SystemTime,
    /// Time that the key had been ready by then.
    pub waited: Duration,
    /// Duration from then until the result was processed.
    pub took: Duration,
    /// The result.
    pub end: RunEnd,
    /// Its kept parts, in the order of their ends.
    pub parts: Vec<TracedPart>,
    /// Number of omitted parts, beyond the maximum.
    pub n_omitted: usize,
    /// Number of attempted mutations, including omitted ones.
    pub n_mutations: usize,
    /// Number of live reads, including omitted ones.
    pub n_live_reads: usize,
}

/// The result of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunEnd {
    /// As in the metric `controller_runtime_reconcile_total`; `not_leading` if the host lost the election meanwhile.
    pub result: &'static str,
    /// The failure: the kind of a fault, `retry` or `terminal` if the plugin declared it, or the reason of the first
    /// failed mutation. Absent after a success.
    pub error: Option<String>,
    /// Mutations that failed and were not tolerated.
    pub n_failed: usize,
    /// Denied mutations.
    pub n_denied: usize,
    /// The requeue delay that the plugin requested.
    pub requeue_after: Option<Duration>,
    /// Whether the key waits until the caches show its writes.
    pub waits_for_caches: bool,
}

/// A part of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct TracedPart {
    /// Id of its span, which its requests carry.
    pub span_id: u64,
    /// Start, relative to the start of the run.
    pub at: Duration,
    /// Duration.
    pub took: Duration,
    /// The part.
    pub what: PartKind,
}

/// Kinds of parts.
#[derive(Clone, Debug, PartialEq)]
pub enum PartKind {
    /// A call of `reconcile`.
    Call(TracedCall),
    /// A mutation.
    Mutation(TracedRequest),
    /// A read that the caches cannot answer.
    LiveRead(TracedRequest),
}

/// A call of `reconcile`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TracedCall {
    /// Kind of the fault, if it was one.
    pub fault: Option<&'static str>,
    /// Number of lister calls.
    pub host_calls: u32,
    /// Bytes that the lister returned.
    pub bytes_read: u64,
    /// Peak linear memory of the instance.
    pub memory_bytes: u64,
    /// Its reads by kind.
    pub reads: Vec<KindReads>,
}

/// The reads of a call for one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KindReads {
    /// The kind as text, or [`OTHER_READS`].
    pub kind: String,
    /// Number of reads.
    pub n_reads: u64,
    /// Number of objects found or counted.
    pub n_objects: u64,
    /// Bytes of the returned texts.
    pub n_bytes: u64,
}

/// A request to the API server, including its repetitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracedRequest {
    /// The verb, as in a grant: `create`, `patch`, `get`.
    pub verb: &'static str,
    /// The HTTP method; absent if nothing was sent.
    pub method: Option<&'static str>,
    /// The kind; absent for paths and discovery.
    pub kind: Option<Kind>,
    /// The object; its name is empty for generated names and collections.
    pub object: ObjectKey,
    /// The path of a raw read, without its query.
    pub path: Option<String>,
    /// The subresource, for example `status`.
    pub subresource: Option<String>,
    /// HTTP status code of a failure; 0 if no answer came. Absent after a success.
    pub code: Option<u16>,
    /// `ok`, or the failure as in the metric `pintle_mutations_total`.
    pub result: &'static str,
    /// Reason of the failure, by the API server or the host.
    pub reason: Option<String>,
    /// Whether the plugin tolerates the failure, or a deletion found no object.
    pub is_tolerated: bool,
    /// Number of repetitions because the API server throttled the request.
    pub n_resent: u32,
}

/// The wait of a recorded run's key until the caches show its writes.
#[derive(Clone, Debug)]
pub struct TracedWait {
    /// The span of the run.
    pub run: SpanRef,
    /// Start of the wait.
    pub begun: SystemTime,
    /// Duration of the wait.
    pub took: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_shown_as_w3c_trace_context() {
        // The example from the specification.
        let span = SpanRef { trace_id: 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736, span_id: 0x00f0_67aa_0ba9_02b7 };
        assert_eq!(span.to_string(), "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
        let small = SpanRef { trace_id: 1, span_id: 2 };
        assert_eq!(small.to_string(), "00-00000000000000000000000000000001-0000000000000002-01");
        assert_eq!(small.with_span(3), SpanRef { trace_id: 1, span_id: 3 });
    }
}
