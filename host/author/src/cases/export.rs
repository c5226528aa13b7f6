//! One case as JSON, with the answer to each read of its run: the input for a native `reconcile` under a debugger.
//!
//! *Flow*: the run of the case in the component -> a view that records -> the document. The helpers of the SDKs
//! (`pintletest.Debug`, `debugCase`, `pintle.testing.debug`) answer each read with the recorded answer, so they have
//! neither selectors nor indexes.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use pintle_core::contract::outcome::{CertificateRequest, LiveDetail, MutationFailure, Need, NeedError};
use pintle_core::lifecycle::read_set::ReadSet;
use pintle_core::object::id::{Kind, ObjectKey};
use pintle_core::object::{Meta, Object};
use pintle_core::ports::api::ApiResource;
use pintle_core::ports::view::{OwnedBy, Query, View, ViewError};
use serde_json::{Map, Value, json};

use super::cluster::CaseCluster;
use super::input::{Case, InputFailure, InputResource};

/// A view that records each read with its answer.
pub(crate) struct Recorder {
    view: Arc<dyn View>,
    reads: Mutex<Vec<Value>>,
}

impl Recorder {
    pub(crate) fn new(view: Arc<dyn View>) -> Self {
        Self { view, reads: Mutex::default() }
    }

    /// Records a read with its answer: `found`, or a `refusal`.
    fn record(&self, mut read: Map<String, Value>, answer: &str, value: Value) {
        read.insert(answer.to_owned(), value);
        let read = Value::Object(read);
        let mut reads = self.reads.lock();
        if !reads.contains(&read) {
            reads.push(read);
        }
    }

    /// Records an answer that is not a fault.
    fn found<T>(&self, read: Value, result: Result<T, ViewError>, shown: impl Fn(&T) -> Value) -> Result<T, ViewError> {
        if let Ok(answer) = &result {
            self.record(set(read), "found", shown(answer));
        }
        result
    }

    /// The document of the case.
    pub(crate) fn document(&self, case: &Case, cluster: &CaseCluster, manifest: &Value) -> Value {
        let (view, key) = (&self.view, &cluster.key);
        json!({
            "case": case.name,
            "key": {"queue": &*key.queue, "kind": key.kind, "namespace": &*key.object.namespace, "name": &*key.object.name},
            "now": view.now(),
            "uptime": view.uptime().as_secs_f64(),
            "attempt": view.attempt(),
            "failures": view.failures().iter().map(InputFailure::from).collect::<Vec<_>>(),
            "config": object(&view.config()),
            "state": case.input.state,
            "resources": view.resources().map_or(Value::Null, |all| resources(&all)),
            "reads": *self.reads.lock(),
            "manifest": manifest,
            "input": case.raw,
            "expected": case.expected,
        })
    }
}

/// An object of the cache. The host's projections are valid JSON.
fn object(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_default()
}

#[allow(clippy::ptr_arg, reason = "the type of the answer")]
fn objects(texts: &Vec<Arc<str>>) -> Value {
    texts.iter().map(|text| object(text)).collect()
}

fn optional(text: &Option<Arc<str>>) -> Value {
    text.as_deref().map_or(Value::Null, object)
}

fn resources(all: &[ApiResource]) -> Value {
    json!(all.iter().map(InputResource::from).collect::<Vec<_>>())
}

/// The set members of an object: neither null, nor empty, nor false.
fn set(object: Value) -> Map<String, Value> {
    let Value::Object(members) = object else { return Map::new() };
    members.into_iter().filter(|(_, value)| !(value.is_null() || value == "" || value == false)).collect()
}

fn query(query: &Query) -> Map<String, Value> {
    let owner = query.owner.as_ref().map(|owner| {
        let by = match owner {
            OwnedBy::Controller(_) => "controller",
            OwnedBy::ControllerOrOrphan(_) => "controller-or-orphan",
            OwnedBy::Any(_) => "any",
        };
        json!({"by": by, "uid": owner.uid()})
    });
    let index = query.index.as_ref().map(|(name, value)| json!({"name": name, "value": value}));
    set(json!({
        "namespace": query.namespace, "labelSelector": query.label_selector, "owner": owner, "index": index,
        "whole": query.whole,
    }))
}

