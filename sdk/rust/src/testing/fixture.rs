//! A lister over plain objects.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

use super::manifest::{Manifest, Watch, project, segments, values_at};
use super::render;
use crate::api::meta::{LabelSelector, ObjectMeta};
use crate::error::Error;
use crate::lister::{ApiResource, Lister, OwnedBy, Query};
use crate::need::{LiveDetail, MAX_NEEDS, Need};
use crate::outcome::{ApiError, MutationFailure, Outcome};
use crate::selector::Selector;
use crate::types::{Key, Kind, ObjectKey};

/// Most calls of one run, as in the host.
const MAX_ROUNDS: usize = 8;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Input {
    key: InputKey,
    #[serde(default = "default_now")]
    now: String,
    /// Seconds since the host started.
    #[serde(default)]
    uptime: f64,
    #[serde(default)]
    objects: Vec<Value>,
    live: Option<Vec<Value>>,
    #[serde(default)]
    config: serde_json::Map<String, Value>,
    #[serde(default)]
    state: BTreeMap<String, String>,
    #[serde(default)]
    attempt: u32,
    #[serde(default)]
    failures: Vec<MutationFailure>,
    #[serde(default)]
    resources: Vec<ApiResource>,
    #[serde(default)]
    raw: BTreeMap<String, Value>,
    #[serde(default)]
    subresources: Vec<Subresource>,
    #[serde(default)]
    reviews: Vec<Review>,
    #[serde(default)]
    signatures: Vec<Signature>,
    #[serde(default)]
    calls: Vec<Call>,
    #[serde(default)]
    discovery: Discovery,
    /// For `pintle test` only.
    #[serde(default, rename = "settle")]
    _settle: Value,
    /// A place for YAML anchors.
    #[serde(default, rename = "define")]
    _define: Value,
}

/// A subresource for live reads.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Subresource {
    kind: Kind,
    #[serde(default)]
    namespace: String,
    name: String,
    subresource: String,
    answer: Value,
}

/// The answer to a review.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Review {
    kind: Kind,
    #[serde(default)]
    namespace: String,
    /// Fields that a review must have; any if absent.
    #[serde(default)]
    spec: Value,
    status: Value,
}

/// A signature by a key or an authority.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Signature {
    by: String,
    /// Claims that a token must have; any if absent.
    #[serde(default)]
    claims: Value,
    answer: Option<String>,
    error: Option<ApiError>,
}

/// The answer of an endpoint.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Call {
    endpoint: String,
    operation: String,
    /// Fields that a body must have; any if absent.
    #[serde(default)]
    body: Value,
    #[serde(default)]
    answer: Value,
    error: Option<ApiError>,
}

impl Signature {
    /// Whether it shows that its key or authority is bound: it is not the refusal of one that is not.
    fn is_bound(&self) -> bool {
        self.error.as_ref().is_none_or(|error| error.reason != "NotGranted")
    }

    fn of(&self, by: &str, claims: Option<&str>) -> Option<Result<String, ApiError>> {
        let claims: Value =
            claims.map_or(Value::Null, |claims| serde_json::from_str(claims).expect("the claims are JSON"));
        let fits = self.by == by && contains(&claims, &self.claims);
        fits.then(|| self.error.clone().map_or_else(|| Ok(self.answer.clone().unwrap_or_default()), Err))
    }
}

impl Call {
    fn answer(&self, endpoint: &str, operation: &str, body: &str) -> Option<Result<String, ApiError>> {
        let body: Value = serde_json::from_str(body).expect("the body is JSON");
        let fits = self.endpoint == endpoint && self.operation == operation && contains(&body, &self.body);
        fits.then(|| self.error.clone().map_or_else(|| Ok(self.answer.to_string()), Err))
    }
}

/// Whether a value contains another one; null matches anything.
fn contains(value: &Value, wanted: &Value) -> bool {
    match (value, wanted) {
        (_, Value::Null) => true,
        (Value::Object(value), Value::Object(wanted)) => {
            wanted.iter().all(|(name, wanted)| value.get(name).is_some_and(|value| contains(value, wanted)))
        }
        _ => value == wanted,
    }
}

/// `a.b=x,c!=y`, the syntax of field selectors; a missing field is empty.
fn fields_match(selector: &str, object: &Value) -> bool {
    selector.split(',').filter(|term| !term.is_empty()).all(|term| {
        let signs = [("!=", false), ("==", true), ("=", true)];
        let parts = signs.into_iter().find_map(|(sign, equal)| Some((term.split_once(sign)?, equal)));
        let Some(((path, wanted), equal)) = parts else { panic!("{term:?} is not a term of a field selector") };
        let found = path.split('.').try_fold(object, |value, name| value.get(name));
        let found = match found {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Null) | None => String::new(),
            Some(other) => other.to_string(),
        };
        (found == wanted) == equal
    })
}

