//! The cluster of a case: an API server with the case's objects, behind the host's own caches.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, bail};
use futures::future::BoxFuture;
use futures::{FutureExt as _, StreamExt as _};
use pintle_cache::{Caches, CachesConfig, ChangeHandler, Delta, RunContext, Subscription};
use pintle_core::contract::manifest::Manifest;
use pintle_core::contract::outcome::{Answers, CertificateRequest, LiveDetail, Need, NeedError, Outcome};
use pintle_core::contract::settings;
use pintle_core::object::field::{FieldMask, FieldPathError};
use pintle_core::object::id::{Key, Kind, ObjectKey};
use pintle_core::object::project::Projector;
use pintle_core::object::selector::Selector;
use pintle_core::ports::api::{
    ApiError, ApiErrorClass, ApiReader, ApiResource, Discovery, ListPage, ListWatchTarget, Room, WatchFrame,
    WatchStart, WatchStream,
};
use pintle_core::ports::view::View;
use serde_json::{Value, json};

use super::input::{Case, Input, InputCall, InputResource, InputReview, InputSignature, InputSubresource};
use super::render::Originals;

/// Timeout for filling the caches from memory, even on a busy machine.
const FILL_LIMIT: Duration = Duration::from_secs(60);

/// Version of every object: nothing ever changes.
const VERSION: &str = "1";

/// A case that is ready to run.
pub(crate) struct CaseCluster {
    pub(crate) key: Key,
    server: Arc<Server>,
    caches: Arc<Caches>,
    subscription: Subscription,
    context: RunContext,
    manifest: Arc<Manifest>,
}

impl CaseCluster {
    /// Fills the caches with the content of the case.
    ///
    /// # Errors
    /// The case does not fit the manifest.
    pub(crate) async fn open(case: &Case, manifest: &Arc<Manifest>) -> anyhow::Result<Self> {
        let input = &case.input;
        let queue = match &input.key.queue {
            Some(queue) => queue.clone(),
            None => manifest.queues.first().context("the manifest declares no queue")?.name.clone(),
        };
        let object = ObjectKey::new(&input.key.namespace, &input.key.name);
        let key = Key { queue: queue.into(), kind: input.key.kind.clone(), object };
        let config = settings::resolve(&manifest.config, &Value::Object(input.config.clone()))?;
        let config =
            settings::show_bound(manifest, config, |name| input.signatures.iter().any(|of| of.bound() == Some(name)));
        let state = input.state.iter().map(|(name, value)| (Arc::from(name.as_str()), Arc::from(value.as_str())));
        let context = RunContext {
            now: input.now.clone(),
            uptime: Duration::try_from_secs_f64(input.uptime).context("uptime of the case")?,
            config: config.into(),
            state: state.collect(),
            attempt: input.attempt,
            failures: input.failures.iter().map(|failure| failure.failure()).collect(),
            answers: Answers::new(),
            max_read_bytes: manifest.limits.effective().read_bytes,
            ..RunContext::default()
        };
        let server = Arc::new(Server::new(input, manifest)?);
        let caches = Caches::new(server.clone(), CachesConfig::default());
        let subscription = caches.subscribe(manifest.clone(), Arc::new(NoChanges));
        if tokio::time::timeout(FILL_LIMIT, subscription.synced()).await.is_err() {
            let kinds: Vec<_> = subscription.unsynced().iter().map(ToString::to_string).collect();
            bail!(
                "the caches of {} were not filled within {} s (objects of the case: {}): is the kind among `resources` of the \
                 case? A case with very many objects needs a machine that is not busy, or fewer objects",
                kinds.join(", "),
                FILL_LIMIT.as_secs(),
                input.objects.len(),
            );
        }
        Ok(Self { key, server, caches, subscription, context, manifest: manifest.clone() })
    }

    /// Called before each run: forgets what an earlier run has discovered.
    pub(crate) async fn begin(&self) {
        if self.server.rediscovered.swap(false, Ordering::Relaxed) {
            self.discover().await;
        }
    }

    async fn discover(&self) {
        // This server always answers.
        let _ = self.caches.refreshed(Duration::ZERO).await;
    }

    /// The view of the run, with the answers so far.
    pub(crate) fn view(&self, answers: &Answers) -> Arc<dyn View> {
        self.subscription.snapshot().view(RunContext { answers: answers.clone(), ..self.context.clone() })
    }

