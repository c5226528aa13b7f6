//! Writes, each with the user agent and rate limit of its plugin.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt as _;
use futures::future::BoxFuture;
use http::{Method, Request, header};
use http_body_util::BodyExt as _;
use kube::client::Body;
use pintle_core::contract::outcome::{PatchType, Preconditions, Propagation};
use pintle_core::ports::api::{
    ApiClient, ApiError, ApiWriter, ApiWriters, WriteRequest, WriteVerb, WriterIdentity, Written, at_most,
};
use pintle_core::ports::trace::SpanRef;
use serde::Deserialize;
use serde_json::json;
use tokio::time::Instant;

use crate::connect::Connection;
use crate::error;
use crate::path::{self, Place};
use crate::read::{Failed, MAX_OBJECT_BYTES, whole};

/// Requests only the metadata in the answer; the object itself arrives through the watch.
const ACCEPT: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";

/// Requests only the metadata of the deleted objects. The answer to a collection deletion is a list, for which the API
/// server would answer [`ACCEPT`] with 406 after the deletion.
const ACCEPT_LIST: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";

/// The writer of one identity. All identities share the connection pool; each has its own rate limit and user agent.
#[derive(Clone)]
struct Writer {
    connection: Connection,
    user_agent: String,
    field_manager: String,
}

impl ApiWriters for Connection {
    fn client(&self, identity: &WriterIdentity) -> ApiClient {
        let connection = self.of(identity);
        let writer = Writer {
            connection: connection.fenced(identity.fence.clone()),
            user_agent: format!("pintle/{} {}", env!("CARGO_PKG_VERSION"), identity.name),
            field_manager: identity.name.clone(),
        };
        ApiClient { writer: Arc::new(writer), reader: Some(connection.reader()) }
    }
}

impl ApiWriter for Writer {
    fn write<'a>(&'a self, request: &'a WriteRequest) -> BoxFuture<'a, Result<Written, ApiError>> {
        Box::pin(async move {
            let started = Instant::now();
            let method = method_of(&request.verb).1;
            let answer = self.answer(request).await;
            let received = answer.as_ref().map(Bytes::len).ok();
            let connection = &self.connection;
            connection.report(|observer| observer.finished(method, &connection.host, started.elapsed(), received));
            let body = answer?;
            if matches!(request.verb, WriteVerb::DeleteCollection { .. }) {
                return Ok(Written::default());
            }
            parse_written(request, &body)
        })
    }

    fn traced(&self, span: SpanRef) -> Option<Arc<dyn ApiWriter>> {
        Some(Arc::new(Self { connection: self.connection.traced(span), ..self.clone() }))
    }
}

impl Writer {
    /// Sends the write; returns the body of the last attempt's answer.
    async fn answer(&self, write: &WriteRequest) -> Result<Bytes, ApiError> {
        let answer = match self.send(write).await {
            Err(failed) if failed.renewed => {
                self.connection.renewed(method_of(&write.verb).1);
                self.send(write).await
            }
            result => result,
        };
        answer.map_err(|failed| failed.error)
    }

    async fn send(&self, write: &WriteRequest) -> Result<Bytes, Failed> {
        let (request, n_bytes) = self.request(write).map_err(|why| error::malformed("address", why))?;
        let body = self.connection.send(request, Some(n_bytes)).await?;
        if !matches!(write.verb, WriteVerb::DeleteCollection { .. }) {
            return Ok(whole(body, &at_most(MAX_OBJECT_BYTES)).await?);
        }
        // A list of all deleted objects, which is discarded.
        let mut chunks = body.into_data_stream();
        while let Some(chunk) = chunks.next().await {
            chunk.map_err(|why| error::from_body(&why))?;
        }
        Ok(Bytes::new())
    }

