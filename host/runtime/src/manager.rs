//! The plugins of one host: loads, runs and stops them.
//!
//! ```text
//! Manager ──add, apply──> Controller (one for each plugin, of one Version at a time) ──subscribe──> Caches (shared)
//! ```
//!
//! Invariants:
//! 1. No plugin runs before [`Manager::run`], or after it has returned.
//! 2. With fences ([`ManagerConfig::fences`]), the plugins of a group run only between [`Manager::lead`] and
//!    [`Manager::stand_by`].
//! 3. Each plugin has its own API client; its events and mutations share one rate limit, as upstream.
//!
//! Not here: leader election (`election`), compilation (`pintle-wasm`), the metrics endpoint; the stages of a swap are
//! in `apply`.

mod apply;
mod assemble;

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use pintle_cache::{Caches, CachesConfig};
use pintle_core::contract::manifest::Manifest;
use pintle_core::contract::settings::SettingsError;
use pintle_core::lifecycle::{ShadowReport, Spec};
use pintle_core::object::id::{Key, Kind};
use pintle_core::overview::Counters;
use pintle_core::policy::account::Accounts;
use pintle_core::policy::election::{GroupId, LastWrites};
use pintle_core::policy::grants::{Grants, Missing};
use pintle_core::policy::held::{Account, MAX_HELD_BYTES};
use pintle_core::policy::queue::Priority;
use pintle_core::ports::api::{ApiReader, ApiWriters, Fences, RequestObserver, WriteFence, WriterIdentity};
use pintle_core::ports::guest::{Guest, Loader};
use pintle_core::ports::outside::{Nothing, Outside};
use pintle_core::ports::trace::RunTracer;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::sync::{Notify, Semaphore, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::controller::{CacheSubscription, ChangeSink, Controller, ControllerParts, Version, timestamp};
use crate::failures::{self, Failures, RecordedFailure};
use crate::metrics::Metrics;
use crate::overview::Observations;
use crate::reach::ApiServerHealth;
use crate::readiness::{Outage, Starting, StartupGate};
use crate::recorder::{Recorder, RecorderConfig};
use crate::writer::Writer;

pub use self::apply::{Component, SwapError};
pub use crate::controller::{FaultingKey, KeyContents, MAX_KEYS, PluginStatus, QueueContents, QueueStatus, Uptime};
pub use crate::recorder::WallClock;

/// Configuration of all plugins of a host.
#[derive(Clone)]
pub struct ManagerConfig {
    /// Options of informers.
    pub caches: CachesConfig,
    /// Requests per second of each plugin's client; no limit if absent. Default 20, as in kube-controller-manager. Too
    /// low: writes wait in the client. Too high: the API server answers 429.
    pub qps: Option<f32>,
    /// Burst of each plugin's client. Default 30, as in kube-controller-manager.
    pub burst: u32,
    /// Time that a key waits for the caches to show its own writes before it is reported, its watches are reopened and
    /// the API server is asked about the writes. The key stays held until they are seen. Default 30 s. Too low:
    /// unnecessary requests while a watch is late. Too high: a silent watch delays the key.
    pub stale_bound: Duration,
    /// Interval between the starts of the plugins that were added before the manager runs. Default 0. A random part of
    /// it is added, as upstream.
    pub start_interval: Duration,
    /// Time limit for runs in flight at shutdown. Default 30 s; then they are abandoned.
    pub shutdown_grace: Duration,
    /// Time limit for event writes at shutdown. Default 5 s; then the events are lost.
    pub event_grace: Duration,
    /// The wall clock for plugins. Default: the system clock.
    pub clock: WallClock,
    /// The uptime of the host for plugins. Default: the time since the manager was created, by a monotonic clock.
    pub uptime: Option<Uptime>,
    /// Seed of all jitter.
    pub seed: u64,
    /// Whether a component whose spec lists no grants is granted everything that its manifest requests. Default false:
    /// such a component is loaded only if it requests no more than the version that it replaces.
    pub grant_requested: bool,
    /// The service accounts of plugins for their writes, events and live reads, like kube-controller-manager's
    /// `--use-service-account-credentials`. Default none: plugins act as the host. Informers always read as the host.
    pub accounts: Option<Accounts>,
    /// `source.component` for the events of plugins with these names. Default: none; the source is the plugin's name.
    pub event_sources: BTreeMap<String, String>,
    /// Whether a component, given its bytes, is built into the host: then its deletions are not bounded while it is
    /// new. Default: no component is.
    pub carries: Carries,
    /// Write fences of plugins. With them, the host starts on standby: see [`Manager::lead`]. Default: none, so that
    /// plugins run from the start.
    pub fences: Option<Fences>,
    /// Records runs as traces. Default: none.
    pub tracer: Option<Arc<dyn RunTracer>>,
    /// Keys, authorities and endpoints that the operator has bound for plugins. Default: none; needs for them are
    /// denied.
    pub outside: Arc<dyn Outside>,
    /// The operator's options for components that are loaded while the host runs, in addition to their spec: workers,
    /// resyncs, rate limit.
    pub tune: Tune,
}

/// Whether a component is built into the host.
pub type Carries = Arc<dyn Fn(&[u8]) -> bool + Send + Sync>;

/// Returns the options for a manifest.
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
            uptime: None,
            seed: 0,
            grant_requested: false,
            accounts: None,
            event_sources: BTreeMap::new(),
            carries: Arc::new(|_| false),
            fences: None,
            tracer: None,
            outside: Arc::new(Nothing),
            tune: Arc::new(|_| PluginOptions::default()),
        }
    }
}