    /// Requests of a run that a host would reject: one sentence each.
    pub(crate) fn denials(&self, answers: &Answers, asked: &[Need], outcome: Option<&Outcome>) -> Vec<String> {
        let nothing = Outcome::default();
        let (view, outcome) = (self.view(answers), outcome.unwrap_or(&nothing));
        let mut denials = pintle_runtime::denials(&self.manifest, &self.key, &*view, asked, outcome, |kind| {
            self.server.resource(kind)
        });
        // Equal ones are reported once.
        let mut told = BTreeSet::new();
        denials.retain(|denial| told.insert(denial.clone()));
        denials
    }

    /// Answers a need as its API server would.
    pub(crate) async fn answer(&self, need: &Need) -> Result<Arc<str>, NeedError> {
        if *need == Need::Discovery && self.server.discovery_error.is_none() {
            self.server.rediscovered.store(true, Ordering::Relaxed);
            self.discover().await;
        }
        self.server.answer(need)
    }
}

impl Originals for CaseCluster {
    fn original(&self, kind: &Kind, object: &ObjectKey) -> Option<Value> {
        let stored = self.server.objects.iter().find(|stored| stored.kind == *kind && stored.key == *object)?;
        Some(stored.value.clone())
    }
}

/// The kinds in a case or the manifest, as served by its API server.
///
/// # Errors
/// An object has no kind or name.
pub(crate) fn resources_of(input: &Input, manifest: &Manifest) -> anyhow::Result<Vec<ApiResource>> {
    Ok(resources(&input.resources, manifest, &Stored::all(&input.objects)?))
}

/// The cluster of a case never changes.
struct NoChanges;

impl ChangeHandler for NoChanges {
    fn on_changes(&self, _: &Arc<[Delta]>) {}
    fn on_progress(&self, _: &Kind) {}
}

struct Stored {
    kind: Kind,
    key: ObjectKey,
    labels: BTreeMap<String, String>,
    value: Value,
}

impl Stored {
    fn all(values: &[Value]) -> anyhow::Result<Vec<Self>> {
        let mut objects = values.iter().map(Self::new).collect::<anyhow::Result<Vec<_>>>()?;
        objects.sort_by(|a, b| (&a.kind, &a.key).cmp(&(&b.kind, &b.key)));
        Ok(objects)
    }

    fn new(value: &Value) -> anyhow::Result<Self> {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let (Some(api_version), Some(kind), Some(name)) =
            (text(&value["apiVersion"]), text(&value["kind"]), text(&value["metadata"]["name"]))
        else {
            bail!("an object needs apiVersion, kind and metadata.name: {value}");
        };
        let mut value = value.clone();
        let meta = &mut value["metadata"];
        if meta.get("uid").is_none() {
            meta["uid"] = json!(format!("uid-{name}"));
        }
        if meta.get("resourceVersion").is_none() {
            meta["resourceVersion"] = json!("1");
        }
        let key = ObjectKey::new(meta["namespace"].as_str().unwrap_or_default(), &name);
        let labels = meta.get("labels").filter(|labels| !labels.is_null()).cloned().unwrap_or_else(|| json!({}));
        let labels = serde_json::from_value(labels).with_context(|| format!("metadata.labels of {name}"))?;
        Ok(Self { kind: Kind::from_api_version(&api_version, &kind), key, labels, value })
    }

    fn is_within(&self, namespace: Option<&str>, selector: Option<&Selector>) -> bool {
        namespace.is_none_or(|namespace| *self.key.namespace == *namespace)
            && selector.is_none_or(|selector| selector.matches(|key| self.labels.get(key).map(String::as_str)))
    }
}

/// An API server with just the objects of a case.
struct Server {
    /// For the caches.
    objects: Vec<Stored>,
    /// For needs.
    live: Vec<Stored>,
    subresources: Vec<InputSubresource>,
    reviews: Vec<InputReview>,
    signatures: Vec<InputSignature>,
    calls: Vec<InputCall>,
    raw: BTreeMap<String, Value>,
    manifest: Arc<Manifest>,
    resources: Vec<ApiResource>,
    /// From the first need for discovery on.
    new_resources: Option<Vec<ApiResource>>,
    failed_groups: Vec<String>,
    discovery_error: Option<NeedError>,
    rediscovered: AtomicBool,
}

impl Server {
    fn new(input: &Input, manifest: &Arc<Manifest>) -> anyhow::Result<Self> {
        let objects = Stored::all(&input.objects)?;
        let live = Stored::all(input.live.as_ref().unwrap_or(&input.objects))?;
        let discovery = &input.discovery;
        let resources = resources(&input.resources, manifest, &objects);
        let new_resources = discovery.resources.as_ref().map(|new| self::resources(new, manifest, &objects));
        Ok(Self {
            objects,
            live,
            subresources: input.subresources.clone(),
            reviews: input.reviews.clone(),
            signatures: input.signatures.clone(),
            calls: input.calls.clone(),
            raw: input.raw.clone(),
            manifest: manifest.clone(),
            resources,
            new_resources,
            failed_groups: discovery.failed.clone(),
            discovery_error: discovery.error.as_ref().map(|error| error.error()),
            rediscovered: AtomicBool::new(false),
        })
    }

