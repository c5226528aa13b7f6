//! Attacks on the host, one in each component: the setting `attack` selects it.
//!
//! `text` contains the core modules of further attacks, which a compiler would not produce. `tests/tests/system/hostile/attacks.rs`
//! lists what the host must make of each attack.

mod mapping;

#[allow(missing_docs, clippy::all, reason = "generated")]
mod bindings {
    wit_bindgen::generate!({ world: "mapping-controller", path: "../../../wit" });
}

use std::cell::{Cell, RefCell};
use std::hint::black_box;

use bindings::pintle::controller::log::{self, Level};
use bindings::pintle::controller::types::{
    Action, Create, Delete, Event, EventType, Key, Kind, LiveObject, Moment, Mutation, Need, ObjectKey, Observation,
    Order, Outcome, Patch, PatchType, Preconditions, ReconcileError, StateWrite, Step,
};
use bindings::pintle::controller::view::{IndexQuery, Lister, Query};

thread_local! {
    static KEPT: RefCell<Option<Lister>> = const { RefCell::new(None) };
    static N_OBSERVED: Cell<u32> = const { Cell::new(0) };
}

const NO_PRECONDITIONS: Preconditions = Preconditions { uid: None, resource_version: None };

struct Hostile;

bindings::export!(Hostile with_types_in bindings);

