//! The two clusters that the script of kubectl is played on.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use pintle_nodes::{Connect, SimNodes, SimNodesConfig};
use tempfile::TempDir;

use crate::controlplane::{ControlPlane, Options};
use crate::crash::host::Lifeline;
use crate::process::Guarded;
use crate::{eventually, target_dir};

/// How long `pintle dev` may take until its kubeconfig is there, components compiled included.
const START: Duration = Duration::from_secs(300);
/// Nodes of each cluster.
const N_NODES: usize = 3;
/// How long a Pod takes to get ready.
const READY: Duration = Duration::from_millis(200);

/// `pintle dev` as a process.
#[derive(Debug)]
pub struct Dev {
    // Dropped in this order: no pid is killed that may be somebody else's.
    _lifeline: Lifeline,
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
        let args = [
            format!("--kubeconfig={}", folder.path().join("kubeconfig").display()),
            format!("--cache-dir={}", target_dir().join("kubectl-code").display()),
            format!("--nodes={N_NODES}"),
            // The real cluster does not have it.
            "--install-crd=false".to_owned(),
            format!("--ready-delay-ms={}", READY.as_millis()),
        ];
        let mut process = Guarded::part("dev", &binary()?, &args, &folder.path().join("log"))?;
        let lifeline = Lifeline::of(&process)?;
        let kubeconfig = folder.path().join("kubeconfig");
        eventually(START, "pintle dev to come up", async || {
            if process.exited().is_some() {
                anyhow::bail!("pintle dev ended:\n{}", process.log_tail());
            }
            // The file is written at once, and after everything else.
            Ok(std::fs::read_to_string(&kubeconfig).is_ok_and(|text| !text.is_empty()).then_some(()))
        })
        .await?;
        Ok(Dev { _lifeline: lifeline, _process: process, folder })
    }

    /// The way to the cluster.
    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("kubeconfig")
    }
}

/// A real control plane with `pintle run` and simulated nodes on it.
pub struct Real {
    /// The control plane.
    pub plane: ControlPlane,
    _host: Guarded,
    _nodes: SimNodes,
}

impl Real {
    /// Starts all three.
    ///
    /// # Errors
    /// One of them did not start.
    pub async fn start() -> Result<Real> {
        let plane = ControlPlane::start(Options::default()).await?;
        let nodes = SimNodes::start(SimNodesConfig {
            n_nodes: N_NODES,
            ready_delay: READY,
            ..SimNodesConfig::new(Connect::KubeconfigFile(plane.kubeconfig()))
        })
        .await
        .context("start the nodes")?;
        let args = [
            "run".to_owned(),
            format!("--kubeconfig={}", plane.kubeconfig().display()),
            "--serve=127.0.0.1:0".to_owned(),
            format!("--cache-dir={}", target_dir().join("kubectl-code").display()),
        ];
        let host = plane.start_program("pintle", &binary()?, &args).await.context("start pintle")?;
        Ok(Real { plane, _host: host, _nodes: nodes })
    }

    /// The way to the cluster.
    pub fn kubeconfig(&self) -> PathBuf {
        self.plane.kubeconfig()
    }
}

fn binary() -> Result<PathBuf> {
    let path = std::env::var_os("PINTLE_BIN").map_or_else(|| target_dir().join("debug/pintle"), PathBuf::from);
    ensure!(Path::exists(&path), "{} is not there: run `cargo xtask build` first", path.display());
    Ok(path)
}
