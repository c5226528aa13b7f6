//! Requests to the API server, under client-go's names and labels.
//!
//! Source: `k8s.io/component-base/metrics/prometheus/restclient`.

use std::time::Duration;

use pintle_core::ports::api::RequestObserver;
use pintle_metrics::{
    REST_DURATION, REST_RATE_LIMITER, REST_REQUEST_SIZE, REST_REQUESTS, REST_RESPONSE_SIZE, REST_RETRIES,
};
use prometheus_client::registry::Registry;

use super::family::{Counters, Histograms};

/// Metrics of all clients of one host.
#[derive(Debug)]
pub(super) struct RequestMetrics {
    requests: Counters<3>,
    duration: Histograms<2>,
    rate_limiter: Histograms<2>,
    request_size: Histograms<2>,
    response_size: Histograms<2>,
    retries: Counters<3>,
}

impl RequestMetrics {
    pub(super) fn new(registry: &mut Registry) -> Self {
        Self {
            requests: Counters::new(registry, &REST_REQUESTS),
            duration: Histograms::new(registry, &REST_DURATION),
            rate_limiter: Histograms::new(registry, &REST_RATE_LIMITER),
            request_size: Histograms::new(registry, &REST_REQUEST_SIZE),
            response_size: Histograms::new(registry, &REST_RESPONSE_SIZE),
            retries: Counters::new(registry, &REST_RETRIES),
        }
    }
}

/// Sizes are far below the limit of exact integers in an f64.
fn size(bytes: usize) -> f64 {
    bytes as f64
}

impl RequestObserver for super::Metrics {
    fn attempted(&self, method: &'static str, host: &str, code: Option<u16>, sent_bytes: Option<usize>) {
        let metrics = &self.client;
        self.api_server.get_or_init(|| host.to_owned());
        let code = code.map_or_else(|| "<error>".to_owned(), |code| code.to_string());
        metrics.requests.of([&*code, method, host]).inc();
        if let Some(bytes) = sent_bytes {
            metrics.request_size.of([method, host]).observe(size(bytes));
        }
    }

    fn delayed(&self, method: &'static str, host: &str, waited: Duration) {
        self.client.rate_limiter.of([method, host]).observe(waited.as_secs_f64());
    }

    fn repeated(&self, method: &'static str, host: &str, code: u16) {
        self.client.retries.of([&*code.to_string(), method, host]).inc();
    }

    fn finished(&self, method: &'static str, host: &str, took: Duration, received_bytes: Option<usize>) {
        let metrics = &self.client;
        metrics.duration.of([method, host]).observe(took.as_secs_f64());
        if let Some(bytes) = received_bytes {
            metrics.response_size.of([method, host]).observe(size(bytes));
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
        metrics.repeated("POST", "example:6443", 429);
        let text = metrics.text();
        for line in [
            r#"rest_client_requests_total{code="201",method="POST",host="example:6443"} 1"#,
            r#"rest_client_requests_total{code="<error>",method="POST",host="example:6443"} 1"#,
            r#"rest_client_requests_total{code="200",method="GET",host="example:6443"} 1"#,
            r#"rest_client_request_duration_seconds_bucket{le="0.1",verb="POST",host="example:6443"} 2"#,
            r#"rest_client_rate_limiter_duration_seconds_count{verb="POST",host="example:6443"} 1"#,
            r#"rest_client_request_size_bytes_bucket{le="512.0",verb="POST",host="example:6443"} 2"#,
            r#"rest_client_response_size_bytes_count{verb="POST",host="example:6443"} 1"#,
            r#"rest_client_request_retries_total{code="429",verb="POST",host="example:6443"} 1"#,
        ] {
            assert!(text.lines().any(|other| other == line), "{line} is not in\n{text}");
        }
    }
}
