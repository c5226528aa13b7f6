//! A small HTTP client for an API server: single requests and watches.
//!
//! Not here: retries, which callers do.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::Method;
use http::header::{ACCEPT, CONTENT_TYPE};
use reqwest::Response;
use serde_json::Value;

use crate::Connect;
use crate::target::{Target, TargetError};

/// Longest wait for the answer to a single request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// Longest silence on a watch before it is reopened; the server closes watches earlier, on request.
const WATCH_SILENCE: Duration = Duration::from_secs(330);
/// Longest line of a watch, in bytes; the server's own limit on an object is far lower.
const MAX_LINE_BYTES: usize = 16 << 20;

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

/// A client of one API server. Clones share its connections.
#[derive(Debug, Clone)]
pub struct ApiClient {
    http: reqwest::Client,
    base_url: String,
}

impl ApiClient {
    /// Creates a client of the API server behind an endpoint or kubeconfig. The first request connects.
    ///
    /// # Errors
    /// A file, an entry or a credential is missing or unusable.
    pub fn new(connect: &Connect) -> Result<Self, TargetError> {
        let Target { base_url, http } = Target::resolve(connect)?;
        Ok(Self { http, base_url })
    }

    async fn open(
        &self,
        method: Method,
        path: &str,
        content_type: &'static str,
        body: Bytes,
    ) -> Result<Response, ClientError> {
        let request = self
            .http
            .request(method, format!("{}{path}", self.base_url))
            .header(ACCEPT, JSON)
            .header(CONTENT_TYPE, content_type)
            .body(body);
        let response = answered(request.send()).await?;
        if response.status().is_success() {
            return Ok(response);
        }
        let code = response.status().as_u16();
        let body = answered(response.bytes()).await.unwrap_or_default();
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
        answered(self.open(method, path, content_type, body).await?.bytes()).await
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
        Ok(Lines { response, buffer: BytesMut::new(), searched: 0 })
    }
}

async fn answered<T>(reading: impl Future<Output = reqwest::Result<T>>) -> Result<T, ClientError> {
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
#[derive(Debug)]
pub struct Lines {
    response: Response,
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
            let chunk = tokio::time::timeout(WATCH_SILENCE, self.response.chunk()).await;
            match chunk.map_err(|_| ClientError::Transport("the watch went silent".to_owned()))? {
                Ok(None) => return Ok(None),
                Err(error) => return Err(ClientError::Transport(with_causes(&error))),
                Ok(Some(chunk)) => self.buffer.extend_from_slice(&chunk),
            }
        }
    }
}
