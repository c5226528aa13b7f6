//! The two clusters that the script of kubectl is played on.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use tempfile::TempDir;

use crate::process::Guarded;
use crate::{HostProcess, TestCluster, eventually, pintle, target_dir};

/// How long `pintle dev` may take until its kubeconfig is there, components compiled included.
const START: Duration = Duration::from_secs(900);
/// Nodes of each cluster.
const N_NODES: usize = 3;
/// How long a Pod takes to get ready.
const READY: Duration = Duration::from_millis(200);

/// `pintle dev` as a process.
#[derive(Debug)]
pub struct Dev {
    _process: Guarded,
    folder: TempDir,
}

impl Dev {
    /// Starts it and waits until it is up.
    ///
    /// # Errors
    /// There is no binary, or it did not come up; the message holds the end of its log.
    pub async fn start() -> Result<Dev> {
        let target = target_dir();
        std::fs::create_dir_all(&target).context("make the target folder")?;
        let folder = tempfile::Builder::new().prefix("kubectl-dev-").tempdir_in(target)?;
        let mut dev = pintle::command(["dev"])?;
        dev.args([
            format!("--kubeconfig={}", folder.path().join("kubeconfig").display()),
            format!("--cache-dir={}", target_dir().join("host-code").display()),
            // Several run at once.
            format!("--admin-socket={}", folder.path().join("admin.sock").display()),
            format!("--nodes={N_NODES}"),
            // The real cluster does not have it.
            "--install-crd=false".to_owned(),
            format!("--ready-delay-ms={}", READY.as_millis()),
        ]);
        let mut process = Guarded::tied("pintle dev", &mut dev, &folder.path().join("log"))?;
        let kubeconfig = folder.path().join("kubeconfig");
        eventually(START, "pintle dev to come up", async || {
            if process.exited().is_some() {
                anyhow::bail!("pintle dev ended:\n{}", process.log_tail());
            }
            // The file is written at once, and after everything else.
            Ok(std::fs::read_to_string(&kubeconfig).is_ok_and(|text| !text.is_empty()).then_some(()))
        })
        .await?;
        Ok(Dev { _process: process, folder })
    }

    /// The way to the cluster.
    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("kubeconfig")
    }

    /// The admin socket of its host.
    pub fn admin_socket(&self) -> PathBuf {
        self.folder.path().join("admin.sock")
    }

    /// What it has printed.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn log(&self) -> Result<String> {
        std::fs::read_to_string(self.folder.path().join("log")).context("read the log of pintle dev")
    }
}

/// Starts a real control plane with simulated nodes, and `pintle run` on it.
///
/// # Errors
/// One of them did not start.
pub async fn real() -> Result<(TestCluster, HostProcess)> {
    let cluster = TestCluster::real().await?.with_nodes(|nodes| {
        nodes.n_nodes = N_NODES;
        nodes.ready_delay = READY;
    });
    let cluster = cluster.await?;
    let host = cluster.host(&[])?;
    Ok((cluster, host))
}
