//! The contents of a plugin's queues, for `/debug/controllers/NAME`.

use std::borrow::Cow;
use std::time::Duration;

use pintle_core::object::id::Key;
use pintle_core::policy::keys::KeyQueue;
use pintle_core::policy::queue::contents::{Place, QueuedKey};
use serde::{Deserialize, Serialize};

use super::Controller;
use crate::metrics::QueueMetrics;

/// Maximum keys shown per queue.
pub const MAX_KEYS: usize = 500;

/// One queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QueueContents {
    /// Its name.
    pub name: String,
    /// Keys that wait for a worker.
    #[serde(rename = "ready")]
    pub n_ready: usize,
    /// Delayed keys.
    #[serde(rename = "delayed")]
    pub n_delayed: usize,
    /// Keys in progress.
    #[serde(rename = "running")]
    pub n_running: usize,
    /// Keys whose writes the caches do not show yet.
    #[serde(rename = "held")]
    pub n_held: usize,
    /// Maximum concurrent runs.
    pub workers: usize,
    /// At most [`MAX_KEYS`], in the order in which they run.
    pub keys: Vec<KeyContents>,
}

/// A key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KeyContents {
    /// Kind and object of the key.
    pub key: String,
    /// `running`, `held`, `ready` or `delayed`.
    pub state: Cow<'static, str>,
    /// Time that it has been running or waiting for a worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub for_ms: Option<u64>,
    /// Time until it is added.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after_ms: Option<u64>,
    /// Whether it runs again after the current run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub again: bool,
    /// Failed runs since the last success.
    #[serde(rename = "failures")]
    pub n_failures: u32,
    /// Faulted runs since the last run without a fault.
    #[serde(rename = "faults")]
    pub n_faults: u32,
}

fn millis(time: Duration) -> u64 {
    time.as_millis().try_into().unwrap_or(u64::MAX)
}

fn key(queue: &KeyQueue<QueueMetrics>, queued: QueuedKey<'_, Key>) -> KeyContents {
    let (for_ms, after_ms) = match queued.place {
        Place::Running(time) | Place::Ready(time) => (Some(millis(time)), queued.added_after.map(millis)),
        Place::Held => (None, queued.added_after.map(millis)),
        Place::Delayed(time) => (None, Some(millis(time))),
    };
    KeyContents {
        key: queued.key.to_string(),
        state: queued.place.as_str().into(),
        for_ms,
        after_ms,
        again: queued.again,
        n_failures: queue.n_failures(queued.key),
        n_faults: queued.n_faults,
    }
}

impl Controller {
    /// The contents of its queues.
    pub(crate) fn contents(&self) -> Vec<QueueContents> {
        let now = super::now();
        let inner = self.inner.lock();
        let queues = inner.keys.queues();
        queues
            .map(|queue| QueueContents {
                name: queue.name.to_string(),
                n_ready: queue.work_queue.n_ready(),
                n_delayed: queue.work_queue.n_waiting(),
                n_running: queue.work_queue.n_running(),
                n_held: queue.work_queue.n_held(),
                workers: queue.concurrency,
                keys: queue.work_queue.contents(MAX_KEYS, now).into_iter().map(|queued| key(queue, queued)).collect(),
            })
            .collect()
    }
}