/// The result of a discovery.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Discovery {
    /// Unchanged if absent.
    resources: Option<Vec<ApiResource>>,
    #[serde(default)]
    failed: Vec<String>,
    error: Option<ApiError>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct InputKey {
    queue: Option<String>,
    kind: Kind,
    #[serde(default)]
    namespace: String,
    name: String,
}

fn default_now() -> String {
    "2026-01-01T00:00:00Z".to_owned()
}

/// One run: a key and the cluster that it reads. The format is described at [`testing`](super).
#[derive(Debug)]
pub struct Fixture {
    /// The key of the run.
    pub key: Key,
    /// The cluster.
    pub lister: FixtureLister,
}

impl Fixture {
    /// Reads a manifest and an input, both YAML.
    ///
    /// # Errors
    /// The errors in them.
    pub fn parse(manifest: &str, input: &str) -> Result<Self, String> {
        let manifest: Manifest = yaml(manifest).map_err(|error| format!("manifest: {error}"))?;
        let input: Input = yaml(input)?;
        let queue = match input.key.queue {
            Some(queue) => queue,
            None => manifest.queues.first().ok_or("the manifest declares no queue")?.name.clone(),
        };
        let mut config = manifest.default_config();
        config.extend(input.config.into_iter().map(|(name, value)| (name.clone(), manifest.seen(&name, value))));
        let is_secret = |name: &str| manifest.config.get(name).is_some_and(|setting| setting.is_secret());
        let bound = input.signatures.iter().filter(|signature| signature.is_bound() && is_secret(&signature.by));
        config.extend(bound.map(|signature| (signature.by.clone(), Value::Bool(true))));
        let objects = StoredObject::all(input.objects)?;
        let live = input.live.map(StoredObject::all).transpose()?.unwrap_or_else(|| objects.clone());
        Ok(Self {
            key: Key::new(queue, input.key.kind, input.key.namespace, input.key.name),
            lister: FixtureLister {
                manifest: Arc::new(manifest),
                now: input.now,
                uptime: Duration::try_from_secs_f64(input.uptime).map_err(|why| format!("uptime: {why}"))?,
                objects,
                live,
                config: Value::Object(config),
                state: input.state,
                attempt: input.attempt,
                failures: input.failures,
                resources: input.resources,
                raw: input.raw,
                subresources: input.subresources,
                reviews: input.reviews,
                signatures: input.signatures,
                calls: input.calls,
                discovery: input.discovery,
                asked: RefCell::default(),
                answers: RefCell::default(),
                indexes: RefCell::default(),
            },
        })
    }

    /// Runs the key until all needs are answered, and renders the result.
    ///
    /// # Panics
    /// If the needs never end.
    pub fn run(&self, reconcile: impl Fn(&Key, &FixtureLister) -> Result<Outcome, Error>) -> String {
        let (result, asked) = self.outcome(reconcile);
        render::result_to_yaml(&result, &asked, &self.lister)
    }

    /// Runs the key until all needs are answered. Returns the result and the needs.
    ///
    /// # Panics
    /// If the needs never end.
    pub fn outcome(
        &self,
        reconcile: impl Fn(&Key, &FixtureLister) -> Result<Outcome, Error>,
    ) -> (Result<Outcome, Error>, Vec<Need>) {
        for _ in 0..MAX_ROUNDS {
            let result = reconcile(&self.key, &self.lister);
            let needs = match &result {
                Err(Error::Needs(needs)) => Outcome::of_needs(needs.clone()).needs,
                Ok(outcome) => outcome.needs.clone(),
                Err(_) => Vec::new(),
            };
            assert!(needs.len() <= MAX_NEEDS, "fault: {} needs, more than {MAX_NEEDS}", needs.len());
            if needs.is_empty() {
                let limits = &self.lister.manifest.limits;
                let result = result.map(|outcome| outcome.within(limits, || self.lister.failures()));
                if let Ok(outcome) = &result {
                    limits.check(outcome);
                }
                self.lister.answers.take();
                return (result, self.lister.asked.take());
            }
            let mut answers = self.lister.answers.borrow_mut();
            let mut asked = self.lister.asked.borrow_mut();
            for need in needs {
                if !answers.contains_key(&need) {
                    answers.insert(need.clone(), None);
                    asked.push(need);
                }
            }
        }
        panic!("the plugin still asks for reads after {MAX_ROUNDS} rounds: {:?}", self.lister.asked);
    }
}

