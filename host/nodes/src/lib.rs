//! Simulated nodes: a client that acts as the kubelet (and optionally as the scheduler) for every Pod of a cluster.
//!
//! ```text
//! watch Pods -> pod::ObservedPod -> Machine (decides, no I/O) -> Write -> bounded pool of requests -> API server
//!                                     |        ^----------- outcome ---------------------'
//!                     behaviour (annotations, program) -> containers (over time) -> report (status)
//! ```
//!
//! Invariants:
//! 1. [`Machine`] has no I/O and no clock: time is an argument of every call.
//! 2. At most one write per Pod is in flight, and at most [`SimNodesConfig::n_in_flight`] in all.
//! 3. Container behaviour depends only on the Pod and the time. After a restart it continues from the Pods' statuses,
//!    to the second.
//! 4. Only Pods bound to this set's nodes get a status, and a write carries the Pod's uid.
//!
//! Not here: knowledge of the embedded server; the nodes use HTTP and work with any API server.
//!
//! Source: kubelet's `status_manager.go` and kwok's Pod stages, for the visible life of a Pod.

mod behaviour;
mod client;
mod containers;
mod fields;
mod machine;
pub mod metrics;
mod node;
mod pod;
mod program;
mod quantity;
mod register;
mod report;
mod requests;
mod run;
mod scheduler;
mod storage;
mod time;
mod volumes;
mod watch;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub use behaviour::Behaviour;
pub use client::TargetError;
pub use client::{ApiClient, ClientError};
pub use machine::{Machine, MachineConfig, Nodes, Outcome};
pub use node::ObservedNode;
pub use pod::ObservedPod;
pub use requests::Write;

/// The address of the API server.
#[derive(Clone)]
pub enum Connect {
    /// Plain HTTP without credentials, for example `http://127.0.0.1:8080`.
    Endpoint(String),
    /// A kubeconfig file; its current context is used.
    KubeconfigFile(PathBuf),
    /// The text of a kubeconfig.
    Kubeconfig(String),
    /// A connected client.
    Client(kube::Client),
}

impl fmt::Debug for Connect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Endpoint(url) => f.debug_tuple("Endpoint").field(url).finish(),
            Self::KubeconfigFile(path) => f.debug_tuple("KubeconfigFile").field(path).finish(),
            // It may contain credentials.
            Self::Kubeconfig(_) => f.write_str("Kubeconfig(..)"),
            Self::Client(_) => f.write_str("Client(..)"),
        }
    }
}

/// Configuration of [`SimNodes`].
#[derive(Debug, Clone)]
pub struct SimNodesConfig {
    /// The API server.
    pub connect: Connect,
    /// Number of nodes; default 3. Above some hundreds, heartbeats become expensive.
    pub n_nodes: usize,
    /// Prefix of node names, followed by a number; default `sim-node-`. Two sets on one cluster need different prefixes.
    pub name_prefix: String,
    /// Whether to also simulate Nodes that other clients create with the label `sim.pintle.dev/node: "true"`; default
    /// true. Only one of several sets on a cluster may have this.
    pub adopt: bool,
    /// Whether to bind PersistentVolumeClaims, and to provision volumes for StorageClasses with any provisioner;
    /// default false. Set it to true if neither kube-controller-manager nor a provisioner does.
    pub volumes: bool,
    /// Whether to bind unbound Pods round robin, as a trivial scheduler; default true. Set it to false next to a real
    /// scheduler.
    pub bind: bool,
    /// Delay from binding to Running and Ready; default zero.
    pub ready_delay: Duration,
    /// Delay from deletion to the Pod's end, at most its grace period; default zero.
    pub stop_delay: Duration,
    /// First and longest restart backoff of a container; default 1 s and 30 s, a tenth of a kubelet's.
    pub back_off: (Duration, Duration),
    /// Most writes in flight; default 64. Fewer are slower; more crowd out other clients.
    pub n_in_flight: usize,
    /// Interval of lease renewal per node; default 10 s. `None` keeps no leases, so a node lifecycle controller marks the
    /// nodes as not ready.
    pub heartbeat: Option<Duration>,
    /// Allocatable Pods per node; default 10,000, because a simulated Pod costs little.
    pub n_pods_per_node: u32,
    /// The clock of all timestamps; default: the system's. Delays use tokio's clock.
    pub clock: Clock,
}

