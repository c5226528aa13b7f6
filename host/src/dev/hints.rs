//! What `pintle dev` says after a fault: how to have the run again.

use std::collections::HashSet;
use std::sync::Arc;

use pintle_runtime::failures::{Failure, Kept};
use pintle_runtime::manager::Manager;

use crate::output;

/// Tells of the first fault of each build of each plugin. Does not end. `socket`: what the command line has to be told of the socket.
pub(super) async fn tell(manager: Arc<Manager>, socket: Option<String>) {
    let mut failed = manager.failed();
    let mut told: HashSet<(String, String)> = HashSet::new();
    // The sender lives as long as the manager.
    while failed.changed().await.is_ok() {
        for plugin in manager.status() {
            let faults = manager.failures(&plugin.name);
            let fault = faults.iter().find(|kept| matches!(kept.run.how.failure, Failure::Fault(_)));
            if let Some(fault) = fault
                && told.insert((plugin.name.clone(), fault.run.how.digest.clone()))
            {
                // With standard output gone there is nobody left to tell.
                let _ = output::line(&hint(&plugin.name, fault, socket.as_deref()));
            }
        }
    }
}

fn hint(plugin: &str, fault: &Kept, socket: Option<&str>) -> String {
    let how = &fault.run.how;
    let socket = socket.map(|path| format!(" --admin-socket {path}")).unwrap_or_default();
    format!(
        "{plugin}: a run of {} ended with a fault ({}). Its input, to play it again with `pintle test`: pintle plugin failures {plugin} --save cases{socket}",
        how.key.object,
        how.failure.as_str(),
    )
}
