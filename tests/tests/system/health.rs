//! What the probes and the log of a host tell of an API server that stops and comes back.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::fs::File;
use std::net::SocketAddr;

use anyhow::{Context as _, Result, bail, ensure};
use pintle_sim::{SimCluster, SimConfig};
use pintle_tests::ports::free_ports;
use pintle_tests::{ApiClient, HostProcess, PATIENCE, TestCluster, eventually, pintle, target_dir};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

/// The address of an API server, which can be closed: then connections are refused, as by a process that has ended.
struct Door {
    target: SocketAddr,
    address: SocketAddr,
    open: Option<JoinHandle<()>>,
}

impl Door {
    async fn open(target: SocketAddr) -> Result<Door> {
        // One that nobody else gets while the door is closed.
        let [port] = free_ports()?;
        let mut door = Door { target, address: SocketAddr::from(([127, 0, 0, 1], port)), open: None };
        door.reopen().await?;
        Ok(door)
    }

    async fn reopen(&mut self) -> Result<()> {
        let (target, listener) = (self.target, TcpListener::bind(self.address).await?);
        self.open = Some(tokio::spawn(async move {
            // Ends its connections when it is dropped.
            let mut connections = JoinSet::new();
            while let Ok((mut client, _)) = listener.accept().await {
                connections.spawn(async move {
                    let Ok(mut server) = TcpStream::connect(target).await else { return };
                    // A side that disconnects is not a failure.
                    let _ = copy_bidirectional(&mut client, &mut server).await;
                });
            }
        }));
        Ok(())
    }

    async fn close(&mut self) {
        if let Some(open) = self.open.take() {
            open.abort();
            // It has ended when its listener and its connections are closed.
            let _ = open.await;
        }
    }
}

async fn probe(host: &ApiClient, path: &str) -> Result<(u16, String)> {
    let answer = host.request("GET", path, &[], None).await?;
    Ok((answer.status, answer.text()))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_is_not_ready_while_its_api_server_is_away() -> Result<()> {
    let cluster = SimCluster::start(SimConfig::default()).await?;
    let mut door = Door::open(cluster.base_url().trim_start_matches("http://").parse()?).await?;
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": format!("http://{}", door.address)}}],
        "users": [{"name": "u", "user": {}}],
    });
    let mut host = HostProcess::start(&kubeconfig.to_string(), &[HostProcess::controllers(&["replicaset"])])?;
    let client = host.ready().await?;

    door.close().await;
    let gone = format!("the API server at {} has not answered since 20", door.address);
    eventually(PATIENCE, "/readyz to fail", async || {
        let (status, text) = probe(&client, "/readyz").await?;
        let withheld = "[-]api-server failed: reason withheld\n";
        ensure!(status == 500 && text.contains(withheld) && !text.contains("not answered"), "{status}: {text}");
        let (status, text) = probe(&client, "/readyz/api-server").await?;
        ensure!(status == 500 && text.contains(&gone), "{status}: {text}");
        Ok(Some(()))
    })
    .await?;
    let (status, text) = probe(&client, "/livez").await?;
    ensure!(status == 200, "a restart would not help: {text}");
    // Written with the next request that fails.
    eventually(PATIENCE, "a line in the log", async || {
        Ok(host.log_tail().contains("the API server does not answer: the host is not ready").then_some(()))
    })
    .await?;
    let log = host.log_tail();
    ensure!(!log.contains("failed with error"), "the HTTP client has its own words beside the host's: {log}");

    door.reopen().await?;
    host.ready().await?;
    ensure!(host.log_tail().contains("the API server answers again"), "{}", host.log_tail());
    host.stop().await;
    cluster.shutdown().await;
    Ok(())
}

/// The disk of the log is full, or nobody reads it any more.
#[tokio::test(flavor = "multi_thread")]
async fn a_host_whose_log_cannot_be_written_does_its_work_and_ends_in_order() -> Result<()> {
    let cluster = TestCluster::embedded().await?;
    let mut host = tokio::process::Command::new(pintle::binary()?);
    host.args(["run", "--controllers=serviceaccount-controller", "--secure-port=0", "--admin-socket=off"]);
    host.args(["--leader-elect=false", &format!("--cache-dir={}", target_dir().join("host-code").display())]);
    host.arg(format!("--kubeconfig={}", cluster.kubeconfig().display()));
    host.stderr(File::options().write(true).open("/dev/full")?).kill_on_drop(true);
    let mut host = host.spawn()?;
    cluster.client.create_namespace("full").await?;
    let works = eventually(PATIENCE, "the host to work", async || {
        cluster.client.find("/api/v1/namespaces/full/serviceaccounts/default").await
    });
    tokio::select! {
        works = works => drop(works?),
        ended = host.wait() => bail!("the host has ended: {ended:?}"),
    }
    let pid = host.id().and_then(|id| Pid::from_raw(id.cast_signed())).context("the host has ended")?;
    kill_process(pid, Signal::TERM)?;
    let ended = tokio::time::timeout(PATIENCE, host.wait()).await??;
    ensure!(ended.success(), "{ended:?}");
    cluster.stop().await;
    Ok(())
}
