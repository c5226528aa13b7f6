//! A small HTTP client for an API server: single requests and watches.
//!
//! Not here: retries, which callers do.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{ACCEPT, CONTENT_TYPE, USER_AGENT};
use http::{Method, Response};
use http_body_util::BodyExt as _;
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};
use serde_json::Value;

use crate::Connect;

/// Longest wait for the answer to a single request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// Longest silence on a watch before it is reopened; the server closes watches earlier, on request.
const WATCH_SILENCE: Duration = Duration::from_secs(330);
/// Longest line of a watch, in bytes; the server's own limit on an object is far lower.
const MAX_LINE_BYTES: usize = 16 << 20;

/// Name of this client, and so of the manager of the fields that it writes.
const AGENT: &str = "pintle-sim-nodes";

/// Media types of bodies.
pub(crate) const JSON: &str = "application/json";
pub(crate) const MERGE: &str = "application/merge-patch+json";
pub(crate) const STRATEGIC: &str = "application/strategic-merge-patch+json";

/// A request that changes an object.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// HTTP method.
    pub method: Method,
    /// Path below the server's root.
    pub path: String,
    /// Media type of the body.
    pub content_type: &'static str,
    /// Body.
    pub body: Value,
}

impl Request {
    pub(crate) fn post(path: impl Into<String>, body: Value) -> Self {
        Self { method: Method::POST, path: path.into(), content_type: JSON, body }
    }

    pub(crate) fn patch(path: impl Into<String>, content_type: &'static str, body: Value) -> Self {
        Self { method: Method::PATCH, path: path.into(), content_type, body }
    }

    pub(crate) fn delete(path: impl Into<String>, body: Value) -> Self {
        Self { method: Method::DELETE, path: path.into(), content_type: JSON, body }
    }
}

