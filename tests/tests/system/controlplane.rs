//! The real control plane does what the other tests rely on.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use pintle_tests::controlplane::User;
use pintle_tests::{ControlPlane, Failure, Options, eventually, kubectl};
use serde_json::{Value, json};

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(300);

#[tokio::test]
async fn admin_may_do_everything_and_other_users_nothing() -> Result<()> {
    let plane = ControlPlane::start(Options {
        users: vec![User { name: "alice".to_owned(), groups: vec!["dev".to_owned()] }],
        ..Options::default()
    })
    .await?;
    plane.client().create_namespace("a").await?;
    let refused = plane.client_for("alice").get("/api/v1/namespaces").await;
    let refused = refused.err().context("alice may list namespaces")?;
    assert_eq!(Failure::code_of(&refused), Some(403), "{refused}");
    let seen = kubectl(&plane.kubeconfig(), &["get", "namespace", "a", "-o", "name"]).await?;
    assert_eq!(seen, "namespace/a\n");
    plane.stop().await;
    Ok(())
}

#[tokio::test]
async fn apiserver_restarts_on_the_same_port_with_its_data() -> Result<()> {
    let plane = ControlPlane::start(Options::default()).await?;
    let client = plane.client();
    let object = json!({"metadata": {"name": "kept"}, "data": {"k": "v"}});
    client.create("/api/v1/namespaces/default/configmaps", &object).await?;
    let path = "/api/v1/namespaces/default/configmaps/kept";

    plane.kill_apiserver().await;
    let down = client.get(path).await.err().context("it still answers")?;
    assert_eq!(Failure::code_of(&down), None, "{down}");
    plane.start_apiserver().await?;
    assert_eq!(client.get(path).await?["data"]["k"], "v");

    plane.restart_apiserver().await?;
    assert_eq!(client.get(path).await?["data"]["k"], "v");
    plane.stop().await;
    Ok(())
}

#[tokio::test]
async fn controller_manager_makes_replica_sets_of_deployments() -> Result<()> {
    let plane = ControlPlane::start(Options::default()).await?;
    let kcm = plane.start_kcm(&["deployment-controller", "replicaset-controller"], &[]).await?;
    let client = plane.client();
    let deployment = json!({
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "c", "image": "nginx"}]},
            },
        },
    });
    client.create("/apis/apps/v1/namespaces/default/deployments", &deployment).await?;
    let sets = eventually(PATIENCE, "a ReplicaSet", async || {
        let sets = client.list("/apis/apps/v1/namespaces/default/replicasets").await?;
        Ok((!sets.is_empty()).then_some(sets))
    })
    .await?;
    assert_eq!(sets.len(), 1);
    assert_eq!(sets[0]["spec"]["replicas"], 2);
    let usage = kcm.process.usage()?;
    assert!(usage.cpu > Duration::ZERO && usage.rss_bytes > 10 << 20, "{usage:?}");
    Ok(())
}

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
