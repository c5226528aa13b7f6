//! The embedded cluster: an in-memory Kubernetes API server over real HTTP, with a controllable clock and fault
//! scripts.
//!
//! *Flow*: [`SimCluster::start`] binds a port on loopback and serves it until [`SimCluster::shutdown`].
//!
//! ```text
//! kubectl, the host under test, simulated nodes ── HTTP ──> server ──> store ──> watches
//!                                                             ^          ^
//!                                                     FaultScript     SimClock
//! ```
//!
//! *Invariants*: 1. clients access the cluster only over the wire; 2. every timestamp comes from the cluster's clock;
//! 3. of Pintle only `pintle-core` is used here.
//!
//! *Not here*: controllers, the scheduler and kubelets; they are clients. `pintle-nodes` simulates the last two.
//!
//! *Source*: kube-apiserver 1.37: status codes, reasons and objects are equal as far as controllers or kubectl depend
//! on them.

mod announced;
pub mod apply;
pub mod cause;
pub mod clock;
pub mod defaults;
pub mod discovery;
pub mod faults;
mod gate;
pub mod names;
pub mod openapi;
pub mod patch;
pub mod protobuf;
pub mod schema;
mod selector;
pub mod server;
pub mod store;
pub mod table;

use std::net::SocketAddr;
use std::sync::{Arc, Weak};

use tokio::io::DuplexStream;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::gate::Gate;
use crate::server::Connections;

pub use crate::clock::SimClock;
pub use crate::discovery::Resource;
pub use crate::faults::FaultScript;
pub use crate::server::aggregated::Aggregated;
pub use crate::server::{Notices, SimConfig, TokenKey};
pub use crate::store::{EventType, Version, WriteRecord, WriteVerb};

/// Host name of clusters in memory: `.invalid` never resolves (RFC 6761).
const IN_MEMORY: &str = "pintle.invalid";
/// Buffer size of an in-memory connection, in each direction.
const BUFFER_BYTES: usize = 64 << 10;

/// The reason why a cluster did not start.
#[derive(Debug, thiserror::Error)]
pub enum SimError {
    /// The address is in use or not local.
    #[error("cannot listen on {address}")]
    Bind {
        /// The configured address.
        address: SocketAddr,
        /// The system's error.
        #[source]
        source: std::io::Error,
    },
    /// The first objects could not be created; a bug.
    #[error("cannot fill the new cluster")]
    Bootstrap(#[source] server::status::ApiError),
}

/// A running embedded cluster.
pub struct SimCluster {
    api: Arc<server::Api>,
    /// Absent for a cluster in memory.
    address: Option<SocketAddr>,
    connections: Connections,
    serving: Option<JoinHandle<()>>,
}

/// Opens connections to a cluster within this process. Clones share the connections.
#[derive(Clone)]
pub struct Dialer {
    api: Weak<server::Api>,
    connections: Connections,
    /// The gate for its connections, if they can be held back.
    gate: Option<Arc<Gate>>,
}

impl std::fmt::Debug for Dialer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Dialer").finish_non_exhaustive()
    }
}

impl Dialer {
    /// Opens a connection.
    ///
    /// # Errors
    /// `ConnectionRefused` when the cluster has stopped.
    pub fn dial(&self) -> std::io::Result<DuplexStream> {
        let refused = || std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        let api = self.api.upgrade().filter(|_| !self.connections.stop.is_cancelled()).ok_or_else(refused)?;
        let (client, server) = tokio::io::duplex(BUFFER_BYTES);
        let Some(gate) = &self.gate else {
            self.connections.serve(api, server);
            return Ok(client);
        };
        let (near, far) = tokio::io::duplex(BUFFER_BYTES);
        self.connections.serve(api, near);
        self.connections.carry(gate::carry(server, far, Arc::clone(gate)));
        Ok(client)
    }

    /// The same dialer for connections whose bytes can be held back.
    #[must_use]
    pub fn with_gate(mut self) -> Self {
        self.gate = Some(Arc::default());
        self
    }

    /// Holds back the bytes of its connections, in both directions, until [`Dialer::release`], as a network that
    /// temporarily loses packets. Without a gate, nothing happens.
    pub fn hold(&self) {
        if let Some(gate) = &self.gate {
            gate.close();
        }
    }

    /// Ends [`Dialer::hold`], and delivers the held bytes.
    pub fn release(&self) {
        if let Some(gate) = &self.gate {
            gate.open();
        }
    }

    /// Closes its connections, and refuses new ones.
    pub fn cut(&self) {
        self.connections.stop.cancel();
    }
}

