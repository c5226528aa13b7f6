//! Deployments and their ReplicaSets.

use rand::RngExt as _;
use rand::rngs::StdRng;
use serde_json::{Value, json};

use super::plan::{Kind, PodStep, QUIET_LOOKS, Step, new_image, one, pod, pod_step, propagation, template, value};

pub(super) const KIND: Kind = Kind {
    name: "Deployments",
    compared: &[],
    n_quiet_looks: QUIET_LOOKS,
    has_metrics: false,
    begin,
    step,
    last: Vec::new,
};

fn begin(random: &mut StdRng) -> Vec<Step> {
    vec![create(random), Step::Run(random.random_range(0..6))]
}

fn create(random: &mut StdRng) -> Step {
    let spec = json!({
        "replicas": random.random_range(0..6), "selector": {"matchLabels": {"app": "web"}},
        "template": template(&json!({"app": "web"}), one(random, &["image:1", "image:2"])),
        "strategy": strategy(random), "paused": random.random_bool(0.1),
        "revisionHistoryLimit": value(random, &[Value::Null, json!(0), json!(1)]),
        "progressDeadlineSeconds": value(random, &[Value::Null, Value::Null, json!(2)]),
    });
    Step::Create("deployments", json!({"metadata": {"name": "web"}, "spec": spec}))
}

fn strategy(random: &mut StdRng) -> Value {
    let sizes = [json!(0), json!(1), json!(2), json!("25%"), json!("50%"), json!("100%")];
    let rolling = json!({"maxSurge": value(random, &sizes), "maxUnavailable": value(random, &sizes)});
    let strategies = [
        json!({"type": "RollingUpdate", "rollingUpdate": rolling}),
        json!({"type": "Recreate", "rollingUpdate": null}),
    ];
    value(random, &strategies)
}

fn step(random: &mut StdRng) -> Step {
    let on_it = |spec: Value| Step::Patch("deployments", "web".to_owned(), json!({"spec": spec}));
    let n = random.random_range(0..6);
    match random.random_range(0..20) {
        0..=5 => Step::Run(random.random_range(1..6)),
        6..=8 => on_it(json!({"replicas": random.random_range(0..8)})),
        9..=12 => on_it(new_image(random)),
        13 | 14 => Step::Pod(n, pod_step(random)),
        15 => Step::Pod(n, PodStep::Delete),
        16 => on_it(json!({"strategy": strategy(random)})),
        17 => on_it(json!({"paused": random.random_bool(0.4)})),
        18 => {
            // A Pod of the user that the ReplicaSets may adopt.
            Step::Create("pods", pod("mine", "web"))
        }
        _ => match random.random_bool(0.6) {
            true => Step::Delete("deployments", "web".to_owned(), propagation(random)),
            false => create(random),
        },
    }
}
