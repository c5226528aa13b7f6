//! The trace recorder of a host.

use std::sync::Arc;
use std::time::Duration;

use opentelemetry::trace::{SpanKind, TraceId};
use opentelemetry_otlp::tonic_types::transport::ClientTlsConfig;
use opentelemetry_otlp::{ExporterBuildError, SpanExporter, WithExportConfig as _, WithTonicConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{IdGenerator as _, RandomIdGenerator, Sampler, SamplingDecision, ShouldSample as _};
use pintle_core::ports::trace::{RunTracer, SpanCounts, SpanRef, TracedRun, TracedWait};

use crate::endpoint::Endpoint;
use crate::export::SpanQueue;
use crate::resource;
use crate::spans::{SpanMaker, n_spans};

/// Configuration of the traces of a host.
#[derive(Clone, Debug)]
pub struct TracerConfig {
    /// The collector.
    pub endpoint: Endpoint,
    /// Runs per million to record, at random: 0 to 1,000,000. If it is too high, the collector has to accept a trace
    /// for every run, and runs are dropped when it cannot.
    pub sampling_rate_per_million: u32,
    /// Version of the host.
    pub version: &'static str,
}

/// The exporter cannot be created. A retry does not help.
#[derive(Debug, thiserror::Error)]
#[error("cannot export traces to {endpoint}: {why}; check --tracing-endpoint and the variables OTEL_EXPORTER_OTLP_*")]
pub struct OpenError {
    endpoint: String,
    why: ExporterBuildError,
}

/// Records runs, and exports them in the background.
pub struct Tracer {
    sampler: Sampler,
    ids: RandomIdGenerator,
    spans: SpanMaker,
    queue: SpanQueue,
}

impl Tracer {
    /// Starts the export. Connects when there is something to export. Call it within a tokio runtime, which does the
    /// I/O.
    ///
    /// # Errors
    /// [`OpenError`]: the system's certificates, or the SDK's environment variables, are unusable.
    pub fn open(config: &TracerConfig) -> Result<Arc<Self>, OpenError> {
        let mut exporter = SpanExporter::builder().with_tonic().with_endpoint(config.endpoint.to_string());
        if config.endpoint.is_https() {
            exporter = exporter.with_tls_config(ClientTlsConfig::new().with_enabled_roots());
        }
        let endpoint = || config.endpoint.to_string();
        let exporter = exporter.build().map_err(|why| OpenError { endpoint: endpoint(), why })?;
        Ok(Self::exporting(exporter, config, &resource::of_process(config.version)))
    }

    fn exporting<E>(exporter: E, config: &TracerConfig, resource: &Resource) -> Arc<Self>
    where
        E: opentelemetry_sdk::trace::SpanExporter + 'static,
    {
        Arc::new(Self {
            sampler: Sampler::TraceIdRatioBased(f64::from(config.sampling_rate_per_million) / 1e6),
            ids: RandomIdGenerator::default(),
            spans: SpanMaker::new(config.version),
            queue: SpanQueue::start(exporter, config.endpoint.to_string(), resource),
        })
    }

    /// Exports pending spans, for at most this time. Remaining ones are lost, and logged. Nothing is recorded
    /// afterwards.
    ///
    /// # Cancel safety
    /// The export continues in the background.
    pub async fn shut_down(self: Arc<Self>, within: Duration) {
        let left = tokio::task::spawn_blocking(move || self.queue.shut_down(within)).await;
        if let Ok(n_spans) = left
            && n_spans > 0
        {
            tracing::warn!(n_spans, "the host stops before the collector has accepted all traces");
        }
    }
}

impl RunTracer for Tracer {
    fn sample(&self) -> Option<SpanRef> {
        let trace_id: TraceId = self.ids.new_trace_id();
        let sampled = self.sampler.should_sample(None, trace_id, "", &SpanKind::Internal, &[], &[]);
        let is_sampled = sampled.decision == SamplingDecision::RecordAndSample;
        is_sampled.then(|| SpanRef { trace_id: u128::from_be_bytes(trace_id.to_bytes()), span_id: self.span_id() })
    }

    fn span_id(&self) -> u64 {
        u64::from_be_bytes(self.ids.new_span_id().to_bytes())
    }

    fn record(&self, run: TracedRun) {
        self.queue.push(n_spans(&run), || self.spans.run(run, self.span_id()));
    }

    fn record_wait(&self, wait: TracedWait) {
        self.queue.push(1, || vec![self.spans.wait(&wait, self.span_id())]);
    }

    fn counts(&self) -> SpanCounts {
        self.queue.counts()
    }
}

#[cfg(test)]
mod tests;
