//! Does not come to rest in one way at a time; the name of the key's object is that way. Its siblings come to rest.

#[allow(missing_docs, clippy::all, reason = "generated")]
mod bindings {
    wit_bindgen::generate!({ world: "controller", path: "../../../wit" });
}

use bindings::pintle::controller::types::{
    Action, Create, Delete, Key, Kind, Mutation, ObjectKey, Order, Outcome, Patch, PatchType, Preconditions,
    ReconcileError, StateWrite, Step,
};
use bindings::pintle::controller::view::{Lister, Query};

struct Restless;

bindings::export!(Restless with_types_in bindings);

impl bindings::Guest for Restless {
    fn reconcile(key: Key, lister: Lister) -> Result<Outcome, ReconcileError> {
        let Some(widget) = lister.get(&key.kind, &key.object) else { return Ok(outcome(vec![])) };
        let has = |text: &str| widget.contains(text);
        let set = |spec: &str| patch(&key, &format!(r#"{{"spec":{spec}}}"#), None);
        Ok(match key.object.name.as_str() {
            "flips" if has(r#""color":"red""#) => outcome(vec![set(r#"{"color":"blue"}"#)]),
            "flips" => outcome(vec![set(r#"{"color":"red"}"#)]),
            "requeues" => Outcome { requeue_after_ms: Some(1), ..outcome(vec![]) },
            // Its first version is long gone.
            "conflicts" => outcome(vec![patch(&key, r#"{"spec":{"done":true}}"#, Some("1".into()))]),
            "recreates" if lister.get(&config_map(), &key.object).is_some() => outcome(vec![delete(&key)]),
            "recreates" => outcome(vec![create(&key, r#"{"metadata":{"name":"recreates"}}"#)]),
            "is-refused" => outcome(vec![create(&key, r#"{"metadata":{"name":"-"}}"#)]),
            "is-denied" => {
                let Mutation { action, .. } = patch(&key, r#"{"status":{"done":true}}"#, None);
                let Action::Patch(patch) = action else { unreachable!("it is a patch") };
                outcome(vec![plain(Action::Patch(Patch { subresource: Some("status".into()), ..patch }))])
            }
            "faults" if has(r#""color":"blue""#) => panic!("it is blue"),
            "faults" => outcome(vec![set(r#"{"color":"blue"}"#)]),
            // The first run says nothing of what the second one wants.
            "is-unstable" if lister.state("ran").is_some() => outcome(vec![set(r#"{"done":true}"#)]),
            "is-unstable" => {
                let state = vec![StateWrite { name: "ran".into(), value: Some("yes".into()) }];
                Outcome { state, ..outcome(vec![]) }
            }
            "waits" if has(r#""done":true"#) => outcome(vec![]),
            "waits" if lister.now().as_str() < "2026-01-01T00:00:30" => {
                Outcome { requeue_after_ms: Some(30_000), ..outcome(vec![]) }
            }
            "waits" => outcome(vec![set(r#"{"done":true}"#)]),
            // No rule maps this ConfigMap to the key.
            "stalls" if lister.count(&config_map(), &query()) == 0 => {
                outcome(vec![create(&key, r#"{"metadata":{"name":"elsewhere"}}"#)])
            }
            "stalls" if !has(r#""done":true"#) => outcome(vec![set(r#"{"done":true}"#)]),
            "shows-the-time" if !has(&lister.now()) => outcome(vec![set(&format!(r#"{{"at":"{}"}}"#, lister.now()))]),
            "makes-two" if lister.count(&config_map(), &query()) < 2 => {
                outcome(vec![create(&key, r#"{"metadata":{"generateName":"made-"}}"#)])
            }
            "copies" => {
                let color = if has(r#""color":"red""#) { "red" } else { "blue" };
                let data = format!(r#"{{"color":"{color}"}}"#);
                match lister.get(&config_map(), &key.object) {
                    None => {
                        outcome(vec![create(&key, &format!(r#"{{"metadata":{{"name":"copies"}},"data":{data}}}"#))])
                    }
                    Some(there) if there.contains(&data) => outcome(vec![]),
                    Some(_) => {
                        let body = format!(r#"{{"data":{data}}}"#);
                        let Mutation { action, .. } = patch(&key, &body, None);
                        let Action::Patch(patch) = action else { unreachable!("it is a patch") };
                        outcome(vec![plain(Action::Patch(Patch { kind: config_map(), ..patch }))])
                    }
                }
            }
            _ => outcome(vec![]),
        })
    }
}

fn config_map() -> Kind {
    Kind { group: String::new(), version: "v1".into(), name: "ConfigMap".into() }
}

fn query() -> Query {
    Query { namespace: None, label_selector: None, owner: None, index: None, whole: false }
}

fn plain(action: Action) -> Mutation {
    Mutation { action, on_success: None, on_failure: None, tolerate: vec![] }
}

fn create(key: &Key, object: &str) -> Mutation {
    plain(Action::Create(Create {
        kind: config_map(),
        namespace: key.object.namespace.clone(),
        object: object.into(),
        subresource: None,
    }))
}

fn patch(key: &Key, body: &str, resource_version: Option<String>) -> Mutation {
    plain(Action::Patch(Patch {
        kind: key.kind.clone(),
        object: key.object.clone(),
        subresource: None,
        patch_type: PatchType::Merge,
        body: body.into(),
        preconditions: Preconditions { uid: None, resource_version },
    }))
}

fn delete(key: &Key) -> Mutation {
    let object = ObjectKey { namespace: key.object.namespace.clone(), name: key.object.name.clone() };
    plain(Action::Delete(Delete {
        kind: config_map(),
        object,
        preconditions: Preconditions { uid: None, resource_version: None },
        propagation: None,
        grace_period_seconds: None,
    }))
}

fn outcome(mutations: Vec<Mutation>) -> Outcome {
    let steps =
        if mutations.is_empty() { vec![] } else { vec![Step { order: Order::Sequential, mutations, always: false }] };
    Outcome {
        needs: vec![],
        steps,
        requeue_after_ms: None,
        state: vec![],
        observations: vec![],
        wake: vec![],
        run_labels: vec![],
        error: None,
    }
}
