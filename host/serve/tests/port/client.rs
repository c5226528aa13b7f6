//! A port with an API server whose reviews are controlled by the test, and clients.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Empty};
use hyper_util::rt::{TokioExecutor, TokioIo};
use parking_lot::Mutex;
use pintle_core::ports::api::{ApiError, ApiErrorClass};
use pintle_core::ports::review::{ReviewKind, Reviewer};
use pintle_serve::policy::access::AllowedPaths;
use pintle_serve::{
    About, Access, AccessOptions, Bind, CertificateSource, Check, Checks, ClientAuthorities, Pages, Scope, Server,
    Site, Tls, TlsOptions,
};
use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

pub(crate) const TTL: Duration = Duration::from_secs(10);

/// Tokens and permissions.
#[derive(Default)]
pub(crate) struct FakeApiServer {
    /// Token -> user.
    pub(crate) tokens: Mutex<BTreeMap<String, String>>,
    /// Users that may read everything.
    pub(crate) readers: Mutex<Vec<String>>,
    /// Users that may delete.
    pub(crate) deleters: Mutex<Vec<String>>,
    /// Fails this many reviews first, with this status code.
    pub(crate) failures: Mutex<(usize, u16)>,
    /// Whether it never answers reviews for clients without credentials.
    pub(crate) is_silent: AtomicBool,
    pub(crate) n_reviews: AtomicUsize,
    pub(crate) published: Mutex<Option<Result<Value, u16>>>,
}

pub(crate) fn error(code: u16) -> ApiError {
    let class = match code {
        403 => ApiErrorClass::Forbidden,
        404 => ApiErrorClass::NotFound,
        429 => ApiErrorClass::Throttled(None),
        _ => ApiErrorClass::Server,
    };
    ApiError { class, code, reason: String::new(), message: format!("answered {code}"), causes: Vec::new() }
}

impl Reviewer for FakeApiServer {
    fn review(&self, kind: ReviewKind, body: String) -> BoxFuture<'_, Result<Box<str>, ApiError>> {
        self.n_reviews.fetch_add(1, Ordering::Relaxed);
        let (n, code) = &mut *self.failures.lock();
        if *n > 0 {
            *n -= 1;
            let why = error(*code);
            return Box::pin(async move { Err(why) });
        }
        let body: Value = serde_json::from_str(&body).unwrap();
        let spec = &body["spec"];
        if self.is_silent.load(Ordering::Relaxed) && spec["user"] == "system:anonymous" {
            return Box::pin(std::future::pending());
        }
        let status = match kind {
            ReviewKind::Token => {
                let tokens = self.tokens.lock();
                let user = spec["token"].as_str().and_then(|token| tokens.get(token));
                user.map_or(json!({}), |user| json!({"authenticated": true, "user": {"username": user}}))
            }
            ReviewKind::Access => {
                let users = match spec["nonResourceAttributes"]["verb"].as_str() {
                    Some("get") => self.readers.lock().clone(),
                    Some("delete") => self.deleters.lock().clone(),
                    _ => Vec::new(),
                };
                json!({"allowed": users.iter().any(|user| spec["user"] == **user), "reason": "test"})
            }
        };
        let answer = json!({ "status": status }).to_string();
        Box::pin(async move { Ok(answer.into()) })
    }

    fn authentication_config(&self) -> BoxFuture<'_, Result<Box<str>, ApiError>> {
        let answer = match &*self.published.lock() {
            None => Err(error(404)),
            Some(Err(code)) => Err(error(*code)),
            Some(Ok(data)) => Ok(data.to_string().into()),
        };
        Box::pin(async move { answer })
    }
}

struct TestPages;

impl Pages for TestPages {
    fn metrics(&self) -> String {
        "secret 1\n# EOF\n".to_owned()
    }

    fn config(&self) -> Value {
        json!({"example.org": {"kind": "Test"}})
    }

    fn flags(&self) -> BTreeMap<String, String> {
        BTreeMap::from([("secure-port".to_owned(), "1".to_owned())])
    }

    fn about(&self) -> About {
        let started = "2026-11-03T04:05:06Z".parse().unwrap();
        About { started, up: Duration::from_secs(1), version: "1.2.3".into(), emulates: "1.37".into() }
    }

    fn controller(&self, name: &str) -> Option<Value> {
        (name == "widgets").then(|| json!({"name": "widgets"}))
    }

    fn overview(&self) -> Value {
        json!({"plugins": [{"name": "widgets"}]})
    }

    fn detail(&self, name: &str) -> Option<Value> {
        (name == "widgets").then(|| json!({"plugin": {"name": "widgets"}}))
    }
}