/// A need: the fields of all kinds of needs in one object.
fn need(need: &Need) -> Map<String, Value> {
    set(match need {
        Need::LiveObject { kind, object, subresource } => json!({
            "type": "object", "kind": kind, "namespace": &*object.namespace, "name": &*object.name,
            "subresource": subresource,
        }),
        Need::LiveList { kind, namespace, label_selector, field_selector, detail, limit } => {
            let detail = (*detail != LiveDetail::Metadata).then_some(detail.as_str());
            json!({
                "type": "list", "kind": kind, "namespace": namespace, "labelSelector": label_selector,
                "fieldSelector": field_selector, "detail": detail, "limit": limit,
            })
        }
        Need::RawPath(path) => json!({"type": "path", "path": path}),
        Need::Discovery => json!({"type": "discovery"}),
        Need::Review { kind, namespace, object } => {
            json!({"type": "review", "kind": kind, "namespace": namespace, "body": object})
        }
        Need::SignJwt { key, claims } => json!({"type": "sign-jwt", "key": key, "body": claims}),
        Need::SignCertificate(CertificateRequest { authority, request, usages, not_before, not_after }) => json!({
            "type": "sign-certificate",
            "certificate": {
                "authority": authority, "request": request, "usages": usages, "notBefore": not_before,
                "notAfter": not_after,
            },
        }),
        Need::Call { endpoint, operation, body, .. } => {
            json!({"type": "call", "endpoint": endpoint, "operation": operation, "body": body})
        }
    })
}

impl View for Recorder {
    fn now(&self) -> &str {
        self.view.now()
    }

    fn uptime(&self) -> Duration {
        self.view.uptime()
    }

    fn get(&self, kind: &Kind, key: &ObjectKey) -> Result<Option<Arc<str>>, ViewError> {
        let read = json!({"read": "get", "kind": kind, "namespace": &*key.namespace, "name": &*key.name});
        self.found(read, self.view.get(kind, key), optional)
    }

    fn list(&self, kind: &Kind, wanted: &Query) -> Result<Vec<Arc<str>>, ViewError> {
        let read = json!({"read": "list", "kind": kind, "query": query(wanted)});
        self.found(read, self.view.list(kind, wanted), objects)
    }

    fn count(&self, kind: &Kind, wanted: &Query) -> Result<usize, ViewError> {
        let read = json!({"read": "count", "kind": kind, "query": query(wanted)});
        self.found(read, self.view.count(kind, wanted), |n| json!(n))
    }

    fn selecting(&self, kind: &Kind, namespace: &str, labels: &[(String, String)]) -> Result<Vec<Arc<str>>, ViewError> {
        let all: Map<String, Value> = labels.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
        let read = json!({"read": "selecting", "kind": kind, "namespace": namespace, "labels": all});
        self.found(read, self.view.selecting(kind, namespace, labels), objects)
    }

    fn dependents(&self, uid: &str) -> Result<Vec<Arc<str>>, ViewError> {
        self.found(json!({"read": "dependents", "uid": uid}), self.view.dependents(uid), objects)
    }

    fn by_uid(&self, uid: &str) -> Result<Option<Arc<str>>, ViewError> {
        self.found(json!({"read": "byUid", "uid": uid}), self.view.by_uid(uid), optional)
    }

    fn resources(&self) -> Result<Arc<[ApiResource]>, ViewError> {
        self.view.resources()
    }

    fn config(&self) -> Arc<str> {
        self.view.config()
    }

    fn state(&self, name: &str) -> Option<Arc<str>> {
        self.view.state(name)
    }

    fn attempt(&self) -> u32 {
        self.view.attempt()
    }

    fn failures(&self) -> &[MutationFailure] {
        self.view.failures()
    }

    fn answer(&self, asked: &Need) -> Option<Result<Arc<str>, NeedError>> {
        let answer = self.view.answer(asked)?;
        let read = set(json!({"read": "answer", "need": need(asked)}));
        match &answer {
            Ok(text) => self.record(read, "found", json!(&**text)),
            Err(NeedError { code, reason, message }) => {
                self.record(read, "refusal", json!({"code": code, "reason": reason, "message": message}));
            }
        }
        Some(answer)
    }

    fn object(&self, kind: &Kind, key: &ObjectKey) -> Option<Arc<Object>> {
        self.view.object(kind, key)
    }

    fn incomplete_dependents(&self) -> Option<&Kind> {
        self.view.incomplete_dependents()
    }

    fn selects(&self, kind: &Kind, key: &ObjectKey, selected: &Meta) -> bool {
        self.view.selects(kind, key, selected)
    }

    fn read_set(&self) -> ReadSet {
        self.view.read_set()
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect_file;
    use pintle_core::contract::manifest::Manifest;
    use pintle_core::contract::outcome::Answers;

    use super::super::input::read_all;
    use super::*;

    const MANIFEST: &str = r#"{
        "name": "debug", "version": "0.1.0", "contract": "0.2", "discovery": true, "queues": [{"name": "pods"}],
        "config": {"size": {"type": "integer", "default": 3}, "signer": {"type": "key"}, "authority": {"type": "authority"}},
        "endpoints": {"desk": {"operations": ["look-up"]}},
        "watches": [
            {"kind": "v1/Pod", "fields": ["spec.nodeName"], "whole": true, "enqueue": [{"to": "self"}],
                "indexes": [{"name": "node", "field": "spec.nodeName"}]},
            {"kind": "v1/Service", "fields": ["spec.selector"], "selects": {"field": "spec.selector", "form": "map"}}
        ]}"#;

