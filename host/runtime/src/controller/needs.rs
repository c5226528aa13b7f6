//! Performs the reads of a run that its caches cannot answer.
//!
//! Invariants:
//! 1. A read that is not granted does not leave the process; its answer is `NotGranted`.
//! 2. The bytes of answers are bounded: per answer, per run, and for all runs of the plugin.
//! 3. A read has a deadline.
//!
//! Signatures and calls are in `outside`.

mod outside;

use std::collections::{BTreeSet, HashSet};
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures::StreamExt;
use pintle_cache::Caches;
use pintle_core::contract::manifest::Manifest;
use pintle_core::contract::outcome::{Answers, LiveDetail, Need, NeedError};
use pintle_core::object::field::{FieldMask, FieldPathError};
use pintle_core::object::id::{Kind, ObjectKey};
use pintle_core::object::ingest::{IngestPlan, Ingester, Needs};
use pintle_core::object::texts::Projection;
use pintle_core::policy::grants::is_path_segment;
use pintle_core::policy::outside::{self as decide, refused as refusal};
use pintle_core::ports::api::{ApiError, ApiReader, ApiResource, Detail, ListWatchTarget, WriteFence};
use pintle_core::ports::outside::Outside;
use pintle_core::text::cut;

use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::large;
use crate::throttle::retry_throttled;
use crate::traces::RunTrace;
use crate::writer::{Members, NOT_GRANTED, Rights, quote};
use pintle_core::policy::held::{Account, Held};

/// Maximum concurrent reads of one round.
const MAX_PARALLEL: usize = 8;
/// Maximum bytes of all answers of a run, which the host holds in memory.
const MAX_RUN_BYTES: usize = 64 << 20;
/// Time limit of one read, including all pages of a list and all repetitions.
const READ_DEADLINE: Duration = Duration::from_secs(30);
/// Maximum bytes of a denial, which repeats the guest's texts.
const MAX_DENIAL_BYTES: usize = 1024;
/// Maximum pages of live lists that all runs of a plugin read at the same time. The adapter bounds the bytes of each.
pub(crate) const MAX_PAGES: usize = 4;
/// Page size of a live list.
const PAGE: u32 = 500;

/// The sources of the answers.
#[derive(Clone, Copy)]
pub(crate) struct Source<'a> {
    pub(crate) reader: &'a dyn ApiReader,
    pub(crate) caches: &'a Arc<Caches>,
    /// Cancelled when the controller stops: reads in flight end.
    pub(crate) stopped: &'a CancellationToken,
    /// Called before a read is repeated.
    pub(crate) repeated: &'a (dyn Fn() + Sync),
    /// Manifest of the plugin.
    pub(crate) manifest: &'a Manifest,
    /// The record of the run, if it is recorded.
    pub(crate) trace: Option<&'a RunTrace>,
    /// Keys, certificate authorities and endpoints.
    pub(crate) outside: &'a dyn Outside,
    /// Bounds calls in time like writes, because they have effects.
    pub(crate) fence: Option<&'a dyn WriteFence>,
    /// Permits for the pages of lists that the plugin's runs read at the same time: [`MAX_PAGES`].
    pub(crate) pages: &'a Semaphore,
    /// Maximum bytes of one answer of the API server: `limits.answerBytes`.
    pub(crate) max_answer_bytes: usize,
}

/// The needs of a run so far with their answers, and the bytes that they use of the plugin's account.
pub(crate) struct Answered {
    pub(crate) answers: Answers,
    held: Held,
    /// Number of signatures and calls of the run so far.
    n_outside: usize,
}

/// The runs of the plugin hold the maximum number of bytes, so that not even the needs fit.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Crowded(String);

impl std::fmt::Display for Crowded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// An answer and its bytes in the plugin's account, or an error instead if it does not fit.
type Counted = (Result<String, NeedError>, Held);

fn counted(answer: Result<String, NeedError>, mut held: Held) -> Counted {
    let n_bytes = match &answer {
        Ok(text) => text.len(),
        Err(error) => error.reason.len() + error.message.len(),
    };
    if held.resize(n_bytes as u64) {
        return (answer, held);
    }
    held.set(0);
    let error = too_crowded(held.account().max_bytes());
    (Err(error), held)
}

