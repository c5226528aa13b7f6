//! What is not granted does not leave the process, and what is granted does: every verb, kind, namespace, subresource and owner
//! against every grant of one value each, through a whole manager with a recording API server.
//!
//! The expectation is a model of a few lines that shares nothing with the host.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use pintle_core::contract::manifest::{Grant, Manifest};
use pintle_core::contract::outcome::{Action, Mutation, Need, Order, Outcome, PatchType, Preconditions, Step};
use pintle_core::lifecycle::Spec;
use pintle_core::object::id::{Key, Kind, ObjectKey};
use pintle_core::ports::api::{
    ApiError, ApiReader, ApiResource, ApiWriter, ApiWriters, Discovery, ListPage, Target, WatchFrame, WatchStart,
    WatchStream, WriteRequest, WriteVerb, WriterIdentity, Written,
};
use pintle_core::ports::guest::{Guest, Run};
use pintle_core::ports::view::View;
use pintle_runtime::manager::{Manager, ManagerConfig, PluginOptions};
use serde_json::{Value, json};

const POD: &str = "v1/Pod";
const SECRET: &str = "v1/Secret";
const NODE: &str = "v1/Node";
/// The kind of the key.
const SET: &str = "apps/v1/ReplicaSet";
const VERBS: [&str; 8] = ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"];

/// A request that a plugin may ask for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Request {
    verb: &'static str,
    kind: String,
    subresource: Option<String>,
    namespace: String,
    name: String,
}

fn request(verb: &'static str, kind: &str, subresource: Option<&str>, namespace: &str, name: &str) -> Request {
    let (kind, subresource) = (kind.to_owned(), subresource.map(ToOwned::to_owned));
    Request { verb, kind, subresource, namespace: namespace.to_owned(), name: name.to_owned() }
}

/// Everything that there is, by kind: namespace, name, and the controller's name.
fn objects() -> Vec<(&'static str, &'static str, &'static str, Option<&'static str>)> {
    vec![
        (SET, "a", "key", None),
        (SET, "a", "other", None),
        (POD, "a", "mine", Some("key")),
        (POD, "a", "orphan", None),
        (POD, "a", "theirs", Some("other")),
        // Its owner is in another namespace, so that it is nobody's.
        (POD, "b", "mine", Some("key")),
        (SECRET, "a", "s", Some("key")),
        (SECRET, "b", "s", None),
        (NODE, "", "n", None),
    ]
}

fn requests() -> Vec<Request> {
    let mut requests = Vec::new();
    for (kind, namespace, name, _) in objects() {
        for subresource in [None, Some("status"), Some("eviction")] {
            for verb in ["create", "update", "patch"] {
                requests.push(request(verb, kind, subresource, namespace, name));
            }
        }
        requests.push(request("delete", kind, None, namespace, name));
        requests.push(request("get", kind, None, namespace, name));
    }
    for (kind, namespace) in
        [(SET, "a"), (POD, "a"), (POD, "b"), (SECRET, "a"), (SECRET, "b"), (NODE, ""), (POD, ""), (SECRET, "")]
    {
        requests.push(request("list", kind, None, namespace, ""));
        if kind == NODE || !namespace.is_empty() {
            requests.push(request("deletecollection", kind, None, namespace, ""));
        }
    }
    // The name is known to the server alone.
    requests.push(request("create", POD, None, "a", ""));
    requests
}

/// The model: does this grant allow this request of the key `a/key`?
fn allows(grant: &Grant, request: &Request) -> bool {
    let named = |values: &[String], value: &str| values.iter().any(|one| one == "*" || one == value);
    let optional = |values: &[String], value: &str| values.is_empty() || named(values, value);
    let subresource = match &request.subresource {
        None => grant.subresources.is_empty(),
        Some(subresource) => named(&grant.subresources, subresource),
    };
    let is_fit = grant.paths.is_empty()
        && named(&grant.verbs, request.verb)
        && named(&grant.kinds, &request.kind)
        && subresource
        && optional(&grant.namespaces, &request.namespace)
        && optional(&grant.names, &request.name);
    is_fit && owns(&serde_json::to_value(grant.of).unwrap(), request)
}

