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

/// Ready once the caches of every plugin are synced.
fn ready(manager: &Manager) -> (StatusCode, String) {
    let waiting: Vec<String> =
        manager.status().into_iter().filter(|plugin| !plugin.synced).map(|plugin| plugin.name).collect();
    if waiting.is_empty() {
        (StatusCode::OK, "ok".into())
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, format!("caches are not synced yet for: {}", waiting.join(", ")))
    }
}
