//! Port to a recorder of traces, between `pintle-runtime` and `pintle-trace`: what a run did, and when.
//!
//! ```text
//! run begins ──sample──> not recorded: nothing follows
//!                    └─> recorded: calls, live reads and mutations are noted ──run ends──> record ──caches caught up──> record_wait
//! ```
//!
//! *Invariants*:
//! 1. A run that is not recorded costs one call of [`RunTracer::sample`].
//! 2. Nothing here contains the content of an object, a message of an API server or a text of a plugin: names, codes and numbers only.
//! 3. A run has at most [`MAX_CHILDREN`] spans below its own.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::object::id::{Key, Kind, ObjectKey};

/// Maximum spans below the one of a run, that of its wait in the queue and that of the wait for the caches included. A run may have
/// 10,000 mutations; further ones are counted.
pub const MAX_CHILDREN: usize = 128;
/// Maximum kinds of [`TracedCall::reads`]; the reads of further ones are summed up as [`OTHER_READS`].
pub const MAX_READ_KINDS: usize = 32;
/// In place of a kind: reads of several kinds at once (dependents, objects by uid), and those beyond [`MAX_READ_KINDS`].
pub const OTHER_READS: &str = "other";

/// A span that is recorded. Spans below it and requests on its behalf refer to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpanRef {
    /// Of the whole trace; not zero.
    pub trace_id: u128,
    /// Of this span; not zero.
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

/// Records runs as traces. Every method returns at once, also if earlier traces were not exported.
pub trait RunTracer: Send + Sync {
    /// Decides whether the run that begins now is recorded; returns its span then.
    fn sample(&self) -> Option<SpanRef>;
    /// The id of a new span.
    fn span_id(&self) -> u64;
    /// Takes a run that has ended. It may be dropped, and is counted then.
    fn record(&self, run: TracedRun);
    /// Takes the wait of a recorded run's key for the caches, which has ended.
    fn record_wait(&self, wait: TracedWait);
    /// Numbers of spans so far, for metrics.
    fn counts(&self) -> SpanCounts;
}

/// Numbers of spans since the start of the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpanCounts {
    /// Accepted by the collector.
    pub exported: u64,
    /// Dropped, because too many waited for the collector.
    pub queue_full: u64,
    /// Dropped, because the collector did not answer or refused them.
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
    /// What was reconciled.
    pub key: Key,
    /// Failures of the key in a row, before this run.
    pub attempt: u32,
    /// When a worker took the key.
    pub begun: SystemTime,
    /// How long the key had been ready by then.
    pub waited: Duration,
    /// From then until the result was handled.
    pub took: Duration,
    /// How it ended.
    pub end: RunEnd,
    /// Its parts that are kept, in the order of their ends.
    pub parts: Vec<TracedPart>,
    /// Parts that are not kept, because there are too many.
    pub n_omitted: usize,
    /// Mutations that were tried, those that are not kept included.
    pub n_mutations: usize,
    /// Live reads, those that are not kept included.
    pub n_live_reads: usize,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunEnd {
    /// As in the metric `controller_runtime_reconcile_total`; `not_leading` if the host lost the election meanwhile.
    pub result: &'static str,
    /// What failed: the kind of a fault, `retry` or `terminal` if the plugin declared it, or the reason of the first mutation that
    /// failed. Absent after a success.
    pub error: Option<String>,
    /// Mutations that failed and were not tolerated.
    pub n_failed: usize,
    /// Mutations that are not granted.
    pub n_denied: usize,
    /// The delay after which the plugin asked to run again.
    pub requeue_after: Option<Duration>,
    /// Whether the key waits until the caches show its writes.
    pub waits_for_caches: bool,
}

/// A part of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct TracedPart {
    /// Its span; requests carried it.
    pub span_id: u64,
    /// When it began, after the beginning of the run.
    pub at: Duration,
    /// How long it took.
    pub took: Duration,
    /// What it was.
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
    /// Calls of the lister.
    pub host_calls: u32,
    /// Bytes that the lister returned.
    pub bytes_read: u64,
    /// Peak linear memory of the instance.
    pub memory_bytes: u64,
    /// What it read, by kind.
    pub reads: Vec<KindReads>,
}

/// What a call read of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KindReads {
    /// Text of the kind, or [`OTHER_READS`].
    pub kind: String,
    /// Reads.
    pub n_reads: u64,
    /// Objects that they found, or counted.
    pub n_objects: u64,
    /// Bytes of the texts that they returned.
    pub n_bytes: u64,
}

/// A request to the API server, with its repetitions.
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
    /// The path of a read of a path, without its query.
    pub path: Option<String>,
    /// For example `status`.
    pub subresource: Option<String>,
    /// HTTP status code of a failure; 0 if no answer came. Absent after a success.
    pub code: Option<u16>,
    /// `ok`, or, as in the metric `pintle_mutations_total`, how it failed.
    pub result: &'static str,
    /// Reason of the failure, by the API server or the host.
    pub reason: Option<String>,
    /// Whether the plugin tolerates the failure, or a deletion found nothing.
    pub is_tolerated: bool,
    /// How often it was sent again, because the API server throttled it.
    pub n_resent: u32,
}

/// The wait of a recorded run's key until the caches show its writes.
#[derive(Clone, Debug)]
pub struct TracedWait {
    /// The span of the run.
    pub run: SpanRef,
    /// When the wait began.
    pub begun: SystemTime,
    /// How long it took.
    pub took: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_shown_as_w3c_trace_context() {
        // The example of the specification.
        let span = SpanRef { trace_id: 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736, span_id: 0x00f0_67aa_0ba9_02b7 };
        assert_eq!(span.to_string(), "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
        let small = SpanRef { trace_id: 1, span_id: 2 };
        assert_eq!(small.to_string(), "00-00000000000000000000000000000001-0000000000000002-01");
        assert_eq!(small.with_span(3), SpanRef { trace_id: 1, span_id: 3 });
    }
}
