//! A running host: one API server, many plugins.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use jiff::Timestamp;
use pintle_core::contract::manifest::Manifest;
use pintle_core::kubernetes;
use pintle_core::lifecycle::Spec;
use pintle_core::ports::api::Fences;
use pintle_core::ports::trace::RunTracer;
use pintle_kube::Connection;
use pintle_oci::Fetcher;
use pintle_runtime::election::BootClock;
use pintle_runtime::manager::{Manager, ManagerConfig, PluginOptions, RateLimit, WallClock};
use pintle_sources::control::{Base, Control};
use pintle_sources::{Claims, FollowedFile, Signature};
use tokio_util::task::AbortOnDropHandle;
use uuid::Uuid;

use crate::builtins::Catalogue;
use crate::cli::PluginArgs;
use crate::flags::controllers::Tuning;
use crate::plugins;
use crate::plugins::{Choice, Chosen, SharedEngine};
use crate::serve::{Ports, Serving};

/// Inputs of a host from the machine, in addition to its arguments.
pub struct Surroundings {
    /// The wall clock. Delays use tokio's clock.
    pub clock: WallClock,
    /// A clock that includes the time of a suspended machine.
    pub since_boot: BootClock,
    /// Seed of all jitter.
    pub seed: u64,
    /// Suffix of the identity in elections, after the machine's name.
    pub uuid: Uuid,
    /// The plugin engine. Default: one built from the arguments of the host.
    pub engine: Option<Arc<SharedEngine>>,
}

impl Default for Surroundings {
    /// The surroundings of a process.
    fn default() -> Self {
        let uuid = Uuid::new_v4();
        Self {
            clock: Arc::new(Timestamp::now),
            since_boot: Arc::new(since_boot),
            seed: uuid.as_u64_pair().1,
            uuid,
            engine: None,
        }
    }
}

/// The time since boot, including suspension.
fn since_boot() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let nanos = u32::try_from(time.tv_nsec).unwrap_or(0);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), nanos)
}

impl Surroundings {
    /// The identity of the host in elections, as kube-controller-manager's: the machine or Pod, and a unique suffix.
    pub fn identity(&self) -> String {
        let host = sysinfo::System::host_name().unwrap_or_else(|_| "unknown".to_owned());
        format!("{host}_{}", self.uuid)
    }
}

/// Differences between hosts other than their plugins. By default, plugins act as the host, without an election and
/// traces.
#[derive(Default)]
pub struct Wiring {
    /// Signature of the host in statuses.
    pub signature: Signature,
    /// Whether plugins have their own service accounts.
    pub own_accounts: bool,
    /// Time limits for the writes of plugins.
    pub fences: Option<Fences>,
    /// Records runs.
    pub tracer: Option<Arc<dyn RunTracer>>,
    /// The wall clock, if not the system's.
    pub clock: Option<WallClock>,
    /// Seed of all jitter.
    pub seed: u64,
}

/// A host that is connected to an API server and not running yet.
pub struct Host {
    /// Runs the plugins.
    pub manager: Arc<Manager>,
    /// Decides which component runs under each plugin name.
    pub control: Arc<Control>,
    /// Pulls components from registries.
    pub fetcher: Fetcher,
    /// Files of settings that the host follows.
    pub followed: Vec<FollowedFile>,
    /// Signature of the host in statuses.
    pub signature: Signature,
    /// Ports for probes and metrics.
    pub serving: Serving,
    _observing: AbortOnDropHandle<()>,
}

impl Host {
    /// Connects the parts, and starts to serve probes and metrics. Plugins with a claimed name are not added: they run
    /// when the source that claims the name releases it. With fences, the host starts on standby.
    pub async fn new(
        connection: &Connection,
        choice: Choice,
        claims: &Claims,
        args: &PluginArgs,
        ports: Ports<'_>,
        Wiring { signature, own_accounts, fences, tracer, clock, seed }: Wiring,
    ) -> anyhow::Result<Self> {
        let limit =
            RateLimit { qps: (args.kube_api_qps > 0.0).then_some(args.kube_api_qps), burst: args.kube_api_burst };
        let tuning = choice.tuning;
        let features = tuning.features();
        let defaults = ManagerConfig::default();
        let config = ManagerConfig {
            clock: clock.unwrap_or_else(|| defaults.clock.clone()),
            seed,
            qps: limit.qps,
            burst: limit.burst,
            start_interval: args.controller_start_interval,
            grant_requested: args.grant_requested,
            carries: Arc::new(plugins::carries),
            tune: Arc::new(move |manifest| options(&tuning, manifest, limit)),
            shutdown_grace: args.controller_shutdown_timeout,
            fences,
            tracer,
            outside: Arc::new(choice.outside),
            accounts: own_accounts.then(|| Catalogue::carried().accounts()),
            event_sources: Catalogue::carried().event_sources(),
            ..defaults
        };
        let tune = config.tune.clone();
        let manager = Arc::new(Manager::new(connection.reader(), Arc::new(connection.clone()), config));
        let features: Vec<_> = features.iter().map(|(name, (stage, is_on))| (*name, *stage, *is_on)).collect();
        let api_server = choice.api_server.unwrap_or_default();
        manager.describe(env!("CARGO_PKG_VERSION"), kubernetes::VERSION, &api_server, &features);
        let loader = Arc::new(choice.engine);
        manager.set_loader(loader.clone());
        connection.observe(manager.request_observer());
        let control = Control::new(manager.clone(), loader, choice.fetcher.trust().clone());
        let control = control.carrying(plugins::builtins().collect()).excluding(choice.excluded);
        let control = Arc::new(control.not_starting(choice.not_started));
        for Chosen { guest, settings, origin, digest, label, bytes } in choice.plugins {
            let name = guest.manifest().name.clone();
            let is_carried = label == Base::BUILT_IN;
            let base = Base {
                label,
                origin: origin.clone(),
                bytes,
                spec: Spec { config: settings.clone(), ..Spec::default() },
                settings: settings.as_object().cloned().unwrap_or_default(),
            };
            if let Some(source) = claims.of(&name) {
                tracing::info!(
                    plugin = name,
                    origin,
                    "does not start: the {} provides or disables it (--start-claimed starts it anyway)",
                    source.noun(),
                );
                control.started(&name, base);
                control.claim(&name, source);
                continue;
            }
            let spec = base.spec.clone();
            let options = PluginOptions { spec, origin, digest, is_carried, ..tune(guest.manifest()) };
            manager.add(guest, options).with_context(|| format!("start plugin {name}"))?;
            control.started(&name, base);
        }
        let serving = Serving::start(ports, &manager, connection, args).await?;
        let observed = manager.clone();
        let observing = AbortOnDropHandle::new(tokio::spawn(async move { observed.observe().await }));
        let (fetcher, followed) = (choice.fetcher, choice.followed);
        Ok(Self { manager, control, fetcher, followed, signature, serving, _observing: observing })
    }
}

/// Options of a plugin from the flags and the built-in manifests, whenever it is loaded.
fn options(tuning: &Tuning, manifest: &Manifest, limit: RateLimit) -> PluginOptions {
    if let Some(why) = Catalogue::carried().ignored(manifest) {
        tracing::warn!(plugin = manifest.name, "{why}");
    }
    tuning.options(manifest, limit)
}
