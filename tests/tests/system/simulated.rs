//! Whole clusters in virtual time: the host that `pintle run` runs, with its built-in controllers, on one thread.
//!
//! ```text
//! seed ──> Simulation: embedded API server, nodes, hosts ──> scenarios: equal to the records of kube-controller-manager
//!                                                       └──> stories: the rules hold whatever goes wrong
//! ```
//!
//! The commit decides the seed, so that a result can be repeated, or `SEED` in the environment; a failure prints it.

mod scenarios;
mod stories;

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Result, bail};
use pintle::cli::{Command, RunArgs};
use pintle::host::Surroundings;
use pintle::plugins::SharedEngine;
use pintle_sim::{Aggregated, Dialer, SimClock};
use pintle_simulated::{Setup, SimulatedCluster};
use pintle_tests::metrics_api::EmbeddedMetrics;
use pintle_tests::scenarios::sample::seed;
use pintle_tests::scenarios::subject;
use pintle_tests::{ApiClient, HostProcess, target_dir};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use tempfile::TempDir;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use uuid::Uuid;

/// What all simulations share.
struct Shared {
    /// Those that no simulation uses. Two of them at once would wait for each other's calls, whatever virtual time passes.
    engines: Mutex<Vec<Arc<SharedEngine>>>,
    /// The certificate authority that is published in namespaces.
    root_ca: String,
    folder: TempDir,
    seed: u64,
}

impl Shared {
    fn new() -> Result<Shared> {
        let folder = tempfile::tempdir()?;
        let root_ca = rcgen::generate_simple_self_signed(vec!["embedded".to_owned()])?.cert.pem();
        std::fs::write(folder.path().join("ca.crt"), &root_ca)?;
        let seed = seed()?;
        let shared = Shared { engines: Mutex::default(), root_ca, folder, seed };
        // The first engine compiles the components for all.
        pintle_simulated::run(async {
            let simulation = Simulation::start(&shared, seed).await?;
            simulation.host(&subject::CONTROLLERS, &["--leader-elect=false"]).await?.stop().await
        })?;
        Ok(shared)
    }

    fn take_engine(&self) -> Result<Arc<SharedEngine>> {
        let idle = self.engines.lock().unwrap_or_else(PoisonError::into_inner).pop();
        idle.map_or_else(|| SharedEngine::new(target_dir().join("host-code")).map(Arc::new), Ok)
    }

    fn authority(&self) -> PathBuf {
        self.folder.path().join("ca.crt")
    }
}

/// A cluster and its hosts.
struct Simulation<'a> {
    shared: &'a Shared,
    engine: Arc<SharedEngine>,
    cluster: SimulatedCluster,
    client: ApiClient,
    /// Decides about everything that the cluster does not.
    random: Mutex<StdRng>,
}

/// A host that runs in a simulation.
struct Hosted {
    running: JoinHandle<Result<()>>,
    stop: oneshot::Sender<()>,
    dialer: Dialer,
}

impl Simulation<'_> {
    /// Starts a cluster with nodes. `seed` decides about everything in it.
    async fn start(shared: &Shared, seed: u64) -> Result<Simulation<'_>> {
        let aggregated: fn(SimClock) -> Arc<dyn Aggregated> = |clock| Arc::new(EmbeddedMetrics(clock));
        let mut cluster = SimulatedCluster::start(Setup { aggregated: Some(aggregated), ..Setup::new(seed) })?;
        cluster.start_nodes(|_| {}).await?;
        let client = ApiClient::in_process(&cluster.server.base_url(), cluster.dial());
        let engine = shared.take_engine()?;
        Ok(Simulation { shared, engine, cluster, client, random: Mutex::new(StdRng::seed_from_u64(seed)) })
    }

    fn random(&self) -> u64 {
        self.random.lock().unwrap_or_else(PoisonError::into_inner).random()
    }

    /// Starts a host with these controllers and flags, and waits until it runs.
    async fn host(&self, controllers: &[&str], flags: &[&str]) -> Result<Hosted> {
        let args = self.arguments(controllers, flags)?;
        let (connection, dialer) = self.cluster.connect().await?;
        let seed = self.random();
        let (clock, engine) = (self.cluster.clock(), Some(self.engine.clone()));
        let began = Instant::now();
        let since_boot = Arc::new(move || began.elapsed());
        let surroundings = Surroundings { clock, since_boot, seed, uuid: Uuid::from_u128(seed.into()), engine };
        let (stop, stopped) = oneshot::channel::<()>();
        let (start, started) = oneshot::channel::<()>();
        let running = tokio::spawn(async move {
            let stop = || {
                // Nobody waits for a host that starts beside others.
                let _ = start.send(());
                Ok(async move { drop(stopped.await) })
            };
            pintle::run::on(&args, &connection, surroundings, stop).await
        });
        match started.await {
            Ok(()) => Ok(Hosted { running, stop, dialer }),
            Err(_) => bail!("the host did not start: {:?}", running.await?),
        }
    }

    /// The arguments of a host without sockets.
    fn arguments(&self, controllers: &[&str], flags: &[&str]) -> Result<RunArgs> {
        let fixed = [
            "pintle".to_owned(),
            "run".to_owned(),
            HostProcess::controllers(controllers),
            format!("--cache-dir={}", target_dir().join("host-code").display()),
            format!("--root-ca-file={}", self.shared.authority().display()),
            "--secure-port=0".to_owned(),
            "--admin-socket=off".to_owned(),
            "--kube-api-qps=0".to_owned(),
        ];
        let all = fixed.into_iter().chain(subject::flags()).chain(flags.iter().map(|flag| (*flag).to_owned()));
        match pintle::config::parse::<pintle::cli::Cli>(all.map(Into::into)).map(|cli| cli.command) {
            Ok(Command::Run(args)) => Ok(*args),
            Ok(_) => bail!("these are not the arguments of `pintle run`"),
            Err(why) => bail!("the arguments of the host: {why:?}"),
        }
    }
}

impl Drop for Simulation<'_> {
    fn drop(&mut self) {
        self.shared.engines.lock().unwrap_or_else(PoisonError::into_inner).push(self.engine.clone());
    }
}

impl Hosted {
    /// Ends the host as a crash does: nothing that it has begun reaches the API server any more.
    fn crash(self) {
        self.dialer.cut();
        self.running.abort();
    }

    /// Stops the host in order.
    async fn stop(self) -> Result<()> {
        // It may have ended.
        let _ = self.stop.send(());
        self.running.await?
    }
}

/// Runs each of these jobs in virtual time, as many at once as there are processors. The results are in the order of the jobs.
fn all<J: Sync, R: Send>(jobs: &[J], run: impl Fn(&J) -> R + Sync) -> Vec<R> {
    let (next, results) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, NonZeroUsize::get) {
            scope.spawn(|| {
                loop {
                    let n = next.fetch_add(1, Ordering::Relaxed);
                    let Some(job) = jobs.get(n) else { return };
                    let result = run(job);
                    results.lock().unwrap_or_else(PoisonError::into_inner).push((n, result));
                }
            });
        }
    });
    let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.sort_by_key(|(n, _)| *n);
    results.into_iter().map(|(_, result)| result).collect()
}