    const CASE: &str = "
key: {kind: v1/Pod, namespace: default, name: web}
uptime: 1.5
attempt: 2
state: {seen: 'yes'}
failures: [{verb: patch, kind: v1/Pod, object: {namespace: default, name: web}, subresource: status, code: 409, reason: Conflict}]
objects:
  - {apiVersion: v1, kind: Pod, metadata: {name: web, namespace: default, labels: {app: web}, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: r, uid: r, controller: true}]}, spec: {nodeName: n1}}
  - {apiVersion: v1, kind: Service, metadata: {name: web, namespace: default}, spec: {selector: {app: web}}}
raw: {/version: {minor: '36'}}
reviews: [{kind: authorization.k8s.io/v1/SubjectAccessReview, spec: {user: ann}, status: {allowed: true}}]
signatures: [{by: signer, answer: token}, {by: authority, error: {code: 0, reason: Expired}}]
calls: [{endpoint: desk, operation: look-up, answer: {place: here}}]
";

    /// One of each type of needs.
    fn needs() -> Vec<Need> {
        let pod = Kind::new("", "v1", "Pod");
        vec![
            Need::LiveObject { kind: pod.clone(), object: ObjectKey::new("default", "web"), subresource: None },
            Need::LiveObject {
                kind: pod.clone(),
                object: ObjectKey::new("default", "web"),
                subresource: Some("scale".into()),
            },
            Need::LiveList {
                kind: pod,
                namespace: "default".into(),
                label_selector: Some("app=web".into()),
                field_selector: Some("spec.nodeName=n1".into()),
                detail: LiveDetail::Projection,
                limit: 5,
            },
            Need::RawPath("/version".into()),
            Need::Discovery,
            Need::Review {
                kind: Kind::new("authorization.k8s.io", "v1", "SubjectAccessReview"),
                namespace: String::new(),
                object: r#"{"spec":{"user":"ann"}}"#.into(),
            },
            Need::SignJwt { key: "signer".into(), claims: r#"{"sub":"ann"}"#.into() },
            Need::SignCertificate(CertificateRequest {
                authority: "authority".into(),
                request: "PEM".into(),
                usages: vec!["client auth".into()],
                not_before: "2026-01-01T00:00:00Z".into(),
                not_after: "2026-01-02T00:00:00Z".into(),
            }),
            Need::Call {
                endpoint: "desk".into(),
                operation: "look-up".into(),
                body: r#"{"name":"ann"}"#.into(),
                timeout: Some(Duration::from_secs(2)),
            },
        ]
    }

    /// The SDKs' own tests answer the same reads with this file. `UPDATE_EXPECT=1` rewrites it.
    #[tokio::test]
    async fn the_file_that_the_sdks_are_tested_with_has_every_read() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("every-read.yaml"), CASE).unwrap();
        let case = &read_all(folder.path(), None).unwrap()[0];
        let manifest = Arc::new(Manifest::parse(MANIFEST.as_bytes()).unwrap());
        let cluster = CaseCluster::open(case, &manifest).await.unwrap();
        cluster.begin().await;
        let mut answers = Answers::new();
        for need in needs() {
            let answer = cluster.answer(&need).await;
            answers.push((need, answer));
        }
        let recorder = Recorder::new(cluster.view(&answers));
        let [pod, service] = ["Pod", "Service"].map(|name| Kind::new("", "v1", name));
        let query = Query {
            namespace: Some("default".into()),
            label_selector: Some("app=web".into()),
            owner: Some(OwnedBy::Controller("r".into())),
            index: Some(("node".into(), "n1".into())),
            whole: true,
        };
        for name in ["web", "gone"] {
            recorder.get(&pod, &ObjectKey::new("default", name)).unwrap();
        }
        assert_eq!(recorder.list(&pod, &query).unwrap().len(), 1);
        assert_eq!(recorder.count(&pod, &Query::default()).unwrap(), 1);
        assert_eq!(recorder.selecting(&service, "default", &[("app".into(), "web".into())]).unwrap().len(), 1);
        assert_eq!(recorder.dependents("r").unwrap().len(), 1);
        assert!(recorder.by_uid("uid-web").unwrap().is_some());
        // A read that is a fault has no answer, and a repeated one has one.
        assert!(recorder.get(&Kind::new("", "v1", "Secret"), &ObjectKey::new("default", "web")).is_err());
        recorder.dependents("r").unwrap();
        for need in needs() {
            assert!(recorder.answer(&need).is_some(), "{need:?}");
        }
        let document = recorder.document(case, &cluster, &serde_json::from_str(MANIFEST).unwrap());
        assert_eq!(document["reads"].as_array().unwrap().len(), 7 + needs().len());
        let text = serde_json::to_string_pretty(&document).unwrap() + "\n";
        expect_file!["../../../../sdk/vectors/debug.json"].assert_eq(&text);
    }
}
