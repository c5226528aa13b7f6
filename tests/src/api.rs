//! A small client that speaks JSON to any Kubernetes API server, the real one and the embedded one.
//!
//! It knows paths and JSON, no kinds: tests must see what the server says, not what a typed client
//! makes of it. Not here: retries, caches, discovery.

use std::fmt;
use std::io::BufReader;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use pintle_kube::{Dial, Route};
use rustls::client::WantsClientCert;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, ConfigBuilder, RootCertStore};
use serde_json::{Value, json};

/// How long one request may take, a watch aside. A request that is stuck must fail its test, not
/// hang it.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(120);

/// A client of one server as one user. Cheap to clone; bound to the async runtime that uses it first.
#[derive(Clone)]
pub struct ApiClient {
    http: Http,
    /// One connection for each watch: a connection of HTTP/2 has room for 100.
    watches: Http,
    base: String,
    token: Option<String>,
    user_agent: String,
    pause: Duration,
}

type Http = Client<HttpsConnector<Route>, Full<Bytes>>;

/// TLS of a client that has no certificate yet.
type Unidentified = ConfigBuilder<ClientConfig, WantsClientCert>;

/// The answer to one request, whatever its status.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The HTTP status code.
    pub status: u16,
    /// The media type, without parameters.
    pub content_type: String,
    /// The body as it came.
    pub body: Bytes,
}

/// The server's refusal of a request.
#[derive(Debug, Clone)]
pub struct Failure {
    /// The HTTP status code.
    pub code: u16,
    /// The reason of the `Status` object, or empty.
    pub reason: String,
    /// The message of the `Status` object, or the whole body.
    pub message: String,
}

/// The four patch types of the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PatchKind {
    /// RFC 6902.
    Json,
    /// RFC 7386.
    Merge,
    /// Strategic merge patch: lists merge by the keys that the schema names.
    StrategicMerge,
    /// Server-side apply; the path must carry `fieldManager`.
    Apply,
}

/// The events of one watch.
#[derive(Debug)]
pub struct Watch {
    body: Incoming,
    buffer: BytesMut,
}

impl ApiClient {
    /// A client for `base` (scheme, host and port). `ca_pem` is the authority that signed the
    /// server's certificate; none is needed for plain HTTP.
    pub fn new(base: &str, token: Option<&str>, ca_pem: Option<&str>) -> ApiClient {
        ApiClient::anonymous(base, token, ca_pem, tcp())
    }

    /// A client of a server in this process.
    pub fn in_process(base: &str, dial: Dial) -> ApiClient {
        ApiClient::anonymous(base, None, None, Route::InProcess(dial))
    }

    fn anonymous(base: &str, token: Option<&str>, ca_pem: Option<&str>, route: Route) -> ApiClient {
        let anonymous = |tls: Unidentified| Ok(tls.with_no_client_auth());
        ApiClient::with_tls(base, token, ca_pem, route, anonymous).expect("there is no certificate to be wrong")
    }

