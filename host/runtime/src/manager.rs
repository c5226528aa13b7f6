//! The plugins of one host: loading them, running them, stopping them.
//!
//! ```text
//! Manager ──add──> Controller (one for each plugin) ──subscribe──> Caches (shared)
//! ```
//!
//! Invariants:
//! 1. Nothing runs before [`Manager::run`]; after it has returned nothing of a plugin runs.
//! 2. Each plugin writes through a client of its own; its events share the limit of its mutations, as upstream.
//!
//! Not here: leader election, loading components (`pintle-wasm`), serving metrics.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use pintle_core::api::{ApiReader, ApiWriters, RequestObserver, WriterIdentity};
use pintle_core::grants::Grants;
use pintle_core::guest::Guest;
use pintle_core::manifest::{Grant, Manifest, To};
use pintle_core::settings::{self, SettingsError};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::caches::{Caches, CachesConfig};
use crate::controller::{Controller, ControllerParts, LaneParts, Subscribed};
use crate::metrics::Metrics;
use crate::recorder::{Recorder, RecorderConfig};
use crate::writer::Writer;

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
}

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
        }
    }
}

/// What the operator says of one plugin.
#[derive(Clone, Debug, Default)]
pub struct PluginOptions {
    /// Its settings: an object, or null for the defaults.
    pub config: serde_json::Value,
    /// What it may do, of what its manifest asks for; all of it if absent.
    pub grants: Option<Vec<Grant>>,
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
    plugins: Mutex<Plugins>,
    n_added: AtomicU64,
}

#[derive(Default)]
struct Plugins {
    running: bool,
    by_name: BTreeMap<String, Plugin>,
}

struct Plugin {
    controller: Arc<Controller>,
    manifest: Arc<Manifest>,
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
            plugins: Mutex::default(),
            n_added: AtomicU64::new(0),
        }
    }

    /// Adds a plugin, which begins to work at once if the manager runs. To be called within a tokio runtime.
    ///
    /// # Errors
    /// [`ManagerError`]; nothing has changed then.
    pub fn add(&self, guest: Arc<dyn Guest>, options: PluginOptions) -> Result<(), ManagerError> {
        let manifest = guest.manifest().clone();
        let name = manifest.name.clone();
        let mut plugins = self.plugins.lock();
        if plugins.by_name.contains_key(&name) {
            return Err(ManagerError::Duplicate(name));
        }
        let maps = manifest.watches.iter().flat_map(|watch| &watch.enqueue).any(|rule| rule.to == To::Plugin);
        if maps && !guest.maps() {
            return Err(ManagerError::NoMapping(name));
        }
        let config = settings::resolve(&manifest.config, &options.config, read_file)
            .map_err(|why| ManagerError::Settings { plugin: name.clone(), why })?;
        let workers = workers(&manifest, &options.concurrency)?;
        let resyncs = resyncs(&manifest, &options.resync)?;
        let declared = self
            .metrics
            .declare(&manifest.metrics)
            .map_err(|why| ManagerError::Metrics { plugin: name.clone(), why: why.to_string() })?;
        let limit = options.rate_limit.unwrap_or(RateLimit { qps: self.config.qps, burst: self.config.burst });
        let identity = WriterIdentity { name: name.clone(), qps: limit.qps, burst: limit.burst };
        let metrics = self.metrics.plugin(&name);
        let recorder = RecorderConfig {
            component: manifest.event_source.clone().unwrap_or_else(|| name.clone()),
            clock: self.config.clock.clone(),
            seed: self.config.seed.wrapping_add(self.n_added.fetch_add(1, Ordering::Relaxed)),
            activity: self.activity.clone(),
        };
        // One client for both: a second one would let the plugin send twice as much as its limit says.
        let api = self.writers.writer(&identity);
        let (recorder, recording) = Recorder::start(api.clone(), recorder, metrics.clone());
        let controller = Controller::new(ControllerParts {
            config: config.into(),
            reader: self.reader.clone(),
            writer: Writer {
                name: name.clone(),
                api,
                grants: Grants::new(&manifest.grants, options.grants.as_deref()),
                recorder,
                metrics: metrics.clone(),
            },
            declared,
            metrics,
            queues: manifest
                .queues
                .iter()
                .zip(workers.into_iter().zip(resyncs))
                .map(|(queue, (concurrency, resync))| LaneParts {
                    metrics: self.metrics.queue(&queue.name),
                    concurrency,
                    resync,
                })
                .collect(),
            clock: self.config.clock.clone(),
            stale_bound: self.config.stale_bound,
            activity: self.activity.clone(),
            guest,
        });
        let plugin = Plugin { controller, manifest, recorder: recording };
        if plugins.running {
            self.start(&plugin);
        }
        plugins.by_name.insert(name, plugin);
        Ok(())
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
                    self.start(plugin);
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
            std::mem::take(&mut plugins.by_name)
        };
        futures::future::join_all(plugins.into_values().map(|plugin| self.stop(plugin))).await;
    }

    fn start(&self, plugin: &Plugin) {
        let subscription = self.caches.subscribe(plugin.manifest.clone(), plugin.controller.handler());
        plugin.controller.start(Arc::new(Subscribed { caches: self.caches.clone(), subscription }));
    }

    async fn stop(&self, plugin: Plugin) {
        let Plugin { controller, manifest, mut recorder } = plugin;
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

    /// The shared caches.
    pub fn caches(&self) -> &Arc<Caches> {
        &self.caches
    }
}

fn has_queue(manifest: &Manifest, name: &str) -> bool {
    manifest.queues.iter().any(|queue| queue.name == name)
}

fn known_queues(manifest: &Manifest) -> String {
    manifest.queues.iter().map(|queue| queue.name.as_str()).collect::<Vec<_>>().join(", ")
}

fn resyncs(manifest: &Manifest, given: &BTreeMap<String, Duration>) -> Result<Vec<Option<Duration>>, ManagerError> {
    if let Some((queue, period)) = given.iter().find(|(name, _)| !has_queue(manifest, name)) {
        return Err(ManagerError::Resync {
            plugin: manifest.name.clone(),
            queue: queue.clone(),
            period: *period,
            known: known_queues(manifest),
        });
    }
    let of_manifest = |ms: u32| Duration::from_millis(u64::from(ms).max(1));
    let period = |queue: &pintle_core::manifest::Queue| match given.get(&queue.name) {
        Some(period) => Some(*period).filter(|period| !period.is_zero()),
        None => queue.resync_ms.map(of_manifest),
    };
    Ok(manifest.queues.iter().map(period).collect())
}

fn workers(manifest: &Manifest, given: &BTreeMap<String, u32>) -> Result<Vec<usize>, ManagerError> {
    if let Some((queue, workers)) = given.iter().find(|(name, workers)| **workers == 0 || !has_queue(manifest, name)) {
        return Err(ManagerError::Concurrency {
            plugin: manifest.name.clone(),
            queue: queue.clone(),
            workers: *workers,
            known: known_queues(manifest),
        });
    }
    let workers =
        |queue: &pintle_core::manifest::Queue| given.get(&queue.name).copied().unwrap_or(queue.concurrency) as usize;
    Ok(manifest.queues.iter().map(workers).collect())
}

/// Reads a file that a setting names, if it is not too long.
fn read_file(path: &str) -> Result<String, String> {
    let length = std::fs::metadata(path).map_err(|why| why.to_string())?.len();
    if length > settings::MAX_FILE_BYTES as u64 {
        return Err(format!("it has {length} bytes, more than {}", settings::MAX_FILE_BYTES));
    }
    std::fs::read_to_string(path).map_err(|why| why.to_string())
}
