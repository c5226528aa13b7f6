//! Tracing flags.
//!
//! Source: `TracingConfiguration` of kube-apiserver (`--tracing-config-file`) and kubelet, with the fields `endpoint`
//! and `samplingRatePerMillion`. Upstream's default rate is 0, so that only requests of traced clients are traced; a
//! run has no client.

use clap::Args;
use pintle_trace::Endpoint;

/// Default sampling rate with an endpoint: 1 % of the runs.
pub(crate) const DEFAULT_RATE: u32 = 10_000;

/// How runs are traced.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Tracing")]
pub struct TracingArgs {
    /// Trace runs with OpenTelemetry, and export the traces to this collector with OTLP over gRPC: HOST:PORT or http://HOST:PORT for plain
    /// text, https://HOST:PORT for TLS. Default with --tracing-sampling-rate-per-million: the variables OTEL_EXPORTER_OTLP_TRACES_ENDPOINT
    /// and OTEL_EXPORTER_OTLP_ENDPOINT, or localhost:4317. Without either flag nothing is traced.
    #[arg(long, value_name = "ADDRESS")]
    pub tracing_endpoint: Option<Endpoint>,

    /// How many of a million runs are traced, at random; 0 means none. Default with --tracing-endpoint: 10000 (1 %), in `pintle dev`
    /// 1000000 (all).
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=1_000_000), allow_negative_numbers = true)]
    pub tracing_sampling_rate_per_million: Option<u32>,
}