impl SimCluster {
    /// Starts a cluster with its initial namespaces.
    ///
    /// # Errors
    /// [`SimError::Bind`] when the address cannot be used; another address helps.
    ///
    /// # Cancel safety
    /// A dropped future leaves nothing behind.
    pub async fn start(config: SimConfig) -> Result<Self, SimError> {
        let address = config.address;
        let bind = |source| SimError::Bind { address, source };
        let listener = TcpListener::bind(address).await.map_err(bind)?;
        let address = listener.local_addr().map_err(bind)?;
        let mut cluster = Self::in_memory(config)?;
        let serving = server::serve(Arc::clone(&cluster.api), listener, cluster.connections.clone());
        cluster.serving = Some(tokio::spawn(serving));
        cluster.address = Some(address);
        Ok(cluster)
    }

    /// Creates a cluster without a listener: its clients connect with [`SimCluster::dialer`]. Without sockets,
    /// everything can run on one thread in tokio's paused time.
    ///
    /// # Errors
    /// [`SimError::Bootstrap`].
    pub fn in_memory(config: SimConfig) -> Result<Self, SimError> {
        let clock = config.clock.clone();
        let api = Arc::new(server::Api::new(config, clock));
        api.bootstrap().map_err(SimError::Bootstrap)?;
        Ok(Self { api, address: None, connections: Connections::default(), serving: None })
    }

    /// A separate dialer to this cluster, whose connections can be cut independently.
    pub fn dialer(&self) -> Dialer {
        Dialer { api: Arc::downgrade(&self.api), connections: self.connections.child(), gate: None }
    }

    /// `http://127.0.0.1:PORT`, or `https://...` with TLS. A cluster in memory has a name that does not resolve.
    pub fn base_url(&self) -> String {
        let scheme = if self.api.config.tls.is_some() { "https" } else { "http" };
        match self.address {
            Some(address) => format!("{scheme}://{address}"),
            None => format!("{scheme}://{IN_MEMORY}"),
        }
    }

    /// A kubeconfig in YAML for a cluster without TLS. The token is a placeholder: kubectl prompts for a password
    /// without credentials.
    pub fn kubeconfig(&self) -> String {
        format!(
            "apiVersion: v1\nkind: Config\nclusters:\n- name: pintle\n  cluster:\n    server: {}\nusers:\n- name: pintle\n  user:\n    token: pintle\ncontexts:\n- name: pintle\n  context:\n    cluster: pintle\n    user: pintle\ncurrent-context: pintle\n",
            self.base_url()
        )
    }

    /// The fault script of this cluster.
    pub fn faults(&self) -> &FaultScript {
        &self.api.faults
    }

    /// The clock of this cluster.
    pub fn clock(&self) -> &SimClock {
        &self.api.clock
    }

    /// The last writes in order, at most [`SimConfig::history_writes`].
    pub fn history(&self) -> Vec<Arc<WriteRecord>> {
        self.api.store.history()
    }

    /// A line for each request on objects in order of arrival: time, verb, resource, object and client.
    pub fn requests(&self) -> Vec<String> {
        self.api.requests.lock().clone()
    }

    /// Number of writes since the start, including the server's own.
    pub fn n_writes(&self) -> u64 {
        self.api.store.n_writes()
    }

    /// The resourceVersion of the last write.
    pub fn resource_version(&self) -> u64 {
        self.api.store.rv()
    }

    /// Drops all events so far: watches and lists at earlier versions get 410 from now on, as after etcd's compaction.
    pub fn compact(&self) {
        self.api.store.compact(self.api.store.rv());
    }

    /// The current objects of a resource by plural name and group (empty for core), parsed.
    pub fn objects(&self, group: &str, plural: &str) -> Vec<Arc<serde_json::Value>> {
        let storage = if group.is_empty() { plural.to_owned() } else { format!("{plural}.{group}") };
        self.api.store.view(|view| view.range(&storage, None).map(|entry| Arc::clone(&entry.value)).collect())
    }

    /// Adds or replaces an object with its uid, times, status and deletion, as if it had existed before. The rest is
    /// defaulted and validated as in a create.
    ///
    /// # Errors
    /// The API server's validation error.
    pub fn restore(&self, object: serde_json::Value) -> Result<(), String> {
        self.api.restore(object).map_err(|error| error.to_string())
    }

    /// Closes every connection and stops listening.
    ///
    /// # Cancel safety
    /// The server stops in any case; a dropped future only does not wait for it.
    pub async fn shutdown(self) {
        self.connections.stop.cancel();
        // The task panics only together with the server, which the connections would have shown.
        if let Some(Err(error)) = futures::future::OptionFuture::from(self.serving).await {
            tracing::warn!(%error, "the embedded cluster did not stop in order");
        }
        self.connections.end().await;
    }
}
