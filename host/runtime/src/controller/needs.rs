//! Performs the reads that a run needs and its caches cannot answer.
//!
//! Invariants:
//! 1. A read that is not granted does not leave the process; its answer is `NotGranted`.
//! 2. Answers are bounded in bytes.

use std::future::Future;
use std::time::Duration;

use futures::StreamExt;
use pintle_core::contract::outcome::{Answers, Need, NeedError};
use pintle_core::object::id::{Kind, ObjectKey};
use pintle_core::policy::correlator::cut;
use pintle_core::policy::grants::is_path_segment;
use pintle_core::ports::api::{ApiError, ApiReader, ApiResource, Detail, ListWatchTarget};

use tokio_util::sync::CancellationToken;

use super::PluginCache;
use crate::throttle::patiently;
use crate::writer::{Members, Rights, quote};

/// Maximum concurrent reads of one round.
const MAX_PARALLEL: usize = 8;
/// Longest text of a guest in a log line.
const MAX_LOGGED_BYTES: usize = 1024;
/// Maximum bytes of one answer.
const MAX_ANSWER_BYTES: usize = 8 << 20;
/// Maximum bytes of all answers of a run, which the host holds in memory.
const MAX_RUN_BYTES: usize = 64 << 20;
/// Page size of a live list.
const PAGE: u32 = 500;

/// Where the answers come from.
#[derive(Clone, Copy)]
pub(crate) struct Source<'a> {
    pub(crate) reader: &'a dyn ApiReader,
    pub(crate) cache: &'a dyn PluginCache,
    /// The controller stops: reads in flight end.
    pub(crate) stopped: &'a CancellationToken,
}

impl Source<'_> {
    /// Sends a read, and repeats it while the server throttles it. It ends when the controller stops.
    async fn read<T, F>(&self, send: impl FnMut() -> F) -> Result<T, NeedError>
    where
        F: Future<Output = Result<T, ApiError>>,
    {
        tokio::select! {
            biased;
            () = self.stopped.cancelled() => {
                Err(NeedError { code: 0, reason: "Stopping".into(), message: "the controller stops".into() })
            }
            answer = patiently(self.stopped, send) => answer.map_err(refused),
        }
    }
}

/// Appends answers in the order of the needs; returns how many were not granted.
pub(crate) async fn perform(
    needs: Vec<Need>,
    answers: &mut Answers,
    source: &Source<'_>,
    rights: &Rights<'_>,
) -> usize {
    let mut n_denied = 0;
    let needs: Vec<_> = needs
        .into_iter()
        .map(|need| {
            let denied = denied(&need, rights);
            n_denied += usize::from(denied.is_some());
            (need, denied)
        })
        .collect();
    if let Some(denied) = needs.iter().find_map(|(_, denied)| denied.as_ref()) {
        let error = cut(&denied.message, MAX_LOGGED_BYTES);
        tracing::warn!(plugin = rights.manifest.name, n_denied, error, "needs are not granted");
    }
    // A repeated need is read again.
    answers.retain(|(answered, _)| needs.iter().all(|(need, _)| need != answered));
    let mut n_bytes: usize = answers.iter().filter_map(|(_, answer)| answer.as_ref().ok()).map(|text| text.len()).sum();
    let mut new = futures::stream::iter(needs)
        .map(|(need, denied)| async move {
            let answer = match denied {
                Some(denial) => Err(denial),
                None => read(&need, source).await,
            };
            (need, answer)
        })
        .buffered(MAX_PARALLEL);
    while let Some((need, answer)) = new.next().await {
        let answer = answer.and_then(|text| {
            let room = MAX_RUN_BYTES.saturating_sub(n_bytes);
            if text.len() > room {
                return Err(too_long(room));
            }
            n_bytes += text.len();
            Ok(text.into())
        });
        answers.push((need, answer));
    }
    n_denied
}

/// The denial of a need, if it is not granted.
fn denied(need: &Need, rights: &Rights<'_>) -> Option<NeedError> {
    let plugin = &rights.manifest.name;
    rights.ask(need).err().map(|denial| NeedError {
        code: 0,
        reason: "NotGranted".into(),
        message: denial.message(plugin),
    })
}

fn refused(error: ApiError) -> NeedError {
    NeedError { code: error.code, reason: error.reason, message: error.message }
}

/// Grants name one namespace; a request for a cluster-scoped kind would read outside of it.
fn wrong_scope(resource: &ApiResource, namespace: &str) -> NeedError {
    let is = if resource.namespaced { "namespaced" } else { "cluster-scoped" };
    let message = format!("{} is {is}, the namespace is {namespace:?}", resource.kind);
    NeedError { code: 400, reason: "BadRequest".into(), message }
}

