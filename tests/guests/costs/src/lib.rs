//! Does little, so that the cost of a call can be measured; the name of the key's object says what.

#[allow(missing_docs, clippy::all, reason = "generated")]
mod bindings {
    wit_bindgen::generate!({ world: "controller", path: "../../../wit/controller.wit" });
}

use bindings::pintle::controller::types::{
    Action, Key, Kind, LiveObject, Mutation, Need, ObjectKey, Order, Outcome, Patch, PatchType, Preconditions,
    ReconcileError, Step,
};
use bindings::pintle::controller::view::{Lister, Query};

struct Costs;

bindings::export!(Costs with_types_in bindings);

impl bindings::Guest for Costs {
    fn reconcile(key: Key, lister: Lister) -> Result<Outcome, ReconcileError> {
        match key.object.name.as_str() {
            "nothing" => Ok(nothing()),
            "patch" => Ok(patch(&key, &lister)),
            "live" => Ok(live(&lister)),
            "wake-1" => Ok(wakes(&key, 1)),
            "wake-1000" => Ok(wakes(&key, 1_000)),
            other => Err(ReconcileError::Terminal(format!("nothing is called {other}"))),
        }
    }
}

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

fn pod() -> Kind {
    Kind { group: String::new(), version: "v1".into(), name: "Pod".into() }
}

/// Reads an object and a list, and writes one patch.
fn patch(key: &Key, lister: &Lister) -> Outcome {
    let object = lister.get(&key.kind, &key.object).unwrap_or_default();
    let query = Query {
        namespace: Some(key.object.namespace.clone()),
        label_selector: None,
        owner: None,
        index: None,
        whole: false,
    };
    let n_pods = lister.list(&pod(), &query).len();
    let patch = Patch {
        kind: key.kind.clone(),
        object: key.object.clone(),
        subresource: None,
        patch_type: PatchType::Merge,
        body: format!(r#"{{"spec":{{"bytes":{},"pods":{n_pods}}}}}"#, object.len()),
        preconditions: Preconditions { uid: Some("uid-1".into()), resource_version: None },
    };
    let mutation = Mutation { action: Action::Patch(patch), on_success: None, on_failure: None, tolerate: vec![] };
    let step = Step { order: Order::Sequential, mutations: vec![mutation], always: false };
    Outcome { steps: vec![step], ..nothing() }
}

/// Asks on the first round, and is content on the second.
fn live(lister: &Lister) -> Outcome {
    let need = Need::LiveObject(LiveObject {
        kind: pod(),
        object: ObjectKey { namespace: "a".into(), name: "web".into() },
        subresource: None,
    });
    if lister.answer(&need).is_some() {
        return nothing();
    }
    Outcome { needs: vec![need], ..nothing() }
}

fn wakes(key: &Key, n: u32) -> Outcome {
    use bindings::pintle::controller::types::Wake;

    let wake = |i| {
        let object = ObjectKey { namespace: "a".into(), name: format!("w{i}") };
        Wake { key: Key { object, ..key.clone() }, after_ms: None }
    };
    Outcome { wake: (0..n).map(wake).collect(), ..nothing() }
}
