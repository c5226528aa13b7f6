//! A small HTTP client for an API server: single requests and watches.
//!
//! Not here: retries; who calls knows what to do.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, USER_AGENT};
use http::{HeaderValue, Method, Request};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use serde_json::Value;

use crate::Target;

/// Answers to single requests; what takes longer is given up.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// Silence on a watch after which it is opened anew; the server is asked to end watches sooner.
const WATCH_SILENCE: Duration = Duration::from_secs(330);
/// One line of a watch; the server's own limit on an object is far lower.
const MAX_LINE_BYTES: usize = 16 << 20;

/// Why a request failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ClientError {
    /// No answer; try again.
    #[error("no answer from the API server: {0}")]
    Transport(String),
    /// The server refused.
    #[error("{code}: {message}")]
    Refused {
        /// HTTP status.
        code: u16,
        /// What the server said.
        message: String,
    },
}

impl ClientError {
    /// The HTTP status, when there was an answer.
    pub fn code(&self) -> Option<u16> {
        match self {
            ClientError::Transport(_) => None,
            ClientError::Refused { code, .. } => Some(*code),
        }
    }
}

/// A client of one API server. Clones share its connections.
#[derive(Debug, Clone)]
pub struct ApiClient {
    http: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    base_url: String,
    authorization: Option<HeaderValue>,
}

impl ApiClient {
    /// A client for this target. Connects when first used.
    pub fn new(target: Target) -> Self {
        let mut http = HttpConnector::new();
        http.set_nodelay(true);
        http.enforce_http(false);
        let tls = target.tls.map_or_else(plain_only, |tls| (*tls).clone());
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_or_http()
            .enable_http1()
            .enable_http2()
            .wrap_connector(http);
        let http = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(Duration::from_secs(60))
            .http2_adaptive_window(true)
            .build(connector);
        // A token that is no header value could not come from a working kubeconfig; the server then answers 401.
        let authorization = target.token.and_then(|token| {
            let mut value = HeaderValue::from_str(&format!("Bearer {token}")).ok()?;
            value.set_sensitive(true);
            Some(value)
        });
        Self { http, base_url: target.base_url, authorization }
    }

    async fn open(
        &self,
        method: Method,
        path: &str,
        content_type: &'static str,
        body: Bytes,
    ) -> Result<hyper::Response<Incoming>, ClientError> {
        let transport = |error: String| ClientError::Transport(error);
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.base_url))
            .header(ACCEPT, "application/json")
            .header(USER_AGENT, "pintle-sim-nodes")
            .header(CONTENT_TYPE, content_type);
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization.clone());
        }
        let request = request.body(Full::new(body)).map_err(|error| transport(error.to_string()))?;
        let answer = tokio::time::timeout(REQUEST_TIMEOUT, self.http.request(request)).await;
        let response =
            answer.map_err(|_| transport("timed out".to_owned()))?.map_err(|error| transport(with_causes(&error)))?;
        if response.status().is_success() {
            return Ok(response);
        }
        let code = response.status().as_u16();
        let body = collect(response).await.unwrap_or_default();
        let message = match serde_json::from_slice::<Value>(&body) {
            Ok(status) if status["message"].is_string() => status["message"].as_str().unwrap_or_default().to_owned(),
            _ => String::from_utf8_lossy(&body[..body.len().min(300)]).into_owned(),
        };
        Err(ClientError::Refused { code, message })
    }

    /// Sends one request and returns the body of the answer.
    ///
    /// # Errors
    /// `Transport` without an answer, `Refused` with one that is not a success.
    ///
    /// # Cancel safety
    /// A request that was dropped may have been carried out.
    pub async fn send(
        &self,
        method: Method,
        path: &str,
        content_type: &'static str,
        body: Bytes,
    ) -> Result<Bytes, ClientError> {
        collect(self.open(method, path, content_type, body).await?).await
    }

    /// Opens a watch.
    ///
    /// # Errors
    /// As [`ApiClient::send`].
    ///
    /// # Cancel safety
    /// Nothing happened when the future is dropped.
    pub async fn watch(&self, path: &str) -> Result<Lines, ClientError> {
        let response = self.open(Method::GET, path, "application/json", Bytes::new()).await?;
        Ok(Lines { body: response.into_body(), buffer: BytesMut::new(), searched: 0 })
    }
}

/// Any TLS settings will do for plain HTTP: they are never used.
fn plain_only() -> rustls::ClientConfig {
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider);
    // ring has a cipher suite for each default version, so the choice cannot fail.
    #[expect(clippy::expect_used, reason = "ring supports every default protocol version")]
    let builder = builder.with_safe_default_protocol_versions().expect("ring supports the default versions");
    builder.with_root_certificates(rustls::RootCertStore::empty()).with_no_client_auth()
}

async fn collect(response: hyper::Response<Incoming>) -> Result<Bytes, ClientError> {
    let body = tokio::time::timeout(REQUEST_TIMEOUT, response.into_body().collect()).await;
    let body = body.map_err(|_| ClientError::Transport("timed out reading the answer".to_owned()))?;
    Ok(body.map_err(|error| ClientError::Transport(with_causes(&error)))?.to_bytes())
}

fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

/// The lines of an open watch.
#[derive(Debug)]
pub struct Lines {
    body: Incoming,
    buffer: BytesMut,
    /// Bytes at the front of the buffer that hold no line end.
    searched: usize,
}

impl Lines {
    /// The next line, or `None` when the server ended the watch.
    ///
    /// # Errors
    /// `Transport` when the connection broke, stayed silent or sent an endless line; open the watch again.
    ///
    /// # Cancel safety
    /// Safe: what was read stays in the buffer.
    pub async fn next(&mut self) -> Result<Option<Bytes>, ClientError> {
        loop {
            if let Some(end) = self.buffer[self.searched..].iter().position(|byte| *byte == b'\n') {
                let line = self.buffer.split_to(self.searched + end + 1).freeze();
                self.searched = 0;
                return Ok(Some(line));
            }
            self.searched = self.buffer.len();
            if self.buffer.len() > MAX_LINE_BYTES {
                return Err(ClientError::Transport("a watch event without an end".to_owned()));
            }
            let frame = tokio::time::timeout(WATCH_SILENCE, self.body.frame()).await;
            match frame.map_err(|_| ClientError::Transport("the watch went silent".to_owned()))? {
                None => return Ok(None),
                Some(Err(error)) => return Err(ClientError::Transport(with_causes(&error))),
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.buffer.extend_from_slice(&data);
                    }
                }
            }
        }
    }
}