/// Names come from the contents of objects. Sent as they are, they would be another path.
fn nothing_has(object: &ObjectKey) -> NeedError {
    let message = format!("no object can have the name {:?}", object.to_string());
    NeedError { code: 404, reason: "NotFound".into(), message }
}

fn too_long(limit: usize) -> NeedError {
    NeedError { code: 0, reason: "TooLarge".into(), message: format!("the answer has more than {limit} bytes") }
}

async fn read(need: &Need, source: &Source<'_>) -> Result<String, NeedError> {
    let Source { reader, cache, .. } = *source;
    let resource = |kind: &Kind| {
        cache.resource(kind).ok_or_else(|| NeedError {
            code: 404,
            reason: "NotFound".into(),
            message: format!("the API server has no kind {kind}"),
        })
    };
    let answer = match need {
        Need::LiveObject { kind, object } => {
            let resource = resource(kind)?;
            let is_namespace = object.namespace.is_empty() || is_path_segment(&object.namespace);
            if !is_namespace || !is_path_segment(&object.name) {
                return Err(nothing_has(object));
            }
            if resource.namespaced == object.namespace.is_empty() {
                return Err(wrong_scope(&resource, &object.namespace));
            }
            source.read(|| reader.get(&resource, object)).await?.into_string()
        }
        Need::LiveList { kind, namespace, label_selector, limit } => {
            let resource = resource(kind)?;
            if !namespace.is_empty() && !is_path_segment(namespace) {
                return Err(nothing_has(&ObjectKey::new(namespace, "")));
            }
            if !resource.namespaced && !namespace.is_empty() {
                return Err(wrong_scope(&resource, namespace));
            }
            list(&resource, namespace, label_selector.as_deref(), *limit, source).await?
        }
        Need::RawPath(path) => source.read(|| reader.raw(path, MAX_ANSWER_BYTES)).await?.into_string(),
        Need::Discovery => serde_json::Value::from(source.read(|| cache.refreshed(Duration::ZERO)).await?).to_string(),
    };
    if answer.len() > MAX_ANSWER_BYTES { Err(too_long(MAX_ANSWER_BYTES)) } else { Ok(answer) }
}

