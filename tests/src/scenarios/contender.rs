//! Who runs the controllers in a scenario.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::ApiClient;
use crate::controlplane::{ControlPlane, free_ports};
use crate::eventually;
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

/// How long `pintle run` may take until its caches are filled.
const READY_DEADLINE: Duration = Duration::from_secs(300);

/// One of those who are compared.
#[derive(Debug, Clone)]
pub enum Contender {
    /// The real thing.
    KubeControllerManager,
    /// A `pintle` binary.
    Pintle(PathBuf),
}

/// A contender at work. Dropping it ends it at once.
#[derive(Debug)]
pub struct Running {
    /// For messages.
    pub name: &'static str,
    /// The process, for signals, usage and log.
    pub process: Guarded,
    /// Speaks to its own port.
    pub client: ApiClient,
    /// Where it says that it can work.
    pub ready_path: &'static str,
}

impl Contender {
    /// The `pintle` binary of this workspace, which must have been built.
    ///
    /// # Errors
    /// There is none.
    pub fn pintle() -> Result<Contender> {
        Ok(Contender::Pintle(crate::crash::binary()?))
    }

    /// What it is called in tables.
    pub fn name(&self) -> &'static str {
        match self {
            Contender::KubeControllerManager => "kube-controller-manager",
            Contender::Pintle(_) => "pintle",
        }
    }

    /// Starts it with [`CONTROLLERS`] against a control plane, its rate limits lifted, and waits until it is ready.
    ///
    /// # Errors
    /// It did not start; the message holds the end of its log.
    pub async fn start(&self, plane: &ControlPlane) -> Result<Running> {
        self.start_with(plane, &CONTROLLERS, &[]).await
    }

    /// As [`Contender::start`], with other controllers and more flags. It serves on a port that was free.
    ///
    /// # Errors
    /// As `start`.
    pub async fn start_with(&self, plane: &ControlPlane, controllers: &[&str], flags: &[&str]) -> Result<Running> {
        let Contender::Pintle(binary) = self else {
            let kcm = plane.start_kcm(controllers, flags).await?;
            return Ok(Running { name: self.name(), process: kcm.process, client: kcm.client, ready_path: "/healthz" });
        };
        let [port] = free_ports()?;
        let mut args = vec![
            "run".to_owned(),
            format!("--kubeconfig={}", plane.kubeconfig().display()),
            format!("--controllers={}", controllers.join(",")),
            format!("--serve=127.0.0.1:{port}"),
            "--kube-api-qps=0".to_owned(),
        ];
        args.extend(flags.iter().map(|flag| (*flag).to_owned()));
        let process = plane.start_program(self.name(), binary, &args).await.context("start pintle")?;
        let client = ApiClient::new(&format!("http://127.0.0.1:{port}"), None, None);
        let running = Running { name: self.name(), process, client, ready_path: "/readyz" };
        let ready = eventually(READY_DEADLINE, "pintle to be ready", || async {
            let answer = running.client.request("GET", running.ready_path, &[], None).await?;
            ensure!(answer.status == 200, "{}", answer.text());
            Ok(Some(()))
        })
        .await;
        ready.with_context(|| format!("the log of pintle ends with:\n{}\n", running.process.log_tail()))?;
        Ok(running)
    }
}

impl Running {
    /// Asks it to end, and waits.
    pub async fn stop(mut self) {
        self.process.stop(STOP_GRACE).await;
    }

    /// Ends it at once, without a chance to finish or to say goodbye.
    pub fn kill(mut self) {
        self.process.kill();
    }
}
