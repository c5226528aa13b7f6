//! Writes events to the API server, asynchronously to the runs that cause them.
//!
//! ```text
//! runs ──record──> bounded queue ──> correlator ──> POST a new Event, or PATCH the count of an old one
//! ```
//!
//! Invariants:
//! 1. Recording never waits and never fails a run; an event is dropped and counted when the queue is full.
//! 2. Events are written one at a time: an unresponsive server delays later events, but no runs.
//! 3. A panic loses one event and the correlation state of earlier ones; later events are written.
//!
//! Source: client-go's `tools/record`: the same objects, names, numbers and retry rules. A rejection is final,
//! including AlreadyExists; only transport errors, unreadable answers and timeouts are retried, [`MAX_TRIES`] times in
//! all. client-go drops an event whose answer is 504.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::FutureExt;
use jiff::Timestamp;
use pintle_core::contract::outcome::{Event, PatchType};
use pintle_core::object::id::Kind;
use pintle_core::policy::correlator::{Correlator, EventDecision, MAX_MESSAGE_BYTES, Record};
use pintle_core::ports::api::{ApiError, ApiErrorClass, ApiResource, ApiWriter, WriteRequest, WriteVerb};
use pintle_core::text::cut;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::json;
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::metrics::EventMetrics;
use crate::panic_text;
use crate::throttle::retry_throttled;
use pintle_core::policy::held::{Account, Held};

/// Capacity of the event queue; client-go's value.
const QUEUE: usize = 1_000;
/// Maximum bytes of an event in the queue: its message, its reason, and a kind, a name and a uid that an object can
/// have.
const MAX_EVENT_BYTES: usize = 4 << 10;
/// Maximum tries of one event; client-go's value.
const MAX_TRIES: u32 = 12;
/// Delay between tries; the first one is a random part of it. client-go's value.
const RETRY_DELAY: Duration = Duration::from_secs(10);

/// Reads the wall clock.
pub type WallClock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

struct Queued {
    event: Event,
    at: Timestamp,
    _held: Held,
}

/// Handle for recording; cheap to clone. The queue closes when the last handle is dropped.
#[derive(Clone)]
pub(crate) struct Recorder {
    queue: mpsc::Sender<Queued>,
    shared: Arc<Shared>,
    clock: WallClock,
    metrics: EventMetrics,
    account: Arc<Account>,
}

struct Shared {
    /// Events that are queued or being written.
    n_open: AtomicUsize,
    /// Cancelled when retries must end.
    closed: CancellationToken,
    /// Notified whenever `n_open` reaches zero.
    idle_signal: Arc<Notify>,
}

/// The source of events.
pub(crate) struct RecorderConfig {
    /// `source.component`.
    pub(crate) component: String,
    pub(crate) clock: WallClock,
    pub(crate) seed: u64,
    pub(crate) idle_signal: Arc<Notify>,
    /// The account for queued events.
    pub(crate) account: Arc<Account>,
}

impl Recorder {
    /// Starts the writing task; it ends when all handles are dropped and the queue is empty.
    pub(crate) fn start(
        api: Arc<dyn ApiWriter>,
        config: RecorderConfig,
        metrics: EventMetrics,
    ) -> (Self, tokio::task::JoinHandle<()>) {
        let (queue, receiver) = mpsc::channel(QUEUE);
        let shared = Arc::new(Shared {
            n_open: AtomicUsize::new(0),
            closed: CancellationToken::new(),
            idle_signal: config.idle_signal,
        });
        let task = Task {
            api,
            component: config.component,
            resource: Arc::new(event_resource()),
            correlator: Correlator::new(),
            random: StdRng::seed_from_u64(config.seed),
            shared: shared.clone(),
            metrics: metrics.clone(),
        };
        (
            Self { queue, shared, clock: config.clock, metrics, account: config.account },
            tokio::spawn(task.run(receiver)),
        )
    }

    /// Queues an event; drops it if the queue is full, or if it is longer than an event about an existing object can
    /// be.
    pub(crate) fn record(&self, mut event: Event) {
        // Placeholders were filled in after the check, or the event is from the host.
        if event.message.len() > MAX_MESSAGE_BYTES {
            event.message = cut(&event.message, MAX_MESSAGE_BYTES).to_owned();
        }
        let n_bytes = event.n_bytes();
        let mut held = self.account.open();
        self.shared.n_open.fetch_add(1, Ordering::AcqRel);
        let is_short = n_bytes <= MAX_EVENT_BYTES;
        if is_short {
            // The queue has its own bound.
            held.set(n_bytes as u64);
        }
        if !is_short || self.queue.try_send(Queued { event, at: (self.clock)(), _held: held }).is_err() {
            self.shared.finished();
            self.metrics.event("dropped");
        }
    }

    /// Whether no event is queued or being written.
    pub(crate) fn is_idle(&self) -> bool {
        self.shared.n_open.load(Ordering::Acquire) == 0
    }

    /// Stops retries: each queued event is tried only once more.
    pub(crate) fn close(&self) {
        self.shared.closed.cancel();
    }
}

impl Shared {
    fn finished(&self) {
        if self.n_open.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.idle_signal.notify_waiters();
        }
    }
}