    /// Builds the request; also returns the length of its body.
    fn request(&self, write: &WriteRequest) -> Result<(Request<Body>, usize), http::Error> {
        let mut place = Place::object(&write.resource, &write.namespace, &write.name);
        place.subresource = write.subresource.as_deref();
        let mut url = place.url();
        let mut content_type = "application/json";
        let body = match &write.verb {
            WriteVerb::Create { body } => {
                path::param(&mut url, "fieldManager", &self.field_manager);
                body.clone()
            }
            WriteVerb::Update { body } => {
                path::param(&mut url, "fieldManager", &self.field_manager);
                body.clone()
            }
            WriteVerb::Patch { patch_type, body } => {
                let manager = match patch_type {
                    PatchType::Apply { field_manager, force } => {
                        path::param(&mut url, "force", if *force { "true" } else { "false" });
                        field_manager
                    }
                    _ => &self.field_manager,
                };
                path::param(&mut url, "fieldManager", manager);
                content_type = patch_content_type(patch_type);
                body.clone()
            }
            WriteVerb::Delete { preconditions, propagation, grace_period_seconds } => {
                delete_options(preconditions, *propagation, *grace_period_seconds)
            }
            WriteVerb::DeleteCollection { label_selector, propagation } => {
                if let Some(selector) = label_selector {
                    path::param(&mut url, "labelSelector", selector);
                }
                delete_options(&Preconditions::default(), *propagation, None)
            }
        };
        let n_bytes = body.len();
        let request = Request::builder()
            .method(method_of(&write.verb).0)
            .uri(url.trim_end_matches(['?', '&']))
            .header(header::ACCEPT, accept(&write.verb))
            .header(header::CONTENT_TYPE, content_type)
            .header(header::USER_AGENT, &self.user_agent)
            .body(Body::from(body.into_bytes()))?;
        Ok((request, n_bytes))
    }
}

/// The HTTP method and its metric label.
fn method_of(verb: &WriteVerb) -> (Method, &'static str) {
    match verb {
        WriteVerb::Create { .. } => (Method::POST, "POST"),
        WriteVerb::Update { .. } => (Method::PUT, "PUT"),
        WriteVerb::Patch { .. } => (Method::PATCH, "PATCH"),
        WriteVerb::Delete { .. } | WriteVerb::DeleteCollection { .. } => (Method::DELETE, "DELETE"),
    }
}

/// The `Accept` header for the answer.
///
/// *Source*: `asPartialObjectMetadata` and `asPartialObjectMetadataList` in
/// k8s.io/apiserver/pkg/endpoints/handlers/response.go.
fn accept(verb: &WriteVerb) -> &'static str {
    match verb {
        WriteVerb::DeleteCollection { .. } => ACCEPT_LIST,
        WriteVerb::Create { .. } | WriteVerb::Update { .. } | WriteVerb::Patch { .. } | WriteVerb::Delete { .. } => {
            ACCEPT
        }
    }
}

fn patch_content_type(patch_type: &PatchType) -> &'static str {
    match patch_type {
        PatchType::Json => "application/json-patch+json",
        PatchType::Merge => "application/merge-patch+json",
        PatchType::StrategicMerge => "application/strategic-merge-patch+json",
        PatchType::Apply { .. } => "application/apply-patch+yaml",
    }
}

