//! Every method of the lister. What they returned is told as keyed state, which any host can show.

use crate::bindings::pintle::controller::types::{
    Detail, Key, LiveList, LiveObject, Moment, Need, Observation, Outcome, StateWrite,
};
use crate::bindings::pintle::controller::view::{IndexQuery, Lister, OwnedBy, Query};
use crate::{kind, object, outcome, pod};

pub(crate) fn query() -> Query {
    Query { namespace: None, label_selector: None, owner: None, index: None, whole: false }
}

pub(crate) fn all(key: &Key, lister: &Lister) -> Outcome {
    let owned = |owner| Query { owner: Some(owner), ..query() };
    let uid = || "uid-1".to_owned();
    let labels = [("app".to_owned(), "web".to_owned()), ("tier".to_owned(), String::new())];
    let told = [
        ("now", lister.now()),
        ("get", format!("{:?}", lister.get(&key.kind, &key.object))),
        ("get-missing", format!("{:?}", lister.get(&pod(), &object("a", "missing")))),
        ("list", format!("{:?}", lister.list(&pod(), &query()))),
        ("list-namespace", format!("{:?}", lister.list(&pod(), &Query { namespace: Some("a".into()), ..query() }))),
        ("list-labels", format!("{:?}", lister.list(&pod(), &Query { label_selector: Some("x=y".into()), ..query() }))),
        ("list-controller", format!("{:?}", lister.list(&pod(), &owned(OwnedBy::Controller(uid()))))),
        ("list-orphans", format!("{:?}", lister.list(&pod(), &owned(OwnedBy::ControllerOrOrphan(uid()))))),
        ("list-any-owner", format!("{:?}", lister.list(&pod(), &owned(OwnedBy::Any(uid()))))),
        ("list-index", {
            let index = Some(IndexQuery { index: "node".into(), value: "n1".into() });
            format!("{:?}", lister.list(&pod(), &Query { index, whole: true, ..query() }))
        }),
        ("count", lister.count(&pod(), &query()).to_string()),
        ("selecting", format!("{:?}", lister.selecting(&kind("", "v1", "Service"), "a", &labels))),
        ("dependents", format!("{:?}", lister.dependents("uid-1"))),
        ("by-uid", format!("{:?} {:?}", lister.by_uid("uid-1"), lister.by_uid("uid-2"))),
        ("resources", format!("{:?}", lister.resources())),
        ("config", lister.config()),
        ("state", format!("{:?} {:?}", lister.state("kept"), lister.state("forgotten"))),
        ("attempt", lister.attempt().to_string()),
        ("failures", format!("{:?}", lister.failures())),
    ];
    let state = told.into_iter().map(|(name, value)| StateWrite { name: name.into(), value: Some(value) }).collect();
    Outcome { state, ..outcome() }
}

/// Asks on the first round, tells the answers on the second.
pub(crate) fn needs(lister: &Lister) -> Outcome {
    let needs = [
        Need::LiveObject(LiveObject { kind: pod(), object: object("a", "p"), subresource: None }),
        Need::LiveList(LiveList {
            kind: pod(),
            namespace: "a".into(),
            label_selector: Some("x=y".into()),
            field_selector: None,
            detail: Detail::Metadata,
            limit: 2_147_483_647,
        }),
        Need::RawPath("/healthz".into()),
        Need::Discovery,
    ];
    let answers: Vec<_> = needs.iter().filter_map(|need| lister.answer(need)).collect();
    if answers.is_empty() {
        return Outcome { needs: needs.into(), ..outcome() };
    }
    let observation = Observation {
        metric: "everything_runs_total".into(),
        labels: vec!["answered".into()],
        value: 1.5,
        at: Moment::Now,
    };
    let state = vec![
        StateWrite { name: "answers".into(), value: Some(format!("{answers:?}")) },
        StateWrite { name: "forgotten".into(), value: None },
    ];
    Outcome { requeue_after_ms: Some(0), state, observations: vec![observation], ..outcome() }
}
