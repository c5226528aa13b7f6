//! The plugins of one host: loading them, running them, stopping them.
//!
//! ```text
//! Manager ──add, apply──> Controller (one for each plugin, of one Version at a time) ──subscribe──> Caches (shared)
//! ```
//!
//! Invariants:
//! 1. Nothing runs before [`Manager::run`]; after it has returned nothing of a plugin runs.
//! 2. Each plugin writes through a client of its own; its events share the limit of its mutations, as upstream.
//!
//! Not here: leader election, compiling components (`pintle-wasm`), serving metrics; the stages of a swap are in `apply`.

mod apply;
mod assemble;

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use pintle_cache::{Caches, CachesConfig};
use pintle_core::contract::manifest::Manifest;
use pintle_core::contract::settings::SettingsError;
use pintle_core::lifecycle::{ShadowReport, Spec};
use pintle_core::policy::account::Accounts;
use pintle_core::policy::grants::{Grants, Missing};
use pintle_core::ports::api::{ApiReader, ApiWriters, RequestObserver, WriterIdentity};
use pintle_core::ports::guest::{Guest, Loader};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::sync::{Notify, Semaphore, watch};
use tokio::task::JoinHandle;

use crate::controller::{CacheSubscription, ChangeSink, Controller, ControllerParts, Subscribed, Version};
use crate::failures::{self, Failures, Kept};
use crate::metrics::Metrics;
use crate::recorder::{Recorder, RecorderConfig};
use crate::writer::Writer;

pub use self::apply::{Component, SwapError};
pub use crate::controller::{PluginStatus, QueueStatus};
pub use crate::recorder::WallClock;

/// How the host runs its plugins.
#[derive(Clone)]
pub struct ManagerConfig {
    /// How informers read.
    pub caches: CachesConfig,
    /// Requests per second of each plugin's client; no limit if absent. Default 20, as kube-controller-manager. Too low: work waits
    /// in the client; too high: the API server answers 429.
    pub qps: Option<f32>,
    /// Requests at once of each plugin's client. Default 30, as kube-controller-manager.
    pub burst: u32,
    /// How long a key waits for the caches to show its own writes. Default 30 s. Too low: a key may run on what it has changed
    /// already; too high: a watch that hangs delays it.
    pub stale_bound: Duration,
    /// Time between the start of one plugin and the next, of those that are there when the manager begins to run. Default 0. A random
    /// part of it is added, as upstream.
    pub start_interval: Duration,
    /// How long runs in flight may take to end at shutdown. Default 30 s; then they are left behind.
    pub shutdown_grace: Duration,
    /// How long events may take to be written at shutdown. Default 5 s; then they are lost.
    pub event_grace: Duration,
    /// The wall clock that plugins see. Default: the system's.
    pub clock: WallClock,
    /// Seed of what is random (jitter).
    pub seed: u64,
    /// Whether a component whose spec says nothing of grants gets what its manifest asks for. Default no: such a component is
    /// loaded only if it asks for no more than the version that it replaces.
    pub grant_requested: bool,
    /// The service accounts under which plugins write, record and read live, as kube-controller-manager's controllers with
    /// `--use-service-account-credentials`. Default none: they do so as the host. Informers read as the host either way.
    pub accounts: Option<Accounts>,
    /// What the operator says of components that come while the host runs, besides their spec: workers, resyncs, rate limit.
    pub tune: Tune,
}

/// Options for a manifest.
pub type Tune = Arc<dyn Fn(&Manifest) -> PluginOptions + Send + Sync>;

impl Default for ManagerConfig {
    fn default() -> Self {
        Self {
            caches: CachesConfig::default(),
            qps: Some(20.0),
            burst: 30,
            stale_bound: Duration::from_secs(30),
            start_interval: Duration::ZERO,
            shutdown_grace: Duration::from_secs(30),
            event_grace: Duration::from_secs(5),
            clock: Arc::new(Timestamp::now),
            seed: 0,
            grant_requested: false,
            accounts: None,
            tune: Arc::new(|_| PluginOptions::default()),
        }
    }
}

