//! Who runs the controllers in a scenario.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::controlplane::{ControlPlane, KubeControllerManager};
use crate::process::Guarded;

/// The controllers that both contenders run.
pub const CONTROLLERS: [&str; 7] = [
    "deployment-controller",
    "replicaset-controller",
    "replicationcontroller-controller",
    "serviceaccount-controller",
    "root-ca-certificate-publisher-controller",
    "namespace-controller",
    "garbage-collector-controller",
];

/// How long a contender may take to end when asked.
const STOP_GRACE: Duration = Duration::from_secs(10);

/// One of those who are compared.
#[derive(Debug, Clone)]
pub enum Contender {
    /// The real thing.
    KubeControllerManager,
    /// A `pintle` binary.
    Pintle(PathBuf),
}

/// A contender at work. Dropping it ends it.
#[derive(Debug)]
pub enum Running {
    /// The real thing.
    KubeControllerManager(Box<KubeControllerManager>),
    /// A `pintle run` process.
    Pintle(Guarded),
}

impl Contender {
    /// The `pintle` binary of this workspace, which must have been built.
    ///
    /// # Errors
    /// There is none.
    pub fn pintle() -> Result<Contender> {
        let binary = match std::env::var_os("PINTLE_BIN") {
            Some(path) => PathBuf::from(path),
            None => crate::target_dir().join("debug/pintle"),
        };
        let found = binary.exists();
        ensure!(found, "no {}; build it with `cargo build -p pintle`", binary.display());
        Ok(Contender::Pintle(binary))
    }

    /// What it is called in tables.
    pub fn name(&self) -> &'static str {
        match self {
            Contender::KubeControllerManager => "kube-controller-manager",
            Contender::Pintle(_) => "pintle",
        }
    }

    /// Starts it against a control plane, its rate limits lifted.
    ///
    /// # Errors
    /// It did not start; the message holds the end of its log.
    pub async fn start(&self, plane: &ControlPlane) -> Result<Running> {
        match self {
            Contender::KubeControllerManager => {
                let kcm = plane.start_kcm(&CONTROLLERS, &[]).await?;
                Ok(Running::KubeControllerManager(Box::new(kcm)))
            }
            Contender::Pintle(binary) => {
                let args = [
                    "run".to_owned(),
                    format!("--kubeconfig={}", plane.kubeconfig().display()),
                    format!("--controllers={}", CONTROLLERS.join(",")),
                    "--kube-api-qps=0".to_owned(),
                ];
                let process = plane.start_program("pintle", binary, &args).await.context("start pintle")?;
                Ok(Running::Pintle(process))
            }
        }
    }
}

impl Running {
    /// The process, for signals, usage and log.
    pub fn process(&mut self) -> &mut Guarded {
        match self {
            Running::KubeControllerManager(kcm) => &mut kcm.process,
            Running::Pintle(process) => process,
        }
    }

    /// Asks it to end, and waits.
    pub async fn stop(mut self) {
        self.process().stop(STOP_GRACE).await;
    }
}
