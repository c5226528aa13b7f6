//! Service accounts that plugins write under, each with its own token.
//!
//! ```text
//! request ──> token (cached) ──> API server
//!               └─ absent, or rejected: TokenRequest as the host ── no such account: create it, retry
//! ```
//!
//! Invariants:
//! 1. A request of an account never carries the host's own credentials: a client certificate would take precedence over
//!    the token.
//! 2. A token is fetched by one request at a time; it is renewed when a fifth of its lifetime is left.
//! 3. A token that the server rejects is discarded, and the request is sent once more with a new one. This is safe: a
//!    server answers 401 before it writes anything.
//!
//! Source: `DynamicControllerClientBuilder` in `k8s.io/controller-manager/pkg/clientbuilder`. The monotonic clock
//! measures a token's life from the answer that contains it, so a wrong wall clock does not matter.

use std::time::Duration;

use http::{HeaderValue, Request, header};
use kube::client::Body;
use pintle_core::policy::account::NAMESPACE;
use pintle_core::policy::roles;
use pintle_core::ports::api::{ApiError, ApiErrorClass, at_most};
use serde::Deserialize;
use serde_json::json;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::connect::Connection;
use crate::error;
use crate::read::whole;

/// Requested lifetime of a token; upstream's value.
const LIFE: Duration = Duration::from_secs(3600);
/// Shortest lifetime accepted from the server; upstream's value.
const SHORTEST_LIFE: Duration = Duration::from_secs(600);

/// Reason of the error if there is no token and therefore nothing was sent.
pub(crate) const NO_TOKEN: &str = "NoToken";

/// A service account of [`NAMESPACE`].
pub(crate) struct Account {
    name: String,
    token: Mutex<Option<Token>>,
}

#[derive(Clone)]
struct Token {
    header: HeaderValue,
    renew_at: Instant,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Answer {
    spec: AnswerSpec,
    status: AnswerStatus,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct AnswerSpec {
    expiration_seconds: u64,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct AnswerStatus {
    token: String,
}

impl Account {
    pub(crate) fn new(name: &str) -> Self {
        Self { name: name.to_owned(), token: Mutex::new(None) }
    }

    /// Returns the value of the `Authorization` header. `host` is the connection with the host's own credentials.
    ///
    /// # Errors
    /// If there is no token, so that nothing was sent. The class is always [`ApiErrorClass::Unauthorized`], whatever
    /// the cause, so that callers do not mistake it for an answer to their own request. A retry may help.
    ///
    /// # Cancel safety
    /// Dropping the future may leave a created account; the next call uses it.
    pub(crate) async fn authorization(&self, host: &Connection) -> Result<HeaderValue, ApiError> {
        let mut token = self.token.lock().await;
        if let Some(token) = token.as_ref().filter(|token| Instant::now() < token.renew_at) {
            return Ok(token.header.clone());
        }
        let new = match self.request(host).await {
            // The account does not exist or was deleted. Creating it is enough, because roles bind to its name.
            Err(error) if error.class == ApiErrorClass::NotFound => {
                self.create(host).await?;
                self.request(host).await.map_err(|error| self.failed("get a token for", &error))?
            }
            Err(error) => return Err(self.failed("get a token for", &error)),
            Ok(new) => new,
        };
        Ok(token.insert(new).header.clone())
    }

    /// Discards a token that the server rejected.
    pub(crate) async fn refused(&self, used: &HeaderValue) {
        let mut token = self.token.lock().await;
        if token.take_if(|token| token.header == *used).is_some() {
            tracing::warn!(account = self.name, "the API server rejected the account's token; a new one is requested");
        }
    }

    async fn request(&self, host: &Connection) -> Result<Token, ApiError> {
        let path = format!("/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{}/token", self.name);
        let body = json!({
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": LIFE.as_secs()},
        });
        let answer = post(host, &path, body.to_string()).await?;
        let answer: Answer = serde_json::from_slice(&answer).map_err(|why| error::malformed("token", why))?;
        let life = Duration::from_secs(answer.spec.expiration_seconds).max(SHORTEST_LIFE);
        let mut header = HeaderValue::try_from(format!("Bearer {}", answer.status.token))
            .map_err(|why| error::malformed("token", why))?;
        header.set_sensitive(true);
        Ok(Token { header, renew_at: Instant::now() + life.mul_f64(0.8) })
    }

    async fn create(&self, host: &Connection) -> Result<(), ApiError> {
        let path = format!("/api/v1/namespaces/{NAMESPACE}/serviceaccounts");
        let body = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": self.name}});
        match post(host, &path, body.to_string()).await {
            Ok(_) => {
                tracing::info!(account = self.name, "service account created in {NAMESPACE}");
                Ok(())
            }
            Err(error) if error.class == ApiErrorClass::AlreadyExists => Ok(()),
            Err(error) => Err(self.failed("create", &error)),
        }
    }

    fn failed(&self, what: &str, error: &ApiError) -> ApiError {
        ApiError {
            class: ApiErrorClass::Unauthorized,
            code: 401,
            reason: NO_TOKEN.into(),
            message: format!(
                "cannot {what} service account {NAMESPACE}/{}: {error}; the host itself needs `create` of serviceaccounts and \
                 serviceaccounts/token there; {}",
                self.name,
                roles::advice(&error.message)
            ),
            causes: Vec::new(),
        }
    }
}

/// Maximum bytes of an account or a token.
const MAX_ANSWER_BYTES: usize = 1 << 20;

async fn post(host: &Connection, path: &str, body: String) -> Result<bytes::Bytes, ApiError> {
    let n_bytes = body.len();
    let request = Request::post(path)
        .header(header::ACCEPT, "application/json")
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::USER_AGENT, concat!("pintle/", env!("CARGO_PKG_VERSION"), " accounts"))
        .body(Body::from(body.into_bytes()))
        .map_err(|why| error::malformed("address", why))?;
    let body = host.send(request, Some(n_bytes)).await?;
    whole(body, &at_most(MAX_ANSWER_BYTES)).await
}