/// A wall clock.
#[derive(Clone)]
pub struct Clock(pub Arc<dyn Fn() -> Timestamp + Send + Sync>);

impl Default for Clock {
    fn default() -> Self {
        Self(Arc::new(Timestamp::now))
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Clock").field(&(self.0)()).finish()
    }
}

impl SimNodesConfig {
    /// The default configuration for this API server.
    pub fn new(connect: Connect) -> Self {
        Self {
            connect,
            n_nodes: 3,
            name_prefix: "sim-node-".to_owned(),
            adopt: true,
            volumes: false,
            bind: true,
            ready_delay: Duration::ZERO,
            stop_delay: Duration::ZERO,
            back_off: (Duration::from_secs(1), Duration::from_secs(30)),
            n_in_flight: 64,
            heartbeat: Some(Duration::from_secs(10)),
            n_pods_per_node: 10_000,
            clock: Clock::default(),
        }
    }

    fn node_names(&self) -> Vec<String> {
        (0..self.n_nodes).map(|index| format!("{}{index}", self.name_prefix)).collect()
    }
}

/// Reasons why the nodes could not start.
#[derive(Debug, thiserror::Error)]
pub enum SimNodesError {
    /// The kubeconfig or the endpoint is unusable.
    #[error("read the API server's address")]
    Target(#[source] TargetError),
    /// A node could not be registered.
    #[error("register node {name}")]
    Register {
        /// The node's name.
        name: String,
        /// The cause.
        #[source]
        source: ClientError,
    },
}

/// Counters of completed work, readable while the nodes run.
#[derive(Debug, Default)]
pub struct SimNodesStats {
    binds: AtomicU64,
    statuses: AtomicU64,
    deletes: AtomicU64,
    failures: AtomicU64,
}

impl SimNodesStats {
    /// Pods bound.
    pub fn n_binds(&self) -> u64 {
        self.binds.load(Ordering::Relaxed)
    }

    /// Pod statuses written.
    pub fn n_statuses(&self) -> u64 {
        self.statuses.load(Ordering::Relaxed)
    }

    /// Pods whose deletion was finished.
    pub fn n_deletes(&self) -> u64 {
        self.deletes.load(Ordering::Relaxed)
    }

    /// Writes that failed or got no response.
    pub fn n_failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }
}

/// Running simulated nodes. Dropping the handle stops them at the next await point.
#[derive(Debug)]
pub struct SimNodes {
    cancel: CancellationToken,
    tasks: Vec<JoinHandle<()>>,
    stats: Arc<SimNodesStats>,
    names: Vec<String>,
}

impl SimNodes {
    /// Registers the nodes, each Ready, and starts to simulate kubelets.
    ///
    /// # Errors
    /// `Target` when the address is unusable, `Register` when the server rejects a node or stays unreachable for
    /// several attempts; a retry may help.
    pub async fn start(config: SimNodesConfig) -> Result<Self, SimNodesError> {
        let client = ApiClient::new(&config.connect).await.map_err(SimNodesError::Target)?;
        let names = config.node_names();
        register::all(&client, &config, &names).await?;
        let cancel = CancellationToken::new();
        let stats = Arc::new(SimNodesStats::default());
        let (publish, nodes) = tokio::sync::watch::channel(Arc::new(Nodes::new()));
        let of_pods = run::pods(client.clone(), config.clone(), nodes.clone(), Arc::clone(&stats), cancel.clone());
        let of_nodes = register::follow(client.clone(), config.clone(), publish, cancel.clone());
        let mut tasks = vec![tokio::spawn(of_pods), tokio::spawn(of_nodes)];
        if config.volumes {
            tasks.push(tokio::spawn(storage::follow(client.clone(), cancel.clone())));
        }
        if let Some(interval) = config.heartbeat {
            tasks.push(tokio::spawn(register::heartbeats(client, nodes, interval, config.clock, cancel.clone())));
        }
        Ok(Self { cancel, tasks, stats, names })
    }

    /// Names of the nodes.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The counters so far.
    pub fn stats(&self) -> &SimNodesStats {
        &self.stats
    }

    /// Stops, and waits until no task is running. Node objects stay.
    ///
    /// # Cancel safety
    /// After the future is dropped, the tasks still stop.
    pub async fn stop(mut self) {
        self.cancel.cancel();
        for task in std::mem::take(&mut self.tasks) {
            // A task that panicked has already stopped.
            let _ = task.await;
        }
    }
}

impl Drop for SimNodes {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}
