//! Performs the reads that a run needs and its caches cannot answer.
//!
//! Invariants:
//! 1. A read that is not granted does not leave the process; its answer is `NotGranted`.
//! 2. Answers are bounded in bytes.

use std::time::Duration;

use futures::StreamExt;
use pintle_core::api::{ApiError, ApiReader, ApiResource, Detail, Target};
use pintle_core::grants::{Access, Grants};
use pintle_core::id::Kind;
use pintle_core::outcome::{Answers, Need, NeedError};

use super::World;
use crate::writer::{Members, quote};

/// Reads of one round that are under way at once.
const MAX_PARALLEL: usize = 8;
/// Longest answer.
const MAX_ANSWER_BYTES: usize = 8 << 20;
/// All answers of a run together; who pays is the host's memory.
const MAX_RUN_BYTES: usize = 64 << 20;
/// Objects in one page of a live list.
const PAGE: u32 = 500;

/// Adds answers in the order of the needs; says how many were not granted.
pub(crate) async fn perform(
    needs: Vec<Need>,
    answers: &mut Answers,
    reader: &dyn ApiReader,
    grants: &Grants,
    world: &dyn World,
) -> usize {
    let n_denied = needs.iter().filter(|need| !granted(need, grants)).count();
    // What is asked for again is answered again.
    answers.retain(|(need, _)| !needs.contains(need));
    let mut n_bytes: usize = answers.iter().filter_map(|(_, answer)| answer.as_ref().ok()).map(|text| text.len()).sum();
    let mut new = futures::stream::iter(needs)
        .map(|need| async move {
            let answer = if granted(&need, grants) { read(&need, reader, world).await } else { Err(not_granted()) };
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

fn granted(need: &Need, grants: &Grants) -> bool {
    match need {
        Need::LiveObject { kind, object } => grants.allow(&Access {
            verb: "get",
            kind,
            subresource: None,
            namespace: &object.namespace,
            name: &object.name,
        }),
        Need::LiveList { kind, namespace, .. } => {
            grants.allow(&Access { verb: "list", kind, subresource: None, namespace, name: "" })
        }
        Need::RawPath(path) => grants.allow_path(path),
        // The manifest has been asked already.
        Need::Discovery => true,
    }
}

fn not_granted() -> NeedError {
    NeedError { code: 0, reason: "NotGranted".into(), message: "the read is not granted to this plugin".into() }
}

fn refused(error: ApiError) -> NeedError {
    NeedError { code: error.code, reason: error.reason, message: error.message }
}

fn too_long(limit: usize) -> NeedError {
    NeedError { code: 0, reason: "TooLarge".into(), message: format!("the answer has more than {limit} bytes") }
}

async fn read(need: &Need, reader: &dyn ApiReader, world: &dyn World) -> Result<String, NeedError> {
    let resource = |kind: &Kind| {
        world.resource(kind).ok_or_else(|| NeedError {
            code: 404,
            reason: "NotFound".into(),
            message: format!("the API server has no kind {kind}"),
        })
    };
    let answer = match need {
        Need::LiveObject { kind, object } => {
            reader.get(&*resource(kind)?, object).await.map_err(refused)?.into_string()
        }
        Need::LiveList { kind, namespace, label_selector, limit } => {
            list(&*resource(kind)?, namespace, label_selector.as_deref(), *limit, reader).await?
        }
        Need::RawPath(path) => reader.raw(path, MAX_ANSWER_BYTES).await.map_err(refused)?.into_string(),
        Need::Discovery => serde_json::Value::from(world.refreshed(Duration::ZERO).await.map_err(refused)?).to_string(),
    };
    if answer.len() > MAX_ANSWER_BYTES { Err(too_long(MAX_ANSWER_BYTES)) } else { Ok(answer) }
}

async fn list(
    resource: &ApiResource,
    namespace: &str,
    label_selector: Option<&str>,
    limit: u32,
    reader: &dyn ApiReader,
) -> Result<String, NeedError> {
    let target = Target {
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
        let page = reader.list(&target, n_left.min(PAGE), page_token.as_deref()).await.map_err(refused)?;
        for item in page.items.iter().take(n_left as usize) {
            let malformed = |why| NeedError { code: 0, reason: "Malformed".into(), message: why };
            let mut members = Members::parse(item).map_err(malformed)?;
            // They are most of the metadata, and nothing that a controller decides by.
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
