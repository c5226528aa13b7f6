//! Jobs, with Pods of which the user writes how they end.

use rand::RngExt as _;
use rand::rngs::StdRng;
use serde_json::{Value, json};

use super::plan::{Kind, PodStep, Step, ended, one, propagation, running, value};

pub(super) const KIND: Kind = Kind {
    name: "jobs",
    compared: &["jobs"],
    n_quiet_looks: QUIET_LOOKS_OF_JOBS,
    has_metrics: false,
    begin,
    step,
    last: Vec::new,
};

/// Two seconds: kube-controller-manager collects the changes of Pods for one.
const QUIET_LOOKS_OF_JOBS: usize = 20;

fn begin(random: &mut StdRng) -> Vec<Step> {
    vec![create(random)]
}

fn create(random: &mut StdRng) -> Step {
    let is_indexed = random.random_bool(0.5);
    let restart_policy = if random.random_bool(0.8) { "Never" } else { "OnFailure" };
    let numbers = [Value::Null, json!(0), json!(1), json!(2), json!(3), json!(5)];
    let mut spec = json!({
        "parallelism": value(random, &numbers), "completions": value(random, &numbers),
        "backoffLimit": value(random, &[Value::Null, json!(0), json!(1), json!(3)]),
        "suspend": value(random, &[Value::Null, json!(false), json!(true)]),
        "podReplacementPolicy": value(random, &[Value::Null, Value::Null, json!("Failed"), json!("TerminatingOrFailed")]),
        "template": {"spec": {
            "restartPolicy": restart_policy, "terminationGracePeriodSeconds": 0, "schedulerName": "nobody",
            "containers": [{"name": "c", "image": "image:1"}],
        }},
    });
    if is_indexed {
        spec["completionMode"] = json!("Indexed");
        if random.random_bool(0.3) {
            spec["backoffLimitPerIndex"] = value(random, &[json!(0), json!(1)]);
            spec["maxFailedIndexes"] = value(random, &[Value::Null, json!(0), json!(1), json!(2)]);
        }
        // kube-apiserver 1.37.2 panics on a success policy without completions, which it would refuse.
        if random.random_bool(0.3) && !spec["completions"].is_null() {
            let rules = [
                json!({"succeededIndexes": "0-1"}),
                json!({"succeededCount": 1}),
                json!({"succeededIndexes": "0,2", "succeededCount": 1}),
            ];
            spec["successPolicy"] = json!({"rules": [value(random, &rules)]});
        }
    }
    if restart_policy == "Never" && random.random_bool(0.3) {
        let mut actions = vec!["Ignore", "Count", "FailJob"];
        if spec.get("backoffLimitPerIndex").is_some() {
            actions.push("FailIndex");
        }
        let codes = json!({"operator": one(random, &["In", "NotIn"]), "values": [42]});
        let disruption = json!([{"type": "DisruptionTarget", "status": "True"}]);
        let rules = [
            json!({"action": one(random, &actions), "onExitCodes": codes}),
            json!({"action": one(random, &actions), "onPodConditions": disruption}),
        ];
        spec["podFailurePolicy"] = json!({"rules": [value(random, &rules)]});
        spec["podReplacementPolicy"] = Value::Null;
    }
    Step::Create("jobs", json!({"metadata": {"name": "j"}, "spec": spec}))
}

fn step(random: &mut StdRng) -> Step {
    let on_job = |patch: Value| Step::Patch("jobs", "j".to_owned(), patch);
    let n = random.random_range(0..8);
    match random.random_range(0..20) {
        0..=7 => {
            let code = one(random, &[0, 0, 0, 1, 42, 137]);
            Step::Pod(n, PodStep::Status(ended(code)))
        }
        8 => Step::Pod(n, PodStep::Status(running(random.random_bool(0.7)))),
        9 => Step::Pod(n, PodStep::Delete),
        10 => {
            let mut status = ended(1);
            let condition = json!({
                "type": "DisruptionTarget", "status": "True", "reason": "Test", "lastTransitionTime": "2026-01-01T00:00:00Z",
            });
            status["conditions"] = json!([condition]);
            Step::Pod(n, PodStep::Status(status))
        }
        11 => {
            let label = value(random, &[Value::Null, json!("other")]);
            Step::Pod(n, PodStep::Patch(json!({"metadata": {"labels": {"batch.kubernetes.io/controller-uid": label}}})))
        }
        12 => Step::Pod(n, PodStep::Patch(json!({"metadata": {"finalizers": null}}))),
        13 | 14 => on_job(json!({"spec": {"suspend": random.random_bool(0.5)}})),
        15 | 16 => on_job(json!({"spec": {"parallelism": random.random_range(0..5)}})),
        17 => {
            let size = random.random_range(0..5);
            on_job(json!({"spec": {"parallelism": size, "completions": size}}))
        }
        18 => on_job(json!({"spec": {"activeDeadlineSeconds": 1}})),
        _ => match random.random_bool(0.6) {
            true => Step::Delete("jobs", "j".to_owned(), propagation(random)),
            false => create(random),
        },
    }
}
