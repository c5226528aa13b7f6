//! The admin API: what an operator does to the plugins of a running host, over a Unix socket.
//!
//! ```text
//! pintle plugin ... ──HTTP and JSON over the socket──> peer ──> routes ──> Control
//! ```
//!
//! Invariants:
//! 1. Only root and the user that the host runs as are answered; who asks is told by the kernel, not by the caller.
//! 2. What has begun is carried to its end, whoever hangs up.
//! 3. The host reads no file that a caller names: components come in the request.
//! 4. Values of Secrets that runs have read leave by here only if the caller asks for them.
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

/// Serves until the process ends; the socket goes with the answer.
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
