//! The shared caches of the host: what plugins watch, kept once for all of them.
//!
//! Flow: manifests -> informers (one for each kind, scope and selectors) -> stores -> snapshots and changes for each subscription.
//!
//! Invariants:
//! 1. Only the informer of a kind changes its store; a relist becomes visible all at once.
//! 2. Handlers hear of a change after snapshots show it.
//! 3. A subscription sees the projections that its manifest declares, whoever else watches the kind.

//!
//! Not here: what a snapshot shows (`view`), how a kind is kept current (`informer`).

mod subscription;
mod table;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use pintle_core::api::{ApiError, ApiReader, ApiResource};
use pintle_core::id::Kind;
use pintle_core::manifest::Manifest;
use pintle_core::outcome::{Answers, MutationFailure};
pub use pintle_core::rules::{Delta, Enqueued};
use tokio::sync::watch;

pub(crate) use self::subscription::Inner;
pub use self::subscription::Subscription;
pub(crate) use self::table::{Bound, Table, Watched};
use crate::discovery::{self, Resources, Rounds};
use crate::informer::{Env, Informer, Scope};
use crate::store::world::World;
pub use crate::view::Snapshot;

/// How informers read.
#[derive(Clone, Debug)]
pub struct CachesConfig {
    /// Objects in one page of a list. Default 500, as client-go's pager.
    pub page_size: u32,
    /// First delay after a failure. Default 800 ms, as client-go's reflector.
    pub backoff_base: Duration,
    /// Longest delay after failures (before jitter, which at most doubles it). Default 30 s.
    pub backoff_max: Duration,
    /// Time without a failure after which the delay starts anew. Default 2 min.
    pub backoff_reset: Duration,
    /// How often discovery is asked anew while something depends on it. Default 30 s, as the garbage collector upstream.
    pub discovery_interval: Duration,
    /// A streaming list that says nothing for so long is given up for a paged one. Default 10 s.
    pub stream_quiet_limit: Duration,
    /// Most frames of a watch that are applied under one lock. Default 128.
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

/// Hears of changes of the kinds that a subscription watches, from the informers' tasks: it must be quick and never block.
pub trait ChangeHandler: Send + Sync {
    /// These changes are in the store. All of one kind.
    fn on_changes(&self, batch: &[Delta]);
    /// The cache of this kind has reached a later resourceVersion (also called after `on_changes`), or is now complete.
    fn on_progress(&self, kind: &Kind);
}

/// What a run sees besides the caches.
#[derive(Clone, Debug)]
pub struct RunContext {
    /// RFC 3339 with microseconds, UTC.
    pub now: String,
    /// The plugin's configuration.
    pub config: Arc<str>,
    /// The plugin's keyed state.
    pub state: imbl::OrdMap<Arc<str>, Arc<str>>,
    /// Failures of the key in a row.
    pub attempt: u32,
    /// Of the key's previous outcome.
    pub failures: Vec<MutationFailure>,
    /// To the needs of this run's previous round.
    pub answers: Answers,
}

/// Of somebody who looks without a run: no time, no state, an empty configuration.
impl Default for RunContext {
    fn default() -> Self {
        Self {
            now: String::new(),
            config: "{}".into(),
            state: imbl::OrdMap::new(),
            attempt: 0,
            failures: Vec::new(),
            answers: Answers::new(),
        }
    }
}

/// The shared caches.
pub struct Caches {
    env: Arc<Env>,
    registry: Mutex<Registry>,
    /// Subscriptions and the discovery task wait on the other ends.
    resources: watch::Sender<Option<Arc<Resources>>>,
    discovering: AtomicBool,
}

#[derive(Default)]
pub(crate) struct Registry {
    pub(crate) informers: HashMap<Scope, Informer>,
    subscriptions: Vec<Weak<Inner>>,
}

/// What one informer has done and holds.
#[derive(Clone, Debug)]
pub struct InformerStats {
    /// Its kind.
    pub kind: Kind,
    /// Its namespace, if it is limited to one.
    pub namespace: Option<String>,
    /// Whether a first list is complete.
    pub filled: bool,
    /// Objects in the cache.
    pub n_objects: u64,
    /// Bytes of their texts and of what the host knows of them (estimated).
    pub cached_bytes: u64,
    /// Lists begun, streaming ones included.
    pub lists: u64,
    /// Watches opened after a list.
    pub watches: u64,
    /// Requests and watches that failed.
    pub failures: u64,
    /// Lines of watches.
    pub frames: u64,
    /// Objects that did not parse.
    pub skipped: u64,
}

impl Caches {
    /// Caches that read from this API server. Nothing is read before somebody asks.
    pub fn new(reader: Arc<dyn ApiReader>, config: CachesConfig) -> Arc<Self> {
        let env = Env { reader, config, world: World::default(), rounds: Rounds::default() };
        Arc::new(Self {
            env: Arc::new(env),
            registry: Mutex::default(),
            resources: watch::Sender::new(None),
            discovering: AtomicBool::new(false),
        })
    }

