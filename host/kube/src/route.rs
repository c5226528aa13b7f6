//! The route to the API server: TCP, or a connection within this process.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::Uri;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::rt::TokioIo;
use tokio::io::DuplexStream;
use tokio::net::TcpStream;
use tower::Service;

/// Opens a connection within this process.
#[derive(Clone)]
pub struct Dial(Arc<dyn Fn() -> io::Result<DuplexStream> + Send + Sync>);

impl Dial {
    /// Creates a dialer that opens each connection with `open`.
    pub fn new(open: impl Fn() -> io::Result<DuplexStream> + Send + Sync + 'static) -> Self {
        Self(Arc::new(open))
    }
}

impl std::fmt::Debug for Dial {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Dial(..)")
    }
}

/// A connector for hyper clients.
#[derive(Clone, Debug)]
pub enum Route {
    /// To the address in the request's URL.
    Tcp(HttpConnector),
    /// Within this process, for any URL.
    InProcess(Dial),
}

impl Service<Uri> for Route {
    type Response = Stream;
    type Error = io::Error;
    type Future = BoxFuture<'static, io::Result<Stream>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Tcp(tcp) => tcp.poll_ready(context).map_err(io::Error::other),
            Self::InProcess(_) => Poll::Ready(Ok(())),
        }
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        match self {
            Self::Tcp(tcp) => {
                let connecting = tcp.call(uri);
                async move { connecting.await.map(Stream::Tcp).map_err(io::Error::other) }.boxed()
            }
            Self::InProcess(dial) => {
                std::future::ready((dial.0)().map(|stream| Stream::InProcess(TokioIo::new(stream)))).boxed()
            }
        }
    }
}

/// A connection opened by a [`Route`].
#[derive(Debug)]
pub enum Stream {
    /// Over the network.
    Tcp(TokioIo<TcpStream>),
    /// Within this process.
    InProcess(TokioIo<DuplexStream>),
}

impl Connection for Stream {
    fn connected(&self) -> Connected {
        match self {
            Self::Tcp(stream) => stream.connected(),
            Self::InProcess(_) => Connected::new(),
        }
    }
}

impl Read for Stream {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_read(context, buffer),
            Self::InProcess(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl Write for Stream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::InProcess(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_flush(context),
            Self::InProcess(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_shutdown(context),
            Self::InProcess(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Tcp(stream) => stream.is_write_vectored(),
            Self::InProcess(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write_vectored(context, parts),
            Self::InProcess(stream) => Pin::new(stream).poll_write_vectored(context, parts),
        }
    }
}