/// The model of ownership. The plugin watches Pods and ReplicaSets, and nothing else.
fn owns(of: &Value, request: &Request) -> bool {
    let Request { verb, kind, subresource, namespace, name } = request;
    let whole = subresource.is_none();
    let is_key = (kind.as_str(), namespace.as_str(), name.as_str()) == (SET, "a", "key");
    let is_mine = (kind.as_str(), namespace.as_str(), name.as_str()) == (POD, "a", "mine");
    let is_orphan = namespace == "a" && (name == "orphan" || kind == SET);
    match of.as_str().unwrap() {
        "any" => true,
        "key" => is_key && *verb != "list" && *verb != "deletecollection",
        "controlled" => match *verb {
            // All that is created here has the controller reference.
            "create" if whole => namespace == "a",
            "update" | "patch" if whole => is_mine || is_orphan,
            "create" | "update" | "patch" | "delete" | "get" => is_mine,
            _ => false,
        },
        other => panic!("{other}"),
    }
}

fn reference() -> Value {
    json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "key", "uid": "uid-key", "controller": true}])
}

fn mutation(request: &Request) -> Option<Mutation> {
    let kind: Kind = request.kind.parse().unwrap();
    let object = ObjectKey::new(&request.namespace, &request.name);
    let subresource = request.subresource.clone();
    let mut metadata = json!({"namespace": request.namespace, "resourceVersion": "5"});
    let name = if request.name.is_empty() { ("generateName", "p-") } else { ("name", request.name.as_str()) };
    metadata[name.0] = json!(name.1);
    let action = match request.verb {
        "create" => {
            metadata["ownerReferences"] = reference();
            let object = json!({ "metadata": metadata }).to_string();
            Action::Create { kind, namespace: request.namespace.clone(), object, subresource }
        }
        "update" => Action::Update { kind, object: json!({ "metadata": metadata }).to_string(), subresource },
        "patch" => {
            let (patch_type, body) = (PatchType::Merge, "{}".to_owned());
            Action::Patch { kind, object, subresource, patch_type, body, preconditions: Preconditions::default() }
        }
        "delete" => {
            let preconditions = Preconditions::default();
            Action::Delete { kind, object, preconditions, propagation: None, grace_period_seconds: None }
        }
        "deletecollection" => Action::DeleteCollection {
            kind,
            namespace: request.namespace.clone(),
            label_selector: None,
            propagation: None,
        },
        _ => return None,
    };
    Some(Mutation { action, on_success: None, on_failure: None, tolerate: Vec::new() })
}

fn need(request: &Request) -> Option<Need> {
    let kind: Kind = request.kind.parse().unwrap();
    match request.verb {
        "get" => Some(Need::LiveObject { kind, object: ObjectKey::new(&request.namespace, &request.name) }),
        "list" => Some(Need::LiveList { kind, namespace: request.namespace.clone(), label_selector: None, limit: 10 }),
        _ => None,
    }
}

/// An API server that writes down what comes.
#[derive(Default)]
struct Recorder {
    requests: Mutex<Vec<Request>>,
    /// `KIND NAMESPACE` of each watch.
    watches: Mutex<BTreeSet<String>>,
}

fn resource(kind: &str, plural: &str) -> ApiResource {
    ApiResource {
        kind: kind.parse().unwrap(),
        plural: plural.into(),
        namespaced: kind != NODE,
        verbs: VERBS.map(String::from).into(),
        subresources: Vec::new(),
        preferred: true,
    }
}

impl Recorder {
    fn came(&self, request: Request) {
        self.requests.lock().unwrap().push(request);
    }
}