    fn with_tls(
        base: &str,
        token: Option<&str>,
        ca_pem: Option<&str>,
        route: Route,
        identify: impl FnOnce(Unidentified) -> Result<ClientConfig>,
    ) -> Result<ApiClient> {
        let mut roots = RootCertStore::empty();
        if let Some(pem) = ca_pem {
            let certs = CertificateDer::pem_reader_iter(BufReader::new(pem.as_bytes()));
            // A certificate that does not parse is missing later, and every request says so.
            roots.add_parsable_certificates(certs.flatten());
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("ring supports the default protocol versions");
        let tls = identify(tls.with_root_certificates(roots))?;
        let secured = || HttpsConnectorBuilder::new().with_tls_config(tls.clone()).https_or_http();
        let mut builder = Client::builder(TokioExecutor::new());
        if base.starts_with("https:") && token.is_none() && !tls.client_auth_cert_resolver.has_certs() {
            // Servers of Kubernetes end an HTTP/2 connection after the answer to a client without credentials. A request on
            // it would fail if the server's GOAWAY is on its way.
            builder.pool_max_idle_per_host(0);
        }
        let client = |connector| builder.build(connector);
        Ok(ApiClient {
            http: client(secured().enable_http1().enable_http2().wrap_connector(route.clone())),
            watches: client(secured().enable_http1().wrap_connector(route)),
            base: base.trim_end_matches('/').to_owned(),
            token: token.map(str::to_owned),
            user_agent: "pintle-tests/1".to_owned(),
            pause: Duration::ZERO,
        })
    }

    /// A client for the current context of a kubeconfig file, with a token, a certificate in it, or no credentials.
    ///
    /// # Errors
    /// The file does not parse, or names a cluster that it does not hold.
    pub fn from_kubeconfig(path: &Path) -> Result<ApiClient> {
        let text = std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
        ApiClient::from_kubeconfig_text(&text)
    }

    /// [`ApiClient::from_kubeconfig`] of what such a file holds.
    ///
    /// # Errors
    /// As `from_kubeconfig`.
    pub fn from_kubeconfig_text(text: &str) -> Result<ApiClient> {
        let config: Value = serde_norway::from_str(text).context("parse the kubeconfig")?;
        let named = |list: &str, name: &Value, inner: &str| -> Option<Value> {
            let entries = config[list].as_array()?;
            let entry = entries.iter().find(|e| &e["name"] == name)?;
            Some(entry[inner].clone())
        };
        let context = named("contexts", &config["current-context"], "context")
            .context("the kubeconfig has no current context")?;
        let cluster =
            named("clusters", &context["cluster"], "cluster").context("the kubeconfig has no such cluster")?;
        let user = named("users", &context["user"], "user").unwrap_or_default();
        let server = cluster["server"].as_str().context("no server")?;
        let ca = match (cluster["certificate-authority"].as_str(), cluster["certificate-authority-data"].as_str()) {
            (Some(file), _) => Some(std::fs::read_to_string(file).context("read the CA")?),
            (None, Some(data)) => {
                let bytes = STANDARD.decode(data).context("decode the CA")?;
                Some(String::from_utf8(bytes).context("the CA is not PEM")?)
            }
            (None, None) => None,
        };
        ApiClient::with_tls(server, user["token"].as_str(), ca.as_deref(), tcp(), |tls| {
            let data = |name: &str| user[name].as_str().map(|data| STANDARD.decode(data)).transpose();
            match (data("client-certificate-data")?, data("client-key-data")?) {
                (Some(certificate), Some(key)) => {
                    let chain = CertificateDer::pem_slice_iter(&certificate).collect::<Result<_, _>>()?;
                    Ok(tls.with_client_auth_cert(chain, PrivateKeyDer::from_pem_slice(&key)?)?)
                }
                _ => Ok(tls.with_no_client_auth()),
            }
        })
    }

    /// The same client under another user agent, which is also its default field manager.
    #[must_use]
    pub fn with_user_agent(mut self, user_agent: &str) -> ApiClient {
        user_agent.clone_into(&mut self.user_agent);
        self
    }

    /// The same client, which pauses for so long before each request.
    #[must_use]
    pub fn with_pause(self, pause: Duration) -> ApiClient {
        ApiClient { pause, ..self }
    }

    /// The server's scheme, host and port.
    pub fn base_url(&self) -> &str {
        &self.base
    }

    /// Sends one request and returns the answer, refusals included.
    ///
    /// # Errors
    /// No answer came: connection refused, broken or timed out.
    pub async fn request(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<Vec<u8>>,
    ) -> Result<Answer> {
        if !self.pause.is_zero() {
            tokio::time::sleep(self.pause).await;
        }
        let whole = async {
            let response = self.send(&self.http, method, path, headers, body).await?;
            let (parts, body) = response.into_parts();
            let body = body.collect().await.context("read the answer")?.to_bytes();
            let content_type = parts
                .headers
                .get(http::header::CONTENT_TYPE)
                .and_then(|v| v.to_str().ok())
                .and_then(|v| v.split(';').next())
                .unwrap_or_default();
            Ok(Answer { status: parts.status.as_u16(), content_type: content_type.to_owned(), body })
        };
        tokio::time::timeout(REQUEST_TIMEOUT, whole)
            .await
            .unwrap_or_else(|_| Err(anyhow!("no answer in {REQUEST_TIMEOUT:?}")))
            .with_context(|| format!("{method} {path}"))
    }

    async fn send(
        &self,
        client: &Http,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<Vec<u8>>,
    ) -> Result<http::Response<Incoming>> {
        let mut request = http::Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.base))
            .header(http::header::USER_AGENT, &self.user_agent);
        if let Some(token) = &self.token {
            request = request.header(http::header::AUTHORIZATION, format!("Bearer {token}"));
        }
        let named = |name: &str| headers.iter().any(|(n, _)| n.eq_ignore_ascii_case(name));
        if !named("accept") {
            request = request.header(http::header::ACCEPT, "application/json");
        }
        if body.is_some() && !named("content-type") {
            request = request.header(http::header::CONTENT_TYPE, "application/json");
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let body = Full::new(Bytes::from(body.unwrap_or_default()));
        let request = request.body(body).context("make the request")?;
        Ok(client.request(request).await?)
    }

