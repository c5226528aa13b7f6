//! Requests to the API server, under client-go's names and labels.
//!
//! Source: `k8s.io/component-base/metrics/prometheus/restclient`.

use std::time::Duration;

use pintle_core::ports::api::RequestObserver;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::{Counters, Histograms, request_buckets};

/// client-go's buckets of sizes: 64 bytes to 16 MiB.
fn size_buckets() -> Histogram {
    Histogram::new([
        64.0,
        256.0,
        512.0,
        1_024.0,
        4_096.0,
        16_384.0,
        65_536.0,
        262_144.0,
        1_048_576.0,
        4_194_304.0,
        16_777_216.0,
    ])
}

/// Metrics of all clients of one host.
#[derive(Debug)]
pub(super) struct RequestMetrics {
    requests: Counters<3>,
    duration: Histograms<2>,
    rate_limiter: Histograms<2>,
    request_size: Histograms<2>,
    response_size: Histograms<2>,
}

impl RequestMetrics {
    pub(super) fn new(registry: &mut Registry) -> Self {
        let metrics = Self {
            requests: Counters::default(),
            duration: Histograms::new_with_constructor(request_buckets),
            rate_limiter: Histograms::new_with_constructor(request_buckets),
            request_size: Histograms::new_with_constructor(size_buckets),
            response_size: Histograms::new_with_constructor(size_buckets),
        };
        registry.register(
            "rest_client_requests",
            "Number of HTTP requests, partitioned by status code, method, and host",
            metrics.requests.clone(),
        );
        for (name, help, metric) in [
            (
                "rest_client_request_duration_seconds",
                "Request latency in seconds. Broken down by verb, and host",
                &metrics.duration,
            ),
            (
                "rest_client_rate_limiter_duration_seconds",
                "Client side rate limiter latency in seconds. Broken down by verb, and host",
                &metrics.rate_limiter,
            ),
            (
                "rest_client_request_size_bytes",
                "Request size in bytes. Broken down by verb and host",
                &metrics.request_size,
            ),
            (
                "rest_client_response_size_bytes",
                "Response size in bytes. Broken down by verb and host",
                &metrics.response_size,
            ),
        ] {
            registry.register(name, help, metric.clone());
        }
        metrics
    }
}

fn by_host(verb: &'static str, host: &str) -> [(&'static str, String); 2] {
    [("verb", verb.to_owned()), ("host", host.to_owned())]
}

/// Sizes are far below what an f64 holds exactly.
fn size(bytes: usize) -> f64 {
    bytes as f64
}

impl RequestObserver for super::Metrics {
    fn attempted(&self, method: &'static str, host: &str, code: Option<u16>, sent_bytes: Option<usize>) {
        let metrics = &self.client;
        let code = code.map_or_else(|| "<error>".to_owned(), |code| code.to_string());
        let labels = [("code", code), ("method", method.to_owned()), ("host", host.to_owned())];
        metrics.requests.get_or_create(&labels).inc();
        if let Some(bytes) = sent_bytes {
            metrics.request_size.get_or_create(&by_host(method, host)).observe(size(bytes));
        }
    }

    fn delayed(&self, method: &'static str, host: &str, waited: Duration) {
        self.client.rate_limiter.get_or_create(&by_host(method, host)).observe(waited.as_secs_f64());
    }

    fn finished(&self, method: &'static str, host: &str, took: Duration, received_bytes: Option<usize>) {
        let metrics = &self.client;
        metrics.duration.get_or_create(&by_host(method, host)).observe(took.as_secs_f64());
        if let Some(bytes) = received_bytes {
            metrics.response_size.get_or_create(&by_host(method, host)).observe(size(bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Metrics;

    #[test]
    fn requests_are_counted_under_the_names_of_client_go() {
        let metrics = Metrics::new();
        metrics.attempted("POST", "example:6443", Some(201), Some(300));
        metrics.attempted("POST", "example:6443", None, Some(300));
        metrics.attempted("GET", "example:6443", Some(200), None);
        metrics.delayed("POST", "example:6443", Duration::from_millis(50));
        metrics.finished("POST", "example:6443", Duration::from_millis(70), Some(2_000));
        metrics.finished("POST", "example:6443", Duration::from_millis(70), None);
        let text = metrics.text();
        for line in [
            r#"rest_client_requests_total{code="201",method="POST",host="example:6443"} 1"#,
            r#"rest_client_requests_total{code="<error>",method="POST",host="example:6443"} 1"#,
            r#"rest_client_requests_total{code="200",method="GET",host="example:6443"} 1"#,
            r#"rest_client_request_duration_seconds_bucket{le="0.1",verb="POST",host="example:6443"} 2"#,
            r#"rest_client_rate_limiter_duration_seconds_count{verb="POST",host="example:6443"} 1"#,
            r#"rest_client_request_size_bytes_bucket{le="512.0",verb="POST",host="example:6443"} 2"#,
            r#"rest_client_response_size_bytes_count{verb="POST",host="example:6443"} 1"#,
        ] {
            assert!(text.lines().any(|other| other == line), "{line} is not in\n{text}");
        }
    }
}