    /// Only for kinds with objects: for others, whether they are namespaced is only guessed.
    fn resource(&self, kind: &Kind) -> Option<Arc<ApiResource>> {
        self.objects.iter().find(|stored| stored.kind == *kind)?;
        self.resources.iter().find(|resource| resource.kind == *kind).cloned().map(Arc::new)
    }

    fn answer(&self, need: &Need) -> Result<Arc<str>, NeedError> {
        match need {
            Need::LiveObject { kind, object, subresource: Some(subresource) } => {
                let found = self.subresources.iter().find_map(|one| one.answer(kind, object, subresource));
                let what = || format!("{kind}/{subresource} {object}; a case has it in `subresources`");
                found.map(|answer| answer.to_string().into()).ok_or_else(|| absent(&what()))
            }
            Need::Review { kind, namespace, object } => {
                let mut review: Value = serde_json::from_str(object).map_err(|why| invalid(&why.to_string()))?;
                let status = self.reviews.iter().find_map(|one| one.status(kind, namespace, &review)).cloned();
                let what = || format!("a verdict on {kind} {}; a case has it in `reviews`", review["spec"]);
                let status = status.ok_or_else(|| absent(&what()))?;
                if !review.is_object() {
                    return Err(invalid("the review is not an object"));
                }
                review["apiVersion"] = json!(kind.api_version());
                review["kind"] = json!(&*kind.name);
                review["status"] = status;
                Ok(review.to_string().into())
            }
            Need::LiveObject { kind, object, subresource: None } => {
                let found = self.live.iter().find(|stored| stored.kind == *kind && stored.key == *object);
                found.map(|stored| stored.value.to_string().into()).ok_or_else(|| absent(&format!("{kind} {object}")))
            }
            Need::LiveList { kind, namespace, label_selector, field_selector, detail, limit } => {
                let fields = fields(field_selector.as_deref()).map_err(|why| invalid(&why))?;
                let selector = parse(label_selector.as_deref()).map_err(|why| invalid(&why))?;
                let namespace = Some(namespace.as_str()).filter(|namespace| !namespace.is_empty());
                let found = self.live.iter().filter(|stored| stored.kind == *kind);
                let found = found.filter(|stored| stored.is_within(namespace, selector.as_ref()));
                let found = found.filter(|stored| fields.iter().all(|field| field.fits(&stored.value)));
                let shown = |stored: &Stored| match detail {
                    LiveDetail::Metadata => Ok(metadata_of(&stored.value)),
                    LiveDetail::Whole => Ok(stored.value.clone()),
                    LiveDetail::Projection => self.projected(stored).map_err(|why| invalid(&why)),
                };
                let items = found.take(*limit as usize).map(shown).collect::<Result<Vec<Value>, _>>()?;
                Ok(Value::Array(items).to_string().into())
            }
            Need::SignJwt { key: by, .. } | Need::SignCertificate(CertificateRequest { authority: by, .. }) => {
                signed(&self.signatures, need, by).map(Into::into)
            }
            Need::Call { endpoint, operation, body, .. } => {
                called(&self.calls, endpoint, operation, body).map(Into::into)
            }
            Need::RawPath(path) => {
                let body = self.raw.get(path).ok_or_else(|| absent(path))?;
                Ok(body.to_string().into())
            }
            Need::Discovery => match &self.discovery_error {
                Some(error) => Err(error.clone()),
                None => Ok(json!(self.failed_groups).to_string().into()),
            },
        }
    }

    /// The fields of an object that the plugin's watch of the kind keeps.
    fn projected(&self, stored: &Stored) -> Result<Value, String> {
        let watch = self.manifest.watches.iter().find(|watch| watch.kind.as_ref() == Some(&stored.kind));
        let paths = watch.iter().flat_map(|watch| &watch.fields).map(|path| path.parse());
        let paths = paths.collect::<Result<Vec<_>, FieldPathError>>().map_err(|why| why.to_string())?;
        let mask = FieldMask::new(paths);
        let text = Projector::new(&mask.with_identity()).project(&stored.value.to_string());
        let text = text.map_err(|why| why.to_string())?;
        serde_json::from_str(&text).map_err(|why| why.to_string())
    }

