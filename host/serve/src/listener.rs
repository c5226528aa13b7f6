//! Connections: accepts them, bounds their number, and closes those that wait too long for their client.

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use parking_lot::Mutex;
use rustls::pki_types::CertificateDer;
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio_io_timeout::TimeoutStream;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::policy::connections::{Admission, ConnectionId, Connections};
use crate::quiet::Quiet;
use crate::site::Site;
use crate::tls::Tls;

/// Timeout of a handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Timeout for the headers of a request, and for an idle HTTP/1.1 connection.
const HEADERS: Duration = Duration::from_secs(20);
/// Timeout without a byte from the client. Longer than any review.
const SILENCE: Duration = Duration::from_secs(90);
/// Timeout for a client to read a part of a response.
const SLOW_READER: Duration = Duration::from_secs(30);
/// Most bytes of a request's headers, including its path.
const MAX_HEADER_BYTES: u32 = 32 << 10;
const MAX_HEADERS: usize = 100;
/// Default limit of concurrent requests on one HTTP/2 connection.
const MAX_STREAMS: u32 = 64;
/// Pause after an error of `accept`, such as running out of file handles.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Most connections pending in the kernel.
const BACKLOG: u32 = 256;

/// The listen address.
#[derive(Clone, Copy, Debug)]
pub struct Bind {
    /// Address and port; an unspecified address means all addresses of both families.
    pub address: SocketAddr,
    /// Whether other processes may listen on the same port.
    pub shared_port: bool,
    /// Most concurrent requests on one HTTP/2 connection; 0 means the default.
    pub max_streams: u32,
}

/// A port, served until dropped.
pub struct Server {
    address: SocketAddr,
    _accepting: AbortOnDropHandle<()>,
}

impl Server {
    /// Starts listening. Without TLS it serves plain HTTP/1.1.
    ///
    /// # Errors
    /// The address is unusable.
    pub fn start(bind: Bind, tls: Option<Arc<Tls>>, site: Arc<Site>) -> std::io::Result<Self> {
        let listener = listen(bind)?;
        let address = listener.local_addr()?;
        let max_streams = if bind.max_streams == 0 { MAX_STREAMS } else { bind.max_streams };
        let shared =
            Arc::new(Shared { tls, site, max_streams, table: Mutex::default(), stopping: CancellationToken::new() });
        Ok(Self { address, _accepting: AbortOnDropHandle::new(tokio::spawn(accept(listener, shared))) })
    }

    /// The address, whose port the system may have chosen.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

fn listen(bind: Bind) -> std::io::Result<TcpListener> {
    let open = |address: SocketAddr| {
        let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        // Otherwise a restarted host would have to wait until the kernel drops connections of the previous one.
        socket.set_reuseaddr(true)?;
        if address.is_ipv6() && address.ip().is_unspecified() {
            // Independent of the system's default.
            SockRef::from(&socket).set_only_v6(false)?;
        }
        socket.set_reuseport(bind.shared_port)?;
        socket.bind(address)?;
        socket.listen(BACKLOG)
    };
    if bind.address.ip() == IpAddr::V4(Ipv4Addr::UNSPECIFIED) {
        // Accepts both families, as in Go; IPv6 may be missing.
        let both = SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), bind.address.port());
        match open(both) {
            Err(why) if why.kind() == std::io::ErrorKind::AddrInUse => return Err(why),
            Err(_) => {}
            listener => return listener,
        }
    }
    open(bind.address)
}

struct Shared {
    tls: Option<Arc<Tls>>,
    site: Arc<Site>,
    max_streams: u32,
    table: Mutex<Table>,
    stopping: CancellationToken,
}