/// The operator's options for one plugin.
#[derive(Clone, Debug, Default)]
pub struct PluginOptions {
    /// Settings, grants, failure policy and so on.
    pub spec: Spec,
    /// Origin of the component, for humans.
    pub origin: String,
    /// SHA-256 of the component, in hexadecimal; empty if there is none.
    pub digest: String,
    /// Workers per queue; overrides the manifest.
    pub concurrency: BTreeMap<String, u32>,
    /// Resync period per queue; overrides the manifest. Zero disables the resync.
    pub resync: BTreeMap<String, Duration>,
    /// The plugin's rate limit; overrides the host's.
    pub rate_limit: Option<RateLimit>,
    /// Whether its metrics may be shared with other plugins that set this, because built-in controllers share some.
    pub shares_metrics: bool,
    /// Whether the component is built into the host.
    pub is_carried: bool,
}

/// Rate limit of a client.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateLimit {
    /// Requests per second; no limit if absent.
    pub qps: Option<f32>,
    /// Burst.
    pub burst: u32,
}

/// A plugin cannot be added. A retry does not help.
#[derive(Debug, thiserror::Error)]
pub enum ManagerError {
    /// Another plugin has the same name.
    #[error("plugin {0:?} is already loaded; plugin names must be unique")]
    Duplicate(String),
    /// The operator does not grant the reads that its watches need.
    #[error("{0}")]
    NotGranted(String),
    /// Its configuration does not match its manifest.
    #[error("plugin {plugin:?}: {why}")]
    Settings {
        /// The plugin.
        plugin: String,
        /// The setting, and its valid values.
        why: SettingsError,
    },
    /// One of its metrics cannot be registered.
    #[error("plugin {plugin:?}: {why}")]
    Metrics {
        /// The plugin.
        plugin: String,
        /// The metric, and the problem.
        why: String,
    },
    /// Its manifest uses a mapping that the component does not export.
    #[error("plugin {0:?}: a rule of the manifest has `to: plugin`, but the component does not export `mapping`")]
    NoMapping(String),
    /// The operator sets the resync period of an unknown queue.
    #[error(
        "plugin {plugin:?}: cannot resync queue {queue:?} every {period:?}: there is no such queue; its queues are {known}"
    )]
    Resync {
        /// The plugin.
        plugin: String,
        /// The queue, as given.
        queue: String,
        /// The period, as given.
        period: Duration,
        /// The plugin's queues.
        known: String,
    },
    /// The operator sets the workers of an unknown queue, or zero workers.
    #[error(
        "plugin {plugin:?}: queue {queue:?} cannot have {workers} workers; its queues are {known}, each with at least 1"
    )]
    Concurrency {
        /// The plugin.
        plugin: String,
        /// The queue, as given.
        queue: String,
        /// The number, as given.
        workers: u32,
        /// The plugin's queues.
        known: String,
    },
}

