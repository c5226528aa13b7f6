//! PodDisruptionBudgets of Pods that nobody or a ReplicaSet controls.

use rand::RngExt as _;
use rand::rngs::StdRng;
use serde_json::{Value, json};

use super::plan::{Kind, PodStep, QUIET_LOOKS, Step, one, pod, pod_step, template, value};

pub(super) const KIND: Kind = Kind {
    name: "budgets",
    compared: &["poddisruptionbudgets"],
    n_quiet_looks: QUIET_LOOKS,
    has_metrics: false,
    begin,
    step,
    last,
};

const BUDGETS: &str = "poddisruptionbudgets";

fn begin(random: &mut StdRng) -> Vec<Step> {
    let set = json!({
        "replicas": random.random_range(0..5), "selector": {"matchLabels": {"app": "web"}},
        "template": template(&json!({"app": "web"}), "image:1"),
    });
    vec![
        Step::Create("replicasets", json!({"metadata": {"name": "web"}, "spec": set})),
        Step::Run(random.random_range(0..5)),
        create(random, "one"),
    ]
}

fn create(random: &mut StdRng, name: &str) -> Step {
    let selectors = [
        Value::Null,
        json!({}),
        json!({"matchLabels": {"app": "web"}}),
        json!({"matchLabels": {"app": "web"}}),
        json!({"matchExpressions": [{"key": "app", "operator": "In", "values": ["web", "other"]}]}),
    ];
    let mut spec = json!({
        "selector": value(random, &selectors),
        "unhealthyPodEvictionPolicy": value(random, &[Value::Null, json!("AlwaysAllow"), json!("IfHealthyBudget")]),
    });
    limit(random, &mut spec);
    Step::Create(BUDGETS, json!({"metadata": {"name": name}, "spec": spec}))
}

fn limit(random: &mut StdRng, spec: &mut Value) {
    let size = value(random, &[json!(0), json!(1), json!(3), json!(100), json!("0%"), json!("34%"), json!("100%")]);
    let (field, other) =
        if random.random_bool(0.5) { ("minAvailable", "maxUnavailable") } else { ("maxUnavailable", "minAvailable") };
    spec[field] = size;
    spec[other] = Value::Null;
}

fn step(random: &mut StdRng) -> Step {
    let n = random.random_range(0..6);
    let name = one(random, &["one", "one", "two"]);
    match random.random_range(0..18) {
        0..=3 => Step::Run(random.random_range(1..5)),
        4..=7 => Step::Pod(n, PodStep::Evict),
        8..=10 => Step::Pod(n, pod_step(random)),
        11 | 12 => {
            Step::Patch("replicasets", "web".to_owned(), json!({"spec": {"replicas": random.random_range(0..6)}}))
        }
        13 | 14 => {
            let mut spec = json!({});
            limit(random, &mut spec);
            Step::Patch(BUDGETS, name.to_owned(), json!({"spec": spec}))
        }
        15 => Step::Create("pods", pod(&format!("mine-{n}"), one(random, &["web", "other"]))),
        16 => create(random, name),
        _ => Step::Delete(BUDGETS, name.to_owned(), "Background"),
    }
}

/// Changes both budgets: kube-controller-manager runs only one of those that select a Pod, and none that selected it before.
fn last() -> Vec<Step> {
    let patch = json!({"metadata": {"annotations": {"example.com/last": "true"}}});
    ["one", "two"].map(|name| Step::Patch(BUDGETS, name.to_owned(), patch.clone())).into()
}
