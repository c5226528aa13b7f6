//! Uses what the guest `everything` does not; the name of the key's object says which part.

#[allow(missing_docs, clippy::all, reason = "generated")]
mod bindings {
    wit_bindgen::generate!({ world: "mapping-controller", path: "../../../wit" });
}

use bindings::exports::pintle::controller::mapping;
use bindings::pintle::controller::types::{
    Action, Delete, Detail, Key, Kind, LiveList, LiveObject, Moment, Mutation, Need, ObjectKey, Observation, Order,
    Outcome, Place, Preconditions, ReconcileError, Refusal, Retry, Review, StateWrite, Step, Wake,
};
use bindings::pintle::controller::view::Lister;

struct Next;

bindings::export!(Next with_types_in bindings);

impl bindings::Guest for Next {
    fn reconcile(key: Key, lister: Lister) -> Result<Outcome, ReconcileError> {
        match key.object.name.as_str() {
            "uptime" => Ok(keep("uptime", format!("{:?}", lister.uptime()))),
            "needs" => Ok(needs(&lister)),
            "wakes" => Ok(wakes(&key)),
            "crowd" => Ok(Outcome { wake: (0..10_001).map(|i| at(&key, i, None)).collect(), ..nothing() }),
            "most" => Ok(Outcome { wake: (0..10_000).map(|i| at(&key, i, Some(i))).collect(), ..nothing() }),
            "other-queue" => {
                let other = Key { queue: "others".into(), ..key };
                Ok(Outcome { wake: vec![Wake { key: other, after_ms: None }], ..nothing() })
            }
            "moments" => Ok(moments()),
            "error" => Ok(failing(None)),
            "late-error" => Ok(failing(Some(5_000))),
            "never" => Ok(failing(Some(u32::MAX))),
            "terminal" => Ok(Outcome { error: Some(ReconcileError::Terminal("out of order".into())), ..nothing() }),
            "kinds" => Ok(keep("kinds", format!("{:?}", lister.resources_of("apps", "Deployment")))),
            "labels" => Ok(Outcome { run_labels: vec![("action".into(), "tried".into())], ..nothing() }),
            // The tick key of the queue.
            "nodes" => Ok(keep("tick", format!("{:?}", lister.get(&key.kind, &key.object)))),
            other => Err(ReconcileError::Terminal(format!("no part of the contract is called {other}"))),
        }
    }
}

impl mapping::Guest for Next {
    fn keys_of(kind: Kind, _: Option<String>, new: Option<String>, _: Lister) -> Vec<Wake> {
        let key = |name: &str| Key { queue: "nodes".into(), kind: kind.clone(), object: object("", name) };
        let after_ms = new.map(|text| u32::try_from(text.len()).unwrap_or(u32::MAX));
        vec![Wake { key: key("at-once"), after_ms: None }, Wake { key: key("later"), after_ms }]
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

fn failing(after_ms: Option<u32>) -> Outcome {
    Outcome { error: Some(ReconcileError::Retry(Retry { message: "out of order".into(), after_ms })), ..nothing() }
}

fn keep(name: &str, value: String) -> Outcome {
    Outcome { state: vec![StateWrite { name: name.into(), value: Some(value) }], ..nothing() }
}

fn object(namespace: &str, name: &str) -> ObjectKey {
    ObjectKey { namespace: namespace.into(), name: name.into() }
}

fn kind(group: &str, name: &str) -> Kind {
    Kind { group: group.into(), version: "v1".into(), name: name.into() }
}

fn at(key: &Key, i: u32, after_ms: Option<u32>) -> Wake {
    Wake { key: Key { object: object("a", &format!("w{i}")), ..key.clone() }, after_ms }
}

fn wakes(key: &Key) -> Outcome {
    let node = Key { queue: "nodes".into(), kind: kind("", "Node"), object: object("", "n1") };
    let impossible = Key { object: object("a", "../b"), ..key.clone() };
    let wake = [(node, None), (impossible, None)].map(|(key, after_ms)| Wake { key, after_ms });
    Outcome { wake: wake.into_iter().chain([at(key, 1, Some(1500))]).collect(), ..nothing() }
}

/// Asks on the first round, keeps the answers on the second.
fn needs(lister: &Lister) -> Outcome {
    let list = |detail| {
        Need::LiveList(LiveList {
            kind: kind("", "Pod"),
            namespace: "a".into(),
            label_selector: None,
            field_selector: Some("spec.nodeName=n1".into()),
            detail,
            limit: 5,
        })
    };
    let needs = vec![
        Need::LiveObject(LiveObject {
            kind: kind("apps", "Deployment"),
            object: object("a", "web"),
            subresource: Some("scale".into()),
        }),
        list(Detail::Metadata),
        list(Detail::Projection),
        list(Detail::Whole),
        Need::Review(Review {
            kind: kind("authorization.k8s.io", "SubjectAccessReview"),
            namespace: String::new(),
            object: r#"{"spec":{"user":"ann","resourceAttributes":{"verb":"get","resource":"pods"}}}"#.into(),
        }),
    ];
    let answers: Vec<_> = needs.iter().filter_map(|need| lister.answer(need)).collect();
    if answers.is_empty() {
        return Outcome { needs, ..nothing() };
    }
    keep("answers", format!("{answers:?}"))
}

/// Deletes two Pods, and counts what became of them.
fn moments() -> Outcome {
    let delete = |name: &str| Mutation {
        action: Action::Delete(Delete {
            kind: kind("", "Pod"),
            object: object("a", name),
            preconditions: Preconditions { uid: Some("uid-1".into()), resource_version: None },
            propagation: None,
            grace_period_seconds: None,
        }),
        on_success: None,
        on_failure: None,
        tolerate: vec![Refusal::NotFound],
    };
    let count = |at, result: &str| Observation {
        metric: "newest_deletes_total".into(),
        labels: vec![result.into()],
        value: 1.0,
        at,
    };
    let place = |position| Place { step: 0, position };
    let observations = vec![
        count(Moment::Now, "wanted"),
        count(Moment::Done(place(0)), "deleted"),
        count(Moment::Failed(place(0)), "not deleted"),
        count(Moment::Done(place(1)), "deleted"),
        count(Moment::Failed(place(1)), "not deleted"),
    ];
    let mutations = vec![delete("one"), delete("two")];
    let steps = vec![Step { order: Order::Sequential, mutations, always: false }];
    Outcome { steps, observations, ..nothing() }
}