    async fn call(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Value> {
        let body = body.map(serde_json::to_vec).transpose()?;
        self.request(method, path, &[], body).await?.object()
    }

    /// Reads an object or a list, or any other JSON that the path answers.
    ///
    /// # Errors
    /// [`Failure`] when the server refuses; a transport error otherwise. The same holds for all verbs.
    pub async fn get(&self, path: &str) -> Result<Value> {
        self.call("GET", path, None).await
    }

    /// Reads an object; `None` when it does not exist.
    ///
    /// # Errors
    /// As [`ApiClient::get`], not-found aside.
    pub async fn find(&self, path: &str) -> Result<Option<Value>> {
        match self.get(path).await {
            Ok(object) => Ok(Some(object)),
            Err(error) if Failure::code_of(&error) == Some(404) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The items of a list.
    ///
    /// # Errors
    /// As [`ApiClient::get`].
    pub async fn list(&self, path: &str) -> Result<Vec<Value>> {
        match self.get(path).await?["items"].take() {
            Value::Array(items) => Ok(items),
            _ => Ok(Vec::new()),
        }
    }

    /// POSTs an object to its collection (or a subresource).
    ///
    /// # Errors
    /// As [`ApiClient::get`].
    pub async fn create(&self, path: &str, object: &Value) -> Result<Value> {
        self.call("POST", path, Some(object)).await
    }

    /// PUTs an object or a subresource.
    ///
    /// # Errors
    /// As [`ApiClient::get`].
    pub async fn update(&self, path: &str, object: &Value) -> Result<Value> {
        self.call("PUT", path, Some(object)).await
    }

    /// Patches an object or a subresource.
    ///
    /// # Errors
    /// As [`ApiClient::get`].
    pub async fn patch(&self, path: &str, kind: PatchKind, patch: &Value) -> Result<Value> {
        let headers = [("content-type", kind.content_type())];
        let body = Some(serde_json::to_vec(patch)?);
        self.request("PATCH", path, &headers, body).await?.object()
    }

    /// Applies an object server-side.
    ///
    /// # Errors
    /// As [`ApiClient::get`].
    pub async fn apply(&self, path: &str, manager: &str, force: bool, object: &Value) -> Result<Value> {
        let path = format!("{path}?fieldManager={manager}&force={force}");
        self.patch(&path, PatchKind::Apply, object).await
    }

    /// Deletes an object or a collection; `options` is a `DeleteOptions` body.
    ///
    /// # Errors
    /// As [`ApiClient::get`].
    pub async fn delete(&self, path: &str, options: Option<&Value>) -> Result<Value> {
        self.call("DELETE", path, options).await
    }

    /// Creates a namespace.
    ///
    /// # Errors
    /// As [`ApiClient::get`].
    pub async fn create_namespace(&self, name: &str) -> Result<Value> {
        let object = json!({"metadata": {"name": name}});
        self.create("/api/v1/namespaces", &object).await
    }

    /// Opens a watch: `path` carries `watch=true` and whatever else it wants.
    ///
    /// # Errors
    /// As [`ApiClient::get`].
    pub async fn watch(&self, path: &str) -> Result<Watch> {
        self.watch_with(path, &[]).await
    }

    /// [`ApiClient::watch`] with headers, for example another representation of the objects.
    ///
    /// # Errors
    /// As [`ApiClient::get`].
    pub async fn watch_with(&self, path: &str, headers: &[(&str, &str)]) -> Result<Watch> {
        let send = self.send(&self.watches, "GET", path, headers, None);
        let response = tokio::time::timeout(REQUEST_TIMEOUT, send)
            .await
            .map_err(|_| anyhow!("no answer in {REQUEST_TIMEOUT:?}"))?
            .with_context(|| format!("watch {path}"))?;
        let status = response.status().as_u16();
        if status != 200 {
            let body = response.into_body().collect().await?.to_bytes();
            return Err(Failure::new(status, &body).into());
        }
        Ok(Watch { body: response.into_body(), buffer: BytesMut::new() })
    }
}

/// The way to servers of other processes.
fn tcp() -> Route {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    Route::Tcp(tcp)
}

impl fmt::Debug for ApiClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ApiClient({})", self.base)
    }
}

impl Answer {
    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON.
    ///
    /// # Errors
    /// It is something else.
    pub fn json(&self) -> Result<Value> {
        serde_json::from_slice(&self.body).with_context(|| format!("the answer is not JSON: {}", self.text()))
    }

