//! The main jobs of Pintle as three stories with a time line (`rollout`, `workloads`, `nodes`): `cargo xtask demo` builds everything and runs this.
//!
//! It starts `pintle dev`, acts as a user of the cluster, and ends with 0 only if each step was seen to happen.

mod nodes;
mod rollout;
mod time_line;
mod workloads;

use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use pintle_tests::{ApiClient, PATIENCE, eventually};

use time_line::TimeLine;

const PODS: &str = "/api/v1/namespaces/default/pods";

#[tokio::main]
async fn main() -> ExitCode {
    let Some(pintle) = std::env::args_os().nth(1).map(PathBuf::from) else {
        eprintln!("usage: demo PATH-OF-PINTLE (run `cargo xtask demo`, which builds both)");
        return ExitCode::from(2);
    };
    match story(&pintle).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("\ndemo failed: {why:#}");
            ExitCode::FAILURE
        }
    }
}

async fn story(pintle: &Path) -> Result<()> {
    let folder = tempfile::tempdir().context("make a folder for the kubeconfig")?;
    let kubeconfig = folder.path().join("kubeconfig");
    let log = folder.path().join("log");
    let line = TimeLine::start();
    line.title("start the embedded cluster and the built-in controllers");
    let mut host = tokio::process::Command::new(pintle)
        .arg("dev")
        .args(["--ready-delay-ms", "300", "--kubeconfig"])
        .arg(&kubeconfig)
        .stdout(Stdio::null())
        .stderr(std::fs::File::create(&log).context("make a log file")?)
        .kill_on_drop(true)
        .spawn()
        .with_context(|| format!("start {}", pintle.display()))?;
    let told = tell(&line, &mut host, &kubeconfig).await;
    told.map_err(|why| {
        let log = std::fs::read_to_string(&log).unwrap_or_default();
        let tail: Vec<&str> = log.lines().rev().take(20).collect();
        why.context(format!("last lines of the host's log:\n{}", tail.into_iter().rev().collect::<Vec<_>>().join("\n")))
    })?;
    line.title("done: every step was seen to happen");
    Ok(())
}

async fn tell(line: &TimeLine, host: &mut tokio::process::Child, kubeconfig: &Path) -> Result<()> {
    let client = eventually(PATIENCE, "the cluster's kubeconfig", async || {
        if let Some(status) = host.try_wait()? {
            bail!("pintle dev has ended ({status})");
        }
        if !kubeconfig.exists() {
            return Ok(None);
        }
        let client = ApiClient::from_kubeconfig(kubeconfig).await?;
        client.get("/readyz").await.map(|_| ()).or_else(ready_anyway)?;
        Ok(Some(client))
    })
    .await?;

    rollout::tell(line, &client).await?;
    workloads::tell(line, &client).await?;
    nodes::tell(line, &client).await?;

    line.title("stop");
    stop(host).await?;
    line.say("the host ended cleanly");
    Ok(())
}

/// `/readyz` answers plain text, which the JSON client cannot read: any answer will do.
fn ready_anyway(why: anyhow::Error) -> Result<()> {
    match pintle_tests::Failure::code_of(&why) {
        Some(code) if code >= 500 => Err(why),
        Some(_) => Ok(()),
        None if why.to_string().contains("JSON") || why.to_string().contains("parse") => Ok(()),
        None => Err(why),
    }
}

/// Ctrl-C, and the host must end with 0 in good time.
async fn stop(host: &mut tokio::process::Child) -> Result<()> {
    let id = host.id().context("the host has ended already")?;
    let pid = i32::try_from(id).ok().and_then(rustix::process::Pid::from_raw).context("odd process id")?;
    rustix::process::kill_process(pid, rustix::process::Signal::INT).context("interrupt the host")?;
    let status =
        tokio::time::timeout(Duration::from_secs(120), host.wait()).await.context("the host does not end")??;
    ensure!(status.success(), "the host ended with {status}");
    Ok(())
}
