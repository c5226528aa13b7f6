//! Metrics of work queues. Queues with the same label share series.
//!
//! *Invariants*:
//! 1. The depth and the unfinished work of a series are the sums over its queues, the longest run is the maximum.
//! 2. A queue's contribution to the gauges ends with the queue.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use parking_lot::Mutex;
use pintle_core::policy::keys::QueueObserver;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;

use super::Metrics;
use super::owner::{Lease, Owner};

/// The gauges of one label, with the contribution of each queue.
#[derive(Debug)]
pub(super) struct QueueLabel {
    _lease: Arc<Lease>,
    depth: Gauge,
    unfinished: Gauge<f64, AtomicU64>,
    longest: Gauge<f64, AtomicU64>,
    parts: Mutex<Parts>,
}

#[derive(Debug, Default)]
struct Parts {
    by_queue: BTreeMap<u64, Part>,
    next: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Part {
    depth: i64,
    unfinished_seconds: f64,
    longest_seconds: f64,
}

impl QueueLabel {
    fn change(&self, queue: u64, change: impl FnOnce(&mut BTreeMap<u64, Part>, u64)) {
        let mut parts = self.parts.lock();
        change(&mut parts.by_queue, queue);
        let parts = || parts.by_queue.values();
        self.depth.set(parts().map(|part| part.depth).sum());
        self.unfinished.set(parts().map(|part| part.unfinished_seconds).sum());
        self.longest.set(parts().map(|part| part.longest_seconds).fold(0.0, f64::max));
    }
}

/// The contribution of one queue to the gauges of its label.
#[derive(Debug)]
struct Share {
    label: Arc<QueueLabel>,
    queue: u64,
}

impl Share {
    fn set(&self, set: impl FnOnce(&mut Part)) {
        self.label.change(self.queue, |parts, queue| set(parts.entry(queue).or_default()));
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.label.change(self.queue, |parts, queue| {
            parts.remove(&queue);
        });
    }
}

impl Metrics {
    /// Metrics of one work queue with this label.
    pub(crate) fn queue(self: &Arc<Self>, label: &str) -> QueueMetrics {
        let shared = {
            let mut labels = self.queue_labels.lock();
            labels.retain(|_, label| label.strong_count() > 0);
            let known = labels.get(label).and_then(std::sync::Weak::upgrade);
            known.unwrap_or_else(|| {
                let shared = Arc::new(QueueLabel {
                    // This comes first: while it is held, no series of the label ends.
                    _lease: Lease::of(self, Owner::Queue(label.to_owned())),
                    depth: self.depth.of([label]),
                    unfinished: self.unfinished.of([label]),
                    longest: self.longest.of([label]),
                    parts: Mutex::default(),
                });
                labels.insert(label.to_owned(), Arc::downgrade(&shared));
                shared
            })
        };
        let queue = {
            let mut parts = shared.parts.lock();
            parts.next += 1;
            parts.next
        };
        QueueMetrics {
            share: Arc::new(Share { label: shared, queue }),
            adds: self.adds.of([label]),
            queue_duration: self.queue_duration.of([label]),
            work_duration: self.work_duration.of([label]),
            retries: self.retries.of([label]),
        }
    }
}

/// Metrics of one work queue; cheap handles.
#[derive(Clone, Debug)]
pub(crate) struct QueueMetrics {
    share: Arc<Share>,
    adds: Counter,
    queue_duration: Histogram,
    work_duration: Histogram,
    retries: Counter,
}

impl QueueMetrics {
    /// Sets the total time of all runs in progress, and of the longest one.
    pub(crate) fn set_unfinished(&self, total_seconds: f64, longest_seconds: f64) {
        self.share.set(|part| {
            part.unfinished_seconds = total_seconds;
            part.longest_seconds = longest_seconds;
        });
    }
}

impl QueueObserver for QueueMetrics {
    fn queued(&self, n_added: usize, n_dirty: usize) {
        self.adds.inc_by(n_added as u64);
        self.share.set(|part| part.depth = i64::try_from(n_dirty).unwrap_or(i64::MAX));
    }

    fn began(&self, waited: Duration) {
        self.queue_duration.observe(waited.as_secs_f64());
    }

    fn ended(&self, worked: Duration) {
        self.work_duration.observe(worked.as_secs_f64());
    }

    fn retried(&self) {
        self.retries.inc();
    }

    /// Removes its contribution to the gauges.
    fn replaced(&self) {
        self.share.set(|part| *part = Part::default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gauges(metrics: &Metrics, label: &str) -> [String; 3] {
        let text = metrics.text();
        ["depth", "unfinished_work_seconds", "longest_running_processor_seconds"].map(|name| {
            let prefix = format!("workqueue_{name}{{name=\"{label}\"}} ");
            text.lines().find_map(|line| line.strip_prefix(&prefix)).unwrap_or("-").to_owned()
        })
    }

    #[test]
    fn queues_of_one_label_add_up_and_the_longest_run_is_that_of_any() {
        let metrics = Metrics::new();
        let (one, two, other) = (metrics.queue("certificate"), metrics.queue("certificate"), metrics.queue("other"));
        two.retried();
        one.queued(2, 2);
        two.queued(3, 3);
        two.queued(0, 4);
        other.queued(0, 7);
        one.set_unfinished(5.0, 3.0);
        two.set_unfinished(1.5, 1.5);
        assert_eq!(gauges(&metrics, "certificate"), ["6", "6.5", "3.0"]);
        assert_eq!(gauges(&metrics, "other"), ["7", "0.0", "0.0"]);
        let text = metrics.text();
        assert!(text.contains("workqueue_adds_total{name=\"certificate\"} 5\n"), "{text}");
        assert!(text.contains("workqueue_retries_total{name=\"certificate\"} 1\n"), "{text}");
        // A version keeps its handles after another version has taken over the queue.
        let next = metrics.queue("certificate");
        one.replaced();
        next.queued(0, 5);
        assert_eq!(gauges(&metrics, "certificate"), ["9", "1.5", "1.5"]);
        drop(two.clone());
        assert_eq!(gauges(&metrics, "certificate")[0], "9", "a handle of several");
        drop(two);
        assert_eq!(gauges(&metrics, "certificate"), ["5", "0.0", "0.0"]);
        drop((one, next));
        assert_eq!(gauges(&metrics, "certificate"), ["-", "-", "-"]);
    }
}