impl Answered {
    pub(crate) fn new(account: &Arc<Account>) -> Self {
        Self { answers: Answers::new(), held: account.open(), n_outside: 0 }
    }

    /// Adds a counted answer.
    fn push(&mut self, need: Need, (answer, held): Counted) {
        self.held.join(held);
        self.answers.push((need, answer.map(Into::into)));
    }
}

fn too_crowded(max_bytes: u64) -> NeedError {
    NeedError { code: 0, reason: "TooLarge".into(), message: crowded(max_bytes) }
}

fn crowded(max_bytes: u64) -> String {
    format!(
        "the runs of the plugin hold {max_bytes} bytes already: fewer or smaller needs at once, or fewer workers, help"
    )
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
                Err(refusal("Stopping", "the controller stops"))
            }
            answer = retry_throttled(self.stopped, self.repeated, send) => answer.map_err(refused),
        }
    }
}

/// Needs that are counted in the plugin's account, including refused ones.
pub(crate) struct Asked {
    needs: Vec<(Need, Option<NeedError>)>,
    pub(crate) n_denied: usize,
}

impl Asked {
    /// The kinds of the needs.
    pub(crate) fn kinds(&self) -> impl Iterator<Item = &Kind> {
        self.needs.iter().filter_map(|(need, _)| match need {
            Need::LiveObject { kind, .. } | Need::LiveList { kind, .. } | Need::Review { kind, .. } => Some(kind),
            Need::RawPath(_) | Need::Discovery => None,
            Need::SignJwt { .. } | Need::SignCertificate(_) | Need::Call { .. } => None,
        })
    }

    /// A need that is not granted.
    pub(crate) fn denial(&self) -> Option<&NeedError> {
        let refused = self.needs.iter().rev().filter_map(|(_, refused)| refused.as_ref());
        refused.into_iter().find(|refused| refused.reason == NOT_GRANTED)
    }
}

/// Decides which needs may be performed. Nothing of the run's view is needed afterwards.
///
/// # Errors
/// [`Crowded`]; a later run may have room.
pub(crate) fn ask(
    needs: Vec<Need>,
    answered: &mut Answered,
    source: &Source<'_>,
    rights: &Rights<'_>,
) -> Result<Asked, Crowded> {
    // Each text is held here and in the view of the next round.
    let n_need_bytes: usize = needs.iter().map(|need| 2 * need.n_bytes() + size_of::<Need>()).sum();
    if !answered.held.grow(n_need_bytes as u64) {
        return Err(Crowded(crowded(answered.held.account().max_bytes())));
    }
    let mut n_denied = 0;
    let needs: Vec<_> = needs
        .into_iter()
        .map(|need| {
            let refused = denied(&need, source, rights)
                .or_else(|| outside::refused_before(&need, &mut answered.n_outside))
                .or_else(|| outside::unrequested(&need, rights));
            n_denied += usize::from(refused.as_ref().is_some_and(|refused| refused.reason == NOT_GRANTED));
            (need, refused)
        })
        .collect();
    let asked = Asked { needs, n_denied };
    if let Some(denied) = asked.denial() {
        let (plugin, key, error) = (&rights.manifest.name, rights.key, &denied.message);
        // Log the full error once: a missing grant stays missing.
        if rights.view.attempt() == 0 {
            tracing::warn!(plugin, %key, n_denied, error, "needs are not granted");
        } else {
            tracing::debug!(plugin, %key, n_denied, error, "needs are not granted");
        }
    }
    Ok(asked)
}

/// Appends answers in the order of the needs.
pub(crate) async fn perform(asked: Asked, answered: &mut Answered, source: &Source<'_>) {
    let needs = asked.needs;
    // A repeated need is read again.
    let (answers, account) = (&mut answered.answers, answered.held.account().clone());
    let account = &account;
    let again: HashSet<&Need> = needs.iter().map(|(need, _)| need).collect();
    answers.retain(|(answered, _)| !again.contains(answered));
    let mut n_bytes: usize = answers.iter().filter_map(|(_, answer)| answer.as_ref().ok()).map(|text| text.len()).sum();
    let mut new = futures::stream::iter(needs)
        .map(|(need, denied)| async move {
            // The need waits for earlier ones.
            let held = Mutex::new(account.open());
            let answer = traced_read(&need, denied, source, &held).await;
            (need, counted(answer, held.into_inner()))
        })
        .buffered(MAX_PARALLEL);
    while let Some((need, (answer, held))) = new.next().await {
        let room = MAX_RUN_BYTES.saturating_sub(n_bytes);
        let answer = match answer {
            Ok(text) if text.len() > room => counted(Err(too_long(room)), held),
            answer => (answer, held),
        };
        n_bytes += answer.0.as_ref().map_or(0, String::len);
        answered.push(need, answer);
    }
}