async fn list(
    resource: &ApiResource,
    namespace: &str,
    label_selector: Option<&str>,
    limit: u32,
    source: &Source<'_>,
) -> Result<String, NeedError> {
    let target = ListWatchTarget {
        kind: resource.kind.clone(),
        plural: resource.plural.clone(),
        namespace: (!namespace.is_empty()).then(|| namespace.to_owned()),
        label_selector: label_selector.map(ToOwned::to_owned),
        field_selector: None,
        detail: Detail::Metadata,
    };
    let head = format!(
        r#"{{"apiVersion":{},"kind":{},"metadata":"#,
        quote(&resource.kind.api_version()),
        quote(&resource.kind.name)
    );
    let mut out = String::from("[");
    let mut n_left = limit;
    let mut page_token: Option<String> = None;
    loop {
        let page = source.read(|| source.reader.list(&target, n_left.min(PAGE), page_token.as_deref())).await?;
        for item in page.items.iter().take(n_left as usize) {
            let malformed = |why| NeedError { code: 0, reason: "Malformed".into(), message: why };
            let mut members = Members::parse(item).map_err(malformed)?;
            // They are most of the metadata, and controllers do not use them.
            members.edit("metadata", |metadata| metadata.remove("managedFields")).map_err(malformed)?;
            if out.len() > 1 {
                out.push(',');
            }
            out.push_str(&head);
            out.push_str(members.get("metadata").unwrap_or("{}"));
            out.push('}');
            if out.len() > MAX_ANSWER_BYTES {
                return Err(too_long(MAX_ANSWER_BYTES));
            }
        }
        n_left = n_left.saturating_sub(u32::try_from(page.items.len()).unwrap_or(u32::MAX));
        page_token = page.next.filter(|token| !token.is_empty());
        if n_left == 0 || page_token.is_none() {
            out.push(']');
            return Ok(out);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use expect_test::expect;
    use pintle_core::object::id::ObjectKey;
    use pintle_core::policy::grants::Grants;
    use pintle_testing::{FakeServer, FakeView, cached, key, manifest, pod};
    use serde_json::json;

    use super::super::tests::cache::FakeCache;
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn only_granted_reads_are_performed() {
        let manifest = manifest(|m| {
            m["grants"] = json!([
                {"verbs": ["get"], "kinds": ["v1/Pod"], "of": "controlled"},
                {"verbs": ["get"], "kinds": ["v1/ConfigMap"], "of": "key"},
                {"verbs": ["get", "list"], "kinds": ["*"], "namespaces": ["one"]},
            ]);
        });
        let shown = [("a", None), ("mine", Some("a")), ("orphan", None), ("theirs", Some("b"))];
        let view = FakeView::showing(shown.map(|(name, owner)| (pod(), cached(name, owner))).into());
        let grants = Grants::new(&manifest.grants, None);
        let rights = Rights { grants: &grants, manifest: &manifest, key: &key("a"), view: &view };
        let get = |kind: &str, namespace: &str, name: &str| Need::LiveObject {
            kind: kind.parse().unwrap(),
            object: ObjectKey::new(namespace, name),
        };
        let list = |kind: &str, namespace: &str| Need::LiveList {
            kind: kind.parse().unwrap(),
            namespace: namespace.into(),
            label_selector: None,
            limit: 1,
        };
        let needs = vec![
            get("v1/Pod", "ns", "mine"),
            get("v1/Pod", "ns", "orphan"),
            get("v1/Pod", "ns", "theirs"),
            get("v1/Pod", "ns", "unseen"),
            get("v1/ConfigMap", "ns", "a"),
            get("v1/Secret", "one", "s"),
            list("v1/Secret", "one"),
            list("v1/Secret", ""),
            // The namespace is granted, but Nodes are cluster-scoped: their path contains no namespace.
            get("v1/Node", "one", "n"),
            list("v1/Node", "one"),
            // No object can have such a name, whatever somebody wrote into another one.
            get("v1/Secret", "one", "../../nodes/n"),
            get("v1/Secret", "one", ""),
            get("v1/Unknown", "one", "n"),
            list("v1/Secret", "one/../two"),
        ];
        let mut answers = Answers::new();
        let cache = FakeCache::new();
        let (reader, stopped) = (FakeServer::answering_needs(), CancellationToken::new());
        let source = Source { reader: &*reader, cache: &*cache, stopped: &stopped };
        let n_denied = perform(needs, &mut answers, &source, &rights).await;
        assert_eq!(n_denied, 6);
        let lines: Vec<String> = answers
            .into_iter()
            .map(|(need, answer)| {
                let need = match need {
                    Need::LiveObject { kind, object } => format!("get {kind} {object}"),
                    Need::LiveList { kind, namespace, .. } => format!("list {kind} {namespace:?}"),
                    other => format!("{other:?}"),
                };
                let answer: Arc<str> = answer.unwrap_or_else(|error| {
                    // Another test covers the hint.
                    let message = error.message.split("; ").next().unwrap_or_default().to_owned();
                    format!("{}: {message}", error.reason).into()
                });
                format!("{need} -> {answer}\n")
            })
            .collect();
        expect![[r#"
            get v1/Pod ns/mine -> {"live":"mine"}
            get v1/Pod ns/orphan -> NotGranted: get v1/Pod ns/orphan is not granted to plugin widgets, whose manifest asks for objects of the key only: the caches show ns/orphan controlled by nothing, not by v1/Pod a
            get v1/Pod ns/theirs -> NotGranted: get v1/Pod ns/theirs is not granted to plugin widgets, whose manifest asks for objects of the key only: the caches show ns/theirs controlled by v1/Pod b, not by v1/Pod a
            get v1/Pod ns/unseen -> NotGranted: get v1/Pod ns/unseen is not granted to plugin widgets, whose manifest asks for objects of the key only: the caches of the plugin do not show v1/Pod ns/unseen
            get v1/ConfigMap ns/a -> NotGranted: get v1/ConfigMap ns/a is not granted to plugin widgets, whose manifest asks for objects of the key only: the key is v1/Pod ns/a
            get v1/Secret one/s -> {"live":"s"}
            list v1/Secret "one" -> [{"apiVersion":"v1","kind":"Secret","metadata":{"name":"secrets0"}}]
            list v1/Secret "" -> NotGranted: list v1/Secret is not granted to plugin widgets: its manifest does not ask for it
            get v1/Node one/n -> BadRequest: v1/Node is cluster-scoped, the namespace is "one"
            list v1/Node "one" -> BadRequest: v1/Node is cluster-scoped, the namespace is "one"
            get v1/Secret one/../../nodes/n -> NotFound: no object can have the name "one/../../nodes/n"
            get v1/Secret one/ -> NotFound: no object can have the name "one/"
            get v1/Unknown one/n -> NotFound: the API server has no kind v1/Unknown
            list v1/Secret "one/../two" -> NotGranted: list v1/Secret one/../two/ is not granted to plugin widgets: its manifest does not ask for it
        "#]].assert_eq(&lines.concat());
    }
}
