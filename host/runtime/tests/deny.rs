//! Ungranted requests do not leave the process, and granted ones do: every verb, kind, namespace, subresource and owner
//! against every grant with one value per list, through a whole manager with a recording API server.
//!
//! The expectation is a small model that shares no code with the host.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use pintle_core::contract::manifest::{Grant, Manifest};
use pintle_core::contract::outcome::{Action, Mutation, Need, Order, Outcome, PatchType, Preconditions, Step};
use pintle_core::lifecycle::Spec;
use pintle_core::object::id::{Kind, ObjectKey};
use pintle_core::ports::api::{ApiResource, ListPage, ListWatchTarget};
use pintle_core::ports::view::View;
use pintle_runtime::manager::{Manager, ManagerConfig, PluginOptions};
use pintle_testing::{FakeGuest, FakeServer, FakeWriter, FakeWriters};
use serde_json::{Value, json};

const POD: &str = "v1/Pod";
const SECRET: &str = "v1/Secret";
const NODE: &str = "v1/Node";
/// The kind of the key.
const SET: &str = "apps/v1/ReplicaSet";
const VERBS: [&str; 8] = ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"];

const PLURALS: [(&str, &str); 4] = [(POD, "pods"), (SECRET, "secrets"), (NODE, "nodes"), (SET, "replicasets")];

/// A request that a plugin may make.
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

type Requests = Arc<Mutex<Vec<Request>>>;

/// All objects, by kind: namespace, name, and the controller's name.
fn objects() -> Vec<(&'static str, &'static str, &'static str, Option<&'static str>)> {
    vec![
        (SET, "a", "key", None),
        (SET, "a", "other", None),
        (POD, "a", "mine", Some("key")),
        (POD, "a", "orphan", None),
        (POD, "a", "theirs", Some("other")),
        // Its owner is in another namespace, which is invalid: it counts as unowned.
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
    // The server generates the name.
    requests.push(request("create", POD, None, "a", ""));
    requests
}

/// The model: whether this grant allows this request of the key `a/key`.
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
    // No watch declares a selector.
    let adopts = grant.adopt && !grant.names.is_empty();
    is_fit && owns(&serde_json::to_value(grant.of).unwrap(), adopts, request)
}

/// The model of ownership. The plugin watches only Pods and ReplicaSets.
fn owns(of: &Value, adopt: bool, request: &Request) -> bool {
    let Request { verb, kind, subresource, namespace, name } = request;
    let whole = subresource.is_none();
    let is_key = (kind.as_str(), namespace.as_str(), name.as_str()) == (SET, "a", "key");
    let is_mine = (kind.as_str(), namespace.as_str(), name.as_str()) == (POD, "a", "mine");
    let is_orphan = namespace == "a" && (name == "orphan" || kind == SET);
    match of.as_str().unwrap() {
        "any" => true,
        "key" => is_key && *verb != "list" && *verb != "deletecollection",
        "controlled" => match *verb {
            // All created objects have the controller reference.
            "create" if whole => namespace == "a",
            // All patches would adopt, and change nothing else.
            "patch" if whole => is_mine || adopt && is_orphan,
            "create" | "update" | "patch" | "delete" | "get" => is_mine,
            _ => false,
        },
        other => panic!("{other}"),
    }
}

fn reference_to(name: &str) -> Value {
    json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": format!("uid-{name}"), "controller": true}])
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
            metadata["ownerReferences"] = reference_to("key");
            let object = json!({ "metadata": metadata }).to_string();
            Action::Create { kind, namespace: request.namespace.clone(), object, subresource }
        }
        "update" => Action::Update { kind, object: json!({ "metadata": metadata }).to_string(), subresource },
        "patch" => {
            let (patch_type, body) =
                (PatchType::StrategicMerge, json!({"metadata": {"ownerReferences": reference_to("key")}}));
            let body = body.to_string();
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
        "get" => Some(Need::live_object(kind, ObjectKey::new(&request.namespace, &request.name))),
        "list" => Some(Need::live_list(kind, &request.namespace, 10)),
        _ => None,
    }
}

