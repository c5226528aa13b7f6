//! The admin API: manages the plugins of a running host over a Unix socket.
//!
//! ```text
//! pintle plugin ... ──HTTP and JSON over the socket──> peer ──> routes ──> Control
//! ```
//!
//! Invariants:
//! 1. Only root and the host's own user may use it; the kernel identifies the caller.
//! 2. A started request is completed even if the client disconnects.
//! 3. The host reads no file that a caller names: requests contain components.
//! 4. Values of Secrets that runs have read leave the host only if the caller requests them.
//!
//! Not here: the operator's end (`pintle-client`).

mod failures;
mod peer;
mod routes;
pub mod socket;

use std::sync::Arc;

use crate::control::Control;

pub use self::failures::{SaveRun, SavedRun};
use self::socket::AdminSocket;

/// Serves until the process ends; dropping the socket removes it.
pub fn serve(socket: AdminSocket, control: Arc<Control>, save: SaveRun) -> socket::Guard {
    let AdminSocket { listener, guard } = socket;
    let router = routes::router(control, save);
    tokio::spawn(async move {
        let service = router.into_make_service_with_connect_info::<peer::Peer>();
        if let Err(why) = axum::serve(listener, service).await {
            tracing::error!(%why, "serving the admin API ended");
        }
    });
    guard
}