/// What the operator says of one plugin.
#[derive(Clone, Debug, Default)]
pub struct PluginOptions {
    /// Settings, grants, failure policy, ...
    pub spec: Spec,
    /// Where the component came from, for humans.
    pub origin: String,
    /// SHA-256 of the component, in hexadecimal; empty if there is none.
    pub digest: String,
    /// Workers of a queue, instead of the manifest's number.
    pub concurrency: BTreeMap<String, u32>,
    /// How often every key of a queue is run again, instead of the manifest's period; never if zero.
    pub resync: BTreeMap<String, Duration>,
    /// Its own rate limit instead of the host's.
    pub rate_limit: Option<RateLimit>,
}

/// Limit of a client.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateLimit {
    /// Requests per second; no limit if absent.
    pub qps: Option<f32>,
    /// Requests at once.
    pub burst: u32,
}

/// A plugin that cannot be added. Retrying does not help.
#[derive(Debug, thiserror::Error)]
pub enum ManagerError {
    /// Its name is taken.
    #[error("plugin {0:?} is loaded already; every plugin needs a name of its own")]
    Duplicate(String),
    /// The operator does not give it what its watches need.
    #[error("{0}")]
    NotGranted(String),
    /// Its configuration does not fit its manifest.
    #[error("plugin {plugin:?}: {why}")]
    Settings {
        /// The plugin.
        plugin: String,
        /// Which setting, and what would be right.
        why: SettingsError,
    },
    /// A metric of its own cannot be registered.
    #[error("plugin {plugin:?}: {why}")]
    Metrics {
        /// The plugin.
        plugin: String,
        /// Which metric, and what is wrong.
        why: String,
    },
    /// Its manifest leaves keys to a mapping that it does not export.
    #[error("plugin {0:?}: a rule of the manifest says `to: plugin`, but the component does not export `mapping`")]
    NoMapping(String),
    /// The operator speaks of the period of a queue that it does not have.
    #[error("plugin {plugin:?}: there is no queue {queue:?} to run again every {period:?}; its queues are {known}")]
    Resync {
        /// The plugin.
        plugin: String,
        /// As given.
        queue: String,
        /// As given.
        period: Duration,
        /// Those that it has.
        known: String,
    },
    /// The operator speaks of a queue that it does not have, or gives it no workers.
    #[error(
        "plugin {plugin:?}: queue {queue:?} cannot have {workers} workers; its queues are {known}, each with at least 1"
    )]
    Concurrency {
        /// The plugin.
        plugin: String,
        /// As given.
        queue: String,
        /// As given.
        workers: u32,
        /// Those that it has.
        known: String,
    },
}

/// The plugins of one host.
pub struct Manager {
    reader: Arc<dyn ApiReader>,
    writers: Arc<dyn ApiWriters>,
    config: ManagerConfig,
    caches: Arc<Caches>,
    metrics: Arc<Metrics>,
    activity: Arc<Notify>,
    failures: Arc<Failures>,
    plugins: Mutex<Plugins>,
    n_added: AtomicU64,
    loader: Mutex<Option<Arc<dyn Loader>>>,
    /// One component is compiled at a time: compiling takes all cores.
    compiling: Arc<Semaphore>,
    changes: watch::Sender<u64>,
}

#[derive(Default)]
struct Plugins {
    running: bool,
    stopping: bool,
    by_name: BTreeMap<String, Plugin>,
}

struct Plugin {
    controller: Arc<Controller>,
    recorder: JoinHandle<()>,
}

impl Manager {
    /// A host without plugins. Nothing is read or written yet.
    pub fn new(reader: Arc<dyn ApiReader>, writers: Arc<dyn ApiWriters>, config: ManagerConfig) -> Self {
        Self {
            caches: Caches::new(reader.clone(), config.caches.clone()),
            reader,
            writers,
            config,
            metrics: Metrics::new(),
            activity: Arc::new(Notify::new()),
            failures: Failures::new(failures::MAX_BYTES),
            plugins: Mutex::default(),
            n_added: AtomicU64::new(0),
            loader: Mutex::new(None),
            compiling: Arc::new(Semaphore::new(1)),
            changes: watch::Sender::new(0),
        }
    }

    /// Who makes plugins of components that come while the host runs; without one [`Manager::apply`] refuses.
    pub fn set_loader(&self, loader: Arc<dyn Loader>) {
        *self.loader.lock() = Some(loader);
    }