pub(super) fn yaml<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, String> {
    // JSON is YAML, and much faster to parse as JSON.
    if let Ok(value) = serde_json::from_str(text) {
        return Ok(value);
    }
    let mut value: serde_norway::Value = serde_norway::from_str(text).map_err(|error| error.to_string())?;
    value.apply_merge().map_err(|error| error.to_string())?;
    let value = serde_json::to_value(value).map_err(|error| error.to_string())?;
    serde_json::from_value(value).map_err(|error| error.to_string())
}

/// An object with the values that queries use.
#[derive(Clone, Debug)]
pub(super) struct StoredObject {
    pub(super) kind: Kind,
    pub(super) meta: ObjectMeta,
    pub(super) value: Value,
}

impl StoredObject {
    fn all(values: Vec<Value>) -> Result<Vec<Arc<Self>>, String> {
        let mut objects =
            values.into_iter().map(|value| Ok(Arc::new(Self::new(value)?))).collect::<Result<Vec<_>, String>>()?;
        objects.sort_by_key(|object| (object.kind.clone(), object.meta.key()));
        Ok(objects)
    }

    pub(super) fn new(mut value: Value) -> Result<Self, String> {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let (Some(api_version), Some(kind), Some(name)) =
            (text(&value["apiVersion"]), text(&value["kind"]), text(&value["metadata"]["name"]))
        else {
            return Err(format!("an object needs apiVersion, kind and metadata.name: {value}"));
        };
        let meta = &mut value["metadata"];
        if meta.get("uid").is_none() {
            meta["uid"] = json!(format!("uid-{name}"));
        }
        if meta.get("resourceVersion").is_none() {
            meta["resourceVersion"] = json!("1");
        }
        let meta = serde_json::from_value(meta.clone()).map_err(|error| format!("metadata of {name}: {error}"))?;
        Ok(Self { kind: Kind::from_api_version(&api_version, &kind), meta, value })
    }
}

/// A [`Lister`] over the objects of a fixture. It panics where the host would end the run with a fault.
#[derive(Debug)]
pub struct FixtureLister {
    pub(super) manifest: Arc<Manifest>,
    pub(super) now: String,
    pub(super) uptime: Duration,
    pub(super) objects: Vec<Arc<StoredObject>>,
    pub(super) live: Vec<Arc<StoredObject>>,
    pub(super) config: Value,
    pub(super) state: BTreeMap<String, String>,
    pub(super) attempt: u32,
    pub(super) failures: Vec<MutationFailure>,
    pub(super) resources: Vec<ApiResource>,
    pub(super) raw: BTreeMap<String, Value>,
    pub(super) subresources: Vec<Subresource>,
    pub(super) reviews: Vec<Review>,
    pub(super) signatures: Vec<Signature>,
    pub(super) calls: Vec<Call>,
    pub(super) discovery: Discovery,
    /// In the order of the requests.
    pub(super) asked: RefCell<Vec<Need>>,
    /// Requested needs, each with its answer once read.
    pub(super) answers: RefCell<HashMap<Need, Option<Answer>>>,
    /// By kind and name of the index; built on first use.
    pub(super) indexes: RefCell<BTreeMap<(Kind, String), Places>>,
}

/// Finds an object in a list sorted by kind, namespace and name.
fn find<'a>(objects: &'a [Arc<StoredObject>], kind: &Kind, object: &ObjectKey) -> Option<&'a StoredObject> {
    let wanted = (kind, object.namespace.as_str(), object.name.as_str());
    let id = |stored: &'a Arc<StoredObject>| (&stored.kind, stored.meta.namespace.as_str(), stored.meta.name.as_str());
    objects.binary_search_by(|stored| id(stored).cmp(&wanted)).ok().map(|place| &*objects[place])
}

/// The answer to a need.
type Answer = Result<String, ApiError>;

/// The index text of a value.
fn index_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// Positions of a kind's objects by index value.
type Places = HashMap<String, Vec<usize>>;

fn not_found(what: &str) -> Result<String, ApiError> {
    Err(ApiError { code: 404, reason: "NotFound".into(), message: format!("{what} not found") })
}

