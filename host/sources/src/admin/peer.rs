//! Identity of the process at the other end of the socket.

use axum::extract::connect_info::Connected;
use axum::extract::{ConnectInfo, Request};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use axum::serve::IncomingStream;
use tokio::net::UnixListener;

use super::routes::Refused;
use crate::wire::{Refusal, reason};

/// Credentials of the connected process, from the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Peer {
    /// User id; absent if the kernel does not report it.
    pub(super) uid: Option<u32>,
    /// Process id; absent if the kernel does not report it.
    pid: Option<i32>,
}

impl Connected<IncomingStream<'_, UnixListener>> for Peer {
    fn connect_info(stream: IncomingStream<'_, UnixListener>) -> Self {
        let credentials = stream.io().peer_cred().ok();
        Self {
            uid: credentials.as_ref().map(tokio::net::unix::UCred::uid),
            pid: credentials.as_ref().and_then(tokio::net::unix::UCred::pid),
        }
    }
}

/// Whether a user may use the admin API of a host that runs as `own`.
pub(super) fn may(uid: Option<u32>, own: u32) -> bool {
    uid.is_some_and(|uid| uid == 0 || uid == own)
}

/// Passes permitted requests on; others get only the permission error.
pub(super) async fn check(ConnectInfo(peer): ConnectInfo<Peer>, request: Request, next: Next) -> Response {
    let own = rustix::process::geteuid().as_raw();
    if may(peer.uid, own) {
        return next.run(request).await;
    }
    let uid = peer.uid.map_or_else(|| "unknown".to_owned(), |uid| uid.to_string());
    tracing::warn!(uid, pid = peer.pid, method = %request.method(), path = request.uri().path(), "admin API: permission denied");
    let message = format!("uid {uid} may not use the admin API of this host; run as root, or as uid {own}");
    Refused(Refusal::new(reason::FORBIDDEN, message)).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_root_and_the_hosts_own_user_have_permission() {
        for (uid, own, expected) in [
            (Some(0), 0, true),
            (Some(0), 1000, true),
            (Some(1000), 1000, true),
            (Some(1001), 1000, false),
            (Some(1000), 0, false),
            (None, 0, false),
            (None, 1000, false),
        ] {
            assert_eq!(may(uid, own), expected, "{uid:?} at {own}");
        }
    }
}
