//! A controller that reads with every kind of query, and fails as the object of its key specifies.
//!
//! A build with a setting `fixed` does not fail.

#[allow(missing_docs, clippy::all, reason = "generated")]
mod bindings {
    wit_bindgen::generate!({ world: "controller", path: "../../../wit" });
}

use bindings::pintle::controller::log::{self, Level};
use bindings::pintle::controller::types::{
    Action, Create, Key, Kind, LiveObject, Mutation, Need, ObjectKey, Order, Outcome, ReconcileError, Retry, Step,
};
use bindings::pintle::controller::view::{IndexQuery, Lister, Query};

struct Failing;

bindings::export!(Failing with_types_in bindings);

impl bindings::Guest for Failing {
    fn reconcile(key: Key, lister: Lister) -> Result<Outcome, ReconcileError> {
        reconcile(&key, &lister)
    }
}

fn reconcile(key: &Key, lister: &Lister) -> Result<Outcome, ReconcileError> {
    let settings = lister.get(&key.kind, &key.object).unwrap_or_default();
    let namespace = key.object.namespace.as_str();
    let by_node = IndexQuery { index: "by-node".into(), value: "n1".into() };
    let on_node = lister.list(&kind("Pod"), &Query { index: Some(by_node), ..everything() }).len();
    let web = Query { label_selector: Some("app=web".into()), ..everything() };
    let n_web = lister.count(&kind("Pod"), &web);
    let services = lister.selecting(&kind("Service"), namespace, &[("app".into(), "web".into())]).len();
    let token = ObjectKey { namespace: namespace.into(), name: "token".into() };
    let has_token = lister.get(&kind("Secret"), &token).is_some_and(|secret| secret.contains("token"));
    let told = format!("{on_node} Pods on n1, {n_web} are web, {services} Services, token: {has_token}");
    log::write(Level::Info, &told);
    if lister.config().contains("fixed") {
        return Ok(nothing());
    }
    let mode =
        settings.split_once(r#""mode":""#).and_then(|(_, rest)| rest.split_once('"')).map_or("", |(mode, _)| mode);
    match mode {
        "trap" => {
            log::write(Level::Error, &format!("panic: {told}"));
            std::process::abort()
        }
        "retry" => Err(ReconcileError::Retry(Retry { message: told, after_ms: None })),
        "not-watched" => {
            lister.list(&kind("Node"), &everything());
            Ok(nothing())
        }
        "not-granted" => Ok(writing(&kind("Secret"), namespace)),
        "live" => {
            let need = Need::LiveObject(LiveObject { kind: kind("Secret"), object: token, subresource: None });
            match lister.answer(&need) {
                None => Ok(Outcome { needs: vec![need], ..nothing() }),
                Some(Ok(_)) => Err(ReconcileError::Terminal(format!("there is one; {told}"))),
                Some(Err(why)) => Err(ReconcileError::Terminal(format!("{}; {told}", why.code))),
            }
        }
        _ => Ok(nothing()),
    }
}

fn kind(name: &str) -> Kind {
    Kind { group: String::new(), version: "v1".into(), name: name.into() }
}

fn everything() -> Query {
    Query { namespace: None, label_selector: None, owner: None, index: None, whole: false }
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

fn writing(kind: &Kind, namespace: &str) -> Outcome {
    let object = r#"{"apiVersion":"v1","kind":"Secret","metadata":{"name":"made"}}"#.to_owned();
    let create = Create { kind: kind.clone(), namespace: namespace.into(), object, subresource: None };
    let mutation = Mutation { action: Action::Create(create), on_success: None, on_failure: None, tolerate: vec![] };
    Outcome { steps: vec![Step { order: Order::Sequential, mutations: vec![mutation], always: false }], ..nothing() }
}