    /// Adds a plugin, which begins to work at once if the manager runs. To be called within a tokio runtime.
    ///
    /// # Errors
    /// [`ManagerError`]; nothing has changed then.
    pub fn add(&self, guest: Arc<dyn Guest>, options: PluginOptions) -> Result<(), ManagerError> {
        let name = guest.manifest().name.clone();
        let mut plugins = self.plugins.lock();
        if plugins.by_name.contains_key(&name) {
            return Err(ManagerError::Duplicate(name));
        }
        let rate_limit = options.rate_limit;
        let given = options.spec.grants.clone();
        if let Some(given) = &given {
            let watches = |missing: &Missing| missing.watch;
            let missing: Vec<Missing> = Grants::missing(guest.manifest(), given).into_iter().filter(watches).collect();
            if !missing.is_empty() {
                return Err(ManagerError::NotGranted(Missing::message(&missing, &name)));
            }
        }
        let version = self.version(guest, options, given.as_deref())?;
        self.insert(&mut plugins, version, rate_limit);
        Ok(())
    }

    fn insert(&self, plugins: &mut Plugins, version: Arc<Version>, rate_limit: Option<RateLimit>) {
        let name = version.manifest().name.clone();
        let plugin = self.plugin(version, rate_limit);
        if plugins.running {
            self.start(&plugin.controller);
        }
        plugins.by_name.insert(name, plugin);
    }

    /// A plugin that has not started yet.
    fn plugin(&self, version: Arc<Version>, rate_limit: Option<RateLimit>) -> Plugin {
        let manifest = version.manifest();
        let name = manifest.name.clone();
        let limit = rate_limit.unwrap_or(RateLimit { qps: self.config.qps, burst: self.config.burst });
        let account = self.config.accounts.as_ref().map(|accounts| accounts.of(&name));
        let identity = WriterIdentity { name: name.clone(), qps: limit.qps, burst: limit.burst, account };
        let metrics = self.metrics.plugin(&name);
        let recorder = RecorderConfig {
            component: manifest.event_source.clone().unwrap_or_else(|| name.clone()),
            clock: self.config.clock.clone(),
            seed: self.config.seed.wrapping_add(self.n_added.fetch_add(1, Ordering::Relaxed)),
            activity: self.activity.clone(),
        };
        // One client for both: a second one would let the plugin send twice as much as its limit says.
        let api = self.writers.writer(&identity);
        // The account of a plugin that records none may record none, and the host tells of its faults all the same.
        let telling = match manifest.events {
            true => api.clone(),
            false => self.writers.writer(&WriterIdentity { account: None, ..identity.clone() }),
        };
        let (recorder, recording) = Recorder::start(telling, recorder, metrics.clone());
        let disabled = version.spec.disabled;
        let parts = ControllerParts {
            reader: self.reader.clone(),
            live: self.writers.live_reader(&identity).unwrap_or_else(|| self.reader.clone()),
            writer: Writer { name, api, recorder, metrics: metrics.clone() },
            metrics,
            clock: self.config.clock.clone(),
            stale_bound: self.config.stale_bound,
            failures: self.failures.clone(),
            activity: self.activity.clone(),
            changes: self.changes.clone(),
        };
        let controller = Controller::new(parts, version);
        if disabled {
            controller.disable("its spec says so");
        }
        Plugin { controller, recorder: recording }
    }

    /// Stops a plugin: no more keys, runs in flight end. Says whether there was one of this name.
    ///
    /// # Cancel safety
    /// The plugin is removed all the same.
    pub async fn remove(&self, name: &str) -> bool {
        let plugin = self.plugins.lock().by_name.remove(name);
        match plugin {
            Some(plugin) => {
                self.stop(plugin).await;
                self.failures.forget(name);
                self.changes.send_modify(|n| *n += 1);
                true
            }
            None => false,
        }
    }

    /// Runs the plugins until `shutdown`, then takes no more keys, and returns when runs in flight, their writes and events are
    /// done (or their graces have passed).
    ///
    /// # Cancel safety
    /// Dropping it leaves the plugins running.
    pub async fn run(&self, shutdown: impl Future<Output = ()>) {
        let waiting: Vec<String> = {
            let mut plugins = self.plugins.lock();
            plugins.running = true;
            plugins.by_name.keys().cloned().collect()
        };
        self.activity.notify_waiters();
        let starting = async {
            let mut random = StdRng::seed_from_u64(self.config.seed);
            for (i, name) in waiting.iter().enumerate() {
                if i > 0 && !self.config.start_interval.is_zero() {
                    tokio::time::sleep(self.config.start_interval.mul_f64(random.random_range(1.0..2.0))).await;
                }
                // It may have been removed meanwhile, and another one that took its name has been started.
                if let Some(plugin) =
                    self.plugins.lock().by_name.get(name).filter(|plugin| !plugin.controller.has_started())
                {
                    self.start(&plugin.controller);
                }
            }
            self.activity.notify_waiters();
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = shutdown => {}
            () = starting => {}
        }
        let plugins = {
            let mut plugins = self.plugins.lock();
            plugins.running = false;
            plugins.stopping = true;
            std::mem::take(&mut plugins.by_name)
        };
        futures::future::join_all(plugins.into_values().map(|plugin| self.stop(plugin))).await;
    }

