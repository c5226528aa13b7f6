//! Hints of `pintle dev` after a fault: how to replay the run.

use std::collections::HashSet;
use std::sync::Arc;

use pintle::output;
use pintle_runtime::failures::{Failure, RecordedFailure};
use pintle_runtime::manager::Manager;

/// Prints a hint after the first fault of each build of each plugin. Never returns. `socket`: the admin socket, if
/// hints must include it.
pub(super) async fn tell(manager: Arc<Manager>, socket: Option<String>) {
    let mut failed = manager.failed();
    let mut told: HashSet<(String, String)> = HashSet::new();
    // The sender lives as long as the manager.
    while failed.changed().await.is_ok() {
        for plugin in manager.status() {
            let faults = manager.failures(&plugin.name);
            let fault = faults.iter().find(|kept| matches!(kept.run.identity.failure, Failure::Fault(_)));
            if let Some(fault) = fault
                && told.insert((plugin.name.clone(), fault.run.identity.digest.clone()))
            {
                // Without standard output, hints are dropped.
                let _ = output::line(&hint(&plugin.name, fault, socket.as_deref()));
            }
        }
    }
}

fn hint(plugin: &str, fault: &RecordedFailure, socket: Option<&str>) -> String {
    let identity = &fault.run.identity;
    let socket = socket.map(|path| format!(" --admin-socket {path}")).unwrap_or_default();
    format!(
        "{plugin}: a run of {} ended with a fault ({}). To replay it with `pintle test`, save its input: pintle plugin failures {plugin} --save cases{socket}",
        identity.key.object,
        identity.failure.as_str(),
    )
}
