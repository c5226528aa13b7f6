//! Identity of the process at the other end of the socket.

use axum::extract::connect_info::Connected;
use axum::serve::IncomingStream;
use tokio::net::UnixListener;

/// Credentials of the connected process, from the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Peer {
    /// User id; absent if the kernel does not report it.
    pub(super) uid: Option<u32>,
    /// Process id; absent if the kernel does not report it.
    pub(super) pid: Option<i32>,
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
