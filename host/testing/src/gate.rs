//! A load balancer that forwards the bytes of connections, and can go silent or cut them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// State of existing connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Alive,
    Silent,
    Deaf,
    Cut,
}

/// A load balancer on loopback.
pub struct Gate {
    address: SocketAddr,
    /// For connections up to this number, which counts faults.
    fate: watch::Sender<(usize, Fate)>,
    n_connections: Arc<AtomicUsize>,
}

impl Gate {
    /// Starts a load balancer for a target.
    pub async fn start(target: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let fate = watch::Sender::new((0, Fate::Alive));
        let n_connections = Arc::new(AtomicUsize::new(0));
        let (fates, count) = (fate.clone(), n_connections.clone());
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::SeqCst);
                // An unreachable target closes its clients' connections.
                let Ok(server) = TcpStream::connect(target).await else { continue };
                drop((client.set_nodelay(true), server.set_nodelay(true)));
                let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
                tokio::spawn(copy(from_client, to_server, fates.subscribe(), false));
                tokio::spawn(copy(from_server, to_client, fates.subscribe(), true));
            }
        });
        Self { address, fate, n_connections }
    }

    /// Its listen address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Number of connections so far.
    pub fn n_connections(&self) -> usize {
        self.n_connections.load(Ordering::SeqCst)
    }

    /// Existing connections stay open on both sides, but drop all data. New ones work.
    pub fn go_silent(&self) {
        self.fate.send_modify(|(n, fate)| (*n, *fate) = (*n + 1, Fate::Silent));
    }

    /// As [`Gate::go_silent`], but data from clients still arrives: the server acts, and its responses are lost.
    pub fn lose_answers(&self) {
        self.fate.send_modify(|(n, fate)| (*n, *fate) = (*n + 1, Fate::Deaf));
    }

    /// Closes existing connections.
    pub fn cut(&self) {
        self.fate.send_modify(|(n, fate)| (*n, *fate) = (*n + 1, Fate::Cut));
    }
}

async fn copy(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut fate: watch::Receiver<(usize, Fate)>,
    has_answers: bool,
) {
    let mut buffer = vec![0; 1 << 16];
    loop {
        tokio::select! {
            biased;
            Ok(()) = fate.changed() => match fate.borrow().1 {
                Fate::Silent => break,
                Fate::Deaf if has_answers => break,
                Fate::Deaf => {}
                Fate::Cut | Fate::Alive => return,
            },
            n = from.read(&mut buffer) => match n {
                Ok(n) if n > 0 && to.write_all(&buffer[..n]).await.is_ok() => {}
                _ => return,
            },
        }
    }
    // Keeps reading, so that the peer's data is acknowledged until the peer gives up. The other side does not notice.
    while from.read(&mut buffer).await.is_ok_and(|n| n > 0) {}
    std::future::pending::<()>().await;
}