impl ApiReader for Recorder {
    fn discover(&self) -> BoxFuture<'_, Result<Discovery, ApiError>> {
        let kinds = [(POD, "pods"), (SECRET, "secrets"), (NODE, "nodes"), (SET, "replicasets")];
        let resources = kinds.map(|(kind, plural)| resource(kind, plural)).into();
        async move { Ok(Discovery { resources, failed: Vec::new() }) }.boxed()
    }

    fn list<'a>(&'a self, target: &'a Target, _: u32, _: Option<&'a str>) -> BoxFuture<'a, Result<ListPage, ApiError>> {
        // Informers have streaming lists here, so this is a need.
        let namespace = target.namespace.clone().unwrap_or_default();
        self.came(request("list", &target.kind.to_string(), None, &namespace, ""));
        async { Ok(ListPage { items: Vec::new(), resource_version: "10".into(), next: None }) }.boxed()
    }

    fn watch<'a>(&'a self, target: &'a Target, _: WatchStart) -> BoxFuture<'a, Result<WatchStream, ApiError>> {
        let kind = target.kind.to_string();
        let namespace = target.namespace.clone().unwrap_or_default();
        self.watches.lock().unwrap().insert(format!("{kind} {namespace}"));
        let mut frames = Vec::new();
        for (of, at, name, controller) in objects() {
            if of == kind && (namespace.is_empty() || namespace == at) {
                let mut metadata =
                    json!({"namespace": at, "name": name, "uid": format!("uid-{name}"), "resourceVersion": "5"});
                if let Some(controller) = controller {
                    let mut owners = reference();
                    owners[0]["name"] = json!(controller);
                    owners[0]["uid"] = json!(format!("uid-{controller}"));
                    metadata["ownerReferences"] = owners;
                }
                frames.push(Ok(WatchFrame::Added(json!({ "metadata": metadata }).to_string().into())));
            }
        }
        frames.push(Ok(WatchFrame::Bookmark { resource_version: "10".into(), initial_events_end: true }));
        let frames = futures::stream::iter(frames).chain(futures::stream::pending());
        async { Ok(frames.boxed()) }.boxed()
    }

    fn get<'a>(
        &'a self,
        resource: &'a ApiResource,
        object: &'a ObjectKey,
    ) -> BoxFuture<'a, Result<Box<str>, ApiError>> {
        self.came(request("get", &resource.kind.to_string(), None, &object.namespace, &object.name));
        async { Ok("{}".into()) }.boxed()
    }

    fn raw<'a>(&'a self, path: &'a str, _: usize) -> BoxFuture<'a, Result<Box<str>, ApiError>> {
        panic!("GET {path}");
    }
}

struct Writer(Arc<Recorder>);

impl ApiWriter for Writer {
    fn write<'a>(&'a self, write: &'a WriteRequest) -> BoxFuture<'a, Result<Written, ApiError>> {
        let body = |body: &str| serde_json::from_str::<Value>(body).unwrap()["metadata"]["name"].clone();
        let (verb, name) = match &write.verb {
            WriteVerb::Create { body: text } if write.name.is_empty() => ("create", body(text)),
            WriteVerb::Create { .. } => ("create", json!(write.name)),
            WriteVerb::Update { .. } => ("update", json!(write.name)),
            WriteVerb::Patch { .. } => ("patch", json!(write.name)),
            WriteVerb::Delete { .. } => ("delete", json!(write.name)),
            WriteVerb::DeleteCollection { .. } => ("deletecollection", json!("")),
        };
        let name = name.as_str().unwrap_or_default();
        let kind = write.resource.kind.to_string();
        self.0.came(request(verb, &kind, write.subresource.as_deref(), &write.namespace, name));
        let written = Written { name: name.to_owned(), resource_version: "1".into(), ..Written::default() };
        async { Ok(written) }.boxed()
    }
}

impl ApiWriters for Writer {
    fn writer(&self, _: &WriterIdentity) -> Arc<dyn ApiWriter> {
        Arc::new(Self(self.0.clone()))
    }
}

/// Asks for everything once, and writes down what it is told.
struct Greedy {
    manifest: Arc<Manifest>,
    refused: Arc<Mutex<BTreeSet<Request>>>,
    is_done: AtomicBool,
}

impl Greedy {
    fn answer(&self, view: &dyn View) -> Outcome {
        let needs: Vec<(Request, Need)> = requests().into_iter().filter_map(|r| Some((r.clone(), need(&r)?))).collect();
        let writes: Vec<(Request, Mutation)> =
            requests().into_iter().filter_map(|r| Some((r.clone(), mutation(&r)?))).collect();
        if view.attempt() > 0 {
            for failure in view.failures() {
                assert_eq!((failure.reason.as_str(), failure.step), ("NotGranted", 0));
                assert!(failure.message.contains("is not granted to plugin greedy"), "{}", failure.message);
                self.refused.lock().unwrap().insert(writes[failure.position as usize].0.clone());
            }
            self.is_done.store(true, Ordering::Relaxed);
            return Outcome::default();
        }
        if view.answer(&needs[0].1).is_none() {
            return Outcome { needs: needs.into_iter().map(|(_, need)| need).collect(), ..Outcome::default() };
        }
        for (request, need) in needs {
            if let Err(error) = view.answer(&need).unwrap() {
                assert_eq!(error.reason, "NotGranted");
                self.refused.lock().unwrap().insert(request);
            }
        }
        let mutations = writes.into_iter().map(|(_, mutation)| mutation).collect();
        Outcome { steps: vec![Step { order: Order::Parallel, mutations, always: false }], ..Outcome::default() }
    }
}