    fn start(&self, controller: &Arc<Controller>) {
        controller.start(self.subscribe(controller, &controller.version()));
    }

    /// Subscribes a version to what its manifest watches. Changes wait until the version takes over.
    fn subscribe(&self, controller: &Arc<Controller>, version: &Version) -> CacheSubscription {
        let sink = ChangeSink::new(controller);
        let subscription = self.caches.subscribe(version.manifest().clone(), sink.clone());
        CacheSubscription { cache: Arc::new(Subscribed { caches: self.caches.clone(), subscription }), sink }
    }

    async fn stop(&self, plugin: Plugin) {
        let Plugin { controller, mut recorder } = plugin;
        let manifest = controller.version().manifest().clone();
        if tokio::time::timeout(self.config.shutdown_grace, controller.stop()).await.is_err() {
            tracing::error!(plugin = manifest.name, "runs are still in flight after the grace: they are left behind");
        }
        // The recorder ends when nobody can record any more.
        drop(controller);
        if tokio::time::timeout(self.config.event_grace, &mut recorder).await.is_err() {
            tracing::warn!(plugin = manifest.name, "events are lost: they could not be written within the grace");
            recorder.abort();
        }
    }

    /// Waits until every queue is empty, nothing runs, is held, or is delayed for less than `quiet`, all events are written, and
    /// all caches are filled. Changes that are still on their way from the API server are not known here, but for those that
    /// plugins made themselves.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn idle(&self, quiet: Duration) {
        loop {
            let changed = self.activity.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let idle = {
                let plugins = self.plugins.lock();
                plugins.running && plugins.by_name.values().all(|plugin| plugin.controller.is_idle(quiet))
            };
            if idle {
                return;
            }
            changed.await;
        }
    }

    /// All metrics in the text form of OpenMetrics (`application/openmetrics-text; version=1.0.0`).
    pub fn metrics_text(&self) -> String {
        for plugin in self.plugins.lock().by_name.values() {
            plugin.controller.refresh_metrics();
        }
        self.metrics.text()
    }

    /// Where clients of the API server tell of their requests, so that the host's metrics have them.
    pub fn request_observer(&self) -> Arc<dyn RequestObserver> {
        self.metrics.clone()
    }

    /// State of each plugin, by name.
    pub fn status(&self) -> Vec<PluginStatus> {
        self.plugins.lock().by_name.values().map(|plugin| plugin.controller.status()).collect()
    }

    /// What the operator says of a plugin's present version.
    pub fn spec(&self, name: &str) -> Option<Spec> {
        self.controller(name).map(|controller| controller.version().spec.clone())
    }

    /// What the present or the last shadowing of a new version has shown.
    pub fn diff(&self, name: &str) -> Option<ShadowReport> {
        self.controller(name).and_then(|controller| controller.shadow_report())
    }

    /// The last runs of a plugin that failed, the last one first; none for plugins that there are not.
    pub fn failures(&self, name: &str) -> Vec<Kept> {
        self.failures.of(name)
    }

    /// Changes whenever a run of any plugin has failed.
    pub fn failed(&self) -> watch::Receiver<u64> {
        self.failures.changes()
    }

    /// Counts changes of substance of any plugin's status: wait for the next one, then look at [`Manager::status`].
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// The uid of the plugin's `ControllerPlugin`, so that events about the plugin show in its description.
    pub fn set_resource_uid(&self, name: &str, uid: &str) {
        if let Some(controller) = self.controller(name) {
            controller.set_resource_uid(uid.to_owned());
        }
    }

    fn controller(&self, name: &str) -> Option<Arc<Controller>> {
        self.plugins.lock().by_name.get(name).map(|plugin| plugin.controller.clone())
    }

    /// The shared caches.
    pub fn caches(&self) -> &Arc<Caches> {
        &self.caches
    }
}
