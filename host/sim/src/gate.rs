//! Holds back the bytes of in-memory connections.
//!
//! *Invariant*: connections continue in the order in which they started to wait.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, DuplexStream};
use tokio::sync::Notify;

use crate::announced;

/// Bytes that pass as one chunk.
const CHUNK_BYTES: usize = 16 << 10;

/// A gate for any number of connections; open at first.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    closed: AtomicBool,
    opened: Notify,
}

impl Gate {
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
    }

    pub(crate) fn open(&self) {
        self.closed.store(false, Ordering::SeqCst);
        self.opened.notify_waiters();
    }

    async fn pass(&self) {
        announced::until(&self.opened, || (!self.closed.load(Ordering::SeqCst)).then_some(())).await;
    }
}

/// Carries bytes between two ends through a gate, until both directions have ended.
pub(crate) async fn carry(one: DuplexStream, other: DuplexStream, gate: Arc<Gate>) {
    let ((from_one, to_one), (from_other, to_other)) = (tokio::io::split(one), tokio::io::split(other));
    // A closed end ends its direction; the other end detects that.
    let _ = tokio::join!(forward(from_one, to_other, &gate), forward(from_other, to_one, &gate));
}

async fn forward(mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin, gate: &Gate) -> io::Result<()> {
    let mut buffer = vec![0; CHUNK_BYTES];
    loop {
        let n = from.read(&mut buffer).await?;
        gate.pass().await;
        if n == 0 {
            return to.shutdown().await;
        }
        to.write_all(&buffer[..n]).await?;
    }
}