/// The denial of a need, if it is not granted.
fn denied(need: &Need, source: &Source<'_>, rights: &Rights<'_>) -> Option<NeedError> {
    let plugin = &rights.manifest.name;
    if decide::is_outside(need) {
        return outside::unbound(need, source.outside, plugin);
    }
    rights.ask(need).err().map(|denial| {
        let message = cut(&denial.message(plugin), MAX_DENIAL_BYTES).to_owned();
        NeedError { code: 0, reason: NOT_GRANTED.into(), message }
    })
}

fn too_slow() -> NeedError {
    let message = format!("the API server has not answered within {READ_DEADLINE:?}");
    NeedError { code: 0, reason: "Timeout".into(), message }
}

fn refused(error: ApiError) -> NeedError {
    NeedError { code: error.code, reason: error.reason, message: error.message }
}

/// A grant names one namespace; a request for a cluster-scoped kind would read outside of it.
fn wrong_scope(resource: &ApiResource, namespace: &str) -> NeedError {
    let is = if resource.namespaced { "namespaced" } else { "cluster-scoped" };
    let message = format!("{} is {is}, the namespace is {namespace:?}", resource.kind);
    NeedError { code: 400, reason: "BadRequest".into(), message }
}

/// Names come from the contents of objects. Sent as they are, they would change the path.
fn nothing_has(object: &ObjectKey) -> NeedError {
    let message = format!("no object can have the name {:?}", object.to_string());
    NeedError { code: 404, reason: "NotFound".into(), message }
}

fn too_long(limit: usize) -> NeedError {
    NeedError { code: 0, reason: "TooLarge".into(), message: format!("the answer has more than {limit} bytes") }
}

/// Performs a read unless it is denied, and records it if the run is recorded.
async fn traced_read(
    need: &Need,
    denied: Option<NeedError>,
    source: &Source<'_>,
    held: &Mutex<Held>,
) -> Result<String, NeedError> {
    let Some(trace) = source.trace else { return bounded_read(need, denied, source, held).await };
    let (part, n_resent, is_sent) = (trace.part(), AtomicU32::new(0), denied.is_none());
    let repeated = || {
        n_resent.fetch_add(1, Ordering::Relaxed);
        (source.repeated)();
    };
    let reader = source.reader.traced(part.span);
    let of_span = Source { reader: reader.as_deref().unwrap_or(source.reader), repeated: &repeated, ..*source };
    let answer = bounded_read(need, denied, &of_span, held).await;
    trace.read(part, need, answer.as_ref().map(|_| ()), is_sent.then_some(&n_resent));
    answer
}

async fn bounded_read(
    need: &Need,
    denied: Option<NeedError>,
    source: &Source<'_>,
    held: &Mutex<Held>,
) -> Result<String, NeedError> {
    match denied {
        Some(denial) => Err(denial),
        None if decide::is_outside(need) => outside::perform(need, source).await,
        None => tokio::time::timeout(READ_DEADLINE, read(need, source, held)).await.unwrap_or_else(|_| Err(too_slow())),
    }
}

