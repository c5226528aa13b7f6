use std::collections::BTreeSet;

use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::SpanData;
use parking_lot::Mutex;

use super::*;

/// Stores exported spans.
#[derive(Clone, Debug, Default)]
struct Kept(Arc<Mutex<Vec<SpanData>>>);

impl opentelemetry_sdk::trace::SpanExporter for Kept {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        self.0.lock().extend(batch);
        Ok(())
    }
}

fn config(sampling_rate_per_million: u32) -> TracerConfig {
    TracerConfig { endpoint: "localhost:4317".parse().unwrap(), sampling_rate_per_million, version: "1" }
}

fn tracer(rate: u32) -> (Arc<Tracer>, Kept) {
    let kept = Kept::default();
    (Tracer::exporting(kept.clone(), &config(rate), &Resource::builder_empty().build()), kept)
}

#[test]
fn the_rate_decides_how_many_runs_are_recorded() {
    for (rate, least, most) in [(0, 0, 0), (1_000_000, 10_000, 10_000), (100_000, 700, 1300)] {
        let (tracer, _) = tracer(rate);
        let spans: Vec<SpanRef> = (0..10_000).filter_map(|_| tracer.sample()).collect();
        // Ten standard deviations.
        assert!((least..=most).contains(&spans.len()), "{rate}: {}", spans.len());
        let ids: BTreeSet<u128> = spans.iter().map(|span| span.trace_id).collect();
        assert_eq!(ids.len(), spans.len(), "every run has its own trace");
    }
}

#[test]
fn what_is_recorded_is_exported_under_the_ids_that_requests_carried() {
    let (tracer, kept) = tracer(1_000_000);
    let span = tracer.sample().unwrap();
    let run = TracedRun { span, ..crate::spans::tests::run(Vec::new()) };
    let wait = TracedWait { run: span, begun: run.begun, took: run.took };
    tracer.record(run);
    tracer.record_wait(wait);
    tracer.queue.flush();
    let spans = kept.0.lock();
    let id = |text: &str| span.to_string().contains(text);
    assert!(spans.len() == 3 && spans.iter().all(|of| id(&of.span_context.trace_id().to_string())));
    assert!(id(&spans[1].span_context.span_id().to_string()), "the run's own span");
    assert!(spans[0].parent_span_id == spans[2].parent_span_id && id(&spans[0].parent_span_id.to_string()));
    assert_eq!(tracer.counts(), SpanCounts { exported: 3, ..SpanCounts::default() });
}

#[tokio::test]
async fn a_host_without_a_collector_starts_and_stops() {
    // Nothing listens on this loopback port.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = listener.local_addr().unwrap().to_string().parse().unwrap();
    drop(listener);
    let tracer = Tracer::open(&TracerConfig { endpoint, ..config(1_000_000) }).unwrap();
    tracer.record(crate::spans::tests::run(Vec::new()));
    let of_end = tracer.clone();
    tracer.shut_down(Duration::from_secs(600)).await;
    assert_eq!(of_end.counts(), SpanCounts { export_failed: 2, ..SpanCounts::default() });
}