/// An API server that records live requests; its watches show [`objects`].
fn server(requests: &Requests) -> Arc<FakeServer> {
    let (lists, gets) = (requests.clone(), requests.clone());
    let list = move |target: &ListWatchTarget, _: u32, _: Option<&str>| {
        // Informers use streaming lists here, so this is a need, or the host's request for a written object by name.
        let namespace = target.namespace.clone().unwrap_or_default();
        if target.field_selector.is_none() {
            lists.lock().unwrap().push(request("list", &target.kind.to_string(), None, &namespace, ""));
        }
        Ok(ListPage { items: Vec::new(), resource_version: "10".into(), next: None })
    };
    let get = move |resource: &ApiResource, object: &ObjectKey| {
        let kind = resource.kind.to_string();
        gets.lock().unwrap().push(request("get", &kind, None, &object.namespace, &object.name));
        Ok("{}".into())
    };
    let server = FakeServer::answering(list, get);
    server.state().resources = PLURALS
        .map(|(kind, plural)| ApiResource {
            namespaced: kind != NODE,
            verbs: VERBS.map(String::from).into(),
            ..pintle_testing::server::resource(kind, plural)
        })
        .into();
    for (kind, namespace, name, controller) in objects() {
        let (_, plural) = PLURALS.into_iter().find(|(other, _)| *other == kind).unwrap();
        let owners = controller.map_or_else(|| json!([]), reference_to);
        server.put(plural, namespace, name, json!({"metadata": {"ownerReferences": owners}}));
    }
    server
}

/// Records writes.
fn writer(requests: &Requests) -> FakeWriters {
    let requests = requests.clone();
    FakeWriters(FakeWriter::new(move |line, write| {
        let verb = VERBS.into_iter().find(|verb| line.split(' ').next() == Some(verb)).unwrap();
        let name = line.rsplit('/').next().unwrap();
        let kind = write.resource.kind.to_string();
        requests.lock().unwrap().push(request(verb, &kind, write.subresource.as_deref(), &write.namespace, name));
        Ok(())
    }))
}

/// A guest that requests everything once, and collects the refusals.
fn greedy(manifest: Arc<Manifest>, refused: &Arc<Mutex<BTreeSet<Request>>>) -> FakeGuest {
    let (refused, is_done) = (refused.clone(), AtomicBool::new(false));
    FakeGuest::new(manifest, move |key, view| {
        let is_due = &*key.object.name == "key" && !is_done.load(Ordering::Relaxed);
        Ok(Ok(if is_due { ask(&*view, &refused, &is_done) } else { Outcome::default() }))
    })
}

/// All requests that are needs, and all that are mutations.
static NEEDS: LazyLock<Vec<(Request, Need)>> =
    LazyLock::new(|| requests().into_iter().filter_map(|r| Some((r.clone(), need(&r)?))).collect());
static WRITES: LazyLock<Vec<(Request, Mutation)>> =
    LazyLock::new(|| requests().into_iter().filter_map(|r| Some((r.clone(), mutation(&r)?))).collect());

fn ask(view: &dyn View, refused: &Mutex<BTreeSet<Request>>, is_done: &AtomicBool) -> Outcome {
    if view.attempt() > 0 {
        for failure in view.failures() {
            assert_eq!((failure.reason.as_str(), failure.step), ("NotGranted", 0));
            let reasons = ["is not granted to plugin greedy", "the manifest of plugin greedy does not read it"];
            assert!(reasons.iter().any(|reason| failure.message.contains(reason)), "{}", failure.message);
            refused.lock().unwrap().insert(WRITES[failure.position as usize].0.clone());
        }
        is_done.store(true, Ordering::Relaxed);
        return Outcome::default();
    }
    if view.answer(&NEEDS[0].1).is_none() {
        return Outcome { needs: NEEDS.iter().map(|(_, need)| need.clone()).collect(), ..Outcome::default() };
    }
    for (request, need) in &*NEEDS {
        if let Err(error) = view.answer(need).unwrap() {
            assert_eq!(error.reason, "NotGranted");
            refused.lock().unwrap().insert(request.clone());
        }
    }
    let mutations = WRITES.iter().map(|(_, mutation)| mutation.clone()).collect();
    Outcome { steps: vec![Step { order: Order::Parallel, mutations, always: false }], ..Outcome::default() }
}

