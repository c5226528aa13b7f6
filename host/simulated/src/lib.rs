//! A whole cluster in virtual time: the embedded API server, its clients and their clocks on one thread.
//!
//! ```text
//! run(story): one thread, tokio's clock paused: it advances to the next timer when nothing is ready
//!     host, nodes, user ── connections in memory ──> embedded API server (latencies and names from the seed)
//!            └────────────── wall clock: the start + tokio's clock ────────────┘
//! ```
//!
//! *Invariants*: 1. nothing waits for real time, and only this thread works while virtual time passes; 2. two runs with
//! the same seed are identical; 3. there are no sockets: a client that opens one panics.
//!
//! *Not here*: hosts and users, which are clients started by a story. Faults: [`pintle_sim::FaultScript`].
//!
//! *Source*: the idea is that of FoundationDB's simulation. turmoil and madsim simulate hosts and their network: the
//! former needs its own sockets in every client, the latter replaces tokio; here all clients already accept a
//! connector.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use pintle_kube::{ConnectError, Connection, Dial, Source};
use pintle_nodes::{Clock, Connect, SimNodes, SimNodesConfig, SimNodesError};
use pintle_sim::{Aggregated, Dialer, FaultScript, SimClock, SimCluster, SimConfig, SimError};

/// Start time of every simulation: noon of the first of July 2026, UTC.
pub const START: Timestamp = Timestamp::constant(1_782_907_200, 0);

/// Default limit of a message's latency.
const LATENCY: Duration = Duration::from_millis(5);

/// Runs a story in virtual time, which advances only when everything waits for it.
///
/// # Panics
/// When the story panics; when the story has started work on another thread; or when the runtime of a thread does not
/// start.
pub fn run<T>(story: impl Future<Output = T>) -> T {
    let n_threads = Arc::new(AtomicUsize::new(0));
    let started = n_threads.clone();
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.on_thread_start(move || {
        started.fetch_add(1, Ordering::Relaxed);
    });
    // Without I/O: a socket panics.
    let runtime = runtime.enable_time().start_paused(true).build().expect("a runtime of one thread starts");
    let result = runtime.block_on(story);
    let n_threads = n_threads.load(Ordering::Relaxed);
    assert_eq!(
        n_threads, 0,
        "blocking tasks end at times that no seed decides: the story has started threads for some"
    );
    result
}

/// The reason why a simulated cluster does not start. A retry does not help.
#[derive(Debug, thiserror::Error)]
pub enum SimulatedError {
    /// The API server.
    #[error("the API server")]
    Server(#[from] SimError),
    /// The connection of the nodes or of the host.
    #[error("the connection")]
    Connect(#[from] ConnectError),
    /// The nodes.
    #[error("the nodes")]
    Nodes(#[from] SimNodesError),
}

/// Configuration of a simulated cluster.
#[derive(Debug)]
pub struct Setup {
    /// Determines latencies and names.
    pub seed: u64,
    /// Largest latency of a message, in whole milliseconds. Default 5 ms.
    pub latency: Duration,
    /// APIs served in addition to the kinds of the cluster, created with its clock. Default: none.
    pub aggregated: Option<fn(SimClock) -> Arc<dyn Aggregated>>,
}

impl Setup {
    /// The default setup with this seed.
    pub fn new(seed: u64) -> Self {
        Self { seed, latency: LATENCY, aggregated: None }
    }
}

/// An API server in virtual time, with simulated nodes.
pub struct SimulatedCluster {
    /// The API server.
    pub server: SimCluster,
    /// Kept alive with the cluster.
    _nodes: Option<SimNodes>,
}

impl SimulatedCluster {
    /// Starts the API server. Call it in [`run`].
    ///
    /// # Errors
    /// [`SimulatedError::Server`].
    pub fn start(setup: Setup) -> Result<Self, SimulatedError> {
        let clock = SimClock::virtual_from(START);
        let server = SimCluster::in_memory(SimConfig {
            clock: clock.clone(),
            latency: setup.latency,
            log_requests: true,
            seed: Some(setup.seed),
            aggregated: setup.aggregated.map(|aggregated| aggregated(clock)),
            ..SimConfig::default()
        })?;
        Ok(Self { server, _nodes: None })
    }

    /// Starts nodes, with these changes to their defaults.
    ///
    /// # Errors
    /// [`SimulatedError::Connect`], [`SimulatedError::Nodes`].
    ///
    /// # Cancel safety
    /// Registered nodes stay.
    pub async fn start_nodes(&mut self, change: impl FnOnce(&mut SimNodesConfig)) -> Result<(), SimulatedError> {
        let client = self.connect().await?.0.http_client().await;
        let clock = self.server.clock().clone();
        let mut config = SimNodesConfig::new(Connect::Client(client));
        config.clock = Clock(Arc::new(move || clock.now()));
        change(&mut config);
        self._nodes = Some(SimNodes::start(config).await?);
        Ok(())
    }

    /// Opens a connection of a client with all permissions, and returns its dialer, which can cut and hold it.
    ///
    /// # Errors
    /// [`ConnectError`]; a bug.
    pub async fn connect(&self) -> Result<(Connection, Dialer), ConnectError> {
        let server = self.server.base_url().parse().expect("the address of a cluster is a URL");
        let dialer = self.server.dialer().with_gate();
        Ok((Connection::open(&Source::InProcess { server, dial: dial(&dialer) }).await?, dialer))
    }

    /// A dialer to the API server for other clients.
    pub fn dial(&self) -> Dial {
        dial(&self.server.dialer())
    }

    /// The wall clock of everything in the cluster.
    pub fn clock(&self) -> Arc<dyn Fn() -> Timestamp + Send + Sync> {
        let clock = self.server.clock().clone();
        Arc::new(move || clock.now())
    }

    /// The fault script.
    pub fn faults(&self) -> &FaultScript {
        self.server.faults()
    }

    /// The history: a line for each request and each write, with its virtual time. Two runs with the same seed are
    /// equal.
    pub fn history(&self) -> String {
        let mut text = self.server.requests().join("\n") + "\n";
        for write in self.server.history() {
            let line = (
                write.n,
                write.at.to_string(),
                &write.verb,
                &write.resource,
                write.subresource.as_deref().unwrap_or_default(),
                &write.after.key,
                &write.user_agent,
                write.after.value(),
            );
            text.push_str(&format!("{line:?}\n"));
        }
        text
    }
}

fn dial(dialer: &Dialer) -> Dial {
    let dialer = dialer.clone();
    Dial::new(move || dialer.dial())
}
