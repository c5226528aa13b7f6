//! An API server with TLS and HTTP/2, and the proxies between it and its clients.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use futures::StreamExt as _;
use http_body_util::{BodyExt, Full, StreamBody, combinators::BoxBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use pintle_kube::{Connection, Limits, Source};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

/// A certificate authority.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    pub(crate) fn pem(&self) -> String {
        self.0.pem()
    }

    /// A certificate and its key, both in PEM, for 127.0.0.1 and this common name.
    pub(crate) fn issue(&self, name: &str) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned(), "api.test".to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        let certificate = params.signed_by(&key, &self.0).unwrap();
        (certificate.pem(), key.serialize_pem())
    }
}

fn parsed((certificate, key): &(String, String)) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
    use rustls::pki_types::pem::PemObject as _;
    (
        vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()],
        PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap(),
    )
}

/// Properties of a received request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) connection: usize,
    pub(crate) path: String,
    pub(crate) authorization: String,
    /// The client's certificate in base64; empty without one.
    pub(crate) certificate: String,
    pub(crate) version: String,
}

/// The server.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) seen: Arc<Mutex<Vec<Seen>>>,
    /// Accepted tokens; any if empty.
    pub(crate) tokens: Arc<Mutex<Vec<String>>>,
    tls: watch::Sender<Arc<ServerConfig>>,
}

impl Server {
    /// Starts a server with a certificate of `authority`, which accepts clients with certificates of `clients`, or
    /// without one.
    pub(crate) async fn start(authority: &Authority, clients: &Authority) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let tls = watch::Sender::new(tls(authority, clients));
        let (seen, tokens) = (Arc::default(), Arc::default());
        let server = Self { address, seen, tokens, tls };
        let (seen, tokens, configs) = (server.seen.clone(), server.tokens.clone(), server.tls.subscribe());
        tokio::spawn(async move {
            for connection in 0.. {
                let Ok((stream, _)) = listener.accept().await else { return };
                let acceptor = TlsAcceptor::from(configs.borrow().clone());
                let (seen, tokens) = (seen.clone(), tokens.clone());
                tokio::spawn(async move {
                    // A client that does not trust the certificate ends the handshake.
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    let peer = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
                    let certificate = peer.map(|der| base64::engine::general_purpose::STANDARD.encode(der));
                    let certificate = certificate.unwrap_or_default();
                    let service = service_fn(move |request: Request<Incoming>| {
                        let authorization = request.headers().get("authorization");
                        let one = Seen {
                            connection,
                            path: request.uri().path().to_owned(),
                            authorization: authorization.map_or("", |value| value.to_str().unwrap()).to_owned(),
                            certificate: certificate.clone(),
                            version: format!("{:?}", request.version()),
                        };
                        let is_watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
                        let tokens = tokens.lock().unwrap();
                        let token = one.authorization.strip_prefix("Bearer ").unwrap_or_default();
                        let accepted = tokens.is_empty() || tokens.iter().any(|valid| valid == token);
                        seen.lock().unwrap().push(one);
                        let answer = answer(accepted, is_watch);
                        async { Ok::<_, Infallible>(answer) }
                    });
                    // A client that disconnects is not a failure.
                    let _ = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new())
                        .serve_connection(TokioIo::new(stream), service)
                        .await;
                });
            }
        });
        server
    }

    /// Uses another certificate for new connections.
    pub(crate) fn rotate(&self, authority: &Authority, clients: &Authority) {
        self.tls.send_replace(tls(authority, clients));
    }

    pub(crate) fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    pub(crate) fn last(&self) -> Seen {
        self.seen.lock().unwrap().last().cloned().unwrap()
    }

    /// The tokens of all requests so far, in order.
    pub(crate) fn tokens_seen(&self) -> Vec<String> {
        let seen = self.seen.lock().unwrap();
        seen.iter().map(|one| one.authorization.trim_start_matches("Bearer ").to_owned()).collect()
    }
}

fn tls(authority: &Authority, clients: &Authority) -> Arc<ServerConfig> {
    use rustls::pki_types::pem::PemObject as _;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(clients.pem().as_bytes()).unwrap()).unwrap();
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone())
        .allow_unauthenticated()
        .build()
        .unwrap();
    let (chain, key) = parsed(&authority.issue("server"));
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain, key)
        .unwrap();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Arc::new(config)
}