impl FixtureLister {
    fn signature(&self, by: &str, claims: Option<&str>) -> Result<String, ApiError> {
        let answer = self.signatures.iter().find_map(|one| one.of(by, claims));
        answer.unwrap_or_else(|| not_found(&format!("a signature by {by}; a case has it in `signatures`")))
    }

    fn watch(&self, kind: &Kind) -> &Watch {
        let watches = &self.manifest.watches;
        watches
            .iter()
            .find(|watch| watch.kind.as_ref() == Some(kind))
            .or_else(|| watches.iter().find(|watch| watch.every.is_some()))
            .unwrap_or_else(|| panic!("fault: the manifest does not watch {kind}"))
    }

    /// The object of this name in the cache.
    fn cached_one(&self, kind: &Kind, object: &ObjectKey) -> Option<&StoredObject> {
        let watch = self.watch(kind);
        find(&self.objects, kind, object).filter(|stored| self.is_cached(watch, stored))
    }

    /// Positions of the kind's objects with this index value.
    fn indexed(&self, kind: &Kind, name: &str, value: &str) -> Vec<usize> {
        let mut indexes = self.indexes.borrow_mut();
        let index = indexes.entry((kind.clone(), name.to_owned())).or_insert_with(|| {
            let index = self.watch(kind).indexes.iter().find(|index| index.name == *name);
            let index = index.unwrap_or_else(|| panic!("fault: the watch of {kind} declares no index {name:?}"));
            let path = segments(&index.field);
            let mut places = Places::new();
            for (place, object) in self.objects.iter().enumerate().filter(|(_, object)| object.kind == *kind) {
                let mut found = Vec::new();
                values_at(&object.value, &path, &mut found);
                let texts: BTreeSet<String> = found.into_iter().filter_map(index_text).collect();
                texts.into_iter().for_each(|text| places.entry(text).or_default().push(place));
            }
            places
        });
        index.get(value).cloned().unwrap_or_default()
    }

    /// Whether the watch's cache would contain the object.
    fn is_cached(&self, watch: &Watch, object: &StoredObject) -> bool {
        let selector = watch.label_selector.as_deref().map(parse_selector);
        watch.namespace.as_ref().is_none_or(|namespace| *namespace == object.meta.namespace)
            && selector.is_none_or(|selector| selector.matches(&object.meta.labels))
    }

    fn cached<'a>(&'a self, kind: &Kind) -> impl Iterator<Item = &'a StoredObject> {
        let kind = kind.clone();
        let watch = self.watch(&kind);
        self.objects
            .iter()
            .map(|object| &**object)
            .filter(move |object| object.kind == kind && self.is_cached(watch, object))
    }

    fn watched(&self) -> impl Iterator<Item = &StoredObject> {
        self.objects.iter().map(|object| &**object).filter(|object| {
            self.manifest.watches.iter().any(|watch| {
                (watch.every.is_some() || watch.kind.as_ref() == Some(&object.kind)) && self.is_cached(watch, object)
            })
        })
    }

    fn text(&self, object: &StoredObject, whole: bool) -> String {
        let watch = self.watch(&object.kind);
        if whole {
            return object.value.to_string();
        }
        const ALWAYS: [&str; 6] =
            ["apiVersion", "kind", "metadata.name", "metadata.namespace", "metadata.uid", "metadata.resourceVersion"];
        // Watches of every kind have the metadata only.
        let fields =
            if watch.every.is_some() { vec!["metadata"] } else { watch.fields.iter().map(String::as_str).collect() };
        let paths: Vec<_> = ALWAYS.into_iter().chain(fields).map(segments).collect();
        project(&object.value, &paths).to_string()
    }

    fn matching(&self, kind: &Kind, query: &Query) -> Vec<&StoredObject> {
        let watch = self.watch(kind);
        assert!(!query.whole || watch.whole, "fault: the watch of {kind} does not declare `whole`");
        let selector = query.label_selector.as_deref().map(parse_selector);
        let indexed = query.index.as_ref().map(|(name, value)| self.indexed(kind, name, value));
        let objects: Box<dyn Iterator<Item = &StoredObject>> = match &indexed {
            Some(places) => Box::new(
                places.iter().map(|place| &*self.objects[*place]).filter(|object| self.is_cached(watch, object)),
            ),
            None => Box::new(self.cached(kind)),
        };
        objects
            .filter(|object| {
                let meta = &object.meta;
                let owned = match &query.owner {
                    None => true,
                    Some(OwnedBy::Controller(uid)) => meta.is_controlled_by(uid),
                    Some(OwnedBy::ControllerOrOrphan(uid)) => {
                        meta.controller().is_none_or(|controller| controller.uid == *uid)
                    }
                    Some(OwnedBy::Any(uid)) => meta.owner_references.iter().any(|owner| owner.uid == *uid),
                };
                owned
                    && query.namespace.as_ref().is_none_or(|namespace| *namespace == meta.namespace)
                    && selector.as_ref().is_none_or(|selector| selector.matches(&meta.labels))
            })
            .collect()
    }

    /// The cached object that an update would replace.
    pub(super) fn original(&self, kind: &Kind, object: &ObjectKey) -> Option<&Value> {
        find(&self.objects, kind, object).map(|stored| &stored.value)
    }
}