impl Guest for Greedy {
    fn manifest(&self) -> &Arc<Manifest> {
        &self.manifest
    }

    fn reconcile<'a>(&'a self, key: &'a Key, view: Arc<dyn View>) -> BoxFuture<'a, Run> {
        let is_key = &*key.object.name == "key" && !self.is_done.load(Ordering::Relaxed);
        let outcome = if is_key { self.answer(&*view) } else { Outcome::default() };
        let run = Run::checked(Ok(Ok(outcome)), &self.manifest, &self.limits());
        async { run }.boxed()
    }
}

fn manifest(watches: &Value, grants: &[Grant]) -> Arc<Manifest> {
    let manifest = json!({
        "name": "greedy", "version": "1.0.0", "contract": "0.1",
        "watches": watches, "queues": [{"name": "greedy"}], "grants": grants,
    });
    Arc::new(Manifest::parse(manifest.to_string().as_bytes()).unwrap())
}

/// Runs a manager until nothing happens any more. Says why the plugin could not be added, if so.
async fn run(guest: Arc<dyn Guest>, given: Option<Vec<Grant>>) -> (Arc<Recorder>, Result<(), String>) {
    let api = Arc::new(Recorder::default());
    let config = ManagerConfig { qps: None, ..ManagerConfig::default() };
    let manager = Manager::new(api.clone(), Arc::new(Writer(api.clone())), config);
    let options = PluginOptions { spec: Spec { grants: given, ..Spec::default() }, ..PluginOptions::default() };
    let added = manager.add(guest, options).map_err(|why| why.to_string());
    tokio::select! {
        () = manager.run(std::future::pending()) => {}
        () = manager.idle(Duration::from_secs(3600)) => {}
    }
    (api, added)
}

fn grant(value: Value) -> Grant {
    serde_json::from_value(value).unwrap()
}

/// Every grant with one value in each of its lists.
fn grants() -> Vec<Grant> {
    let list = |value: &str| if value.is_empty() { Vec::new() } else { vec![value.to_owned()] };
    let mut grants = Vec::new();
    for verb in VERBS.into_iter().chain(["*"]) {
        for kind in [POD, SECRET, NODE, SET, "*"] {
            for subresource in ["", "status", "*"] {
                for (namespace, name) in [("", ""), ("a", ""), ("b", ""), ("", "mine"), ("a", "key")] {
                    for of in ["any", "key", "controlled"] {
                        let grant = grant(json!({
                            "verbs": [verb], "kinds": [kind], "subresources": list(subresource),
                            "namespaces": list(namespace), "names": list(name), "of": of,
                        }));
                        if grant.check().is_ok() {
                            grants.push(grant);
                        }
                    }
                }
            }
        }
    }
    grants
}

#[tokio::test(start_paused = true)]
async fn what_is_not_granted_does_not_leave_the_process_and_the_rest_does() {
    let watches = json!([{"kind": SET, "enqueue": [{"to": "self"}]}, {"kind": POD}]);
    let everything = || {
        let verbs = VERBS.map(String::from).to_vec();
        let all = Grant { verbs, kinds: vec!["*".into()], ..Grant::default() };
        vec![all.clone(), Grant { subresources: vec!["*".into()], ..all }]
    };
    let own_watches = grant(json!({"verbs": ["list", "watch"], "kinds": [SET, POD]}));
    let (mut n_grants, mut n_allowed, mut n_denied) = (0, 0, 0);
    for one in grants() {
        // As the manifest's only one, and as the operator's for a manifest that wants everything.
        let by_manifest = (vec![one.clone()], None);
        let by_operator = (everything(), Some(vec![one.clone(), own_watches.clone()]));
        for (asked, given) in [by_manifest, by_operator] {
            n_grants += 1;
            let refused = Arc::default();
            let manifest = manifest(&watches, &asked);
            let guest = Greedy { manifest, refused: Arc::clone(&refused), is_done: AtomicBool::new(false) };
            let (api, added) = run(Arc::new(guest), given.clone()).await;
            added.unwrap();
            let mut sent = std::mem::take(&mut *api.requests.lock().unwrap());
            // The host's own, about the plugin's faults. The plugin asks for no write of Events.
            sent.retain(|request| request.kind != "v1/Event");
            sent.sort();
            let is_allowed = |request: &Request| {
                let by = |grants: &[Grant]| grants.iter().any(|grant| allows(grant, request));
                by(&asked) && given.as_deref().is_none_or(by)
            };
            let (mut allowed, denied): (Vec<_>, Vec<_>) = requests().into_iter().partition(is_allowed);
            allowed.sort();
            let what = if given.is_some() { "given" } else { "asked" };
            assert_eq!(sent, allowed, "{what}: {one:?}");
            assert_eq!(*refused.lock().unwrap(), denied.iter().cloned().collect(), "{what}: {one:?}");
            n_allowed += allowed.len();
            n_denied += denied.len();
        }
    }
    println!("{n_grants} grants, {} requests each: {n_allowed} sent, {n_denied} refused", requests().len());
    assert!(n_allowed > 5_000 && n_denied > 100_000);
}

