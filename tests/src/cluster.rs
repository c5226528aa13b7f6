//! The cluster of a test: an embedded one, or a real control plane, with simulated nodes if the test wants them.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use pintle_nodes::{Connect, SimNodes, SimNodesConfig};
use pintle_sim::{SimClock, SimCluster, SimConfig};
use tempfile::TempDir;

use crate::metrics_api::{EmbeddedMetrics, MetricsApi};
use crate::{ApiClient, ControlPlane, HostProcess, Options};

/// A running cluster. Dropping it ends its processes and removes its data.
pub struct TestCluster {
    /// Has all permissions.
    pub client: ApiClient,
    nodes: Option<SimNodes>,
    server: Server,
}

enum Server {
    Embedded(SimCluster, TempDir),
    Real(Box<ControlPlane>),
}

impl TestCluster {
    /// Starts the embedded cluster in this process.
    ///
    /// # Errors
    /// The system does not let it start.
    pub async fn embedded() -> Result<TestCluster> {
        let server = SimCluster::start(SimConfig {
            aggregated: Some(Arc::new(EmbeddedMetrics(SimClock::real()))),
            ..SimConfig::default()
        })
        .await?;
        let folder = tempfile::tempdir().context("make a folder for the kubeconfig")?;
        std::fs::write(folder.path().join("kubeconfig"), server.kubeconfig()).context("write the kubeconfig")?;
        let client = ApiClient::new(&server.base_url(), None, None);
        Ok(TestCluster { client, nodes: None, server: Server::Embedded(server, folder) })
    }

    /// Starts a real control plane.
    ///
    /// # Errors
    /// As [`ControlPlane::start`].
    pub async fn real() -> Result<TestCluster> {
        Self::real_with(Options::default()).await
    }

    /// Starts a real control plane with these options.
    ///
    /// # Errors
    /// As [`ControlPlane::start`].
    pub async fn real_with(options: Options) -> Result<TestCluster> {
        let plane = ControlPlane::start(options).await?;
        Ok(TestCluster { client: plane.client(), nodes: None, server: Server::Real(Box::new(plane)) })
    }

    /// Starts nodes, with these changes of their defaults.
    ///
    /// # Errors
    /// They do not start.
    pub async fn with_nodes(mut self, change: impl FnOnce(&mut SimNodesConfig)) -> Result<TestCluster> {
        let mut config = SimNodesConfig::new(Connect::KubeconfigFile(self.kubeconfig()));
        change(&mut config);
        self.nodes = Some(SimNodes::start(config).await.context("start the nodes")?);
        Ok(self)
    }

    /// The kubeconfig file of a user that has all permissions.
    pub fn kubeconfig(&self) -> PathBuf {
        match &self.server {
            Server::Embedded(_, folder) => folder.path().join("kubeconfig"),
            Server::Real(plane) => plane.kubeconfig(),
        }
    }

    /// Starts the binary under test on this cluster.
    ///
    /// # Errors
    /// There is no binary, or it cannot be started.
    pub fn host(&self, flags: &[String]) -> Result<HostProcess> {
        HostProcess::start(&std::fs::read_to_string(self.kubeconfig()).context("read the kubeconfig")?, flags)
    }

    /// Serves custom and external metrics as long as the value lives. The embedded cluster does so without it.
    ///
    /// # Errors
    /// As [`MetricsApi::start`].
    pub async fn serve_metrics(&self) -> Result<Option<MetricsApi>> {
        match &self.server {
            Server::Embedded(..) => Ok(None),
            Server::Real(_) => MetricsApi::start(self.client.clone()).await.map(Some),
        }
    }

    /// The control plane.
    ///
    /// # Errors
    /// The cluster is embedded.
    pub fn plane(&self) -> Result<&ControlPlane> {
        match &self.server {
            Server::Real(plane) => Ok(plane),
            Server::Embedded(..) => bail!("the cluster is embedded"),
        }
    }

    /// Stops everything in order.
    pub async fn stop(self) {
        if let Some(nodes) = self.nodes {
            nodes.stop().await;
        }
        match self.server {
            Server::Embedded(server, _) => server.shutdown().await,
            Server::Real(plane) => plane.stop().await,
        }
    }
}
