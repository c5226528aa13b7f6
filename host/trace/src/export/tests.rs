use std::sync::mpsc;

use opentelemetry_sdk::error::OTelSdkError;
use pintle_core::ports::trace::{PartKind, TracedCall, TracedRun};

use super::*;
use crate::spans::{SpanMaker, n_spans};

/// Timeout for anything on a busy machine.
const PATIENCE: Duration = Duration::from_secs(600);

/// A collector in this process.
struct Collector {
    /// Results of exports; without one an export waits.
    answers: mpsc::Sender<bool>,
    taken: Arc<Mutex<Vec<SpanData>>>,
    /// Sizes of the batches whose export has started.
    begun: mpsc::Receiver<usize>,
}

struct FakeExporter {
    answers: Mutex<mpsc::Receiver<bool>>,
    taken: Arc<Mutex<Vec<SpanData>>>,
    begun: Mutex<mpsc::Sender<usize>>,
}

impl fmt::Debug for FakeExporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FakeExporter")
    }
}

impl SpanExporter for FakeExporter {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        self.begun.lock().send(batch.len()).unwrap();
        match self.answers.lock().recv() {
            Ok(true) => {
                self.taken.lock().extend(batch);
                Ok(())
            }
            Ok(false) => Err(OTelSdkError::InternalFailure("refused\nforged".to_owned())),
            Err(_) => Err(OTelSdkError::AlreadyShutdown),
        }
    }
}

fn started() -> (SpanQueue, Collector) {
    let (answers, given) = mpsc::channel();
    let (beginning, begun) = mpsc::channel();
    let taken = Arc::<Mutex<Vec<SpanData>>>::default();
    let exporter = FakeExporter { answers: Mutex::new(given), taken: taken.clone(), begun: Mutex::new(beginning) };
    let queue = SpanQueue::start(exporter, "http://collector:4317".to_owned(), &Resource::builder_empty().build());
    (queue, Collector { answers, taken, begun })
}

fn run_of(n: usize) -> TracedRun {
    // The run and its wait in the queue are the other two.
    crate::spans::tests::run(vec![PartKind::Call(TracedCall::default()); n - 2])
}

fn push(queue: &SpanQueue, n: usize) {
    let run = run_of(n);
    queue.push(n_spans(&run), || SpanMaker::new("1").run(run, 1));
}

fn counts(queue: &SpanQueue) -> (u64, u64, u64) {
    let SpanCounts { exported, queue_full, export_failed } = queue.counts();
    (exported, queue_full, export_failed)
}

#[test]
fn spans_reach_the_collector_and_are_counted() {
    let (queue, collector) = started();
    collector.answers.send(true).unwrap();
    push(&queue, 3);
    queue.flush();
    assert_eq!((counts(&queue), collector.taken.lock().len()), ((3, 0, 0), 3));
    collector.answers.send(false).unwrap();
    push(&queue, 4);
    queue.flush();
    assert_eq!((counts(&queue), collector.taken.lock().len()), ((3, 0, 4), 3));
    assert_eq!(queue.shut_down(PATIENCE), 0);
}

#[test]
fn while_the_collector_hangs_whole_runs_are_dropped_and_nothing_waits() {
    let (queue, collector) = started();
    // As many spans as fit. The first batch hangs.
    for _ in 0..MAX_QUEUE / 128 {
        push(&queue, 128);
    }
    collector.begun.recv_timeout(PATIENCE).unwrap();
    for n in [1, 2, 128] {
        queue.push(n, || panic!("spans are not made for a run that is dropped"));
    }
    assert_eq!(counts(&queue), (0, 131, 0));
    // As soon as it responds there is room again.
    (0..MAX_QUEUE).for_each(|_| collector.answers.send(true).unwrap());
    queue.flush();
    assert_eq!(counts(&queue), (MAX_QUEUE as u64, 131, 0));
    push(&queue, 128);
    queue.flush();
    assert_eq!((counts(&queue).0, collector.taken.lock().len()), (MAX_QUEUE as u64 + 128, MAX_QUEUE + 128));
}

#[test]
fn shutdown_exports_what_waits() {
    let (queue, collector) = started();
    push(&queue, 5);
    collector.answers.send(true).unwrap();
    assert_eq!(queue.shut_down(PATIENCE), 0);
    assert_eq!((counts(&queue), collector.taken.lock().len()), ((5, 0, 0), 5));
}

#[test]
fn shutdown_does_not_wait_longer_than_it_may_for_a_collector_that_hangs() {
    let (queue, _collector) = started();
    push(&queue, 5);
    assert_eq!(queue.shut_down(Duration::from_millis(50)), 5);
}

/// The log output of `work`.
fn logged(work: impl FnOnce()) -> Vec<String> {
    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<String>>>);

    impl tracing::Subscriber for Lines {
        fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
            true
        }
        fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
            tracing::span::Id::from_u64(1)
        }
        fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
        fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
        fn event(&self, event: &tracing::Event<'_>) {
            struct Text(String);
            impl tracing::field::Visit for Text {
                fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn fmt::Debug) {
                    self.0 += &format!(" {field}={value:?}");
                }
            }
            let mut text = Text(event.metadata().level().to_string());
            event.record(&mut text);
            self.0.lock().push(text.0);
        }
        fn enter(&self, _: &tracing::span::Id) {}
        fn exit(&self, _: &tracing::span::Id) {}
    }

    let lines = Lines::default();
    tracing::subscriber::with_default(lines.clone(), work);
    lines.0.lock().clone()
}

#[test]
fn an_outage_is_logged_when_it_begins_and_when_it_ends() {
    let flow = Arc::<Flow>::default();
    let counted = Counted { exporter: (), collector: "c".to_owned(), flow, outage: Mutex::default() };
    let failed = Err(OTelSdkError::InternalFailure(format!("refused\nforged {}", "x".repeat(10_000))));
    let lines = logged(|| {
        for result in [&Ok(()), &failed, &failed, &failed, &Ok(()), &Ok(()), &failed] {
            counted.flow.n_under_way.fetch_add(10, Ordering::Relaxed);
            counted.count(10, result);
        }
    });
    let levels: Vec<&str> = lines.iter().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(levels, ["WARN", "INFO", "WARN"], "{lines:?}");
    assert!(lines[0].contains("--tracing-endpoint") && !lines[0].contains('\n'), "{}", lines[0]);
    assert!(lines[0].len() < 2 * MAX_ERROR_BYTES, "{}", lines[0].len());
    assert!(lines[1].contains("n_dropped=30") && lines[1].contains("exported again"), "{}", lines[1]);
    assert_eq!(counted.flow.n_under_way.load(Ordering::Relaxed), 0);
}