/// Why a request failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ClientError {
    /// No answer; try again.
    #[error("no answer from the API server: {0}")]
    Transport(String),
    /// The server rejected the request.
    #[error("{code}: {message}")]
    Refused {
        /// HTTP status.
        code: u16,
        /// The server's message.
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

/// Reasons why an API server cannot be addressed. A retry does not help.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// The endpoint is not a URL.
    #[error("the endpoint {url:?} is not a URL: {why}")]
    Endpoint {
        /// The endpoint.
        url: String,
        /// What is wrong with it.
        why: http::uri::InvalidUri,
    },
    /// The kubeconfig is unreadable, is not YAML of the right shape, or refers to something that is missing.
    #[error("the kubeconfig: {0}")]
    Kubeconfig(#[from] KubeconfigError),
    /// A certificate, a key or another credential is unusable.
    #[error("the credentials: {0}")]
    Credentials(#[from] kube::Error),
}

/// A client of one API server. Clones share its connections.
#[derive(Clone)]
pub struct ApiClient {
    http: Client,
}

impl ApiClient {
    /// Creates a client of the API server behind an endpoint or kubeconfig. The first request connects.
    ///
    /// # Errors
    /// A file, an entry or a credential is missing or unusable.
    pub async fn new(connect: &Connect) -> Result<Self, TargetError> {
        let of = async |kubeconfig| Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
        let mut config = match connect {
            Connect::Client(client) => return Ok(Self { http: client.clone() }),
            Connect::Endpoint(url) => {
                Config::new(url.parse().map_err(|why| TargetError::Endpoint { url: url.clone(), why })?)
            }
            Connect::Kubeconfig(text) => of(Kubeconfig::from_yaml(text)?).await?,
            Connect::KubeconfigFile(path) => of(Kubeconfig::read_from(path)?).await?,
        };
        // The callers try again.
        config.default_retry = false;
        Ok(Self { http: Client::try_from(config)? })
    }

    async fn open(
        &self,
        method: Method,
        path: &str,
        content_type: &'static str,
        body: Bytes,
    ) -> Result<Response<Body>, ClientError> {
        let request = http::Request::builder()
            .method(method)
            .uri(path)
            .header(ACCEPT, JSON)
            .header(CONTENT_TYPE, content_type)
            .header(USER_AGENT, AGENT)
            .body(Body::from(body.to_vec()))
            .map_err(|why| ClientError::Transport(why.to_string()))?;
        let response = answered(self.http.send(request)).await?;
        if response.status().is_success() {
            return Ok(response);
        }
        let code = response.status().as_u16();
        let body = answered(response.into_body().collect()).await.map(|body| body.to_bytes()).unwrap_or_default();
        let message = match serde_json::from_slice::<Value>(&body) {
            Ok(status) if status["message"].is_string() => status["message"].as_str().unwrap_or_default().to_owned(),
            _ => String::from_utf8_lossy(&body[..body.len().min(300)]).into_owned(),
        };
        Err(ClientError::Refused { code, message })
    }

    /// Sends one request and returns the body of the answer.
    ///
    /// # Errors
    /// `Transport` without an answer (a retry may help), `Refused` with one that is not a success.
    ///
    /// # Cancel safety
    /// The server may have carried out a dropped request.
    pub async fn send(
        &self,
        method: Method,
        path: &str,
        content_type: &'static str,
        body: Bytes,
    ) -> Result<Bytes, ClientError> {
        let response = self.open(method, path, content_type, body).await?;
        Ok(answered(response.into_body().collect()).await?.to_bytes())
    }

    /// Sends a request that changes an object, as [`ApiClient::send`].
    pub(crate) async fn perform(&self, request: &Request) -> Result<Bytes, ClientError> {
        let body = Bytes::from(request.body.to_string());
        self.send(request.method.clone(), &request.path, request.content_type, body).await
    }

    /// Opens a watch.
    ///
    /// # Errors
    /// As [`ApiClient::send`].
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing on the server.
    pub async fn watch(&self, path: &str) -> Result<Lines, ClientError> {
        let response = self.open(Method::GET, path, JSON, Bytes::new()).await?;
        Ok(Lines { body: response.into_body(), buffer: BytesMut::new(), searched: 0 })
    }
}

async fn answered<T>(reading: impl Future<Output = kube::Result<T>>) -> Result<T, ClientError> {
    match tokio::time::timeout(REQUEST_TIMEOUT, reading).await {
        Err(_) => Err(ClientError::Transport("timed out".to_owned())),
        Ok(done) => done.map_err(|error| ClientError::Transport(with_causes(&error))),
    }
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
pub struct Lines {
    body: Body,
    buffer: BytesMut,
    /// Bytes at the front of the buffer without a line end.
    searched: usize,
}

impl Lines {
    /// The next line, or `None` when the server ended the watch.
    ///
    /// # Errors
    /// `Transport` when the connection broke, stayed silent or sent a line over the limit; reopen the watch.
    ///
    /// # Cancel safety
    /// Safe: bytes that were read stay in the buffer.
    pub async fn next(&mut self) -> Result<Option<Bytes>, ClientError> {
        loop {
            if let Some(end) = self.buffer[self.searched..].iter().position(|byte| *byte == b'\n') {
                let line = self.buffer.split_to(self.searched + end + 1).freeze();
                self.searched = 0;
                return Ok(Some(line));
            }
            self.searched = self.buffer.len();
            if self.buffer.len() > MAX_LINE_BYTES {
                return Err(ClientError::Transport("a watch event exceeds the length limit".to_owned()));
            }
            let frame = tokio::time::timeout(WATCH_SILENCE, self.body.frame()).await;
            match frame.map_err(|_| ClientError::Transport("the watch went silent".to_owned()))? {
                None => return Ok(None),
                Some(Err(error)) => return Err(ClientError::Transport(with_causes(&error))),
                Some(Ok(frame)) => self.buffer.extend(frame.into_data()),
            }
        }
    }
}
