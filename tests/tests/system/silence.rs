//! Connections that are dead without a word are noticed. `long/silence.rs` shows that no Pod is doubled meanwhile.
//!
//! ```text
//! client ──TLS, HTTP/2──> load balancer that goes silent ──> TLS ends ──> embedded API server
//! ```

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::pin::pin;
use std::time::Duration;

use anyhow::{Result, ensure};
use futures::StreamExt as _;
use pintle_core::ports::api::{ApiReader as _, Detail, ListWatchTarget, WatchStart, at_most};
use pintle_kube::{Connection, Source};
use pintle_sim::{SimCluster, SimConfig};
use pintle_testing::Gate;
use pintle_tests::tls;
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};

/// How the clock goes on.
const STEP: Duration = Duration::from_millis(500);

/// Ends TLS in front of an API server without it. Returns the address and the authority's certificate in PEM.
async fn with_tls(target: std::net::SocketAddr) -> (std::net::SocketAddr, String) {
    let (acceptor, authority) = tls::self_signed(&["h2"]).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let Ok(mut client) = acceptor.accept(stream).await else { return };
                let Ok(mut server) = TcpStream::connect(target).await else { return };
                // A side that disconnects is not a failure.
                let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
            });
        }
    });
    (address, authority)
}

/// Lets this time pass at once.
async fn pass(time: Duration) {
    tokio::time::pause();
    tokio::time::advance(time).await;
    tokio::time::resume();
}

struct Fixture {
    cluster: SimCluster,
    gate: Gate,
    kubeconfig: String,
}

impl Fixture {
    async fn start() -> Result<Fixture> {
        let cluster = SimCluster::start(SimConfig::default()).await?;
        let address = cluster.base_url().trim_start_matches("http://").parse()?;
        let (tls, ca) = with_tls(address).await;
        let gate = Gate::start(tls).await;
        let ca = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, ca);
        let server = format!("https://{}", gate.address());
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": {"server": server, "certificate-authority-data": ca}}],
            "users": [{"name": "u", "user": {}}],
        });
        Ok(Fixture { cluster, gate, kubeconfig: kubeconfig.to_string() })
    }
}

/// With the times of a real host, through a load balancer that keeps its side open. The clock goes on at once.
#[tokio::test]
async fn a_dead_connection_is_noticed_within_45_seconds() -> Result<()> {
    let fixture = Fixture::start().await?;
    let connection = Connection::open(&Source::Text(fixture.kubeconfig.clone())).await?;
    let target = ListWatchTarget {
        kind: "v1/Pod".parse()?,
        plural: "pods".into(),
        namespace: None,
        label_selector: None,
        field_selector: None,
        detail: Detail::Full,
    };
    let version = fixture.cluster.resource_version().to_string();
    let mut stream = connection.watch(&target, WatchStart::After(version)).await?;
    fixture.gate.go_silent();
    let mut passed = Duration::ZERO;
    let room = at_most(1 << 20);
    let mut both = pin!(async { tokio::join!(connection.raw("/api", &room), stream.next()) });
    let (request, watch) = loop {
        tokio::select! {
            biased;
            both = &mut both => break both,
            () = pass(STEP) => passed += STEP,
        }
        ensure!(passed < Duration::from_secs(45), "the dead connection is not noticed");
    };
    println!("a dead connection was noticed after {passed:?}");
    ensure!(request.is_err() && matches!(watch, None | Some(Err(_))));
    connection.raw("/api", &at_most(1 << 20)).await?;
    Ok(())
}