    /// The body as JSON if the server did what was asked.
    ///
    /// # Errors
    /// [`Failure`] when it did not.
    pub fn object(&self) -> Result<Value> {
        if (200..300).contains(&self.status) { self.json() } else { Err(Failure::new(self.status, &self.body).into()) }
    }
}

impl Failure {
    fn new(code: u16, body: &[u8]) -> Failure {
        let status: Value = serde_json::from_slice(body).unwrap_or_default();
        let message = match status["message"].as_str() {
            Some(message) => message.to_owned(),
            None => String::from_utf8_lossy(body).into_owned(),
        };
        Failure { code, reason: status["reason"].as_str().unwrap_or_default().to_owned(), message }
    }

    /// The HTTP status code of an error, if it is a refusal at all.
    pub fn code_of(error: &anyhow::Error) -> Option<u16> {
        error.downcast_ref::<Failure>().map(|f| f.code)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.code, self.reason, self.message)
    }
}

impl std::error::Error for Failure {}

impl PatchKind {
    /// The media type of the patch body.
    pub fn content_type(self) -> &'static str {
        match self {
            PatchKind::Json => "application/json-patch+json",
            PatchKind::Merge => "application/merge-patch+json",
            PatchKind::StrategicMerge => "application/strategic-merge-patch+json",
            PatchKind::Apply => "application/apply-patch+yaml",
        }
    }
}

impl Watch {
    /// The next event; `None` when the server ended the watch.
    ///
    /// # Errors
    /// Nothing came within `deadline`, the connection broke, or a line is not JSON.
    ///
    /// # Cancel safety
    /// Safe: what has arrived stays in the buffer.
    pub async fn next(&mut self, deadline: Duration) -> Result<Option<Value>> {
        let until = tokio::time::Instant::now() + deadline;
        loop {
            if let Some(end) = self.buffer.iter().position(|b| *b == b'\n') {
                let line = self.buffer.split_to(end + 1);
                return Ok(Some(serde_json::from_slice(&line).context("parse an event")?));
            }
            match tokio::time::timeout_at(until, self.body.frame()).await {
                Err(_) => bail!("no event in {deadline:?}"),
                Ok(None) => return Ok(None),
                Ok(Some(frame)) => {
                    let frame = frame.context("the watch broke")?;
                    if let Ok(data) = frame.into_data() {
                        self.buffer.extend_from_slice(&data);
                    }
                }
            }
        }
    }
}
