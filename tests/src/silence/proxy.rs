//! A reverse proxy before a real API server that makes watches late or silent.
//!
//! It stands for an API server whose watch cache is behind (events come late, everything else is prompt), and for one whose
//! watches are open and send nothing (the connection is alive and answers pings).
//!
//! Not here: connections that are dead (`pintle_testing::Gate`).

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use bytes::Bytes;
use futures::{Stream, StreamExt as _, stream};
use http::{Request, Response, Uri, Version, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use tokio_rustls::TlsAcceptor;

use crate::{ControlPlane, tls};

/// Frames of one watch that wait for their time.
const MAX_WAITING: usize = 100_000;

type Failure = Box<dyn std::error::Error + Send + Sync>;
type Body = UnsyncBoxBody<Bytes, Failure>;
type Upstream = Client<HttpsConnector<HttpConnector>, Incoming>;

/// What happens to the watches of each resource, by plural.
#[derive(Clone, Debug, Default)]
struct Rules {
    late: BTreeMap<String, Duration>,
    /// How often the watches that were open became silent.
    n_silences: BTreeMap<String, u64>,
}

/// The proxy. Dropping it closes its port.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    rules: watch::Sender<Rules>,
    _accepting: JoinSet<()>,
}

impl Proxy {
    /// Starts a proxy before this control plane. It has the certificate of the API server.
    ///
    /// # Errors
    /// The certificates cannot be read.
    pub async fn start(plane: &ControlPlane) -> Result<Proxy> {
        let acceptor = server_tls(plane)?;
        let upstream = upstream(plane)?;
        let base: Uri = plane.base_url().parse()?;
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let rules = watch::Sender::new(Rules::default());
        let seen = rules.subscribe();
        let mut accepting = JoinSet::new();
        accepting.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, upstream, base, seen) = (acceptor.clone(), upstream.clone(), base.clone(), seen.clone());
                connections.spawn(async move {
                    // A client that goes away is not a failure.
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    let service =
                        service_fn(move |request| pass(upstream.clone(), base.clone(), seen.clone(), request));
                    let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                    drop(server.serve_connection(TokioIo::new(stream), service).await);
                });
            }
        });
        Ok(Proxy { address, rules, _accepting: accepting })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Events of watches of a resource come late by this time from now on; zero ends that.
    pub fn delay(&self, plural: &str, late: Duration) {
        self.rules.send_modify(|rules| *rules.late.entry(plural.to_owned()).or_default() = late);
    }

    /// The watches of a resource that are open stay open and send nothing any more. New ones work.
    pub fn silence(&self, plural: &str) {
        self.rules.send_modify(|rules| *rules.n_silences.entry(plural.to_owned()).or_default() += 1);
    }
}

impl Rules {
    fn late(&self, plural: &str) -> Duration {
        self.late.get(plural).copied().unwrap_or_default()
    }

    fn n_silences(&self, plural: &str) -> u64 {
        self.n_silences.get(plural).copied().unwrap_or_default()
    }
}

fn server_tls(plane: &ControlPlane) -> Result<TlsAcceptor> {
    let (certificate, key) = plane.serving();
    let chain = CertificateDer::pem_file_iter(certificate)?.collect::<Result<Vec<_>, _>>()?;
    tls::acceptor(chain, PrivateKeyDer::from_pem_file(key)?, &["h2"])
}

fn upstream(plane: &ControlPlane) -> Result<Upstream> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(CertificateDer::pem_slice_iter(plane.authority().as_bytes()).flatten());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let tls = builder.with_root_certificates(roots).with_no_client_auth();
    // A connection for each request in flight, so that none waits for another.
    let connector = HttpsConnectorBuilder::new().with_tls_config(tls).https_only().enable_http1().build();
    Ok(Client::builder(TokioExecutor::new()).build(connector))
}

/// The plural that a request watches.
fn watched(uri: &Uri) -> Option<String> {
    let mut parameters = uri.query().unwrap_or_default().split('&');
    parameters.any(|parameter| matches!(parameter, "watch=true" | "watch=1")).then_some(())?;
    uri.path().rsplit('/').next().map(str::to_owned)
}

async fn pass(
    upstream: Upstream,
    base: Uri,
    rules: watch::Receiver<Rules>,
    request: Request<Incoming>,
) -> Result<Response<Body>, Failure> {
    let watched = watched(request.uri());
    let (mut parts, body) = request.into_parts();
    let mut uri = base.into_parts();
    uri.path_and_query = parts.uri.into_parts().path_and_query;
    parts.uri = Uri::from_parts(uri)?;
    parts.version = Version::HTTP_11;
    let response = upstream.request(Request::from_parts(parts, body)).await?;
    let (mut parts, body) = response.into_parts();
    for of_connection in [header::CONNECTION, header::TRANSFER_ENCODING] {
        parts.headers.remove(of_connection);
    }
    parts.version = Version::HTTP_2;
    let body = match watched {
        Some(plural) => StreamBody::new(delayed(body, plural, rules)).boxed_unsync(),
        None => body.map_err(Failure::from).boxed_unsync(),
    };
    Ok(Response::from_parts(parts, body))
}

/// The frames of a watch, each at its time.
fn delayed(
    mut body: Incoming,
    plural: String,
    rules: watch::Receiver<Rules>,
) -> impl Stream<Item = Result<Frame<Bytes>, Failure>> + Send {
    let n_silences = rules.borrow().n_silences(&plural);
    let (sender, receiver) = mpsc::channel(MAX_WAITING);
    tokio::spawn(async move {
        loop {
            tokio::select! {
                () = sender.closed() => return,
                frame = body.frame() => {
                    let Some(frame) = frame else { return };
                    if sender.send((Instant::now(), frame)).await.is_err() {
                        return;
                    }
                }
            }
        }
    });
    let frames =
        stream::unfold(receiver, async |mut receiver: mpsc::Receiver<_>| Some((receiver.recv().await?, receiver)));
    frames.then(move |(arrived, frame)| {
        let (plural, rules) = (plural.clone(), rules.clone());
        async move {
            let late = rules.borrow().late(&plural);
            sleep_until(arrived + late).await;
            let is_silent = rules.borrow().n_silences(&plural) != n_silences;
            if is_silent {
                std::future::pending::<()>().await;
            }
            frame.map_err(Failure::from)
        }
    })
}

/// The text of a user's kubeconfig with another address instead of the API server's.
pub(super) fn kubeconfig_through(plane: &ControlPlane, user: &str, address: SocketAddr) -> Result<String> {
    let text = std::fs::read_to_string(plane.kubeconfig_for(user)).context("read the kubeconfig")?;
    anyhow::ensure!(text.contains(&plane.base_url()), "the kubeconfig does not contain {}", plane.base_url());
    Ok(text.replace(&plane.base_url(), &format!("https://{address}")))
}