#[derive(Default)]
struct Table {
    connections: Connections,
    /// Closes a connection.
    closers: HashMap<ConnectionId, CancellationToken>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.stopping.cancel();
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    // Connections are closed with the listener.
    let refused = Quiet::default();
    let _stop = shared.stopping.clone().drop_guard();
    loop {
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(why) => {
                tracing::warn!(%why, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let Some((id, closer)) = shared.admit(peer.ip()) else {
            if refused.may_report() {
                tracing::warn!(%peer, "a connection is closed: too many are being answered");
            }
            continue;
        };
        let shared = shared.clone();
        tokio::spawn(async move {
            let connection = Arc::new(Connection { id, shared });
            tokio::select! {
                () = closer.cancelled() => {}
                () = connection.serve(stream) => {}
            }
        });
    }
}

impl Shared {
    fn admit(&self, peer: IpAddr) -> Option<(ConnectionId, CancellationToken)> {
        let table = &mut *self.table.lock();
        let id = match table.connections.admit(peer) {
            Admission::Open(id) => id,
            Admission::InPlaceOf(id, other) => {
                if let Some(other) = table.closers.remove(&other) {
                    other.cancel();
                }
                id
            }
            Admission::Refused => return None,
        };
        let closer = self.stopping.child_token();
        table.closers.insert(id, closer.clone());
        Some((id, closer))
    }
}

/// A connection; dropping it frees its place.
struct Connection {
    id: ConnectionId,
    shared: Arc<Shared>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        let table = &mut *self.shared.table.lock();
        table.connections.remove(self.id);
        table.closers.remove(&self.id);
    }
}

/// A request in progress, even if its client disconnects in the meantime.
struct Busy(Arc<Connection>);

impl Busy {
    fn new(connection: Arc<Connection>) -> Self {
        connection.shared.table.lock().connections.begin(connection.id);
        Self(connection)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.shared.table.lock().connections.end(self.0.id);
    }
}

impl Connection {
    async fn serve(self: &Arc<Self>, stream: TcpStream) {
        // Nagle's algorithm would delay responses until the client's delayed acknowledgement.
        if stream.set_nodelay(true).is_err() {
            return;
        }
        let Some(tls) = &self.shared.tls else { return self.http(stream, Vec::new(), false).await };
        let handshake = async { TlsAcceptor::from(tls.server().await).accept(stream).await };
        match tokio::time::timeout(HANDSHAKE, handshake).await {
            Ok(Ok(stream)) => {
                let session = stream.get_ref().1;
                let chain = session.peer_certificates().unwrap_or_default();
                let chain = chain.iter().map(|certificate| certificate.clone().into_owned()).collect();
                let is_http2 = session.alpn_protocol() == Some(b"h2");
                self.http(stream, chain, is_http2).await;
            }
            Ok(Err(why)) => tracing::debug!(%why, "a TLS handshake failed"),
            Err(_) => tracing::debug!("a TLS handshake took too long"),
        }
    }

    async fn http<S: AsyncRead + AsyncWrite + Send + 'static>(
        self: &Arc<Self>,
        stream: S,
        chain: Vec<CertificateDer<'static>>,
        is_http2: bool,
    ) {
        let mut stream = TimeoutStream::new(stream);
        stream.set_read_timeout(Some(SILENCE));
        stream.set_write_timeout(Some(SLOW_READER));
        let last = CancellationToken::new();
        let chain: Arc<[_]> = chain.into();
        let service = service_fn(|request: Request<Incoming>| {
            let busy = Busy::new(self.clone());
            let (chain, last) = (chain.clone(), last.clone());
            async move {
                let (head, _body) = request.into_parts();
                let answer = busy.0.shared.site.answer(&head, &chain).await;
                if answer.closes && is_http2 {
                    last.cancel();
                }
                Ok::<Response<Full<Bytes>>, Infallible>(answer.response)
            }
        });
        let builder = auto::Builder::new(TokioExecutor::new());
        let mut builder = if is_http2 { builder.http2_only() } else { builder.http1_only() };
        builder
            .http1()
            .timer(TokioTimer::new())
            .header_read_timeout(HEADERS)
            .max_headers(MAX_HEADERS)
            .max_buf_size(MAX_HEADER_BYTES as usize);
        builder
            .http2()
            .timer(TokioTimer::new())
            .max_header_list_size(MAX_HEADER_BYTES)
            .max_concurrent_streams(self.shared.max_streams)
            .keep_alive_interval(SLOW_READER)
            .keep_alive_timeout(SLOW_READER);
        let serving = builder.serve_connection(TokioIo::new(Box::pin(stream)), service);
        tokio::pin!(serving);
        let result = tokio::select! {
            result = serving.as_mut() => result,
            () = last.cancelled() => {
                serving.as_mut().graceful_shutdown();
                serving.await
            }
        };
        if let Err(why) = result {
            tracing::debug!(why, "a connection of the port ended");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_unspecified_address_means_both_families() {
        for address in ["0.0.0.0:0", "[::]:0"] {
            let bind = Bind { address: address.parse().unwrap(), shared_port: false, max_streams: 0 };
            let listener = listen(bind).unwrap();
            let port = listener.local_addr().unwrap().port();
            TcpStream::connect(("127.0.0.1", port)).await.unwrap();
            let taken = listen(Bind { address: SocketAddr::new(bind.address.ip(), port), ..bind });
            assert_eq!(taken.unwrap_err().kind(), std::io::ErrorKind::AddrInUse);
        }
        let bind = Bind { address: "127.0.0.1:0".parse().unwrap(), shared_port: true, max_streams: 0 };
        let first = listen(bind).unwrap();
        listen(Bind { address: first.local_addr().unwrap(), ..bind }).unwrap();
    }
}