async fn read(need: &Need, source: &Source<'_>, held: &Mutex<Held>) -> Result<String, NeedError> {
    let Source { reader, caches, max_answer_bytes, .. } = *source;
    let resource = |kind: &Kind| {
        caches.resource(kind).ok_or_else(|| NeedError {
            code: 404,
            reason: "NotFound".into(),
            message: format!("the API server has no kind {kind}"),
        })
    };
    let answer = match need {
        Need::LiveObject { kind, object, subresource } => {
            let resource = resource(kind)?;
            let is_namespace = object.namespace.is_empty() || is_path_segment(&object.namespace);
            if !is_namespace || !is_path_segment(&object.name) {
                return Err(nothing_has(object));
            }
            if resource.namespaced == object.namespace.is_empty() {
                return Err(wrong_scope(&resource, &object.namespace));
            }
            source.read(|| reader.get(&resource, object, subresource.as_deref())).await?.into_string()
        }
        Need::LiveList { kind, namespace, label_selector, field_selector, detail, limit } => {
            let resource = resource(kind)?;
            if !namespace.is_empty() && !is_path_segment(namespace) {
                return Err(nothing_has(&ObjectKey::new(namespace, "")));
            }
            if !resource.namespaced && !namespace.is_empty() {
                return Err(wrong_scope(&resource, namespace));
            }
            let items = Items::new(kind, *detail, source.manifest)?;
            let target = ListWatchTarget {
                kind: resource.kind.clone(),
                plural: resource.plural.clone(),
                namespace: (!namespace.is_empty()).then(|| namespace.clone()),
                label_selector: label_selector.clone(),
                field_selector: field_selector.clone(),
                detail: items.detail(),
            };
            list(&target, items, *limit, source, held).await?
        }
        Need::Review { kind, namespace, object } => {
            let resource = resource(kind)?;
            if !namespace.is_empty() && !is_path_segment(namespace) {
                return Err(nothing_has(&ObjectKey::new(namespace, "")));
            }
            if resource.namespaced == namespace.is_empty() {
                return Err(wrong_scope(&resource, namespace));
            }
            let body = large::on_text(object.len(), || whole_review(kind, object)).await.map_err(malformed)?;
            source.read(|| reader.review(&resource, namespace, &body)).await?.into_string()
        }
        // Not reads of the API server; see `bounded_read`.
        Need::SignJwt { .. } | Need::SignCertificate(_) | Need::Call { .. } => outside::perform(need, source).await?,
        Need::RawPath(path) => {
            let room = |n_bytes: usize| {
                if n_bytes > max_answer_bytes {
                    return Err(too_long(max_answer_bytes).message);
                }
                let mut held = held.lock();
                if held.resize(n_bytes as u64) { Ok(()) } else { Err(crowded(held.account().max_bytes())) }
            };
            source.read(|| reader.raw(path, &room)).await?.into_string()
        }
        Need::Discovery => {
            // Aggregated discovery is two requests.
            source.reader.turn().await;
            source.reader.turn().await;
            serde_json::Value::from(source.read(|| caches.refreshed(Duration::ZERO)).await?).to_string()
        }
    };
    if answer.len() > max_answer_bytes { Err(too_long(max_answer_bytes)) } else { Ok(answer) }
}

fn malformed(why: impl ToString) -> NeedError {
    NeedError { code: 0, reason: "Malformed".into(), message: why.to_string() }
}

/// A review with the kind that was granted.
fn whole_review(kind: &Kind, object: &str) -> Result<String, String> {
    let mut members = Members::parse(object)?;
    members.set("kind", quote(&kind.name));
    members.set("apiVersion", quote(&kind.api_version()));
    Ok(members.text())
}

/// The form of a live list's items in its answer.
enum Items {
    /// The metadata without `managedFields`.
    Metadata { head: String },
    /// Everything but `managedFields`.
    Whole { kind: Kind },
    /// The projection of a watch.
    Projected { plan: Box<IngestPlan>, ingester: Box<Ingester> },
}