fn event_resource() -> ApiResource {
    ApiResource {
        kind: Kind::new("", "v1", "Event"),
        plural: "events".into(),
        namespaced: true,
        verbs: Vec::new(),
        subresources: Vec::new(),
        preferred: true,
    }
}

struct Task {
    api: Arc<dyn ApiWriter>,
    component: String,
    resource: Arc<ApiResource>,
    correlator: Correlator,
    random: StdRng,
    shared: Arc<Shared>,
    metrics: EventMetrics,
}

impl Task {
    async fn run(mut self, mut queue: mpsc::Receiver<Queued>) {
        while let Some(queued) = queue.recv().await {
            let result = AssertUnwindSafe(self.event(&queued)).catch_unwind().await.unwrap_or_else(|panic| {
                let error = panic_text(&*panic);
                tracing::error!(component = self.component, error, "the host panicked; an event is lost");
                // The panic may have interrupted an update of the state.
                self.correlator = Correlator::new();
                "failed"
            });
            self.metrics.event(result);
            self.shared.finished();
        }
    }

    async fn event(&mut self, queued: &Queued) -> &'static str {
        let now = Instant::now().into_std();
        let (record, counted) = match self.correlator.correlate(&queued.event, now, queued.at) {
            EventDecision::Drop => return "filtered",
            EventDecision::Create(record) => (record, false),
            EventDecision::Count(record) => (record, true),
        };
        for attempt in 1..=MAX_TRIES {
            let error = match self.write(&queued.event, &record, counted).await {
                Ok(result) => return result,
                Err(error) => error,
            };
            // An overloaded API server also answers 504. The name of the event prevents duplicates.
            let is_retried = match error.class {
                ApiErrorClass::Timeout => true,
                ApiErrorClass::Transport | ApiErrorClass::Malformed => error.code == 0,
                _ => false,
            };
            if !is_retried {
                // Expected: the namespace is terminating, an earlier try succeeded, or another host is the leader.
                let ordinary = error.class == ApiErrorClass::AlreadyExists
                    || error.causes.iter().any(|cause| cause == "NamespaceTerminating")
                    || error.class == ApiErrorClass::NotLeading;
                if ordinary {
                    tracing::debug!(component = self.component, event = record.name, %error, "event refused");
                } else {
                    tracing::warn!(component = self.component, event = record.name, %error, "event refused");
                }
                return "failed";
            }
            tracing::debug!(component = self.component, event = record.name, %error, attempt, "event not written");
            if attempt == MAX_TRIES || self.shared.closed.is_cancelled() {
                break;
            }
            let part = if attempt == 1 { self.random.random_range(0.0..1.0) } else { 1.0 };
            tokio::select! {
                biased;
                () = tokio::time::sleep(RETRY_DELAY.mul_f64(part)) => {}
                () = self.shared.closed.cancelled() => {}
            }
        }
        tracing::warn!(component = self.component, event = record.name, "event dropped: the API server is unreachable");
        "failed"
    }

    async fn write(&self, event: &Event, record: &Record, counted: bool) -> Result<&'static str, ApiError> {
        let namespace = match &*event.regarding.namespace {
            "" => "default",
            namespace => namespace,
        };
        let request = |name: &str, verb| WriteRequest {
            resource: self.resource.clone(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            subresource: None,
            verb,
        };
        if counted {
            let patch = json!({
                "count": record.count,
                "lastTimestamp": seconds(record.last),
                "message": record.message,
            });
            let verb = WriteVerb::Patch { patch_type: PatchType::StrategicMerge, body: patch.to_string() };
            let request = request(&record.name, verb);
            match retry_throttled(&self.shared.closed, || self.metrics.repeated("PATCH"), || self.api.write(&request))
                .await
            {
                Ok(_) => return Ok("counted"),
                // The event expired or was never written: create it with its count.
                Err(error) if error.class == ApiErrorClass::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        let body = self.object(event, record, namespace);
        let request = request("", WriteVerb::Create { body });
        retry_throttled(&self.shared.closed, || self.metrics.repeated("POST"), || self.api.write(&request))
            .await
            .map(|_| "created")
    }

    fn object(&self, event: &Event, record: &Record, namespace: &str) -> String {
        let mut involved = json!({
            "kind": event.regarding_kind.name,
            "name": event.regarding.name,
            "apiVersion": event.regarding_kind.api_version(),
        });
        for (field, value) in [("namespace", &*event.regarding.namespace), ("uid", event.regarding_uid.as_str())] {
            if !value.is_empty() {
                involved[field] = value.into();
            }
        }
        json!({
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": record.name, "namespace": namespace},
            "involvedObject": involved,
            "reason": event.reason,
            "message": record.message,
            "source": {"component": self.component},
            "firstTimestamp": seconds(record.first),
            "lastTimestamp": seconds(record.last),
            "count": record.count,
            "type": if event.warning { "Warning" } else { "Normal" },
            "reportingComponent": self.component,
            "reportingInstance": "",
        })
        .to_string()
    }
}

/// Time in the API server's format: RFC 3339 without fractions.
fn seconds(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

#[cfg(test)]
mod tests;