fn parse_selector(text: &str) -> Selector {
    Selector::parse(text).unwrap_or_else(|error| panic!("fault: {error}"))
}

impl Lister for FixtureLister {
    fn uptime(&self) -> Duration {
        self.uptime
    }

    fn now_text(&self) -> String {
        self.now.clone()
    }

    fn get_json(&self, kind: &Kind, object: &ObjectKey) -> Option<String> {
        let whole = self.watch(kind).whole;
        self.cached_one(kind, object).map(|stored| self.text(stored, whole))
    }

    fn list_json(&self, kind: &Kind, query: &Query) -> Vec<String> {
        self.matching(kind, query).into_iter().map(|object| self.text(object, query.whole)).collect()
    }

    fn count(&self, kind: &Kind, query: &Query) -> u32 {
        u32::try_from(self.matching(kind, query).len()).unwrap_or(u32::MAX)
    }

    fn selecting_json(&self, kind: &Kind, namespace: &str, labels: &[(String, String)]) -> Vec<String> {
        let selects = self.watch(kind).selects.as_ref();
        let selects = selects.unwrap_or_else(|| panic!("fault: the watch of {kind} does not declare `selects`"));
        let labels: BTreeMap<String, String> = labels.iter().cloned().collect();
        let path = segments(&selects.field);
        let matches = |object: &&StoredObject| {
            let value = path.iter().try_fold(&object.value, |value, name| value.get(name)).cloned().unwrap_or_default();
            let selector = if selects.form == "map" {
                serde_json::from_value(value).ok().map(|map| Selector::from_map(&map))
            } else {
                let selector: Option<LabelSelector> = serde_json::from_value(value).ok();
                selector.and_then(|selector| Selector::from_label_selector(Some(&selector)).ok())
            };
            selector.is_some_and(|selector| match selector.is_empty() {
                true => selects.empty == "everything",
                false => selector.matches(&labels),
            })
        };
        self.cached(kind)
            .filter(|object| object.meta.namespace == namespace)
            .filter(matches)
            .map(|object| self.text(object, false))
            .collect()
    }

    fn dependents_json(&self, uid: &str) -> Vec<String> {
        self.watched()
            .filter(|object| object.meta.owner_references.iter().any(|owner| owner.uid == uid))
            .map(|object| self.text(object, false))
            .collect()
    }

    fn by_uid_json(&self, uid: &str) -> Option<String> {
        self.watched().find(|object| object.meta.uid == uid).map(|object| self.text(object, false))
    }

    fn resources(&self) -> Vec<ApiResource> {
        assert!(self.manifest.discovery, "fault: the manifest does not declare `discovery: true`");
        let discovered =
            self.discovery.resources.as_ref().filter(|_| self.answers.borrow().contains_key(&Need::Discovery));
        discovered.unwrap_or(&self.resources).clone()
    }

    fn resources_of(&self, group: &str, name: &str) -> Vec<ApiResource> {
        let mut found = self.resources();
        found.retain(|resource| &*resource.kind.group == group && &*resource.kind.name == name);
        found
    }

    fn config_json(&self) -> String {
        self.config.to_string()
    }

    fn state(&self, name: &str) -> Option<String> {
        self.state.get(name).cloned()
    }

    fn attempt(&self) -> u32 {
        self.attempt
    }

    fn failures(&self) -> Vec<MutationFailure> {
        self.failures.clone()
    }

    fn answer(&self, need: &Need) -> Option<Answer> {
        if let Some(known) = self.answers.borrow().get(need)? {
            return Some(known.clone());
        }
        let answer = self.find_answer(need);
        self.answers.borrow_mut().insert(need.clone(), Some(answer.clone()));
        Some(answer)
    }
}