impl bindings::Guest for Hostile {
    fn reconcile(key: Key, lister: Lister) -> Result<Outcome, ReconcileError> {
        Ok(match attack_of(&lister).as_str() {
            "event-flood" => event_flood(&key),
            "event-texts" => event_texts(&key),
            "foreign-namespace" => writing(vec![create("calm", r#"{"generateName":"intruder-"}"#)]),
            "foreign-owner" => foreign_owner(),
            "foreign-status" => foreign_status(key),
            "giant-list" => {
                let deletion = || StateWrite { name: String::new(), value: None };
                Outcome { state: (0..1_000_000).map(|_| deletion()).collect(), ..nothing() }
            }
            "giant-string" => writing(vec![create("hostile", &"x".repeat(12 << 20))]),
            "handle-flood" => {
                std::mem::forget(lister);
                again()
            }
            "host-call-flood" => loop {
                black_box(lister.attempt());
            },
            "huge-argument" => argument(&lister, 32 << 20),
            "index-of-large-values" => index_of_large_values(&key, &lister),
            "kept-lister" => kept_lister(lister),
            "log-flood" => log_flood(),
            "long-argument" => argument(&lister, 2 << 20),
            "loop" => loop {
                black_box(&key);
            },
            "loop-in-host-calls" => loop_in_host_calls(&key, &lister),
            // What `mapping` returns is the attack. The queue remembers the keys of those that ask for another run.
            "mapping-churn" => nothing(),
            "mapping-crowd" => again(),
            "mapping-flood" => nothing(),
            "mapping-giant-list" => nothing(),
            "mapping-long-names" => {
                assert!(key.object.name.len() < 1_000_000, "the key of an object that cannot exist runs");
                nothing()
            }
            "mapping-loop" => nothing(),
            "mapping-reads" => nothing(),
            "mapping-trap" => nothing(),
            "mapping-undeclared-queue" => nothing(),
            "member-crowd" => writing(vec![Action::Create(Create {
                kind: kind("ConfigMap"),
                namespace: "hostile".into(),
                object: format!("{{{}}}", (0..400_000).map(|i| format!(r#""{i}":0"#)).collect::<Vec<_>>().join(",")),
                subresource: None,
            })]),
            "memory-copy" => memory_copy(),
            "memory-growth" => memory_growth(),
            "metric-labels" => metric_labels(&key),
            "mutation-flood" => writing(vec![create("hostile", r#"{"generateName":"flood-"}"#); 1_001]),
            "needs-crowd" => needs_crowd(&key, &lister),
            "needs-denied" => needs_denied(&key, &lister),
            "needs-flood" => Outcome { needs: vec![Need::RawPath("/version".into()); 257], ..nothing() },
            "needs-without-end" => Outcome { needs: vec![Need::RawPath("/version".into())], ..nothing() },
            "need-that-streams" => ask(&lister, Need::RawPath("/api/v1/configmaps?watch=true".into())),
            "operation-crowd" => writing(vec![Action::Patch(Patch {
                kind: key.kind.clone(),
                object: key.object.clone(),
                subresource: None,
                patch_type: PatchType::Json,
                body: format!("[{}]", vec!["{}"; 1_000_000].join(",")),
                preconditions: NO_PRECONDITIONS,
            })]),
            "orphan-adoption" => adopt_and_rewrite(&key, &lister),
            "orphan-deletion" => adopt_and_delete(&key, &lister),
            "orphan-rewrite" => writing(vec![patch(neighbour(&key), r#"{"data":{"by":"an intruder"}}"#.into())]),
            "path-name" => path_name(key),
            "path-need" => ask(&lister, Need::RawPath("/version/../api/v1/secrets".into())),
            "reads-that-wait" => reads_that_wait(&key, &lister),
            "recursion" => {
                black_box(deeper(black_box(1)));
                nothing()
            }
            "requeue-storm" => again(),
            // The rules of their manifests are the attack.
            "rules-that-compare" => nothing(),
            "rules-that-fan-out" => nothing(),
            "secret-need" => {
                let object = object("calm", "token");
                ask(&lister, Need::LiveObject(LiveObject { kind: kind("Secret"), object, subresource: None }))
            }
            "selector-of-many-requirements" => {
                select(&key, &lister, &requirements(65));
                nothing()
            }
            "selector-of-many-values" => {
                select(&key, &lister, &format!("k notin ({})", ",".repeat(1 << 19)));
                nothing()
            }
            "state-flood" => {
                let value = Some("x".repeat(600_000));
                Outcome { state: vec![StateWrite { name: key.object.name, value }], ..nothing() }
            }
            "trap" => panic!("as asked"),
            "undeclared-kind" => {
                black_box(lister.list(&kind("Secret"), &all()));
                nothing()
            }
            other => panic!("there is no attack {other:?}"),
        })
    }
}

/// The attack that the configuration selects.
fn attack_of(lister: &Lister) -> String {
    let config = lister.config();
    let attack = config.split_once(r#""attack":""#).and_then(|(_, rest)| rest.split_once('"'));
    attack.map_or("", |(attack, _)| attack).to_owned()
}

fn event_flood(key: &Key) -> Outcome {
    let event = |i| {
        Action::Event(Event {
            regarding_kind: key.kind.clone(),
            regarding: key.object.clone(),
            regarding_uid: String::new(),
            event_type: EventType::Normal,
            reason: "Flood".into(),
            message: format!("event {i}"),
        })
    };
    Outcome { steps: writing((0..500).map(event).collect()).steps, ..again() }
}

/// Events whose texts the host would keep.
fn event_texts(key: &Key) -> Outcome {
    let long = |i: usize| format!("{} {i} {}", key.object.name, "{error} ".repeat(120_000));
    let event = |i| {
        Action::Event(Event {
            regarding_kind: key.kind.clone(),
            regarding: key.object.clone(),
            regarding_uid: long(i),
            event_type: EventType::Normal,
            reason: "Flood".into(),
            message: long(i),
        })
    };
    Outcome { steps: writing((0..4).map(event).collect()).steps, ..again() }
}

/// Creates an object for a controller that is not this one.
fn foreign_owner() -> Outcome {
    let owner = r#"{"apiVersion":"v1","kind":"ConfigMap","name":"other","uid":"1-2-3","controller":true}"#;
    let metadata = format!(r#"{{"generateName":"intruder-","ownerReferences":[{owner}]}}"#);
    writing(vec![create("hostile", &metadata)])
}

/// Writes the status of another object than that of the key.
fn foreign_status(key: Key) -> Outcome {
    writing(vec![Action::Patch(Patch {
        kind: key.kind,
        object: object("hostile", "victim"),
        subresource: Some("status".into()),
        patch_type: PatchType::Merge,
        body: r#"{"status":{"loadBalancer":{"ingress":[{"ip":"6.6.6.6"}]}}}"#.into(),
        preconditions: NO_PRECONDITIONS,
    })])
}

/// Another key's object, which nobody controls.
fn neighbour(key: &Key) -> ObjectKey {
    object("hostile", if key.object.name == "k0" { "k1" } else { "k0" })
}

/// Adopts an object and rewrites it in the same patch.
fn adopt_and_rewrite(key: &Key, lister: &Lister) -> Outcome {
    let body = format!(r#"{{{},"data":{{"by":"an intruder"}}}}"#, adoption(key, lister));
    writing(vec![patch(neighbour(key), body)])
}

/// Adopts an object, and deletes it as its own.
fn adopt_and_delete(key: &Key, lister: &Lister) -> Outcome {
    let adopt = writing(vec![patch(neighbour(key), format!("{{{}}}", adoption(key, lister)))]);
    let delete = writing(vec![Action::Delete(Delete {
        kind: key.kind.clone(),
        object: neighbour(key),
        preconditions: NO_PRECONDITIONS,
        propagation: None,
        grace_period_seconds: None,
    })]);
    Outcome { steps: adopt.steps.into_iter().chain(delete.steps).collect(), ..nothing() }
}

/// The member of a patch that makes the key's object the controller.
fn adoption(key: &Key, lister: &Lister) -> String {
    let text = lister.get(&key.kind, &key.object).expect("the key's object is cached");
    let uid = text.split_once(r#""uid":""#).and_then(|(_, rest)| rest.split_once('"')).expect("it has a uid").0;
    let name = &key.object.name;
    let owner = format!(r#"{{"apiVersion":"v1","kind":"ConfigMap","name":"{name}","uid":"{uid}","controller":true}}"#);
    format!(r#""metadata":{{"ownerReferences":[{owner}]}}"#)
}

/// A merge patch of a ConfigMap.
fn patch(object: ObjectKey, body: String) -> Action {
    let (kind, patch_type, preconditions) = (kind("ConfigMap"), PatchType::Merge, NO_PRECONDITIONS);
    Action::Patch(Patch { kind, object, subresource: None, patch_type, body, preconditions })
}

/// Passes this many bytes to a host call.
fn argument(lister: &Lister, n_bytes: usize) -> Outcome {
    black_box(lister.dependents(&"x".repeat(n_bytes)));
    nothing()
}

/// Looks objects up by the largest value that an argument can be.
fn index_of_large_values(key: &Key, lister: &Lister) -> ! {
    let value = "x".repeat(1_000_000);
    loop {
        let index = Some(IndexQuery { index: "i0".into(), value: value.clone() });
        black_box(lister.list(&key.kind, &Query { index, ..all() }));
    }
}

/// Keeps its lister, and reads with it in a later run.
fn kept_lister(lister: Lister) -> Outcome {
    KEPT.with_borrow_mut(|kept| match kept {
        Some(kept) => drop(black_box(kept.now())),
        None => *kept = Some(lister),
    });
    again()
}

fn log_flood() -> Outcome {
    let line = "x".repeat(4_000);
    for _ in 0..100_000 {
        log::write(Level::Debug, &line);
    }
    again()
}

/// Lists with the most expensive selector possible.
fn loop_in_host_calls(key: &Key, lister: &Lister) -> ! {
    let selector = requirements(64);
    loop {
        select(key, lister, &selector);
    }
}

fn requirements(n: usize) -> String {
    (0..n).map(|i| format!("!k{i}")).collect::<Vec<_>>().join(",")
}

fn select(key: &Key, lister: &Lister, label_selector: &str) {
    black_box(lister.list(&key.kind, &Query { label_selector: Some(label_selector.into()), ..all() }));
}

/// Has the host hold as many needs and answers as it lets a run.
fn needs_crowd(key: &Key, lister: &Lister) -> Outcome {
    let path = |round: usize, i: usize| format!("/version/{}-{round}-{i}-{}", key.object.name, "x".repeat(1_000_000));
    match (0..7).find(|round| lister.answer(&Need::RawPath(path(*round, 0))).is_none()) {
        Some(round) => Outcome { needs: (0..30).map(|i| Need::RawPath(path(round, i))).collect(), ..nothing() },
        None => again(),
    }
}

/// Has the host hold and repeat needs that it denies.
fn needs_denied(key: &Key, lister: &Lister) -> Outcome {
    let need = Need::RawPath(format!("/secret/{}", key.object.name.repeat(900_000 / key.object.name.len())));
    if lister.answer(&need).is_none() { Outcome { needs: vec![need], ..nothing() } } else { again() }
}

/// Has the log of its reads grow, and waits for the API server.
fn reads_that_wait(key: &Key, lister: &Lister) -> Outcome {
    for i in 0..64 {
        black_box(lister.state(&format!("{i} {} {}", key.object.name, "x".repeat(16_000))));
        black_box(lister.state(&format!("{i} {} {}", key.object.name, "x".repeat(1_000_000))));
    }
    let need = Need::RawPath("/version".into());
    if lister.answer(&need).is_none() { Outcome { needs: vec![need], ..nothing() } } else { again() }
}

/// One instruction that nothing interrupts.
fn memory_copy() -> ! {
    let mut bytes = vec![1_u8; 48 << 20];
    loop {
        black_box(&mut bytes).copy_within(..47 << 20, 1 << 20);
    }
}

fn memory_growth() -> ! {
    let mut taken = Vec::new();
    loop {
        taken.push(black_box(vec![1_u8; 1 << 20]));
    }
}

/// Observes with a new label each time.
fn metric_labels(key: &Key) -> Outcome {
    let observation = |i| {
        N_OBSERVED.set(N_OBSERVED.get() + 1);
        let label = format!("{} {} {i}", key.object.name, N_OBSERVED.get());
        Observation { metric: "hostile_labels_total".into(), labels: vec![label], value: 1.0, at: Moment::Now }
    };
    Outcome { observations: (0..1_000).map(observation).collect(), ..again() }
}

/// The name of the object leads its path elsewhere.
fn path_name(key: Key) -> Outcome {
    writing(vec![Action::Delete(Delete {
        kind: key.kind,
        object: object("hostile", "../../calm/configmaps/probe"),
        preconditions: NO_PRECONDITIONS,
        propagation: None,
        grace_period_seconds: None,
    })])
}

/// Reads what is not granted.
fn ask(lister: &Lister, need: Need) -> Outcome {
    match lister.answer(&need) {
        Some(answer) => assert!(answer.is_err(), "the host has answered"),
        None => return Outcome { needs: vec![need], ..nothing() },
    }
    nothing()
}

/// The addition after the call keeps the compiler from making a loop of it.
fn deeper(depth: u32) -> u32 {
    if depth == 0 { 0 } else { deeper(depth.wrapping_add(1)).wrapping_mul(31).wrapping_add(depth ^ 0x55) }
}

/// An outcome without effect.
fn nothing() -> Outcome {
    Outcome {
        needs: vec![],
        steps: vec![],
        requeue_after_ms: None,
        state: vec![],
        observations: vec![],
        wake: vec![],
        run_labels: vec![],
        error: None,
    }
}

/// An outcome that asks for another run at once.
fn again() -> Outcome {
    Outcome { requeue_after_ms: Some(0), ..nothing() }
}

fn kind(name: &str) -> Kind {
    Kind { group: String::new(), version: "v1".into(), name: name.into() }
}

fn object(namespace: &str, name: &str) -> ObjectKey {
    ObjectKey { namespace: namespace.into(), name: name.into() }
}

/// Every object of a kind.
fn all() -> Query {
    Query { namespace: None, label_selector: None, owner: None, index: None, whole: false }
}

/// Creates a ConfigMap with this metadata.
fn create(namespace: &str, metadata: &str) -> Action {
    let object = format!(r#"{{"metadata":{metadata}}}"#);
    Action::Create(Create { kind: kind("ConfigMap"), namespace: namespace.into(), object, subresource: None })
}

/// One step with these actions.
fn writing(actions: Vec<Action>) -> Outcome {
    let mutation = |action| Mutation { action, on_success: None, on_failure: None, tolerate: vec![] };
    let step = Step { order: Order::Parallel, mutations: actions.into_iter().map(mutation).collect(), always: false };
    Outcome { steps: vec![step], ..nothing() }
}