    /// Starts or joins the informers that the manifest's watches need; watches of every kind follow discovery.
    /// The handler first hears of everything that is there. To be called within a tokio runtime.
    pub fn subscribe(self: &Arc<Self>, manifest: Arc<Manifest>, handler: Arc<dyn ChangeHandler>) -> Subscription {
        self.discover();
        let inner = Inner::new(self.clone(), manifest, handler);
        let mut registry = self.registry.lock();
        registry.subscriptions.retain(|subscription| subscription.strong_count() > 0);
        registry.subscriptions.push(Arc::downgrade(&inner));
        let lost = self.resources().map(|resources| inner.bind(&resources, &mut registry));
        drop(registry);
        inner.after_bind(lost.unwrap_or_default());
        Subscription::new(inner)
    }

    /// The server's resource of this kind, or of another version of it, as of the last discovery.
    pub fn resource(&self, kind: &Kind) -> Option<Arc<ApiResource>> {
        self.resources().and_then(|resources| resources.of(kind).cloned())
    }

    /// Waits until discovery has succeeded once. To be called within a tokio runtime.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn discovered(self: &Arc<Self>) {
        self.discover();
        // The sender is ours: it cannot be gone.
        let _ = self.resources.subscribe().wait_for(Option::is_some).await;
    }

    /// Waits until what is known of the server's resources is at most so old, and asks for it if it is not. Gives the group
    /// versions that did not answer. To be called within a tokio runtime.
    ///
    /// # Errors
    /// The server does not answer, which leaves what was known. Trying again may help.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn refreshed(self: &Arc<Self>, max_age: Duration) -> Result<Vec<String>, ApiError> {
        self.discover();
        self.env.rounds.fresh(max_age).await
    }

    /// What each informer has done and holds.
    pub fn stats(&self) -> Vec<InformerStats> {
        let registry = self.registry.lock();
        let stats = registry.informers.iter().map(|(scope, informer)| {
            let shared = informer.shared();
            let held = self.env.world.look(shared.store, |store| {
                (store.generation() > 0, store.len() as u64, store.meta_bytes() + store.text_bytes())
            });
            let (filled, n_objects, cached_bytes) = held.unwrap_or_default();
            InformerStats {
                kind: scope.kind.clone(),
                namespace: scope.namespace.clone(),
                filled,
                n_objects,
                cached_bytes,
                lists: shared.counts.lists.load(Ordering::Relaxed),
                watches: shared.counts.watches.load(Ordering::Relaxed),
                failures: shared.counts.failures.load(Ordering::Relaxed),
                frames: shared.counts.frames.load(Ordering::Relaxed),
                skipped: shared.counts.skipped.load(Ordering::Relaxed),
            }
        });
        let mut stats: Vec<_> = stats.collect();
        stats.sort_by(|a, b| (&a.kind, &a.namespace).cmp(&(&b.kind, &b.namespace)));
        stats
    }

    pub(crate) fn env(&self) -> &Arc<Env> {
        &self.env
    }

    pub(crate) fn resources(&self) -> Option<Arc<Resources>> {
        self.resources.borrow().clone()
    }

    /// Discovery found something else than before.
    pub(crate) fn follow(&self, resources: Arc<Resources>) {
        let mut registry = self.registry.lock();
        self.resources.send_replace(Some(resources.clone()));
        let subscriptions: Vec<Arc<Inner>> = registry.subscriptions.iter().filter_map(Weak::upgrade).collect();
        let lost: Vec<_> = subscriptions.iter().map(|inner| inner.bind(&resources, &mut registry)).collect();
        drop(registry);
        for (inner, lost) in subscriptions.into_iter().zip(lost) {
            inner.after_bind(lost);
        }
    }

    /// Gives up what a subscription holds.
    fn close(&self, inner: &Inner) {
        inner.unbind(&mut self.registry.lock());
    }

    fn discover(self: &Arc<Self>) {
        if !self.discovering.swap(true, Ordering::AcqRel) {
            tokio::spawn(discovery::run(self.env.clone(), Arc::downgrade(self)));
        }
    }
}