    fn items(&self, target: &ListWatchTarget) -> Result<Vec<Box<str>>, ApiError> {
        let selector = parse(target.label_selector.as_deref()).map_err(|why| bad_request(&why))?;
        let fields = fields(target.field_selector.as_deref()).map_err(|why| bad_request(&why))?;
        let of_kind = self.objects.iter().filter(|stored| stored.kind == target.kind);
        let found = of_kind.filter(|stored| stored.is_within(target.namespace.as_deref(), selector.as_ref()));
        let found = found.filter(|stored| fields.iter().all(|field| field.fits(&stored.value)));
        Ok(found.map(|stored| stored.value.to_string().into()).collect())
    }

    fn stream(&self, target: &ListWatchTarget, start: &WatchStart) -> Result<WatchStream, ApiError> {
        let mut frames = Vec::new();
        if matches!(start, WatchStart::InitialEvents) {
            frames.extend(self.items(target)?.into_iter().map(|item| Ok(WatchFrame::Added(item))));
            let resource_version = VERSION.to_owned();
            frames.push(Ok(WatchFrame::Bookmark { resource_version, initial_events_end: true }));
        }
        // The cluster of a case never changes.
        Ok(futures::stream::iter(frames).chain(futures::stream::pending()).boxed())
    }
}

/// The resources of a case; missing ones are derived from the manifest and the objects.
fn resources(said: &[InputResource], manifest: &Manifest, objects: &[Stored]) -> Vec<ApiResource> {
    let mut resources: Vec<ApiResource> = said.iter().map(InputResource::resource).collect();
    let known: BTreeSet<Kind> = resources.iter().map(|resource| resource.kind.clone()).collect();
    let named = manifest.kinds().chain(objects.iter().map(|object| &object.kind));
    let unsaid: BTreeSet<&Kind> = named.filter(|kind| !known.contains(*kind)).collect();
    for kind in unsaid {
        let mut of_kind = objects.iter().filter(|object| object.kind == *kind).peekable();
        let namespaced = of_kind.peek().is_none() || of_kind.any(|object| !object.key.namespace.is_empty());
        resources.push(guessed(kind, namespaced));
    }
    resources
}

/// The resource of an API server, with the usual name.
fn guessed(kind: &Kind, namespaced: bool) -> ApiResource {
    let verbs = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
    ApiResource {
        kind: kind.clone(),
        plural: format!("{}s", kind.name.to_lowercase()),
        namespaced,
        verbs: verbs.map(str::to_owned).into(),
        subresources: vec!["status".to_owned()],
        preferred: true,
    }
}

fn metadata_of(object: &Value) -> Value {
    let fields = ["apiVersion", "kind", "metadata"];
    fields.into_iter().filter_map(|name| Some((name.to_owned(), object.get(name)?.clone()))).collect()
}

fn parse(selector: Option<&str>) -> Result<Option<Selector>, String> {
    selector.map(|text| Selector::parse(text).map_err(|why| why.to_string())).transpose()
}

/// A term of a field selector.
struct Field<'a> {
    path: Vec<&'a str>,
    value: &'a str,
    equal: bool,
}

impl Field<'_> {
    fn fits(&self, object: &Value) -> bool {
        let found = self.path.iter().try_fold(object, |value, name| value.get(name));
        // As in the API server: a missing field is empty.
        let found = match found {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Null) | None => String::new(),
            Some(other) => other.to_string(),
        };
        (found == self.value) == self.equal
    }
}

/// `a.b=x,c!=y`, the syntax of field selectors.
fn fields(selector: Option<&str>) -> Result<Vec<Field<'_>>, String> {
    let field = |term| {
        let signs = [("!=", false), ("==", true), ("=", true)];
        let parts = signs.into_iter().find_map(|(sign, equal)| Some((str::split_once(term, sign)?, equal)));
        let ((path, value), equal) = parts.ok_or_else(|| format!("{term:?} is no term of a field selector"))?;
        Ok(Field { path: path.split('.').collect(), value, equal })
    };
    selector.unwrap_or_default().split(',').filter(|term| !term.is_empty()).map(field).collect()
}

/// The signature of a case for a need.
pub(super) fn signed(signatures: &[InputSignature], need: &Need, by: &str) -> Result<String, NeedError> {
    let answer = signatures.iter().find_map(|one| one.answer(need));
    answer.unwrap_or_else(|| Err(absent(&format!("a signature by {by}; a case has it in `signatures`"))))
}

