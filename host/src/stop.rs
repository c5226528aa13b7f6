//! Ctrl-C and SIGTERM.

use anyhow::Context as _;
use tokio::signal::unix::{SignalKind, signal};

/// Resolves at the first termination signal. A second one ends the process at once.
///
/// # Errors
/// The system does not allow signal handlers.
pub(crate) async fn requested() -> anyhow::Result<()> {
    let mut interrupt = signal(SignalKind::interrupt()).context("listen for SIGINT")?;
    let mut terminate = signal(SignalKind::terminate()).context("listen for SIGTERM")?;
    wait(&mut interrupt, &mut terminate).await;
    tracing::info!("stopping: runs in flight are finished first; a second signal ends at once");
    tokio::spawn(async move {
        wait(&mut interrupt, &mut terminate).await;
        std::process::exit(130);
    });
    Ok(())
}

async fn wait(interrupt: &mut tokio::signal::unix::Signal, terminate: &mut tokio::signal::unix::Signal) {
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
}