/// Does a single grant of the operator cover a watch of this kind (`*` for every) in this namespace (all if empty)?
fn covers(given: &Grant, kind: &str, namespace: &str) -> bool {
    let has = |verb: &str| given.verbs.iter().any(|one| one == verb || one == "*");
    let kinds = given.kinds.iter().any(|one| one == "*" || one == kind);
    let namespaces = given.namespaces.is_empty() || given.namespaces.iter().any(|one| one == namespace);
    has("list") && has("watch") && kinds && namespaces && given.subresources.is_empty() && given.names.is_empty()
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_is_not_granted_is_not_opened() {
    let (mut n_opened, mut n_refused) = (0, 0);
    let verbs: [&[&str]; 6] = [&["list"], &["watch"], &["get"], &["list", "watch"], &["*"], &["create", "list"]];
    for (kind, namespace) in [(POD, ""), (POD, "a"), (SECRET, ""), (SECRET, "b"), (NODE, ""), ("*", ""), ("*", "a")] {
        let mut watch = if kind == "*" { json!({"every": {}}) } else { json!({"kind": kind}) };
        if !namespace.is_empty() {
            watch["namespace"] = json!(namespace);
        }
        for verbs in verbs {
            for given_kind in [POD, SECRET, NODE, "*"] {
                for (namespaces, names) in
                    [(vec![], vec![]), (vec!["a"], vec![]), (vec!["b"], vec![]), (vec![], vec!["x"])]
                {
                    for subresources in [vec![], vec!["*"]] {
                        let given = grant(json!({
                            "verbs": verbs, "kinds": [given_kind], "namespaces": namespaces, "names": names,
                            "subresources": subresources,
                        }));
                        let guest = Greedy {
                            manifest: manifest(&json!([watch]), &[]),
                            refused: Arc::default(),
                            is_done: AtomicBool::new(true),
                        };
                        let (api, added) = run(Arc::new(guest), Some(vec![given.clone()])).await;
                        let opened = api.watches.lock().unwrap().clone();
                        let kinds = match (kind, namespace) {
                            ("*", "") => vec![POD, SECRET, NODE, SET],
                            // Nodes live in no namespace.
                            ("*", _) => vec![POD, SECRET, SET],
                            _ => vec![kind],
                        };
                        let expected: BTreeSet<String> = match covers(&given, kind, namespace) {
                            true => kinds.into_iter().map(|kind| format!("{kind} {namespace}")).collect(),
                            false => BTreeSet::new(),
                        };
                        assert_eq!(opened, expected, "{watch} {given:?}");
                        assert_eq!(added.is_err(), expected.is_empty(), "{watch} {given:?} {added:?}");
                        if let Err(why) = added {
                            assert!(
                                why.contains("add `- {verbs: [") && why.contains("ControllerPlugin/greedy"),
                                "{why}"
                            );
                            n_refused += 1;
                        } else {
                            n_opened += 1;
                        }
                        assert_eq!(api.requests.lock().unwrap().len(), 0);
                    }
                }
            }
        }
    }
    println!("{n_opened} watches opened, {n_refused} refused");
    assert!(n_opened > 30 && n_refused > 1_000);
}