fn answer(accepted: bool, is_watch: bool) -> Response<BoxBody<Bytes, Infallible>> {
    let (code, body) = match accepted {
        true => (200, json!({"kind": "APIVersions", "metadata": {"resourceVersion": "7"}, "items": []})),
        false => (401, json!({"kind": "Status", "code": 401, "reason": "Unauthorized", "message": "Unauthorized"})),
    };
    let body = match is_watch && accepted {
        true => {
            let frame = r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"7"}}}"#;
            let first = futures::stream::once(async move { Ok(Frame::data(Bytes::from(format!("{frame}\n")))) });
            BodyExt::boxed(StreamBody::new(first.chain(futures::stream::pending())))
        }
        false => BodyExt::boxed(Full::new(Bytes::from(body.to_string()))),
    };
    Response::builder().status(code).body(body).unwrap()
}

/// A folder with a kubeconfig and the files that it refers to.
pub(crate) struct Files(pub(crate) TempDir);

impl Files {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        // As with kubelet and cert-manager, the file is replaced atomically.
        let new = self.path("new");
        std::fs::write(&new, text).unwrap();
        std::fs::rename(new, &path).unwrap();
        path
    }

    /// Writes a kubeconfig.
    pub(crate) fn kubeconfig(&self, cluster: Value, user: Value) -> PathBuf {
        let text = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": user}],
        });
        self.write("kubeconfig", &text.to_string())
    }
}

/// Detects changed files at each request, and does not give up slow peers.
fn patient() -> Limits {
    Limits {
        ping_timeout: Duration::from_secs(600),
        connect_timeout: Duration::from_secs(600),
        reload_interval: Duration::ZERO,
        renew_pause: Duration::ZERO,
        ..Limits::default()
    }
}

pub(crate) async fn open(path: &Path) -> Connection {
    open_with(path, patient()).await
}

pub(crate) async fn open_with(path: &Path, limits: Limits) -> Connection {
    let source = Source::File { path: path.to_owned(), context: None };
    Connection::open_with(&source, limits).await.unwrap()
}

/// An HTTP or SOCKS5 proxy on loopback. Its log has one line per connection: target and credentials.
pub(crate) async fn proxy(socks: bool) -> (SocketAddr, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let log: Arc<Mutex<Vec<String>>> = Arc::default();
    let lines = log.clone();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let lines = lines.clone();
            tokio::spawn(async move {
                let mut client = client;
                let (target, line) = if socks { socks5(&mut client).await } else { connect(&mut client).await };
                lines.lock().unwrap().push(line);
                let mut server = TcpStream::connect(target).await.unwrap();
                let answer: &[u8] = if socks {
                    &[5, 0, 0, 1, 0, 0, 0, 0, 0, 0]
                } else {
                    b"HTTP/1.1 200 Connection established\r\n\r\n"
                };
                client.write_all(answer).await.unwrap();
                // A client that disconnects is not a failure.
                let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
            });
        }
    });
    (address, log)
}

async fn connect(client: &mut TcpStream) -> (String, String) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(client.read_u8().await.unwrap());
    }
    let head = String::from_utf8(head).unwrap();
    let target = head.split_whitespace().nth(1).unwrap().to_owned();
    let header = head.lines().find(|line| line.to_ascii_lowercase().starts_with("proxy-authorization"));
    let credentials = header.and_then(|line| line.rsplit(' ').next()).map(|encoded| {
        let decoded = base64::engine::general_purpose::STANDARD.decode(encoded).unwrap();
        String::from_utf8(decoded).unwrap()
    });
    let line = format!("{target} {}", credentials.unwrap_or_default());
    (target, line)
}

async fn socks5(client: &mut TcpStream) -> (String, String) {
    let text = async |client: &mut TcpStream| {
        let n = client.read_u8().await.unwrap();
        let mut bytes = vec![0; n.into()];
        client.read_exact(&mut bytes).await.unwrap();
        bytes
    };
    assert_eq!(client.read_u8().await.unwrap(), 5);
    let methods = text(client).await;
    let mut credentials = String::new();
    if methods.contains(&2) {
        client.write_all(&[5, 2]).await.unwrap();
        assert_eq!(client.read_u8().await.unwrap(), 1);
        let (user, password) = (text(client).await, text(client).await);
        credentials = format!("{}:{}", String::from_utf8(user).unwrap(), String::from_utf8(password).unwrap());
        client.write_all(&[1, 0]).await.unwrap();
    } else {
        client.write_all(&[5, 0]).await.unwrap();
    }
    let mut head = [0; 4];
    client.read_exact(&mut head).await.unwrap();
    let host = match head[3] {
        1 => {
            let mut ip = [0; 4];
            client.read_exact(&mut ip).await.unwrap();
            std::net::Ipv4Addr::from(ip).to_string()
        }
        _ => String::from_utf8(text(client).await).unwrap(),
    };
    let target = format!("{host}:{}", client.read_u16().await.unwrap());
    let line = format!("{target} {credentials}");
    (target, line)
}
