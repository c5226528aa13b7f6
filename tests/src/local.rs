//! A host in this process, for tests that need its manager or a guest that is not a component.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Result;
use futures::FutureExt as _;
use pintle_kube::{Connection, Source};
use pintle_runtime::manager::{Manager, ManagerConfig};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// A running manager without plugins, without a client rate limit. Dropping it ends the manager.
pub struct LocalHost {
    /// The manager.
    pub manager: Arc<Manager>,
    stop: oneshot::Sender<()>,
    running: JoinHandle<()>,
}

impl LocalHost {
    /// Starts a manager on the cluster of a kubeconfig file, in the current runtime.
    ///
    /// # Errors
    /// The kubeconfig cannot be used.
    pub async fn start(kubeconfig: PathBuf) -> Result<LocalHost> {
        let connection = Connection::open(&Source::File { path: kubeconfig, context: None }).await?;
        let config = ManagerConfig { qps: None, ..ManagerConfig::default() };
        let manager = Arc::new(Manager::new(connection.reader(), Arc::new(connection.clone()), config));
        connection.observe(manager.request_observer());
        let (stop, stopped) = oneshot::channel::<()>();
        let running = manager.clone();
        let running = tokio::spawn(async move { running.run(stopped.map(drop)).await });
        Ok(LocalHost { manager, stop, running })
    }

    /// Stops the manager, and waits.
    ///
    /// # Errors
    /// It panicked.
    pub async fn stop(self) -> Result<()> {
        drop(self.stop);
        Ok(self.running.await?)
    }
}
