//! JSON over kube's client to any Kubernetes API server, the real one and the embedded one.
//!
//! It knows paths and JSON, no kinds: tests must see what the server says, not what a typed client
//! makes of it. Not here: retries, caches, discovery.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{AsyncBufReadExt as _, StreamExt as _, TryStreamExt as _};
use http_body_util::BodyExt as _;
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::rt::TokioExecutor;
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use pintle_kube::{Dial, Route};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::{Value, json};

/// How long one request may take, a watch aside. A request that is stuck must fail its test, not
/// hang it.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(120);

/// A client of one server as one user. Cheap to clone; bound to the async runtime in which it is made.
#[derive(Clone)]
pub struct ApiClient {
    pub(crate) http: Client,
    base: String,
    user_agent: String,
    pause: Duration,
}

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
pub struct Watch {
    lines: BoxStream<'static, std::io::Result<String>>,
}

impl ApiClient {
    /// A client for `base` (scheme, host and port). `ca_pem` is the authority that signed the
    /// server's certificate; none is needed for plain HTTP.
    ///
    /// # Panics
    /// `base` is no URL.
    pub fn new(base: &str, token: Option<&str>, ca_pem: Option<&str>) -> ApiClient {
        let mut config = Config::new(base.parse().expect("the address of a server is a URL"));
        // A certificate that does not parse is missing later, and every request says so.
        let authorities = ca_pem.into_iter().flat_map(|pem| CertificateDer::pem_slice_iter(pem.as_bytes()));
        config.root_cert = Some(authorities.flatten().map(|authority| authority.to_vec()).collect());
        config.auth_info.token = token.map(Into::into);
        ApiClient::of(config).expect("there is no certificate to be wrong")
    }

    /// A client of a server in this process.
    pub fn in_process(base: &str, dial: Dial) -> ApiClient {
        let http = HttpClient::builder(TokioExecutor::new()).build(Route::InProcess(dial));
        ApiClient::over(Client::new(http, "default"), base)
    }

    /// A client for the current context of a kubeconfig file.
    ///
    /// # Errors
    /// The file does not parse, or names a cluster or credentials that it does not hold.
    pub async fn from_kubeconfig(path: &Path) -> Result<ApiClient> {
        let text = std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
        ApiClient::from_kubeconfig_text(&text).await
    }

    /// [`ApiClient::from_kubeconfig`] of what such a file holds.
    ///
    /// # Errors
    /// As `from_kubeconfig`.
    pub async fn from_kubeconfig_text(text: &str) -> Result<ApiClient> {
        let kubeconfig = Kubeconfig::from_yaml(text).context("parse the kubeconfig")?;
        ApiClient::of(Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?)
    }

    fn of(mut config: Config) -> Result<ApiClient> {
        // The authorities of the system are not read.
        config.root_cert.get_or_insert_default();
        config.proxy_url = None;
        // Watches may be silent, and tests see each answer.
        config.read_timeout = None;
        config.default_retry = false;
        let base = config.cluster_url.to_string();
        Ok(ApiClient::over(Client::try_from(config)?, &base))
    }

    fn over(http: Client, base: &str) -> ApiClient {
        let base = base.trim_end_matches('/').to_owned();
        ApiClient { http, base, user_agent: "pintle-tests/1".to_owned(), pause: Duration::ZERO }
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
            let response = self.send(method, path, headers, body).await?;
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
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<Vec<u8>>,
    ) -> Result<http::Response<Body>> {
        let mut request = http::Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.base))
            .header(http::header::USER_AGENT, &self.user_agent);
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
        let request = request.body(Body::from(body.unwrap_or_default())).context("make the request")?;
        Ok(self.http.send(request).await?)
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
        let send = self.send("GET", path, headers, None);
        let response = tokio::time::timeout(REQUEST_TIMEOUT, send)
            .await
            .map_err(|_| anyhow!("no answer in {REQUEST_TIMEOUT:?}"))?
            .with_context(|| format!("watch {path}"))?;
        let status = response.status().as_u16();
        if status != 200 {
            let body = response.into_body().collect().await?.to_bytes();
            return Err(Failure::new(status, &body).into());
        }
        let body = response.into_body().into_data_stream().map_err(std::io::Error::other);
        Ok(Watch { lines: body.into_async_read().lines().boxed() })
    }
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
        match tokio::time::timeout(deadline, self.lines.next()).await {
            Err(_) => bail!("no event in {deadline:?}"),
            Ok(None) => Ok(None),
            Ok(Some(line)) => {
                Ok(Some(serde_json::from_str(&line.context("the watch broke")?).context("parse an event")?))
            }
        }
    }
}