fn delete_options(preconditions: &Preconditions, propagation: Option<Propagation>, grace: Option<u32>) -> String {
    let mut options = json!({"apiVersion": "v1", "kind": "DeleteOptions"});
    if let Some(propagation) = propagation {
        options["propagationPolicy"] = propagation.as_str().into();
    }
    if let Some(grace) = grace {
        options["gracePeriodSeconds"] = grace.into();
    }
    if let Some(uid) = &preconditions.uid {
        options["preconditions"]["uid"] = uid.as_str().into();
    }
    if let Some(version) = &preconditions.resource_version {
        options["preconditions"]["resourceVersion"] = version.as_str().into();
    }
    options.to_string()
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Answer {
    metadata: AnswerMeta,
    details: Option<AnswerDetails>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct AnswerMeta {
    name: String,
    uid: String,
    resource_version: String,
    deletion_timestamp: Option<String>,
    deletion_grace_period_seconds: Option<i64>,
    finalizers: Option<Vec<String>>,
    labels: Option<BTreeMap<String, String>>,
}

/// The part of a Status that describes a deleted object.
#[derive(Default, Deserialize)]
#[serde(default)]
struct AnswerDetails {
    name: String,
    uid: String,
}

fn parse_written(request: &WriteRequest, body: &[u8]) -> Result<Written, ApiError> {
    let answer: Answer = serde_json::from_slice(body).map_err(|why| error::malformed("answer to a write", why))?;
    Ok(match answer.details {
        Some(details) => Written { name: details.name, uid: details.uid, ..Written::default() },
        None => {
            let removed = removes(request, &answer.metadata);
            Written {
                name: answer.metadata.name,
                uid: answer.metadata.uid,
                resource_version: if removed { String::new() } else { answer.metadata.resource_version },
                removed,
                labels: Some(answer.metadata.labels.unwrap_or_default()),
            }
        }
    })
}

/// Whether an update or a patch has removed its object. The answer is then the updated object with its previous
/// version, which proves nothing.
///
/// *Source*: `ShouldDeleteDuringUpdate` and `deleteWithoutFinalizers` in
/// k8s.io/apiserver/pkg/registry/generic/registry/store.go.
fn removes(request: &WriteRequest, after: &AnswerMeta) -> bool {
    let is_change = matches!(request.verb, WriteVerb::Update { .. } | WriteVerb::Patch { .. });
    is_change
        // A Namespace also has finalizers in its spec, which is not in the answer.
        && !request.resource.kind.is_namespace()
        && after.deletion_timestamp.is_some()
        && after.deletion_grace_period_seconds.unwrap_or(0) == 0
        && after.finalizers.as_ref().is_none_or(Vec::is_empty)
}

#[cfg(test)]
mod tests {
    use pintle_core::object::id::Kind;
    use pintle_core::ports::api::ApiResource;

    use super::*;

    fn request(kind: &str, verb: WriteVerb) -> WriteRequest {
        let resource = ApiResource {
            kind: Kind::new("", "v1", kind),
            plural: String::new(),
            namespaced: true,
            verbs: Vec::new(),
            subresources: Vec::new(),
            preferred: true,
        };
        let (namespace, name) = ("ns".into(), "a".into());
        WriteRequest { resource: Arc::new(resource), namespace, name, subresource: None, verb }
    }

    fn delete() -> WriteVerb {
        WriteVerb::Delete { preconditions: Preconditions::default(), propagation: None, grace_period_seconds: None }
    }

    #[test]
    fn an_answer_is_an_object_or_the_status_of_its_deletion() {
        let delete = request("Pod", delete());
        let written = parse_written(
            &delete,
            br#"{"metadata":{"name":"a","uid":"u","resourceVersion":"7","deletionTimestamp":"x","labels":{"l":"v"}}}"#,
        );
        let labels = Some([("l".to_owned(), "v".to_owned())].into());
        let expected =
            Written { name: "a".into(), uid: "u".into(), resource_version: "7".into(), removed: false, labels };
        assert_eq!(written.unwrap(), expected);
        let removed = parse_written(&delete, br#"{"kind":"Status","metadata":{},"details":{"name":"a","uid":"u"}}"#);
        assert_eq!(removed.unwrap(), Written { name: "a".into(), uid: "u".into(), ..Written::default() });
    }

    #[test]
    fn a_change_removes_a_terminating_object_that_nothing_holds() {
        let patch = || WriteVerb::Patch { patch_type: PatchType::Json, body: String::new() };
        let removes = |kind: &str, verb: WriteVerb, more: &str| {
            let body = format!(r#"{{"metadata":{{"name":"a","resourceVersion":"7",{more}}}}}"#);
            let written = parse_written(&request(kind, verb), body.as_bytes()).unwrap();
            assert_eq!(
                written.resource_version,
                if written.removed { "" } else { "7" },
                "that of the answer is from before"
            );
            written.removed
        };
        let terminating = r#""deletionTimestamp":"x""#;
        assert!(removes("Pod", patch(), terminating));
        assert!(removes("Pod", WriteVerb::Update { body: String::new() }, terminating));
        assert!(removes("Pod", patch(), r#""deletionTimestamp":"x","deletionGracePeriodSeconds":0,"finalizers":[]"#));
        assert!(!removes("Pod", patch(), r#""deletionTimestamp":"x","deletionGracePeriodSeconds":30"#));
        assert!(!removes("Pod", patch(), r#""deletionTimestamp":"x","finalizers":["f"]"#));
        assert!(!removes("Pod", patch(), r#""finalizers":[]"#));
        assert!(!removes("Pod", delete(), terminating));
        assert!(!removes("Namespace", patch(), terminating));
    }

    #[test]
    fn delete_options_carry_preconditions_and_policy() {
        let preconditions = Preconditions { uid: Some("u".into()), resource_version: None };
        assert_eq!(
            delete_options(&preconditions, Some(Propagation::Foreground), Some(0)),
            r#"{"apiVersion":"v1","kind":"DeleteOptions","propagationPolicy":"Foreground","gracePeriodSeconds":0,"preconditions":{"uid":"u"}}"#
        );
    }
}