/// The plugins of one host.
pub struct Manager {
    pub(crate) reader: Arc<dyn ApiReader>,
    pub(crate) writers: Arc<dyn ApiWriters>,
    config: ManagerConfig,
    caches: Arc<Caches>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) observations: Observations,
    reach: Arc<ApiServerHealth>,
    beginning: Mutex<StartupGate>,
    /// Uids of the `ControllerPlugin`s, by plugin.
    resource_uids: Mutex<BTreeMap<String, String>>,
    /// Digests of components that an earlier host ran without a bound on deletions, by plugin.
    proven: Mutex<BTreeMap<String, String>>,
    /// Recorders for events about plugins that do not run, by group.
    recorders: Vec<OnceLock<Recorder>>,
    idle_signal: Arc<Notify>,
    uptime: Uptime,
    failures: Arc<Failures>,
    /// The last writes in the current term of each group.
    last_writes: Vec<Arc<Mutex<LastWrites>>>,
    /// Whether runs were abandoned, possibly during a write.
    abandoned_runs: AtomicBool,
    plugins: Mutex<Plugins>,
    n_added: AtomicU64,
    loader: Mutex<Option<Arc<dyn Loader>>>,
    /// Serializes compilation: one component takes all cores.
    compiling: Arc<Semaphore>,
    changes: watch::Sender<u64>,
}

#[derive(Default)]
struct Plugins {
    running: bool,
    stopping: bool,
    /// Whether the plugins of each group may run.
    leads: Vec<bool>,
    by_name: BTreeMap<String, Plugin>,
}

struct Plugin {
    controller: Arc<Controller>,
    recorder: JoinHandle<()>,
}

impl Manager {
    /// Creates a host without plugins. Sends nothing yet.
    pub fn new(reader: Arc<dyn ApiReader>, writers: Arc<dyn ApiWriters>, config: ManagerConfig) -> Self {
        let metrics = Metrics::new();
        let n_groups = config.fences.as_ref().map_or(1, |fences| fences.groups().count());
        let leads = vec![config.fences.is_none(); n_groups];
        let caches = Caches::new(reader.clone(), config.caches.clone());
        let started = tokio::time::Instant::now();
        let uptime = config.uptime.clone().unwrap_or_else(|| Arc::new(move || started.elapsed()));
        Self {
            reach: ApiServerHealth::new(metrics.clone(), Arc::downgrade(&caches)),
            caches,
            reader,
            writers,
            config,
            metrics,
            observations: Observations::new(),
            beginning: Mutex::default(),
            resource_uids: Mutex::default(),
            proven: Mutex::default(),
            recorders: (0..n_groups).map(|_| OnceLock::new()).collect(),
            idle_signal: Arc::new(Notify::new()),
            uptime,
            failures: Failures::new(failures::MAX_BYTES),
            last_writes: (0..n_groups).map(|_| Arc::default()).collect(),
            abandoned_runs: AtomicBool::new(false),
            plugins: Mutex::new(Plugins { leads, ..Plugins::default() }),
            n_added: AtomicU64::new(0),
            loader: Mutex::new(None),
            compiling: Arc::new(Semaphore::new(1)),
            changes: watch::Sender::new(0),
        }
    }

    /// Sets the loader of components for [`Manager::apply`]; without a loader, it returns an error.
    pub fn set_loader(&self, loader: Arc<dyn Loader>) {
        *self.loader.lock() = Some(loader);
    }