impl Items {
    fn new(kind: &Kind, detail: LiveDetail, manifest: &Manifest) -> Result<Self, NeedError> {
        match detail {
            LiveDetail::Metadata => {
                let (version, kind) = (quote(&kind.api_version()), quote(&kind.name));
                Ok(Self::Metadata { head: format!(r#"{{"apiVersion":{version},"kind":{kind},"metadata":"#) })
            }
            LiveDetail::Whole => Ok(Self::Whole { kind: kind.clone() }),
            LiveDetail::Projection => {
                // Outcome validation ensures that there is a watch, and manifest validation that its paths parse.
                let watch = manifest.watches.iter().find(|watch| watch.kind.as_ref() == Some(kind));
                let fields = watch.iter().flat_map(|watch| &watch.fields).map(|path| path.parse());
                let fields = fields.collect::<Result<Vec<_>, FieldPathError>>().map_err(malformed)?;
                let fields = FieldMask::new(fields);
                let projections = BTreeSet::from([Projection::Fields(fields)]);
                let plan = IngestPlan::new(kind.clone(), Needs { projections, ..Needs::default() });
                Ok(Self::Projected { plan: Box::new(plan), ingester: Box::default() })
            }
        }
    }

    fn detail(&self) -> Detail {
        match self {
            Self::Metadata { .. } => Detail::Metadata,
            Self::Whole { .. } => Detail::Full,
            Self::Projected { plan, .. } => plan.detail(),
        }
    }

    /// Appends objects to an answer, up to its maximum size.
    fn write_all(&mut self, items: &[Box<str>], out: &mut String, max_bytes: usize) -> Result<(), NeedError> {
        for item in items {
            if out.len() > 1 {
                out.push(',');
            }
            self.write(item, out)?;
            if out.len() > max_bytes {
                return Err(too_long(max_bytes));
            }
        }
        Ok(())
    }

    /// Appends one object, as received from the server.
    fn write(&mut self, item: &str, out: &mut String) -> Result<(), NeedError> {
        match self {
            Self::Metadata { head } => {
                let mut members = Members::parse_object(item).map_err(malformed)?;
                // `managedFields` are most of the metadata, and controllers do not use them.
                members.edit("metadata", |metadata| metadata.remove("managedFields")).map_err(malformed)?;
                out.push_str(head);
                out.push_str(members.get("metadata").unwrap_or("{}"));
                out.push('}');
            }
            Self::Whole { kind } => {
                let mut members = Members::parse_object(item).map_err(malformed)?;
                members.edit("metadata", |metadata| metadata.remove("managedFields")).map_err(malformed)?;
                // Items of a list have neither.
                members.set("kind", quote(&kind.name));
                members.set("apiVersion", quote(&kind.api_version()));
                out.push_str(&members.text());
            }
            Self::Projected { plan, ingester } => {
                let object = ingester.ingest(plan, item).map_err(malformed)?;
                out.push_str(object.texts.first().map_or("null", |text| text));
            }
        }
        Ok(())
    }
}

async fn list(
    target: &ListWatchTarget,
    mut items: Items,
    limit: u32,
    source: &Source<'_>,
    held: &Mutex<Held>,
) -> Result<String, NeedError> {
    let mut out = String::from("[");
    let mut n_left = limit;
    let mut page_size = PAGE;
    let (mut page_token, mut is_whole): (Option<String>, _) = (None, false);
    loop {
        // The semaphore is never closed.
        let turn = source.pages.acquire().await;
        let wanted = n_left.min(page_size);
        let page = match source.read(|| source.reader.list(target, wanted, page_token.as_deref())).await {
            // The continue token has expired. As upstream, request all objects in one page: up to the limit of the
            // answer.
            Err(error) if error.code == 410 && page_token.is_some() && !is_whole => {
                (page_token, n_left, page_size, is_whole) = (None, limit, u32::MAX, true);
                out.truncate(1);
                continue;
            }
            page => page?,
        };
        let asked = &page.items[..page.items.len().min(n_left as usize)];
        let n_bytes = asked.iter().map(|item| item.len()).sum();
        // The page is already in memory. An answer that does not fit in addition to it fails here.
        held.lock().set((out.len() + n_bytes) as u64);
        large::on_text(n_bytes, || items.write_all(asked, &mut out, source.max_answer_bytes)).await?;
        let n_items = u32::try_from(page.items.len()).unwrap_or(u32::MAX);
        n_left = n_left.saturating_sub(n_items);
        page_token = page.next.filter(|token| !token.is_empty());
        // A page that was too large was read with fewer objects; keep that limit for the next one.
        if n_bytes > source.max_answer_bytes {
            page_size = page_size.min(n_items.max(1));
        }
        drop(turn);
        let mut held = held.lock();
        held.set(0);
        if !held.grow(out.len() as u64) {
            return Err(too_crowded(held.account().max_bytes()));
        }
        if n_left == 0 || page_token.is_none() {
            out.push(']');
            return Ok(out);
        }
    }
}

#[cfg(test)]
mod tests;
