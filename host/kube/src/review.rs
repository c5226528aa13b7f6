//! Reviews of tokens and of access.

use std::time::Instant;

use futures::future::BoxFuture;
use http::{Request, header};
use http_body_util::BodyExt as _;
use kube::client::Body;
use pintle_core::ports::api::{ApiError, WriterIdentity, at_most};
use pintle_core::ports::review::{ReviewKind, Reviewer};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::connect::Connection;
use crate::error;
use crate::read::Failed;

const USER_AGENT: &str = concat!("pintle/", env!("CARGO_PKG_VERSION"), " serving");
/// Maximum size of an answer: a ConfigMap has 1 MiB.
const MAX_ANSWER: usize = 2 << 20;
const AUTHENTICATION_CONFIG: &str = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";
/// Limits of upstream's delegating clients.
const QPS: f32 = 200.0;
const BURST: u32 = 400;

impl Connection {
    /// A client for reviews, with its own limit: requests of strangers must not slow down other requests.
    pub fn reviewer(&self) -> Self {
        self.of(&WriterIdentity {
            name: "serving".to_owned(),
            qps: Some(QPS),
            burst: BURST,
            account: None,
            fence: None,
        })
    }

    async fn post(&self, path: &str, text: &str) -> Result<Box<str>, Failed> {
        let request = Request::post(path)
            .header(header::ACCEPT, "application/json")
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::USER_AGENT, USER_AGENT)
            .body(Body::from(text.to_owned().into_bytes()))
            .map_err(|why| error::malformed("address", why))?;
        let body = self.send(request, Some(text.len())).await?;
        let body = http_body_util::Limited::new(body, MAX_ANSWER).collect().await;
        let body = body.map_err(|why| error::from_body(why.as_ref()))?.to_bytes();
        let text = String::from_utf8(body.into()).map_err(|why| error::malformed("answer to a review", why))?;
        Ok(text.into_boxed_str())
    }
}

impl Reviewer for Connection {
    fn review(&self, kind: ReviewKind, body: String) -> BoxFuture<'_, Result<Box<str>, ApiError>> {
        Box::pin(async move {
            let started = Instant::now();
            let answer = match self.post(kind.path(), &body).await {
                Err(failed) if failed.renewed => self.post(kind.path(), &body).await,
                answer => answer,
            };
            let received = answer.as_ref().map(|text| text.len()).ok();
            self.report(|observer| observer.finished("POST", &self.host, started.elapsed(), received));
            Ok(answer?)
        })
    }

    fn authentication_config(&self) -> BoxFuture<'_, Result<Box<str>, ApiError>> {
        #[derive(Deserialize)]
        struct ConfigMap {
            #[serde(default)]
            data: Option<Box<RawValue>>,
        }
        Box::pin(async move {
            let text = self.get_bytes(AUTHENTICATION_CONFIG, "application/json", &at_most(MAX_ANSWER)).await?;
            let read: ConfigMap = serde_json::from_slice(&text).map_err(|why| error::malformed("ConfigMap", why))?;
            Ok(read.data.map_or_else(|| "{}".into(), |data| data.get().into()))
        })
    }
}