/// A port on loopback.
pub(crate) struct Port {
    pub(crate) server: Server,
    pub(crate) api: Arc<FakeApiServer>,
    pub(crate) access: Arc<Access>,
}

pub(crate) fn tls_options() -> TlsOptions {
    TlsOptions {
        certificate: CertificateSource::SelfSigned,
        clients: ClientAuthorities::default(),
        versions: rustls::ALL_VERSIONS,
        cipher_suites: Vec::new(),
        curves: Vec::new(),
        http2: true,
        addresses: Vec::new(),
    }
}

impl Port {
    pub(crate) async fn start(options: TlsOptions) -> Self {
        let api = Arc::new(FakeApiServer::default());
        let tls = Arc::new(Tls::open(options).await.unwrap());
        let options = AccessOptions {
            authentication: Some(api.clone()),
            authorization: Some(api.clone()),
            token_ttl: TTL,
            authorized_ttl: TTL,
            unauthorized_ttl: TTL,
            always_allowed: AllowedPaths::new(["/healthz", "/readyz", "/livez"]).unwrap(),
        };
        let access = Arc::new(Access::new(options, Some(tls.clone())).unwrap());
        let checks = Arc::new(Checks::default());
        checks.add(Check::new("bad", &[pintle_serve::policy::health::Probe::Readyz], || Err("a reason".into())));
        let site = Arc::new(Site::new(checks, Arc::new(TestPages), Some(access.clone()), Scope::All));
        let bind = Bind { address: "127.0.0.1:0".parse().unwrap(), shared_port: false, max_streams: 0 };
        Self { server: Server::start(bind, Some(tls), site).unwrap(), api, access }
    }

    /// Plain HTTP on a loopback address.
    pub(crate) fn of_this_machine() -> Server {
        let site = Site::new(Arc::new(Checks::default()), Arc::new(TestPages), None, Scope::All);
        let bind = Bind { address: "127.0.0.1:0".parse().unwrap(), shared_port: false, max_streams: 0 };
        Server::start(bind, None, Arc::new(site)).unwrap()
    }

    pub(crate) async fn get(&self, path: &str, token: Option<&str>) -> (StatusCode, String) {
        self.send(&Client::default(), "GET", path, token).await
    }

    pub(crate) async fn send(
        &self,
        client: &Client,
        method: &str,
        path: &str,
        token: Option<&str>,
    ) -> (StatusCode, String) {
        let mut request = Request::builder().method(method).uri(path).header("host", "localhost");
        if let Some(token) = token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        for (name, value) in &client.headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Empty::<Bytes>::new()).unwrap();
        let io = TokioIo::new(self.connect(client).await);
        let response = if client.http2 {
            let (mut sender, connection) =
                hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await.unwrap();
            tokio::spawn(connection);
            sender.send_request(request).await.unwrap()
        } else {
            let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await.unwrap();
            tokio::spawn(connection);
            sender.send_request(request).await.unwrap()
        };
        let status = response.status();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8(body.into()).unwrap())
    }

    pub(crate) async fn tcp(&self) -> TcpStream {
        TcpStream::connect(self.server.address()).await.unwrap()
    }

    pub(crate) async fn connect(&self, client: &Client) -> TlsStream<TcpStream> {
        let connector = TlsConnector::from(client.tls());
        connector.connect(ServerName::try_from("localhost").unwrap(), self.tcp().await).await.unwrap()
    }
}

/// A client.
#[derive(Default)]
pub(crate) struct Client {
    pub(crate) certificate: Option<(CertificateDer<'static>, Vec<u8>)>,
    pub(crate) headers: Vec<(&'static str, &'static str)>,
    pub(crate) http2: bool,
}

impl Client {
    fn tls(&self) -> Arc<ClientConfig> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let builder = builder.dangerous().with_custom_certificate_verifier(Arc::new(Anybody));
        let mut config = match &self.certificate {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let key = PrivateKeyDer::try_from(key.clone()).unwrap();
                builder.with_client_auth_cert(vec![certificate.clone()], key).unwrap()
            }
        };
        config.alpn_protocols = if self.http2 { vec![b"h2".to_vec()] } else { Vec::new() };
        Arc::new(config)
    }
}

/// A client authority in PEM, and its issuer.
pub(crate) struct Authority {
    pub(crate) pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self { pem, issuer: Issuer::new(params, key) }
    }

    pub(crate) fn client(&self, name: &str) -> Client {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap().der().clone();
        Client { certificate: Some((certificate, key.serialize_der())), ..Client::default() }
    }
}

/// Accepts every server.
#[derive(Debug)]
struct Anybody;

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        rustls::crypto::ring::default_provider().signature_verification_algorithms.supported_schemes()
    }
}
