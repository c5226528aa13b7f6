//! The real control plane leaves nothing behind.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use pintle_tests::{ControlPlane, Options, PATIENCE, eventually};
use serde_json::Value;

/// The whole family must go with the test process, whatever ends it: a control plane that is left
/// over holds 700 MB and a guarded program might go on writing to somebody's cluster.
#[tokio::test]
async fn no_process_outlives_a_killed_test() -> Result<()> {
    let mut runner = Command::new(env!("CARGO_BIN_EXE_controlplane"))
        .args(["sleep", "1000"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let out = runner.stdout.take().context("stdout is piped")?;
    let line = tokio::task::spawn_blocking(move || -> Result<String> {
        let mut line = String::new();
        BufReader::new(out).read_line(&mut line)?;
        Ok(line)
    })
    .await??;
    let started: Value = serde_json::from_str(&line).context("the runner failed to start")?;
    let pids: Vec<u64> = serde_json::from_value(started["pids"].clone())?;
    assert_eq!(pids.len(), 4, "etcd, kube-apiserver, the guard and what it guards");
    let alive = || -> Vec<u64> {
        let alive = |pid: &&u64| Path::new(&format!("/proc/{pid}")).exists();
        pids.iter().filter(alive).copied().collect()
    };
    assert_eq!(alive(), pids);

    let folder = started["folder"].as_str().context("no folder")?;
    assert!(Path::new(folder).exists());

    runner.kill()?;
    runner.wait()?;
    eventually(PATIENCE, "all processes to end", async || Ok(alive().is_empty().then_some(()))).await?;

    // The next start removes what it left on disk; another test may have started a control plane before.
    ControlPlane::start(Options::default()).await?.stop().await;
    assert!(!Path::new(folder).exists());
    Ok(())
}
