//! Traces of a host: from the flags to the recorder, and its shutdown.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use pintle_core::ports::trace::RunTracer;
use pintle_trace::{Endpoint, Tracer, TracerConfig};

use crate::cli::tracing::TracingArgs;

/// Longest time for flushing traces when the host stops.
const MAX_FLUSH: Duration = Duration::from_secs(5);

/// The recorder of traces, if runs are traced.
pub struct Traces(Option<Arc<Tracer>>);

impl Traces {
    /// Opens the recorder set by the flags. `rate` is the default sampling rate.
    ///
    /// # Errors
    /// The address of the collector, or an environment variable of the SDK, is unusable.
    pub fn open(args: &TracingArgs, rate: u32) -> anyhow::Result<Self> {
        let config = config(args, rate, |name| std::env::var(name).ok())?;
        let tracer = config.as_ref().map(Tracer::open).transpose()?;
        if let Some(TracerConfig { endpoint, sampling_rate_per_million, .. }) = &config {
            tracing::info!(collector = %endpoint, sampling_rate_per_million, "runs are traced");
        }
        Ok(Self(tracer))
    }

    /// The port of the runtime.
    pub fn tracer(&self) -> Option<Arc<dyn RunTracer>> {
        Some(self.0.clone()?)
    }

    /// Exports the remaining traces. The host has been stopping since `stopping`, within `timeout`.
    pub async fn close(self, stopping: Option<Instant>, timeout: Duration) {
        if let Some(tracer) = self.0 {
            let left = timeout.saturating_sub(stopping.map_or(Duration::ZERO, |since| since.elapsed()));
            tracer.shut_down(left.min(MAX_FLUSH)).await;
        }
    }
}

/// The configuration of the recorder; `None` without tracing.
fn config(
    args: &TracingArgs,
    rate: u32,
    variable: impl Fn(&str) -> Option<String>,
) -> anyhow::Result<Option<TracerConfig>> {
    let (endpoint, rate) = match (&args.tracing_endpoint, args.tracing_sampling_rate_per_million) {
        (None, None) | (_, Some(0)) => return Ok(None),
        (Some(endpoint), given) => (endpoint.clone(), given.unwrap_or(rate)),
        (None, Some(given)) => {
            let endpoint = Endpoint::by_environment(variable);
            (endpoint.context("find the collector of traces; --tracing-endpoint names it, too")?, given)
        }
    };
    Ok(Some(TracerConfig { endpoint, sampling_rate_per_million: rate, version: env!("CARGO_PKG_VERSION") }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The collector and the rate, or the error.
    fn configured(
        endpoint: Option<&str>,
        rate: Option<u32>,
        variable: Option<&str>,
    ) -> Result<Option<(String, u32)>, String> {
        let args = TracingArgs {
            tracing_endpoint: endpoint.map(|text| text.parse().unwrap()),
            tracing_sampling_rate_per_million: rate,
        };
        let config =
            config(&args, 7, |name| variable.filter(|_| name == "OTEL_EXPORTER_OTLP_ENDPOINT").map(str::to_owned));
        let facts = |config: TracerConfig| (config.endpoint.to_string(), config.sampling_rate_per_million);
        config.map(|config| config.map(facts)).map_err(|why| format!("{why:#}"))
    }

    #[test]
    fn one_flag_is_enough_and_a_rate_of_0_is_off() {
        let at = |url: &str, rate| Ok(Some((url.to_owned(), rate)));
        assert_eq!(configured(None, None, Some("http://a:1")), Ok(None), "a variable alone traces nothing");
        assert_eq!(configured(Some("b:2"), None, Some("http://a:1")), at("http://b:2", 7));
        assert_eq!(configured(Some("b:2"), Some(9), None), at("http://b:2", 9));
        assert_eq!(configured(None, Some(9), None), at("http://localhost:4317", 9));
        assert_eq!(configured(None, Some(9), Some("http://a:1")), at("http://a:1", 9));
        assert_eq!(configured(Some("b:2"), Some(0), None), Ok(None));
        assert_eq!(configured(None, Some(0), Some("nonsense://")), Ok(None));
        let error = configured(None, Some(9), Some("nonsense://")).unwrap_err();
        assert!(error.contains("--tracing-endpoint") && error.contains("OTEL_EXPORTER_OTLP_ENDPOINT="), "{error}");
    }
}
