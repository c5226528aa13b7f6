//! An admission webhook on loopback that refuses every request.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context as _, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use serde_json::{Value, json};

use crate::tls;

/// The webhook. Dropping it closes its port.
#[derive(Debug)]
pub struct Webhook {
    server: tls::Server,
    n_refused: Arc<AtomicU64>,
}

impl Webhook {
    /// Starts a webhook that refuses with this message, with a certificate of loopback.
    ///
    /// # Errors
    /// There is no randomness or no free port.
    pub async fn refusing(message: &'static str) -> Result<Webhook> {
        let n_refused = Arc::new(AtomicU64::new(0));
        let counter = n_refused.clone();
        let server = tls::Server::start(move |request| {
            let counter = counter.clone();
            async move { answer(request, message, &counter).await }
        });
        Ok(Webhook { server: server.await?, n_refused })
    }

    /// The `clientConfig` of a webhook configuration.
    pub fn client_config(&self) -> Value {
        let tls::Server { address, certificate, .. } = &self.server;
        json!({"url": format!("https://{address}/"), "caBundle": STANDARD.encode(certificate)})
    }

    /// Requests refused so far.
    pub fn n_refused(&self) -> u64 {
        self.n_refused.load(Ordering::Relaxed)
    }
}

/// The answer to an `AdmissionReview`; 400 to anything else.
async fn answer(request: Request<Incoming>, message: &str, n_refused: &AtomicU64) -> Response<Full<Bytes>> {
    match refusal(request, message).await {
        Ok(review) => {
            n_refused.fetch_add(1, Ordering::Relaxed);
            let mut response = Response::new(Full::from(review.to_string()));
            response
                .headers_mut()
                .insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
            response
        }
        Err(why) => {
            let mut response = Response::new(Full::from(format!("{why:#}")));
            *response.status_mut() = StatusCode::BAD_REQUEST;
            response
        }
    }
}

async fn refusal(request: Request<Incoming>, message: &str) -> Result<Value> {
    let body = request.into_body().collect().await?.to_bytes();
    let review: Value = serde_json::from_slice(&body)?;
    let uid = review["request"]["uid"].as_str().context("the request is not an AdmissionReview")?;
    Ok(json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": {"uid": uid, "allowed": false, "status": {"message": message}},
    }))
}
