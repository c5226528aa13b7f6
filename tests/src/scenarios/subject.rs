//! The programs that scenarios compare.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::controlplane::{ControlPlane, KubeControllerManager, SUBJECT};
use crate::process::Guarded;
use crate::{ApiClient, HostProcess, pintle, workspace_dir};

/// The controllers that both subjects run: all that are built in.
pub static CONTROLLERS: LazyLock<Vec<&'static str>> = LazyLock::new(|| match built_in() {
    Ok(names) => names.into_iter().map(|name| &*name.leak()).collect(),
    Err(error) => panic!("find the built-in controllers: {error:#}"),
});

/// The names in the manifests of `plugins`, in order.
fn built_in() -> Result<Vec<String>> {
    let mut names: Vec<String> = manifests()?.into_values().collect();
    names.sort();
    Ok(names)
}

/// The names of those that `*` of `--controllers` does not include, in order.
///
/// # Errors
/// The manifests cannot be read.
pub fn off_by_default() -> Result<Vec<String>> {
    let mut names = Vec::new();
    for (file, name) in manifests()? {
        if manifest(&file)?["builtIn"]["onByDefault"] == false {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

/// The manifests of `plugins`, and the names in them.
pub(super) fn manifests() -> Result<BTreeMap<PathBuf, String>> {
    let mut names = BTreeMap::new();
    for folder in std::fs::read_dir(workspace_dir().join("plugins"))? {
        let file = folder?.path().join("manifest.yaml");
        if file.is_file() {
            let name = manifest(&file)?["name"]
                .as_str()
                .with_context(|| format!("{} has no name", file.display()))?
                .to_owned();
            names.insert(file, name);
        }
    }
    Ok(names)
}

fn manifest(file: &Path) -> Result<Value> {
    Ok(serde_norway::from_str(&std::fs::read_to_string(file)?)?)
}

/// How many Pods that have ended are left: more than all scenarios together have, but for the one about this.
pub const TERMINATED_POD_GC_THRESHOLD: usize = 100;

/// The flags of both subjects.
pub fn flags() -> [String; 7] {
    [
        "--allocate-node-cidrs=true".to_owned(),
        "--cluster-cidr=10.128.0.0/12,fd00:128::/48".to_owned(),
        "--service-cluster-ip-range=10.128.0.0/20".to_owned(),
        // Most Nodes of scenarios have no kubelets that send heartbeats.
        "--node-startup-grace-period=1h".to_owned(),
        format!("--terminated-pod-gc-threshold={TERMINATED_POD_GC_THRESHOLD}"),
        "--horizontal-pod-autoscaler-sync-period=1s".to_owned(),
        "--horizontal-pod-autoscaler-downscale-stabilization=15s".to_owned(),
    ]
}

/// How long a subject may take to end when it is asked to.
const STOP_GRACE: Duration = Duration::from_secs(300);

/// One of the programs that are compared.
#[derive(Debug, Clone)]
pub enum Subject {
    /// The reference.
    KubeControllerManager,
    /// A `pintle` binary.
    Pintle(PathBuf),
}

/// A running subject. Dropping it ends it at once.
#[derive(Debug)]
pub struct Running {
    /// For messages.
    pub name: &'static str,
    /// A client of its own address.
    pub client: ApiClient,
    /// The path of that address which answers 200 once it is ready.
    pub ready_path: &'static str,
    process: Process,
}

#[derive(Debug)]
enum Process {
    KubeControllerManager(Guarded),
    Pintle(HostProcess),
}

impl Subject {
    /// The `pintle` binary under test.
    ///
    /// # Errors
    /// There is none.
    pub fn pintle() -> Result<Subject> {
        Ok(Subject::Pintle(pintle::binary()?))
    }

    /// Its name in tables.
    pub fn name(&self) -> &'static str {
        match self {
            Subject::KubeControllerManager => "kube-controller-manager",
            Subject::Pintle(_) => "pintle",
        }
    }

    /// Starts it with [`CONTROLLERS`] and [`flags`] against a control plane, without client rate limits, and waits until it is ready.
    ///
    /// # Errors
    /// It did not start. The message contains the end of its log.
    pub async fn start(&self, plane: &ControlPlane) -> Result<Running> {
        self.start_with(plane, &CONTROLLERS, &flags().each_ref().map(String::as_str)).await
    }

    /// As [`Subject::start`], with other controllers and more flags.
    ///
    /// # Errors
    /// As `start`.
    pub async fn start_with(&self, plane: &ControlPlane, controllers: &[&str], flags: &[&str]) -> Result<Running> {
        let kubeconfig = std::fs::read_to_string(plane.kubeconfig_for(SUBJECT))?;
        self.start_as(plane, &kubeconfig, controllers, flags).await
    }

    /// As [`Subject::start_with`], with the text of another kubeconfig than that of the control plane.
    ///
    /// # Errors
    /// As `start`.
    pub async fn start_as(
        &self,
        plane: &ControlPlane,
        kubeconfig: &str,
        controllers: &[&str],
        flags: &[&str],
    ) -> Result<Running> {
        let name = self.name();
        let Subject::Pintle(binary) = self else {
            let file = plane.folder().join("subject.kubeconfig");
            std::fs::write(&file, kubeconfig)?;
            let file = format!("--kubeconfig={}", file.display());
            let flags: Vec<&str> = flags.iter().copied().chain([&*file]).collect();
            let KubeControllerManager { process, client } = plane.start_kcm(controllers, &flags).await?;
            let process = Process::KubeControllerManager(process);
            return Ok(Running { name, client, ready_path: "/healthz", process });
        };
        let mut all = vec![HostProcess::controllers(controllers)];
        all.extend(plane.signing_flags());
        all.extend(flags.iter().map(|flag| (*flag).to_owned()));
        let mut host = HostProcess::start_binary(binary, kubeconfig, &all)?;
        let client = host.ready().await?;
        Ok(Running { name, client, ready_path: "/readyz", process: Process::Pintle(host) })
    }
}

impl Running {
    /// The process, for usage and log.
    pub fn process(&self) -> &Guarded {
        match &self.process {
            Process::KubeControllerManager(process) => process,
            Process::Pintle(host) => &host.process,
        }
    }

    /// Asks it to end, and waits.
    pub async fn stop(self) {
        match self.process {
            Process::KubeControllerManager(mut process) => drop(process.stop(STOP_GRACE).await),
            Process::Pintle(host) => host.stop().await,
        }
    }

    /// Ends it at once, by SIGKILL.
    pub fn kill(self) {
        drop(self.process);
    }
}

/// The metrics of a subject, as text.
///
/// # Errors
/// It does not answer.
pub async fn metrics(client: &ApiClient) -> Result<String> {
    let answer = client.request("GET", "/metrics", &[], None).await?;
    ensure!(answer.status == 200, "/metrics answers {}", answer.status);
    Ok(answer.text())
}

/// Queue -> value of each sample of a metric.
pub fn samples<'a>(text: &'a str, metric: &'a str) -> impl Iterator<Item = (&'a str, f64)> {
    text.lines().filter_map(move |line| {
        let labels = line.strip_prefix(metric)?.strip_prefix('{')?;
        let (labels, value) = labels.split_once('}')?;
        let queue = labels.split(',').find_map(|label| label.strip_prefix("name=\""))?.trim_end_matches('"');
        Some((queue, value.split_whitespace().next()?.parse().ok()?))
    })
}

/// The work queues that have keys, running ones included: those with more keys added than done.
///
/// # Errors
/// There are no work queues.
pub fn busy_queues(metrics: &str) -> Result<BTreeSet<String>> {
    let mut n_keys: BTreeMap<&str, f64> = samples(metrics, "workqueue_adds_total").collect();
    ensure!(!n_keys.is_empty(), "the metrics have no work queues");
    for (queue, n_done) in samples(metrics, "workqueue_work_duration_seconds_count") {
        *n_keys.entry(queue).or_default() -= n_done;
    }
    Ok(n_keys.into_iter().filter(|(_, n)| *n != 0.0).map(|(queue, _)| queue.to_owned()).collect())
}