fn manifest(watches: &Value, grants: &[Grant]) -> Arc<Manifest> {
    let manifest = json!({
        "name": "greedy", "version": "1.0.0", "contract": "0.2",
        "watches": watches, "queues": [{"name": "greedy"}], "grants": grants,
    });
    Arc::new(Manifest::parse(manifest.to_string().as_bytes()).unwrap())
}

/// Runs a manager until it is idle, and stops it. Returns the opened watches and the sent requests, or the reason why
/// the plugin could not be added.
async fn run(guest: FakeGuest, given: Option<Vec<Grant>>) -> (BTreeSet<String>, Vec<Request>, Result<(), String>) {
    let sent = Requests::default();
    let server = server(&sent);
    let config = ManagerConfig { qps: None, ..ManagerConfig::default() };
    let manager = Manager::new(server.clone(), Arc::new(writer(&sent)), config);
    let options = PluginOptions { spec: Spec { grants: given, ..Spec::default() }, ..PluginOptions::default() };
    let added = manager.add(Arc::new(guest), options).map_err(|error| error.to_string());
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let idle = async {
        manager.idle(Duration::from_secs(3600)).await;
        drop(stop);
    };
    let ended = async { tokio::join!(manager.run(async { drop(stopped.await) }), idle) };
    // On the paused clock: a plugin that never becomes idle fails the test.
    tokio::time::timeout(Duration::from_secs(30 * 24 * 3600), ended).await.expect("the plugin does not rest");
    let sent = std::mem::take(&mut *sent.lock().unwrap());
    (server.watched(), sent, added)
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
                for (namespace, name) in [("", ""), ("a", ""), ("b", ""), ("", "mine"), ("a", "key"), ("", "*")] {
                    for (of, adopt) in [("any", false), ("key", false), ("controlled", false), ("controlled", true)] {
                        let grant = grant(json!({
                            "verbs": [verb], "kinds": [kind], "subresources": list(subresource),
                            "namespaces": list(namespace), "names": list(name), "of": of, "adopt": adopt,
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
    // Whole objects: a list that an update replaces must be read.
    let watches = json!([
        {"kind": SET, "whole": true, "enqueue": [{"to": "self"}]},
        {"kind": POD, "whole": true},
    ]);
    let is_unread = |request: &Request| {
        request.verb == "update"
            && ![SET, POD].contains(&&*request.kind)
            && matches!(request.subresource.as_deref(), None | Some("status"))
    };
    let everything = || {
        let verbs = VERBS.map(String::from).to_vec();
        let all = Grant { verbs, kinds: vec!["*".into()], ..Grant::default() };
        vec![all.clone(), Grant { subresources: vec!["*".into()], ..all }]
    };
    let own_watches = grant(json!({"verbs": ["list", "watch"], "kinds": [SET, POD]}));
    let all = requests();
    let (mut n_grants, mut n_allowed, mut n_denied) = (0, 0, 0);
    for one in grants() {
        // As the manifest's only grant, and as the operator's for a manifest that requests everything.
        let by_manifest = (vec![one.clone()], None);
        let by_operator = (everything(), Some(vec![one.clone(), own_watches.clone()]));
        // A manifest that would adopt everything is invalid.
        let by_manifest = Some(by_manifest).filter(|_| one.check_adoption(false).is_ok());
        for (asked, given) in by_manifest.into_iter().chain([by_operator]) {
            n_grants += 1;
            let refused = Arc::default();
            let manifest = manifest(&watches, &asked);
            let (_, mut sent, added) = run(greedy(manifest, &refused), given.clone()).await;
            added.unwrap();
            // The host's own event about the plugin's faults. The plugin requests no Event writes.
            sent.retain(|request| request.kind != "v1/Event");
            sent.sort();
            let is_allowed = |request: &Request| {
                let by = |grants: &[Grant]| grants.iter().any(|grant| allows(grant, request));
                by(&asked) && given.as_deref().is_none_or(by)
            };
            let (mut allowed, denied): (Vec<_>, Vec<_>) = all.iter().cloned().partition(|request| {
                let read = Request { verb: "get", subresource: None, ..request.clone() };
                is_allowed(request) && (!is_unread(request) || is_allowed(&read))
            });
            allowed.sort();
            let what = if given.is_some() { "given" } else { "asked" };
            assert_eq!(sent, allowed, "{what}: {one:?}");
            assert_eq!(*refused.lock().unwrap(), denied.iter().cloned().collect(), "{what}: {one:?}");
            n_allowed += allowed.len();
            n_denied += denied.len();
        }
    }
    println!("{n_grants} grants, {} requests each: {n_allowed} sent, {n_denied} refused", all.len());
    assert!(n_allowed > 5_000 && n_denied > 100_000);
}

/// The model of watches: whether a single grant of the operator covers a watch of this kind (`*`: every kind) in this
/// namespace (empty: all namespaces).
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
                        let guest = FakeGuest::new(manifest(&json!([watch]), &[]), |_, _| Ok(Ok(Outcome::default())));
                        let (opened, sent, added) = run(guest, Some(vec![given.clone()])).await;
                        let kinds = match (kind, namespace) {
                            ("*", "") => vec![POD, SECRET, NODE, SET],
                            // Nodes are cluster-scoped.
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
                        assert!(sent.is_empty(), "{sent:?}");
                    }
                }
            }
        }
    }
    println!("{n_opened} watches opened, {n_refused} refused");
    assert!(n_opened > 30 && n_refused > 1_000);
}