/// The answer of a case to a call.
pub(super) fn called(calls: &[InputCall], endpoint: &str, operation: &str, body: &str) -> Result<String, NeedError> {
    let answer = calls.iter().find_map(|one| one.answer(endpoint, operation, body));
    let what = || format!("an answer to {endpoint}/{operation} {body}; a case has it in `calls`");
    answer.unwrap_or_else(|| Err(absent(&what())))
}

fn absent(what: &str) -> NeedError {
    NeedError { code: 404, reason: "NotFound".to_owned(), message: format!("{what} not found") }
}

fn invalid(why: &str) -> NeedError {
    NeedError { code: 400, reason: "BadRequest".to_owned(), message: why.to_owned() }
}

fn bad_request(why: &str) -> ApiError {
    let class = ApiErrorClass::Invalid;
    ApiError { class, code: 400, reason: "BadRequest".into(), message: why.to_owned(), causes: Vec::new() }
}

fn refused(why: NeedError) -> ApiError {
    let class = if why.code == 404 { ApiErrorClass::NotFound } else { ApiErrorClass::Invalid };
    ApiError { class, code: why.code, reason: why.reason, message: why.message, causes: Vec::new() }
}

impl ApiReader for Server {
    fn discover(&self) -> BoxFuture<'_, Result<Discovery, ApiError>> {
        let new = self.new_resources.as_ref().filter(|_| self.rediscovered.load(Ordering::Relaxed));
        let resources = new.unwrap_or(&self.resources).clone();
        std::future::ready(Ok(Discovery { resources, failed: self.failed_groups.clone() })).boxed()
    }

    fn list<'a>(
        &'a self,
        target: &'a ListWatchTarget,
        _: u32,
        _: Option<&'a str>,
    ) -> BoxFuture<'a, Result<ListPage, ApiError>> {
        let items = self.items(target);
        let page = items.map(|items| ListPage { items, resource_version: VERSION.to_owned(), next: None });
        std::future::ready(page).boxed()
    }

    fn watch<'a>(
        &'a self,
        target: &'a ListWatchTarget,
        start: WatchStart,
    ) -> BoxFuture<'a, Result<WatchStream, ApiError>> {
        std::future::ready(self.stream(target, &start)).boxed()
    }

    fn get<'a>(
        &'a self,
        resource: &'a ApiResource,
        object: &'a ObjectKey,
        subresource: Option<&'a str>,
    ) -> BoxFuture<'a, Result<Box<str>, ApiError>> {
        let subresource = subresource.map(str::to_owned);
        let need = Need::LiveObject { kind: resource.kind.clone(), object: object.clone(), subresource };
        std::future::ready(self.answer(&need).map(|text| (&*text).into()).map_err(refused)).boxed()
    }

    fn review<'a>(
        &'a self,
        resource: &'a ApiResource,
        namespace: &'a str,
        body: &'a str,
    ) -> BoxFuture<'a, Result<Box<str>, ApiError>> {
        let (kind, namespace, object) = (resource.kind.clone(), namespace.to_owned(), body.to_owned());
        let need = Need::Review { kind, namespace, object };
        std::future::ready(self.answer(&need).map(|text| (&*text).into()).map_err(refused)).boxed()
    }

    fn raw<'a>(&'a self, path: &'a str, _: &'a Room<'a>) -> BoxFuture<'a, Result<Box<str>, ApiError>> {
        let need = Need::RawPath(path.to_owned());
        std::future::ready(self.answer(&need).map(|text| (&*text).into()).map_err(refused)).boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::super::input::read_all;
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn caches_that_are_not_filled_in_time_are_reported_with_the_limit_and_the_number_of_objects() {
        // This server rejects the selector.
        let manifest = r#"{
            "name": "p", "version": "1", "contract": "0.2", "queues": [{"name": "q"}],
            "watches": [{"kind": "v1/Pod", "fields": ["spec.nodeName"], "fieldSelector": "none", "enqueue": [{"to": "self"}]}]}"#;
        let case = "
key: {kind: v1/Pod, namespace: n, name: a}
objects:
  - {apiVersion: v1, kind: Pod, metadata: {namespace: n, name: a}}
  - {apiVersion: v1, kind: Pod, metadata: {namespace: n, name: b}}
";
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("large.yaml"), case).unwrap();
        let case = &read_all(folder.path(), None).unwrap()[0];
        let manifest = Arc::new(Manifest::parse(manifest.as_bytes()).unwrap());
        let why = CaseCluster::open(case, &manifest).await.err().unwrap().to_string();
        let expected =
            "the caches of v1/Pod were not filled within 60 s (objects of the case: 2): is the kind among `resources`";
        assert!(why.starts_with(expected), "{why}");
    }
}
