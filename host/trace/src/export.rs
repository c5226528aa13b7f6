//! Sends spans to the collector: a bounded queue, batches, counters and logs.
//!
//! The SDK's batch processor creates the batches, on a thread. It drops single spans without a readable count, so this
//! module admits whole runs before it, and counts.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{BatchConfigBuilder, BatchSpanProcessor, SpanData, SpanExporter, SpanProcessor as _};
use parking_lot::Mutex;
use pintle_core::ports::trace::SpanCounts;
use pintle_core::text::printable;

/// Most spans that wait for the collector, or are in flight; the SDK's default. Each has some 20 short attributes, so
/// all of them take a few MiB. If the queue is full, runs are dropped and counted.
pub const MAX_QUEUE: usize = 2048;
/// Longest error of an export in the log, in bytes.
const MAX_ERROR_BYTES: usize = 512;

/// Counters shared by the queue and the exporter.
#[derive(Debug, Default)]
struct Flow {
    /// Admitted spans whose export has not ended.
    n_under_way: AtomicUsize,
    exported: AtomicU64,
    queue_full: AtomicU64,
    export_failed: AtomicU64,
}

/// The queue of spans.
pub(crate) struct SpanQueue {
    flow: Arc<Flow>,
    batches: BatchSpanProcessor,
}

impl SpanQueue {
    /// Starts the batch thread.
    pub(crate) fn start<E: SpanExporter + 'static>(exporter: E, collector: String, resource: &Resource) -> Self {
        let flow = Arc::<Flow>::default();
        let mut exporter = Counted { exporter, collector, flow: flow.clone(), outage: Mutex::default() };
        exporter.set_resource(resource);
        let config = BatchConfigBuilder::default().with_max_queue_size(MAX_QUEUE).build();
        Self { flow, batches: BatchSpanProcessor::new(exporter, config) }
    }

    /// Adds `n` spans, or drops and counts all of them. `spans` is called only if there is room.
    pub(crate) fn push(&self, n: usize, spans: impl FnOnce() -> Vec<SpanData>) {
        let room = |under_way: usize| Some(under_way + n).filter(|sum| *sum <= MAX_QUEUE);
        if self.flow.n_under_way.fetch_update(Ordering::AcqRel, Ordering::Acquire, room).is_err() {
            self.flow.queue_full.fetch_add(n as u64, Ordering::Relaxed);
            return;
        }
        spans().into_iter().for_each(|span| self.batches.on_end(span));
    }

    pub(crate) fn counts(&self) -> SpanCounts {
        let Flow { exported, queue_full, export_failed, n_under_way: _ } = &*self.flow;
        let [exported, queue_full, export_failed] =
            [exported, queue_full, export_failed].map(|counter| counter.load(Ordering::Relaxed));
        SpanCounts { exported, queue_full, export_failed }
    }

    /// Exports pending spans, and ends the thread. Blocks for at most `within`; returns the number of remaining spans.
    pub(crate) fn shut_down(&self, within: Duration) -> usize {
        // An error is a timeout: the spans in flight remain.
        let _ = self.batches.shutdown_with_timeout(within);
        self.flow.n_under_way.load(Ordering::Acquire)
    }

    /// Exports pending spans.
    #[cfg(test)]
    pub(crate) fn flush(&self) {
        let _ = self.batches.force_flush();
    }
}

/// An exporter that counts, and logs when the collector stops accepting spans, and when it accepts them again.
struct Counted<E> {
    exporter: E,
    collector: String,
    flow: Arc<Flow>,
    outage: Mutex<Option<Outage>>,
}

#[derive(Debug)]
struct Outage {
    n_dropped: u64,
}

impl<E> fmt::Debug for Counted<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Counted({})", self.collector)
    }
}

impl<E: SpanExporter> SpanExporter for Counted<E> {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let n = batch.len();
        let result = self.exporter.export(batch).await;
        self.count(n, &result);
        result
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}

impl<E> Counted<E> {
    fn count(&self, n: usize, result: &OTelSdkResult) {
        let n_spans = n as u64;
        let counter = if result.is_ok() { &self.flow.exported } else { &self.flow.export_failed };
        counter.fetch_add(n_spans, Ordering::Relaxed);
        self.flow.n_under_way.fetch_sub(n, Ordering::AcqRel);
        let collector = &self.collector;
        let mut outage = self.outage.lock();
        match (result, &mut *outage) {
            (Ok(()), None) => {}
            (Ok(()), Some(Outage { n_dropped })) => {
                tracing::info!(collector, n_dropped, "traces are exported again");
                *outage = None;
            }
            (Err(_), Some(outage)) => outage.n_dropped += n_spans,
            (Err(error), None) => {
                let error = printable(&error.to_string(), MAX_ERROR_BYTES);
                tracing::warn!(
                    collector,
                    error,
                    "traces cannot be exported and are dropped until the collector accepts them; runs are not affected. Check that it \
                     runs, and that --tracing-endpoint is its port for OTLP over gRPC"
                );
                *outage = Some(Outage { n_dropped: n_spans });
            }
        }
    }
}

#[cfg(test)]
mod tests;
