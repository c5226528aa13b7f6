//! TLS of servers on loopback.

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Result, anyhow};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

/// An HTTPS server on a free port of loopback, with a certificate of its own. Dropping it closes the port.
#[derive(Debug)]
pub struct Server {
    /// Where it listens.
    pub address: SocketAddr,
    /// Its certificate, in PEM.
    pub certificate: String,
    _accepting: JoinSet<()>,
}

impl Server {
    /// Starts a server with these answers.
    ///
    /// # Errors
    /// There is no randomness or no free port.
    pub async fn start<F, A>(answer: F) -> Result<Server>
    where
        F: Fn(Request<Incoming>) -> A + Clone + Send + Sync + 'static,
        A: Future<Output = Response<Full<Bytes>>> + Send + 'static,
    {
        let (acceptor, certificate) = self_signed(&[])?;
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let mut accepting = JoinSet::new();
        accepting.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, answer) = (acceptor.clone(), answer.clone());
                connections.spawn(async move {
                    // A client that goes away is not a failure.
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    let service = service_fn(|request| {
                        let answer = answer(request);
                        async { Ok::<_, Infallible>(answer.await) }
                    });
                    let server = auto::Builder::new(TokioExecutor::new());
                    drop(server.serve_connection(TokioIo::new(stream), service).await);
                });
                while connections.try_join_next().is_some() {}
            }
        });
        Ok(Server { address, certificate, _accepting: accepting })
    }
}

/// TLS with this chain of certificates. `protocols` are those that clients are offered (ALPN), for example `h2`; none offers nothing.
///
/// # Errors
/// The key does not fit the certificate.
pub fn acceptor(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    protocols: &[&str],
) -> Result<TlsAcceptor> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let mut config = builder.with_no_client_auth().with_single_cert(chain, key)?;
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// [`acceptor`] with a new certificate of 127.0.0.1, and that certificate in PEM.
///
/// # Errors
/// There is no randomness.
pub fn self_signed(protocols: &[&str]) -> Result<(TlsAcceptor, String)> {
    let issued = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()])?;
    let key = PrivateKeyDer::try_from(issued.signing_key.serialize_der()).map_err(|why| anyhow!(why))?;
    Ok((acceptor(vec![issued.cert.der().clone()], key, protocols)?, issued.cert.pem()))
}
