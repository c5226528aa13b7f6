//! Types for users of the caches.

use std::sync::Arc;
use std::time::Duration;

use pintle_core::contract::outcome::{Answers, MutationFailure};
use pintle_core::object::id::Kind;
use pintle_core::policy::held::Account;
pub use pintle_core::policy::rules::{Delta, Enqueued};

/// Options of informers.
#[derive(Clone, Debug)]
pub struct CachesConfig {
    /// Objects per page of a list. Default 500, as in client-go's pager.
    pub page_size: u32,
    /// First delay after a failure. Default 800 ms, as in client-go's reflector.
    pub backoff_base: Duration,
    /// Longest delay after failures (before jitter, which at most doubles it). Default 30 s.
    pub backoff_max: Duration,
    /// Time without a failure after which the delay is reset. Default 2 min.
    pub backoff_reset: Duration,
    /// Interval of discovery while it is used. Default 30 s, as in upstream's garbage collector.
    pub discovery_interval: Duration,
    /// Time after which a silent streaming list is replaced by a paged one. Default 10 s.
    pub stream_quiet_limit: Duration,
    /// Maximum frames of a watch applied under one lock. Default 128.
    pub batch: usize,
    /// Seed of the jitter.
    pub seed: u64,
}

impl Default for CachesConfig {
    fn default() -> Self {
        Self {
            page_size: 500,
            backoff_base: Duration::from_millis(800),
            backoff_max: Duration::from_secs(30),
            backoff_reset: Duration::from_secs(120),
            discovery_interval: Duration::from_secs(30),
            stream_quiet_limit: Duration::from_secs(10),
            batch: 128,
            seed: 0,
        }
    }
}

/// Receives changes of the kinds that a subscription watches, on the informers' tasks: it must be quick and never
/// block.
pub trait ChangeHandler: Send + Sync {
    /// These changes are now in the store. All are of one kind, in order.
    fn on_changes(&self, batch: &Arc<[Delta]>);
    /// The cache of this kind has reached a later resourceVersion (also called after `on_changes`), or is now complete.
    fn on_progress(&self, kind: &Kind);
    /// Changes of this kind may be missing, although they are in the store.
    fn on_gap(&self, kind: &Kind) {
        self.on_progress(kind);
    }
    /// The set of watched kinds that the server serves, or refuses to list, may have changed.
    fn on_kinds(&self) {}
}

/// Maximum work of one read: at most a second. A selector of 64 requirements for 100,000 Pods needs a tenth of it.
pub const MAX_WORK: u64 = 1 << 27;

/// Inputs of a run in addition to the caches.
#[derive(Clone, Debug)]
pub struct RunContext {
    /// The time of the run: RFC 3339 with microseconds, UTC.
    pub now: String,
    /// Time since the start of the host, by the monotonic clock.
    pub uptime: Duration,
    /// The plugin's configuration.
    pub config: Arc<str>,
    /// The plugin's keyed state.
    pub state: imbl::OrdMap<Arc<str>, Arc<str>>,
    /// Consecutive failures of the key.
    pub attempt: u32,
    /// Failures of the key's previous outcome.
    pub failures: Arc<[MutationFailure]>,
    /// Answers to the needs of this run's previous round.
    pub answers: Answers,
    /// Maximum bytes of the texts that one read returns.
    pub max_read_bytes: u64,
    /// Maximum work of one read, in units of [`Work`](pintle_core::object::work::Work). Default [`MAX_WORK`].
    pub max_work: u64,
    /// Account for the log of the run's reads; not counted if absent.
    pub account: Option<Arc<Account>>,
}

/// The context of reads outside a run: no time, no state, an empty configuration.
impl Default for RunContext {
    fn default() -> Self {
        Self {
            now: String::new(),
            uptime: Duration::ZERO,
            config: "{}".into(),
            state: imbl::OrdMap::new(),
            attempt: 0,
            failures: Arc::from([]),
            answers: Answers::new(),
            max_read_bytes: u64::MAX,
            max_work: MAX_WORK,
            account: None,
        }
    }
}
