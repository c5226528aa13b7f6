//! Woken keys, further live reads, reviews and samples tied to writes, tested with a guest that uses all of them.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use std::sync::Arc;

use expect_test::{Expect, expect};
use pintle_core::contract::outcome::{Need, NeedError, Wake};
use pintle_core::object::id::Kind;
use pintle_core::ports::api::ApiResource;

use crate::support::{RUNTIME, TestView, loaded, outcome, pod, run, run_with};

fn check(actual: &impl std::fmt::Debug, expect: Expect) {
    expect.assert_eq(&format!("{actual:?}"));
}

fn shown(wakes: &[Wake]) -> Vec<String> {
    wakes.iter().map(|Wake { key, after }| format!("{} {key} {after:?}", key.queue)).collect()
}

#[test]
fn the_clock_that_nobody_sets_arrives() {
    check(&outcome(run(&*loaded("newest"), "uptime")).state, expect![[r#"[("uptime", Some("1.5"))]"#]]);
}

#[test]
fn needs_arrive_and_their_answers_too() {
    let guest = loaded("newest");
    let first = outcome(run(&*guest, "needs"));
    let lines: Vec<String> = first.needs.iter().map(|need| format!("{need:?}\n")).collect();
    expect![[r#"
        LiveObject { kind: apps/v1/Deployment, object: ObjectKey { namespace: "a", name: "web" }, subresource: Some("scale") }
        LiveList { kind: v1/Pod, namespace: "a", label_selector: None, field_selector: Some("spec.nodeName=n1"), detail: Metadata, limit: 5 }
        LiveList { kind: v1/Pod, namespace: "a", label_selector: None, field_selector: Some("spec.nodeName=n1"), detail: Projection, limit: 5 }
        LiveList { kind: v1/Pod, namespace: "a", label_selector: None, field_selector: Some("spec.nodeName=n1"), detail: Whole, limit: 5 }
        Review { kind: authorization.k8s.io/v1/SubjectAccessReview, namespace: "", object: "{\"spec\":{\"user\":\"ann\",\"resourceAttributes\":{\"verb\":\"get\",\"resource\":\"pods\"}}}" }
    "#]].assert_eq(&lines.concat());
    let refusal = NeedError { code: 403, reason: "Forbidden".into(), message: "no".into() };
    let answers = first.needs.into_iter().map(|need| match need {
        Need::Review { .. } => (need, Ok("verdict".into())),
        Need::LiveObject { .. } => (need, Ok("scale".into())),
        need => (need, Err(refusal.clone())),
    });
    let view = TestView { answers: answers.collect(), ..TestView::default() };
    check(
        &outcome(run_with(&*guest, "needs", view)).state,
        expect![[
            r#"[("answers", Some("[Ok(\"scale\"), Err(ApiError { code: 403, reason: \"Forbidden\", message: \"no\" }), Err(ApiError { code: 403, reason: \"Forbidden\", message: \"no\" }), Err(ApiError { code: 403, reason: \"Forbidden\", message: \"no\" }), Ok(\"verdict\")]"))]"#
        ]],
    );
}

#[test]
fn keys_to_wake_arrive_and_those_that_nothing_can_have_are_left_out() {
    check(
        &shown(&outcome(run(&*loaded("newest"), "wakes")).wake),
        expect![[r#"["nodes v1/Node n1 None", "widgets example.com/v1/Widget a/w1 Some(1.5s)"]"#]],
    );
}

#[test]
fn a_run_wakes_as_many_keys_as_it_may() {
    let guest = loaded("newest");
    assert_eq!(outcome(run(&*guest, "most")).wake.len(), 10_000);
    let fault = |name| run(&*guest, name).result.unwrap_err().to_string();
    check(&fault("crowd"), expect![[r#""output: the outcome has 10001 keys to wake, more than 10000""#]]);
    check(
        &fault("other-queue"),
        expect![[r#""output: queue \"others\" is not declared; declared are widgets, nodes""#]],
    );
}

#[test]
fn samples_say_when_they_count_and_runs_have_labels() {
    let guest = loaded("newest");
    let lines: Vec<String> =
        outcome(run(&*guest, "moments")).observations.iter().map(|sample| format!("{sample:?}\n")).collect();
    expect![[r#"
        Observation { metric: "newest_deletes_total", labels: ["wanted"], value: 1.0, at: Now }
        Observation { metric: "newest_deletes_total", labels: ["deleted"], value: 1.0, at: Done(Place { step: 0, position: 0 }) }
        Observation { metric: "newest_deletes_total", labels: ["not deleted"], value: 1.0, at: Failed(Place { step: 0, position: 0 }) }
        Observation { metric: "newest_deletes_total", labels: ["deleted"], value: 1.0, at: Done(Place { step: 0, position: 1 }) }
        Observation { metric: "newest_deletes_total", labels: ["not deleted"], value: 1.0, at: Failed(Place { step: 0, position: 1 }) }
    "#]].assert_eq(&lines.concat());
    check(&outcome(run(&*guest, "labels")).run_labels, expect![[r#"[("action", "tried")]"#]]);
}

#[test]
fn a_run_fails_and_writes() {
    let guest = loaded("newest");
    let error = |name| outcome(run(&*guest, name)).error;
    check(&error("labels"), expect!["None"]);
    check(&error("error"), expect![[r#"Some(Retry { message: "out of order", after: None })"#]]);
    check(&error("late-error"), expect![[r#"Some(Retry { message: "out of order", after: Some(5s) })"#]]);
    check(&error("terminal"), expect![[r#"Some(Terminal("out of order"))"#]]);
    let fault = run(&*guest, "never").result.unwrap_err().to_string();
    check(&fault, expect![[r#""output: error: after-ms is 4294967295, more than 2147483647""#]]);
}

#[test]
fn resources_of_one_kind_arrive() {
    let resource = |group: &str, version: &str, name: &str| ApiResource {
        kind: Kind::new(group, version, name),
        plural: name.to_lowercase(),
        namespaced: true,
        verbs: vec!["list".into()],
        subresources: Vec::new(),
        preferred: false,
    };
    let resources = vec![
        resource("apps", "v1", "Deployment"),
        resource("apps", "v1", "DaemonSet"),
        resource("extensions", "v1beta1", "Deployment"),
        resource("apps", "v1beta1", "Deployment"),
    ];
    let view = TestView { resources, ..TestView::default() };
    let kept = outcome(run_with(&*loaded("newest"), "kinds", view)).state;
    let kept = kept[0].1.as_deref().unwrap().replace("ApiResource", "\nApiResource");
    expect![[r#"
        [
        ApiResource { kind: Kind { group: "apps", version: "v1", name: "Deployment" }, plural: "deployment", namespaced: true, verbs: ["list"], subresources: [], preferred: false }, 
        ApiResource { kind: Kind { group: "apps", version: "v1beta1", name: "Deployment" }, plural: "deployment", namespaced: true, verbs: ["list"], subresources: [], preferred: false }]"#]]
    .assert_eq(&kept);
}

#[test]
fn a_mapping_delays_keys() {
    let view = Arc::new(TestView::default());
    let kind = pod();
    let keys = RUNTIME.block_on(loaded("newest").keys_of(&kind, None, Some("new"), view)).unwrap();
    check(&shown(&keys.into_inner()), expect![[r#"["nodes v1/Pod at-once None", "nodes v1/Pod later Some(3ms)"]"#]]);
}
