//! `/metrics` and `/healthz`: without authentication, and therefore on loopback by default.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context as _;
use axum::Router;
use axum::http::{StatusCode, header};
use axum::routing::get;
use pintle_runtime::manager::Manager;

/// The content type of the OpenMetrics text format.
const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Starts to serve; returns the address, whose port the system may have chosen.
///
/// # Errors
/// The address is not usable.
pub(crate) async fn start(address: SocketAddr, manager: Arc<Manager>) -> anyhow::Result<SocketAddr> {
    let listener = tokio::net::TcpListener::bind(address)
        .await
        .with_context(|| format!("listen on {address} for /metrics; choose another address with --serve"))?;
    let address = listener.local_addr().context("read the address")?;
    let alive = {
        let manager = manager.clone();
        move || async move { live(&manager) }
    };
    let router = Router::new()
        .route("/healthz", get(alive.clone()))
        .route("/livez", get(alive))
        .route(
            "/readyz",
            get({
                let manager = manager.clone();
                move || async move { ready(&manager) }
            }),
        )
        .route("/metrics", get(move || async move { ([(header::CONTENT_TYPE, OPENMETRICS)], manager.metrics_text()) }));
    tokio::spawn(async move {
        if let Err(why) = axum::serve(listener, router).await {
            tracing::error!(%why, "serving /metrics ended");
        }
    });
    Ok(address)
}

/// Alive as long as no task of the host panics repeatedly.
fn live(manager: &Manager) -> (StatusCode, String) {
    match &manager.failing()[..] {
        [] => (StatusCode::OK, "ok".into()),
        tasks => {
            let tasks = tasks.join(", ");
            (StatusCode::INTERNAL_SERVER_ERROR, format!("tasks that panic repeatedly: {tasks}; see the log"))
        }
    }
}

/// Ready once the caches of the plugins are synced, while the API server answers.
fn ready(manager: &Manager) -> (StatusCode, String) {
    match manager.readiness() {
        Ok(()) => (StatusCode::OK, "ok".into()),
        Err(missing) => (StatusCode::SERVICE_UNAVAILABLE, missing),
    }
}

#[cfg(test)]
mod tests {
    use pintle_core::contract::outcome::Outcome;
    use pintle_runtime::manager::{ManagerConfig, PluginOptions};
    use pintle_testing::server::eventually;
    use pintle_testing::{FakeGuest, FakeServer, FakeWriter, FakeWriters, manifest};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    async fn get(address: SocketAddr, path: &str) -> String {
        let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
        stream.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        let (status, body) = (answer.lines().next().unwrap_or_default(), answer.lines().last().unwrap_or_default());
        format!("{status}: {body}")
    }

    #[tokio::test(start_paused = true)]
    async fn liveness_fails_when_a_task_keeps_panicking() {
        let server = FakeServer::listing(|_| panic!("boom"));
        server.state().streams = false;
        let writers = Arc::new(FakeWriters(FakeWriter::agreeable()));
        let manager = Arc::new(Manager::new(server, writers, ManagerConfig::default()));
        let guest = FakeGuest::new(manifest(|_| {}), |_, _| Ok(Ok(Outcome::default())));
        manager.add(Arc::new(guest), PluginOptions::default()).unwrap();
        let address = start("127.0.0.1:0".parse().unwrap(), manager.clone()).await.unwrap();
        assert_eq!(get(address, "/livez").await, "HTTP/1.0 200 OK: ok");
        let running = manager.clone();
        let running = tokio::spawn(async move { running.run(std::future::pending()).await });
        let panicked = |n: u64| format!("pintle_task_panics_total{{task=\"informer\"}} {n}\n");
        eventually("four panics", || manager.metrics_text().contains(&panicked(4))).await;
        assert_eq!(live(&manager), (StatusCode::OK, "ok".to_owned()));
        eventually("five panics", || manager.metrics_text().contains(&panicked(5))).await;
        for path in ["/livez", "/healthz"] {
            let failing = "HTTP/1.0 500 Internal Server Error: tasks that panic repeatedly: informer; see the log";
            assert_eq!(get(address, path).await, failing);
        }
        running.abort();
    }
}
