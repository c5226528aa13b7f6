//! The contract, tested with a guest that uses its items. `newest` has further ones.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use std::sync::Arc;
use std::time::Duration;

use expect_test::{Expect, expect};
use pintle_core::contract::outcome::{MutationFailure, Need, NeedError, ReconcileError, Step, Wake};
use pintle_core::object::id::{Kind, ObjectKey};
use pintle_core::ports::api::ApiResource;

use crate::support::{RUNTIME, TestView, loaded, outcome, pod, run, run_with};

fn check(actual: &impl std::fmt::Debug, expect: Expect) {
    expect.assert_debug_eq(actual);
}

#[test]
fn every_read_arrives_at_the_view_and_its_answer_at_the_guest() {
    let view = TestView {
        objects: vec!["p1".into(), "p2".into()],
        resources: vec![ApiResource {
            kind: Kind::new("apps", "v1", "Deployment"),
            plural: "deployments".into(),
            namespaced: true,
            verbs: vec!["get".into(), "list".into()],
            subresources: vec!["status".into()],
            preferred: true,
        }],
        failures: vec![MutationFailure {
            step: 1,
            position: u32::MAX,
            verb: "create",
            kind: pod(),
            object: ObjectKey::new("a", ""),
            subresource: Some("eviction".into()),
            code: 403,
            reason: "Forbidden".into(),
            message: "exceeded quota".into(),
            causes: vec!["NamespaceTerminating".into()],
        }],
        attempt: u32::MAX,
        count: Some(usize::MAX),
        ..TestView::default()
    };
    let asked = view.asked.clone();
    let run = run_with(&*loaded("everything"), "reads", view);
    check(
        &(run.usage.host_calls, run.usage.bytes_read > 100, run.usage.memory_bytes > 0),
        expect![[r#"
        (
            21,
            true,
            true,
        )
    "#]],
    );
    let told: Vec<String> =
        outcome(run).state.into_iter().map(|(name, value)| format!("{name}: {}", value.unwrap())).collect();
    check(
        &told,
        expect![[r#"
        [
            "now: 2026-01-02T03:04:05.000006Z",
            "get: Some(\"{\\\"name\\\":\\\"reads\\\"}\")",
            "get-missing: None",
            "list: [\"p1\", \"p2\"]",
            "list-namespace: [\"p1\", \"p2\"]",
            "list-labels: [\"p1\", \"p2\"]",
            "list-controller: [\"p1\", \"p2\"]",
            "list-orphans: [\"p1\", \"p2\"]",
            "list-any-owner: [\"p1\", \"p2\"]",
            "list-index: [\"p1\", \"p2\"]",
            "count: 2147483647",
            "selecting: [\"selecting\"]",
            "dependents: [\"dependent\"]",
            "by-uid: Some(\"one\") None",
            "resources: [ApiResource { kind: Kind { group: \"apps\", version: \"v1\", name: \"Deployment\" }, plural: \"deployments\", namespaced: true, verbs: [\"get\", \"list\"], subresources: [\"status\"], preferred: true }]",
            "config: {\"a\":1}",
            "state: Some(\"value\") None",
            "attempt: 2147483647",
            "failures: [MutationFailure { step: 1, position: 2147483647, verb: \"create\", kind: Kind { group: \"\", version: \"v1\", name: \"Pod\" }, object: ObjectKey { namespace: \"a\", name: \"\" }, subresource: Some(\"eviction\"), code: 403, reason: \"Forbidden\", message: \"exceeded quota\", causes: [\"NamespaceTerminating\"] }]",
        ]
    "#]],
    );
    check(
        &asked.lock().unwrap(),
        expect![[r#"
        [
            "get example.com/v1/Widget a/reads",
            "get v1/Pod a/missing",
            "list v1/Pod ",
            "list v1/Pod namespace=a",
            "list v1/Pod labels=x=y",
            "list v1/Pod controller=uid-1",
            "list v1/Pod controller-or-orphan=uid-1",
            "list v1/Pod any=uid-1",
            "list v1/Pod node=n1 whole",
            "count v1/Pod ",
            "selecting v1/Service a [(\"app\", \"web\"), (\"tier\", \"\")]",
            "dependents uid-1",
            "by-uid uid-1",
            "by-uid uid-2",
            "resources",
            "state kept",
            "state forgotten",
        ]
    "#]],
    );
}

#[test]
fn every_mutation_reaches_the_host_as_the_guest_made_it() {
    let mut shown = String::new();
    for Step { order, mutations, always } in outcome(run(&*loaded("everything"), "writes")).steps {
        shown += &format!("{order:?}, always: {always}\n");
        for mutation in mutations {
            shown += &format!("    {mutation:?}\n");
        }
    }
    expect![[r#"
        SlowStart, always: false
            Mutation { action: Create { kind: v1/Pod, namespace: "a", object: "{\"metadata\":{\"generateName\":\"p-\"}}", subresource: None }, on_success: Some(Event { regarding_kind: v1/Pod, regarding: ObjectKey { namespace: "a", name: "p" }, regarding_uid: "uid-1", warning: false, reason: "Tried", message: "made {name}" }), on_failure: Some(Event { regarding_kind: v1/Pod, regarding: ObjectKey { namespace: "a", name: "p" }, regarding_uid: "uid-1", warning: true, reason: "Tried", message: "{name}: {error}" }), tolerate: [NotFound, AlreadyExists, Conflict, Invalid, Forbidden, NamespaceTerminating] }
        Parallel, always: false
            Mutation { action: Create { kind: v1/Pod, namespace: "a", object: "{\"metadata\":{\"name\":\"p\"}}", subresource: Some("eviction") }, on_success: None, on_failure: None, tolerate: [] }
            Mutation { action: Update { kind: v1/Pod, object: "{}", subresource: Some("status") }, on_success: None, on_failure: None, tolerate: [] }
        Sequential, always: true
            Mutation { action: Patch { kind: v1/Pod, object: ObjectKey { namespace: "a", name: "p" }, subresource: Some("status"), patch_type: Json, body: "{}", preconditions: Preconditions { uid: Some("uid-1"), resource_version: Some("7") } }, on_success: None, on_failure: None, tolerate: [] }
            Mutation { action: Patch { kind: v1/Pod, object: ObjectKey { namespace: "a", name: "p" }, subresource: Some("status"), patch_type: Merge, body: "{}", preconditions: Preconditions { uid: Some("uid-1"), resource_version: Some("7") } }, on_success: None, on_failure: None, tolerate: [] }
            Mutation { action: Patch { kind: v1/Pod, object: ObjectKey { namespace: "a", name: "p" }, subresource: Some("status"), patch_type: StrategicMerge, body: "{}", preconditions: Preconditions { uid: Some("uid-1"), resource_version: Some("7") } }, on_success: None, on_failure: None, tolerate: [] }
            Mutation { action: Patch { kind: v1/Pod, object: ObjectKey { namespace: "a", name: "p" }, subresource: Some("status"), patch_type: Apply { field_manager: "everything", force: true }, body: "{}", preconditions: Preconditions { uid: Some("uid-1"), resource_version: Some("7") } }, on_success: None, on_failure: None, tolerate: [] }
            Mutation { action: Delete { kind: v1/Pod, object: ObjectKey { namespace: "a", name: "p" }, preconditions: Preconditions { uid: None, resource_version: None }, propagation: None, grace_period_seconds: Some(0) }, on_success: None, on_failure: None, tolerate: [] }
            Mutation { action: Delete { kind: v1/Pod, object: ObjectKey { namespace: "a", name: "p" }, preconditions: Preconditions { uid: None, resource_version: None }, propagation: Some(Background), grace_period_seconds: Some(0) }, on_success: None, on_failure: None, tolerate: [] }
            Mutation { action: Delete { kind: v1/Pod, object: ObjectKey { namespace: "a", name: "p" }, preconditions: Preconditions { uid: None, resource_version: None }, propagation: Some(Foreground), grace_period_seconds: Some(0) }, on_success: None, on_failure: None, tolerate: [] }
            Mutation { action: Delete { kind: v1/Pod, object: ObjectKey { namespace: "a", name: "p" }, preconditions: Preconditions { uid: None, resource_version: None }, propagation: Some(Orphan), grace_period_seconds: Some(0) }, on_success: None, on_failure: None, tolerate: [] }
            Mutation { action: DeleteCollection { kind: v1/Pod, namespace: "a", label_selector: Some("x=y"), propagation: Some(Background) }, on_success: None, on_failure: None, tolerate: [] }
            Mutation { action: Event(Event { regarding_kind: v1/Pod, regarding: ObjectKey { namespace: "a", name: "p" }, regarding_uid: "uid-1", warning: false, reason: "Tried", message: "done" }), on_success: None, on_failure: None, tolerate: [] }
    "#]].assert_eq(&shown);
}

#[test]
fn needs_are_asked_first_and_answered_in_the_next_round() {
    let guest = loaded("everything");
    let first = outcome(run(&*guest, "needs"));
    check(
        &first.needs,
        expect![[r#"
            [
                LiveObject {
                    kind: v1/Pod,
                    object: ObjectKey {
                        namespace: "a",
                        name: "p",
                    },
                    subresource: None,
                },
                LiveList {
                    kind: v1/Pod,
                    namespace: "a",
                    label_selector: Some(
                        "x=y",
                    ),
                    field_selector: None,
                    detail: Metadata,
                    limit: 2147483647,
                },
                RawPath(
                    "/healthz",
                ),
                Discovery,
            ]
        "#]],
    );
    assert!(first.state.is_empty() && first.observations.is_empty() && first.requeue_after.is_none());

    let refusal = NeedError { code: 404, reason: "NotFound".into(), message: "no such pod".into() };
    let answers = first.needs.into_iter().map(|need| match need {
        Need::RawPath(_) => (need, Ok("ok".into())),
        Need::Discovery => (need, Ok("[]".into())),
        need => (need, Err(refusal.clone())),
    });
    let second = outcome(run_with(&*guest, "needs", TestView { answers: answers.collect(), ..TestView::default() }));
    assert!(second.needs.is_empty());
    assert_eq!(second.requeue_after, Some(Duration::ZERO));
    check(
        &(second.state, second.observations),
        expect![[r#"
            (
                [
                    (
                        "answers",
                        Some(
                            "[Err(ApiError { code: 404, reason: \"NotFound\", message: \"no such pod\" }), Err(ApiError { code: 404, reason: \"NotFound\", message: \"no such pod\" }), Ok(\"ok\"), Ok(\"[]\")]",
                        ),
                    ),
                    (
                        "forgotten",
                        None,
                    ),
                ],
                [
                    Observation {
                        metric: "everything_runs_total",
                        labels: [
                            "answered",
                        ],
                        value: 1.5,
                        at: Now,
                    },
                ],
            )
        "#]],
    );
}

#[test]
fn declared_errors_are_not_faults() {
    let guest = loaded("everything");
    let error = |name| run(&*guest, name).result.unwrap().unwrap_err();
    let retry = |after| ReconcileError::Retry { message: "not yet".into(), after };
    assert_eq!(error("retry"), retry(Some(Duration::from_millis(1500))));
    assert_eq!(error("retry-some-time"), retry(None));
    assert_eq!(error("terminal"), ReconcileError::Terminal("never".into()));
}

#[test]
fn a_mapping_answers_with_keys() {
    let guest = loaded("everything");
    assert!(guest.maps());
    let view = Arc::new(TestView { count: Some(3), ..TestView::default() });
    let kind = pod();
    let keys = RUNTIME.block_on(guest.keys_of(&kind, None, Some("new"), view)).unwrap();
    let keys = keys.into_inner();
    let keys: Vec<String> = keys.iter().map(|Wake { key, after }| format!("{} {key} {after:?}", key.queue)).collect();
    assert_eq!(keys, ["widgets v1/Pod None-Some(3) None", "nodes v1/Pod 3 None"]);
}

#[test]
fn a_component_without_mapping_says_so() {
    let guest = loaded("faulty");
    assert!(!guest.maps());
    let kind = pod();
    let fault = RUNTIME.block_on(guest.keys_of(&kind, None, None, Arc::new(TestView::default()))).unwrap_err();
    assert_eq!(fault.to_string(), "output: the component does not export the mapping");
}

#[test]
fn an_empty_outcome_is_empty() {
    let run = run(&*loaded("everything"), "nothing");
    assert_eq!(run.usage.host_calls, 0);
    assert_eq!(outcome(run), pintle_core::contract::outcome::Outcome::default());
}
