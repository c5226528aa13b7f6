//! What a kubelet does with the file of a static Pod: kube-controller-manager runs with the flags of its file, and again when that changes.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::{ControlPlane, eventually};

/// How long kube-controller-manager may take to end.
const GRACE: Duration = Duration::from_secs(60);
/// How long the file may stay as it is.
const UNCHANGED: Duration = Duration::from_secs(3600);

/// The file as kubeadm writes it, without what does not matter here.
pub const MANIFEST: &str = "apiVersion: v1
kind: Pod
metadata:
  name: kube-controller-manager
  namespace: kube-system
spec:
  containers:
  - name: kube-controller-manager
    image: registry.k8s.io/kube-controller-manager:v1.37.2
    command:
    - kube-controller-manager
    - --leader-elect=true
    - --controllers=*,bootstrapsigner,tokencleaner
  hostNetwork: true
";

/// Flags of this machine: a Lease that is kept while it is busy, and nodes that send no heartbeats.
pub const OURS: [&str; 4] = [
    "--leader-elect-lease-duration=15s",
    "--leader-elect-renew-deadline=10s",
    "--leader-elect-retry-period=2s",
    "--node-monitor-grace-period=24h",
];

/// Runs kube-controller-manager. Does not end.
///
/// # Errors
/// It does not start, or the file cannot be read.
///
/// # Cancel safety
/// Dropping the future ends it.
pub async fn kube_controller_manager(plane: &ControlPlane, file: &Path) -> Result<()> {
    let read = || std::fs::read_to_string(file).with_context(|| format!("read {}", file.display()));
    loop {
        let text = read()?;
        let (controllers, flags) = command(&text)?;
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        let mut running = plane.start_kcm(&[&controllers], &flags).await?;
        let changes = async || Ok((read()? != text).then_some(()));
        eventually(UNCHANGED, "a change of the file", changes).await?;
        running.process.stop(GRACE).await;
    }
}

/// The value of `--controllers`, and the other flags with those of this machine.
fn command(text: &str) -> Result<(String, Vec<String>)> {
    let pod: Value = serde_norway::from_str(text).context("read the static Pod")?;
    let words = pod["spec"]["containers"][0]["command"].as_array().context("no command")?;
    let flags = words.iter().skip(1).filter_map(Value::as_str);
    let (controllers, others): (Vec<&str>, Vec<&str>) = flags.partition(|flag| flag.starts_with("--controllers="));
    let controllers = controllers.first().and_then(|flag| flag.split_once('=')).context("no --controllers")?.1;
    Ok((controllers.to_owned(), others.into_iter().chain(OURS).map(str::to_owned).collect()))
}
