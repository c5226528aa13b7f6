//! Requests of kube's client to an API server: single ones and watches.
//!
//! Not here: retries, which callers do.

use std::time::Duration;

use futures::Stream;
use http::Method;
use http::header::{ACCEPT, CONTENT_TYPE, USER_AGENT};
use kube::api::WatchEvent;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::Connect;

/// Timeout of a single request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Name of this client, which is also its field manager.
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

/// The reason why a request failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ClientError {
    /// No response; a retry may help.
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
    /// The HTTP status, if there was a response.
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
        /// The parse error.
        why: http::uri::InvalidUri,
    },
    /// The kubeconfig is unreadable, has an invalid structure, or refers to a missing entry.
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
        // The callers retry.
        config.default_retry = false;
        Ok(Self { http: Client::try_from(config)? })
    }

    /// Sends one request and returns the body of the response.
    ///
    /// # Errors
    /// `Transport` without a response (a retry may help), `Refused` with an error response.
    ///
    /// # Cancel safety
    /// The server may have carried out a dropped request.
    pub async fn send(
        &self,
        method: Method,
        path: &str,
        content_type: &'static str,
        body: Vec<u8>,
    ) -> Result<String, ClientError> {
        answered(self.http.request_text(request(method, path, content_type, body)?)).await
    }

    /// Sends a request that changes an object, as [`ApiClient::send`].
    pub(crate) async fn perform(&self, request: &Request) -> Result<String, ClientError> {
        let body = request.body.to_string().into_bytes();
        self.send(request.method.clone(), &request.path, request.content_type, body).await
    }

    /// Opens a watch. After an error event, it must be opened again.
    ///
    /// # Errors
    /// As [`ApiClient::send`].
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing on the server.
    pub(crate) async fn watch<T: Clone + DeserializeOwned>(
        &self,
        path: &str,
    ) -> Result<impl Stream<Item = kube::Result<WatchEvent<T>>> + use<T>, ClientError> {
        answered(self.http.request_events(request(Method::GET, path, JSON, Vec::new())?)).await
    }
}

fn request(
    method: Method,
    path: &str,
    content_type: &'static str,
    body: Vec<u8>,
) -> Result<http::Request<Vec<u8>>, ClientError> {
    http::Request::builder()
        .method(method)
        .uri(path)
        .header(ACCEPT, JSON)
        .header(CONTENT_TYPE, content_type)
        .header(USER_AGENT, AGENT)
        .body(body)
        .map_err(|why| ClientError::Transport(why.to_string()))
}

async fn answered<T>(reading: impl Future<Output = kube::Result<T>>) -> Result<T, ClientError> {
    match tokio::time::timeout(REQUEST_TIMEOUT, reading).await {
        Err(_) => Err(ClientError::Transport("timed out".to_owned())),
        Ok(Err(kube::Error::Api(status))) => {
            Err(ClientError::Refused { code: status.code, message: status.message.clone() })
        }
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
