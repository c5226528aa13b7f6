//! The shared caches: the registry of informers and subscriptions.
//!
//! Flow: manifests -> informers (one per kind, scope and selectors) -> stores -> snapshots and changes for each
//! subscription.
//!
//! Not here: one plugin's subscription (`subscription`), keeping a kind current (`informer`).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use pintle_core::object::id::Kind;
use pintle_core::ports::api::{ApiError, ApiReader, ApiResource};
use tokio::sync::watch;

use crate::discovery::{self, DiscoveryRequests, Follower};
use crate::informer::{Env, Informers};
use crate::resources::Resources;
use crate::store::set::StoreSet;
use crate::supervisor::Supervisor;
use crate::types::{CachesConfig, Delta};

/// A subscription that adapts its kinds when discovery finds changes.
pub(crate) trait Bind: Send + Sync {
    /// Joins the informers of new kinds and leaves those of removed kinds.
    fn bind(self: Arc<Self>, resources: &Resources, informers: &mut Informers) -> Lost;
    /// Completes [`Bind::bind`], without the lock.
    fn after_bind(&self, lost: Lost);
}

/// Objects that a subscription loses because their kind was removed.
pub(crate) type Lost = Vec<Arc<[Delta]>>;

/// The shared caches.
pub struct Caches {
    env: Arc<Env>,
    registry: Mutex<Registry>,
    /// Subscriptions and the discovery task hold receivers.
    resources: watch::Sender<Option<Arc<Resources>>>,
    discovering: AtomicBool,
}

#[derive(Default)]
struct Registry {
    informers: Informers,
    bound: Vec<Weak<dyn Bind>>,
}

/// Statistics of one informer.
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
    /// Number of texts per object.
    pub n_texts: usize,
    /// Bytes of texts and metadata (estimated).
    pub cached_bytes: u64,
    /// Lists started, including streaming ones.
    pub lists: u64,
    /// Watches opened after a list.
    pub watches: u64,
    /// Failed requests and watches.
    pub failures: u64,
    /// Received watch frames.
    pub frames: u64,
    /// Objects that did not parse.
    pub skipped: u64,
}

impl Caches {
    /// Creates caches that read from this API server. Nothing is read before the first subscription.
    pub fn new(reader: Arc<dyn ApiReader>, config: CachesConfig) -> Arc<Self> {
        let env = Env {
            reader,
            config,
            stores: StoreSet::default(),
            requests: Arc::<DiscoveryRequests>::default(),
            supervisor: Supervisor::new(),
            back: watch::Sender::new(0),
        };
        Arc::new(Self {
            env: Arc::new(env),
            registry: Mutex::default(),
            resources: watch::Sender::new(None),
            discovering: AtomicBool::new(false),
        })
    }

    /// Binds a subscription to the server's resources, now and after every change. Must be called within a tokio
    /// runtime.
    pub(crate) fn join<B: Bind + 'static>(self: &Arc<Self>, new: Arc<B>) {
        self.discover();
        let mut registry = self.registry.lock();
        registry.bound.retain(|bound| bound.strong_count() > 0);
        let weak: Weak<B> = Arc::downgrade(&new);
        registry.bound.push(weak);
        let lost = self.resources().map(|resources| new.clone().bind(&resources, &mut registry.informers));
        drop(registry);
        new.after_bind(lost.unwrap_or_default());
    }

    /// Calls a function with the informers, under their lock.
    pub(crate) fn with_informers<T>(&self, call: impl FnOnce(&mut Informers) -> T) -> T {
        call(&mut self.registry.lock().informers)
    }

    /// The server's resource of this kind, or of another version of it, as of the last discovery.
    pub fn resource(&self, kind: &Kind) -> Option<Arc<ApiResource>> {
        self.resources().and_then(|resources| resources.of(kind).cloned())
    }

    /// Waits until discovery has succeeded once. Must be called within a tokio runtime.
    ///
    /// # Cancel safety
    /// Safe: nothing is lost.
    pub async fn discovered(self: &Arc<Self>) {
        self.discover();
        // The sender belongs to `self`, so it still exists.
        let _ = self.resources.subscribe().wait_for(Option::is_some).await;
    }

    /// Waits until the discovered resources are at most `max_age` old, and requests discovery if they are older.
    /// Returns the group versions without an answer. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// If the server does not answer; the known resources stay. A retry may help.
    ///
    /// # Cancel safety
    /// Safe: nothing is lost.
    pub async fn refreshed(self: &Arc<Self>, max_age: Duration) -> Result<Vec<String>, ApiError> {
        self.discover();
        self.env.requests.fresh(max_age).await
    }

    /// Must be called when the server answers again after an outage: informers and discovery that pause after failures
    /// retry within a second or two, unless the server has requested a longer delay.
    pub fn server_is_back(&self) {
        self.env.back.send_modify(|n| *n += 1);
        self.env.requests.hint();
    }

    /// Statistics of each informer.
    pub fn stats(&self) -> Vec<InformerStats> {
        let registry = self.registry.lock();
        let stats = registry.informers.iter().map(|(scope, informer)| {
            let shared = informer.shared();
            let held = self.env.stores.read(shared.store, |store| {
                let n_texts = store.plan().texts().projections().len();
                (store.generation() > 0, store.len() as u64, n_texts, store.meta_bytes() + store.text_bytes())
            });
            let (filled, n_objects, n_texts, cached_bytes) = held.unwrap_or_default();
            InformerStats {
                kind: scope.kind.clone(),
                namespace: scope.namespace.clone(),
                filled,
                n_objects,
                n_texts,
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

    /// Supervises the tasks of the caches and of their users.
    pub fn supervisor(&self) -> &Arc<Supervisor> {
        &self.env.supervisor
    }

    pub(crate) fn env(&self) -> &Arc<Env> {
        &self.env
    }

    pub(crate) fn resources(&self) -> Option<Arc<Resources>> {
        self.resources.borrow().clone()
    }

    fn discover(self: &Arc<Self>) {
        if !self.discovering.swap(true, Ordering::AcqRel) {
            let Env { reader, config, requests, supervisor, .. } = &*self.env;
            let (reader, config, requests) = (reader.clone(), config.clone(), requests.clone());
            let (follower, supervisor): (Weak<Self>, _) = (Arc::downgrade(self), supervisor.clone());
            tokio::spawn(async move {
                let start = |is_restart| {
                    discovery::run(reader.clone(), config.clone(), requests.clone(), follower.clone(), is_restart)
                };
                supervisor.run("discovery", start).await;
            });
        }
    }
}

impl Follower for Caches {
    fn resources(&self) -> Option<Arc<Resources>> {
        self.resources()
    }

    fn follow(&self, resources: Arc<Resources>) {
        let mut registry = self.registry.lock();
        self.resources.send_replace(Some(resources.clone()));
        let bound: Vec<Arc<dyn Bind>> = registry.bound.iter().filter_map(Weak::upgrade).collect();
        let lost: Vec<_> = bound.iter().map(|bound| bound.clone().bind(&resources, &mut registry.informers)).collect();
        drop(registry);
        for (bound, lost) in bound.into_iter().zip(lost) {
            bound.after_bind(lost);
        }
    }
}