/// Without both discovery paths, the plugin gets no information about the server's kinds.
#[tokio::test(start_paused = true)]
async fn only_those_who_are_given_discovery_learn_what_the_server_offers() {
    let watch = grant(json!({"verbs": ["list", "watch"], "kinds": [SET]}));
    let paths = |paths: &[&str]| vec![watch.clone(), grant(json!({"verbs": ["get"], "paths": paths}))];
    let everything =
        vec![grant(json!({"verbs": ["*"], "kinds": ["*"]})), grant(json!({"verbs": ["*"], "paths": ["*"]}))];
    let rows = [
        (None, true),
        (Some(paths(&["/api", "/apis"])), true),
        (Some(everything), true),
        (Some(paths(&["/api"])), false),
        (Some(paths(&["/apis"])), false),
        (Some(vec![watch.clone()]), false),
    ];
    for (given, expected) in rows {
        let told = Arc::new(Mutex::new(Vec::new()));
        let manifest = json!({
            "name": "curious", "version": "1.0.0", "contract": "0.2", "queues": [{"name": "curious"}],
            "watches": [{"kind": SET, "enqueue": [{"to": "self"}]}], "discovery": true,
        });
        let manifest = Arc::new(Manifest::parse(manifest.to_string().as_bytes()).unwrap());
        let log = told.clone();
        let guest = FakeGuest::new(manifest, move |_, view| {
            let Some(answer) = view.answer(&Need::Discovery) else {
                return Ok(Ok(Outcome { needs: vec![Need::Discovery], ..Outcome::default() }));
            };
            let resources = view.resources().map_or(0, |resources| resources.len());
            log.lock().unwrap().push((resources == PLURALS.len(), resources > 0, answer.is_ok()));
            Ok(Ok(Outcome::default()))
        });
        let (_, _, added) = run(guest, given.clone()).await;
        added.unwrap();
        let told = told.lock().unwrap();
        assert!(
            !told.is_empty() && told.iter().all(|one| *one == (expected, expected, expected)),
            "{given:?}: {told:?}"
        );
    }
}