    /// Adds a plugin. It starts immediately if the manager runs. Call it within a tokio runtime.
    ///
    /// # Errors
    /// [`ManagerError`]; nothing has changed.
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
        if !plugins.leads[self.group(&name).index()] {
            plugin.controller.begin_on_standby();
        }
        if plugins.running {
            self.start(&plugin.controller);
        }
        plugins.by_name.insert(name, plugin);
    }

    /// Creates a plugin that has not started yet.
    fn plugin(&self, version: Arc<Version>, rate_limit: Option<RateLimit>) -> Plugin {
        let manifest = version.manifest();
        let name = manifest.name.clone();
        let group = self.group(&name);
        let limit = rate_limit.unwrap_or(RateLimit { qps: self.config.qps, burst: self.config.burst });
        let account = self.config.accounts.as_ref().map(|accounts| accounts.of(&name));
        let identity = WriterIdentity {
            name: name.clone(),
            qps: limit.qps,
            burst: limit.burst,
            account,
            fence: self.fence(&name),
        };
        let metrics = self.metrics.plugin(&name);
        let account_of_runs = Account::new(MAX_HELD_BYTES);
        let recorder = RecorderConfig {
            component: self.config.event_sources.get(&name).unwrap_or(&name).clone(),
            clock: self.config.clock.clone(),
            seed: self.config.seed.wrapping_add(self.n_added.fetch_add(1, Ordering::Relaxed)),
            idle_signal: self.idle_signal.clone(),
            account: account_of_runs.clone(),
        };
        // One client for both: with a second client the plugin could exceed its limit.
        let client = self.writers.client(&identity);
        let api = client.writer;
        // The account of a plugin without events may not record any, but the host still records the plugin's faults.
        let telling = match manifest.events {
            true => api.clone(),
            false => self.writers.client(&WriterIdentity { account: None, ..identity.clone() }).writer,
        };
        let (recorder, recording) = Recorder::start(telling, recorder, metrics.events());
        let disabled = version.spec.disabled;
        let parts = ControllerParts {
            held: account_of_runs,
            reader: self.reader.clone(),
            live: client.reader.unwrap_or_else(|| self.reader.clone()),
            outside: self.config.outside.clone(),
            fence: identity.fence,
            writer: Writer { name, api, recorder, metrics: metrics.clone(), stopped: CancellationToken::new() },
            metrics,
            clock: self.config.clock.clone(),
            uptime: self.uptime.clone(),
            stale_bound: self.config.stale_bound,
            failures: self.failures.clone(),
            last_writes: self.last_writes[group.index()].clone(),
            caches: self.caches.clone(),
            idle_signal: self.idle_signal.clone(),
            tracer: self.config.tracer.clone(),
            changes: self.changes.clone(),
        };
        let controller = Controller::new(parts, version);
        if let Some(uid) = self.resource_uids.lock().get(controller.name()) {
            controller.set_resource_uid(uid.clone());
        }
        if disabled {
            controller.disable("its spec disables it");
        }
        Plugin { controller, recorder: recording }
    }

    /// Stops a plugin: it starts no more runs, and runs in flight end. Returns whether the plugin existed.
    ///
    /// # Cancel safety
    /// The plugin is removed even if the future is dropped.
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

    /// Runs the plugins until `shutdown`; then starts no more runs, and returns after runs in flight, their writes and
    /// events have ended (or their grace periods have passed).
    ///
    /// # Cancel safety
    /// Dropping the future leaves the plugins running.
    pub async fn run(&self, shutdown: impl Future<Output = ()>) {
        let waiting: Vec<String> = {
            let mut plugins = self.plugins.lock();
            plugins.running = true;
            plugins.by_name.keys().cloned().collect()
        };
        self.idle_signal.notify_waiters();
        let starting = async {
            let mut random = StdRng::seed_from_u64(self.config.seed);
            for (i, name) in waiting.iter().enumerate() {
                if i > 0 && !self.config.start_interval.is_zero() {
                    tokio::time::sleep(self.config.start_interval.mul_f64(random.random_range(1.0..2.0))).await;
                }
                // The plugin may have been removed meanwhile, and another one with the same name started.
                if let Some(plugin) =
                    self.plugins.lock().by_name.get(name).filter(|plugin| !plugin.controller.has_started())
                {
                    self.start(&plugin.controller);
                }
            }
            self.idle_signal.notify_waiters();
            std::future::pending::<()>().await;
        };
        tokio::select! {
            biased;
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

    /// Starts a term of leadership: every plugin of the group runs, as after a restart but with warm caches. Does
    /// nothing during a term.
    pub fn lead(&self, group: GroupId) {
        let mut plugins = self.plugins.lock();
        plugins.leads[group.index()] = true;
        *self.last_writes[group.index()].lock() = LastWrites::default();
        self.of_group(&plugins, group).for_each(|plugin| plugin.controller.lead());
    }

    /// Ends the term: the plugins of the group start no more runs. Returns after runs in flight have ended.
    ///
    /// # Cancel safety
    /// No run starts even if the future is dropped, but [`Manager::lead`] must not be called for the group then.
    pub async fn stand_by(&self, group: GroupId) {
        let controllers: Vec<Arc<Controller>> = {
            let mut plugins = self.plugins.lock();
            plugins.leads[group.index()] = false;
            self.of_group(&plugins, group).map(|plugin| plugin.controller.clone()).collect()
        };
        futures::future::join_all(controllers.iter().map(|controller| controller.stand_by())).await;
    }

    fn of_group<'a>(&'a self, plugins: &'a Plugins, group: GroupId) -> impl Iterator<Item = &'a Plugin> {
        plugins.by_name.iter().filter(move |(name, _)| self.group(name) == group).map(|(_, plugin)| plugin)
    }

    fn group(&self, plugin: &str) -> GroupId {
        self.config.fences.as_ref().map_or(GroupId::REST, |fences| fences.groups().of(plugin))
    }

    pub(crate) fn note_abandoned_runs(&self) {
        self.abandoned_runs.store(true, Ordering::Relaxed);
    }

    /// Whether runs were abandoned whose writes the API server may still execute.
    pub(crate) fn has_abandoned_runs(&self) -> bool {
        self.abandoned_runs.load(Ordering::Relaxed)
    }

    /// The last writes of the group's plugins in this term, for the next leader.
    pub(crate) fn last_writes(&self, group: GroupId) -> LastWrites {
        self.last_writes[group.index()].lock().clone()
    }

    /// Whether the caches of the plugins show these writes of another host. Plugins and kinds that this host does not
    /// have count as shown.
    pub(crate) fn sees(&self, writes: &LastWrites) -> bool {
        let plugins = self.plugins.lock();
        writes
            .iter()
            .all(|(plugin, write)| plugins.by_name.get(plugin).is_none_or(|plugin| plugin.controller.sees(write)))
    }

    /// Whether any plugins may run; always true without an election.
    pub fn leads(&self) -> bool {
        self.plugins.lock().leads.contains(&true)
    }

    /// Whether the plugin may run on this host.
    pub fn may_run(&self, plugin: &str) -> bool {
        self.plugins.lock().leads[self.group(plugin).index()]
    }

    /// The write fences; `None` without an election.
    pub fn fences(&self) -> Option<Fences> {
        self.config.fences.clone()
    }

    fn fence(&self, plugin: &str) -> Option<Arc<dyn WriteFence>> {
        self.config.fences.as_ref().map(|fences| fences.of(plugin))
    }

    fn start(&self, controller: &Arc<Controller>) {
        controller.start(self.subscribe(controller, &controller.version()));
    }

    /// Subscribes a version to the watches of its manifest. The subscription buffers changes until the version takes
    /// over.
    fn subscribe(&self, controller: &Arc<Controller>, version: &Version) -> CacheSubscription {
        let sink = ChangeSink::new(controller);
        let cache = Arc::new(self.caches.subscribe(version.manifest().clone(), sink.clone()));
        CacheSubscription { cache, sink }
    }

    async fn stop(&self, plugin: Plugin) {
        let Plugin { controller, mut recorder } = plugin;
        let manifest = controller.version().manifest().clone();
        if tokio::time::timeout(self.config.shutdown_grace, controller.stop()).await.is_err() {
            self.note_abandoned_runs();
            tracing::error!(
                plugin = manifest.name,
                "runs are still in flight after the grace period; they are abandoned"
            );
        }
        // The recorder ends when its last handle is dropped.
        drop(controller);
        if tokio::time::timeout(self.config.event_grace, &mut recorder).await.is_err() {
            tracing::warn!(plugin = manifest.name, "events are lost: they were not written within the grace period");
            recorder.abort();
        }
    }

    /// Waits until every queue is empty, no key runs, is held, or is delayed for less than `quiet`, all events are
    /// written, and all caches are synced. It does not wait for changes that are still on their way from the API
    /// server, except the plugins' own writes.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn idle(&self, quiet: Duration) {
        loop {
            let changed = self.idle_signal.notified();
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

    /// Tasks of the host that panic repeatedly or cannot be restarted. The remedy is to restart the process.
    pub fn failing(&self) -> Vec<&'static str> {
        self.caches.supervisor().failing()
    }

    /// All metrics in the OpenMetrics text format (`application/openmetrics-text; version=1.0.0`).
    pub fn metrics_text(&self) -> String {
        let _writing = self.metrics.writing();
        self.metrics.count_panics(&self.caches.supervisor().panics());
        self.metrics.refresh(&self.caches.stats());
        if let Some(tracer) = &self.config.tracer {
            self.metrics.count_spans(tracer.counts());
        }
        for plugin in self.plugins.lock().by_name.values() {
            plugin.controller.refresh_metrics();
        }
        self.metrics.text()
    }

    /// Sets the facts about the host in metrics and overviews: its version, the version of Kubernetes that it follows,
    /// the version of the API server (empty if unknown), and the feature gates that its controllers read, each with its
    /// stage (empty for general availability) and value.
    pub fn describe(&self, version: &str, kubernetes: &str, api_server: &str, features: &[(&str, &str, bool)]) {
        self.metrics.report_build(version, kubernetes, api_server);
        self.observations.set_version(version);
        for (name, stage, is_on) in features {
            self.metrics.report_feature(name, stage, *is_on);
        }
    }

    /// The observer through which API clients report requests to the host's metrics.
    pub fn request_observer(&self) -> Arc<dyn RequestObserver> {
        self.reach.clone()
    }

    /// Checks whether the API server answers.
    ///
    /// # Errors
    /// A sentence with the start of the outage. A retry may help.
    pub fn api_server_answers(&self) -> Result<(), String> {
        let Some((host, Outage { lasts, code })) = self.reach.outage() else { return Ok(()) };
        let ago = SignedDuration::try_from(lasts).unwrap_or_default();
        let since = (self.config.clock)().checked_sub(ago).unwrap_or_default().strftime("%Y-%m-%dT%H:%M:%SZ");
        let what = code.map_or_else(String::new, |code| format!(", except {code} of something before it"));
        let lasts = lasts.as_secs();
        Err(format!("the API server at {host} has not answered since {since} ({lasts} s){what}"))
    }

    /// Checks whether the caches of the plugins have synced once. A plugin that waits for a kind that the API server
    /// does not have, or refuses to list, does not count; but a built-in controller whose kinds the API server refuses
    /// to list does.
    ///
    /// # Errors
    /// A sentence with the missing plugins. A retry may help.
    pub fn caches_have_synced(&self) -> Result<(), String> {
        let plugins = self.plugins.lock();
        let plugins: Vec<_> = plugins.by_name.values().map(|plugin| plugin.controller.clone()).collect();
        let plugins: Vec<_> = plugins.iter().map(|controller| (controller.is_carried(), controller.status())).collect();
        let starting = plugins.iter().map(|(is_built_in, plugin)| Starting {
            name: &plugin.name,
            is_built_in: *is_built_in,
            synced: plugin.synced,
            missing: &plugin.missing,
        });
        let waiting = self.beginning.lock().waits_for(&starting.collect::<Vec<_>>());
        waiting.map_or(Ok(()), |waiting| Err(format!("caches are not synced yet for: {waiting}")))
    }

    /// Checks whether the host is ready to work: its API server answers, and its caches have synced once.
    ///
    /// # Errors
    /// A sentence with the missing condition. A retry may help.
    pub fn readiness(&self) -> Result<(), String> {
        self.api_server_answers()?;
        self.caches_have_synced()
    }

    /// The contents of a plugin's queues; `None` if the plugin does not exist.
    pub fn queue_contents(&self, name: &str) -> Option<Vec<QueueContents>> {
        self.controller(name).map(|controller| controller.contents())
    }

    /// Status of each plugin, by name.
    pub fn status(&self) -> Vec<PluginStatus> {
        self.plugins.lock().by_name.values().map(|plugin| plugin.controller.status()).collect()
    }

    /// The kinds of objects that plugins act on ([`Manifest::reconciled`]), without those of disabled plugins.
    pub fn reconciled(&self) -> BTreeSet<Kind> {
        let plugins = self.plugins.lock();
        let running = plugins.by_name.values().filter(|plugin| !plugin.controller.is_disabled());
        running
            .flat_map(|plugin| plugin.controller.version().manifest().reconciled().cloned().collect::<Vec<_>>())
            .collect()
    }

    /// Whether a component whose spec lists no grants is granted everything that its manifest requests.
    pub fn grants_requests(&self) -> bool {
        self.config.grant_requested
    }

    /// The operator's spec of a plugin's current version.
    pub fn spec(&self, name: &str) -> Option<Spec> {
        self.controller(name).map(|controller| controller.version().spec.clone())
    }

    /// The report of a plugin's current or last shadow run.
    pub fn diff(&self, name: &str) -> Option<ShadowReport> {
        self.controller(name).and_then(|controller| controller.shadow_report())
    }

    /// The last failed runs of a plugin, the latest first; empty for unknown plugins.
    pub fn failures(&self, name: &str) -> Vec<RecordedFailure> {
        self.failures.of(name)
    }

    /// Changes after every failed run of any plugin.
    pub fn failed(&self) -> watch::Receiver<u64> {
        self.failures.changes()
    }

    /// Enqueues keys of a plugin, like a change of their objects. Does nothing for unknown plugins.
    pub fn enqueue(&self, name: &str, keys: Vec<Key>) {
        if let Some(controller) = self.controller(name) {
            controller.enqueue(keys, Priority::Normal);
        }
    }

    /// Counts significant changes of any plugin's status: wait for the next one, then read [`Manager::status`].
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Sets the uid of the plugin's `ControllerPlugin`, so that `kubectl describe` shows events about the plugin.
    pub fn set_resource_uid(&self, name: &str, uid: &str) {
        match uid {
            "" => drop(self.resource_uids.lock().remove(name)),
            _ => drop(self.resource_uids.lock().insert(name.to_owned(), uid.to_owned())),
        }
        if let Some(controller) = self.controller(name) {
            controller.set_resource_uid(uid.to_owned());
        }
    }

    /// Disables the bound on a plugin's deletions for the next load of the component with this digest, because an
    /// earlier host has run it and no longer bounded its deletions.
    pub fn set_proven(&self, name: &str, digest: &str) {
        self.proven.lock().insert(name.to_owned(), digest.to_owned());
    }

    /// All controllers, by name.
    pub(crate) fn controllers(&self) -> Vec<Arc<Controller>> {
        self.plugins.lock().by_name.values().map(|plugin| plugin.controller.clone()).collect()
    }

    pub(crate) fn counters_of(&self, name: &str) -> Option<Counters> {
        self.controller(name).map(|controller| controller.counters())
    }

    /// The wall-clock time: RFC 3339, UTC.
    pub(crate) fn wall_clock_text(&self) -> String {
        timestamp(&self.config.clock)
    }

    fn controller(&self, name: &str) -> Option<Arc<Controller>> {
        self.plugins.lock().by_name.get(name).map(|plugin| plugin.controller.clone())
    }

    /// The shared caches.
    pub fn caches(&self) -> &Arc<Caches> {
        &self.caches
    }
}