impl FixtureLister {
    fn find_answer(&self, need: &Need) -> Answer {
        match need {
            Need::LiveObject { kind, object, subresource: Some(subresource) } => {
                let is_asked = |one: &&Subresource| {
                    one.kind == *kind
                        && one.subresource == *subresource
                        && (&one.namespace, &one.name) == (&object.namespace, &object.name)
                };
                let found = self.subresources.iter().find(is_asked);
                let what = || format!("{kind}/{subresource} {object}; a case has it in `subresources`");
                found.map_or_else(|| not_found(&what()), |one| Ok(one.answer.to_string()))
            }
            Need::Review { kind, namespace, object } => {
                let mut review: Value = serde_json::from_str(object).expect("the review is JSON");
                let fits = |one: &&Review| {
                    one.kind == *kind && one.namespace == *namespace && contains(&review["spec"], &one.spec)
                };
                match self.reviews.iter().find(fits) {
                    None => not_found(&format!("a verdict on {kind} {}; a case has it in `reviews`", review["spec"])),
                    Some(_) if !review.is_object() => {
                        let (reason, message) = ("BadRequest".into(), "the review is not an object".into());
                        Err(ApiError { code: 400, reason, message })
                    }
                    Some(one) => {
                        review["apiVersion"] = kind.api_version().into();
                        review["kind"] = kind.name.clone().into();
                        review["status"] = one.status.clone();
                        Ok(review.to_string())
                    }
                }
            }
            Need::LiveObject { kind, object, subresource: None } => {
                let found = find(&self.live, kind, object);
                found.map_or_else(|| not_found(&format!("{kind} {object}")), |stored| Ok(stored.value.to_string()))
            }
            Need::LiveList { kind, namespace, label_selector, field_selector, detail, limit } => {
                let selector = label_selector.as_deref().map(parse_selector);
                let paths = ["apiVersion", "kind", "metadata"].map(segments);
                let selected = |stored: &&Arc<StoredObject>| {
                    field_selector.as_ref().is_none_or(|selector| fields_match(selector, &stored.value))
                };
                let items: Vec<Value> = self
                    .live
                    .iter()
                    .filter(|stored| stored.kind == *kind)
                    .filter(|stored| namespace.is_empty() || stored.meta.namespace == *namespace)
                    .filter(|stored| selector.as_ref().is_none_or(|selector| selector.matches(&stored.meta.labels)))
                    .filter(selected)
                    .take(usize::try_from(*limit).unwrap_or(usize::MAX))
                    .map(|stored| match detail {
                        LiveDetail::Metadata => project(&stored.value, &paths),
                        LiveDetail::Whole => stored.value.clone(),
                        LiveDetail::Projection => {
                            serde_json::from_str(&self.text(stored, false)).expect("a projection is JSON")
                        }
                    })
                    .collect();
                let answer = Value::Array(items).to_string();
                let most = self.manifest.limits.answer_bytes;
                if answer.len() <= most {
                    return Ok(answer);
                }
                let message = format!("the answer has more than {most} bytes");
                Err(ApiError { code: 0, reason: "TooLarge".into(), message })
            }
            Need::SignJwt { key, claims } => self.signature(key, Some(claims)),
            Need::SignCertificate(request) => self.signature(&request.authority, None),
            Need::Call { endpoint, operation, body, .. } => {
                let what = || format!("an answer to {endpoint}/{operation} {body}; a case has it in `calls`");
                let answer = self.calls.iter().find_map(|one| one.answer(endpoint, operation, body));
                answer.unwrap_or_else(|| not_found(&what()))
            }
            Need::RawPath(path) => self.raw.get(path).map_or_else(|| not_found(path), |body| Ok(body.to_string())),
            Need::Discovery => {
                assert!(self.manifest.discovery, "fault: the manifest does not declare `discovery: true`");
                self.discovery.error.clone().map_or_else(|| Ok(json!(self.discovery.failed).to_string()), Err)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_shows_the_keys_that_a_case_has_signatures_by() {
        let manifest = "
name: signer
queues: [{name: signer}]
watches: [{kind: v1/Pod}]
config:
  days: {type: integer, default: 3}
  key: {type: key}
  ours: {type: authority}
  theirs: {type: authority}
";
        let input = "
key: {kind: v1/Pod, name: a}
signatures:
  - {by: key, answer: token}
  - {by: key, answer: another}
  - {by: theirs, error: {code: 0, reason: NotGranted}}
";
        let fixture = Fixture::parse(manifest, input).unwrap();
        assert_eq!(fixture.lister.config, json!({"days": 3, "key": true}));
    }
}
