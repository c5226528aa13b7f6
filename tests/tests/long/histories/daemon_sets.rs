//! DaemonSets on Nodes of their own.

use rand::RngExt as _;
use rand::rngs::StdRng;
use serde_json::{Value, json};

use super::plan::{Kind, PodStep, QUIET_LOOKS, Step, new_image, one, pod_step, propagation, template, value};

pub(super) const KIND: Kind = Kind {
    name: "DaemonSets",
    compared: &["daemonsets", "controllerrevisions"],
    n_quiet_looks: QUIET_LOOKS,
    has_metrics: false,
    begin,
    step,
    last: Vec::new,
};

const NODES: &str = "/api/v1/nodes";

/// Which history a Node belongs to.
const LABEL: &str = "example.com/history";

fn node(name: &str) -> Step {
    let metadata = json!({"name": format!("<namespace>-{name}"), "labels": {LABEL: "<namespace>"}});
    Step::Create(NODES, json!({"metadata": metadata}))
}

fn taint(name: &str, taints: &Value) -> Step {
    Step::Patch(NODES, format!("<namespace>-{name}"), json!({"spec": {"taints": taints}}))
}

fn begin(random: &mut StdRng) -> Vec<Step> {
    // The API server taints new Nodes as not ready.
    let nodes = ["a", "b", "c"].into_iter().flat_map(|name| [node(name), taint(name, &json!([]))]);
    nodes.chain([create(random), Step::Run(random.random_range(0..4))]).collect()
}

fn create(random: &mut StdRng) -> Step {
    let mut pods = template(&json!({"app": "web"}), one(random, &["image:1", "image:2"]));
    pods["spec"]["nodeSelector"] = json!({LABEL: "<namespace>"});
    pods["spec"]["tolerations"] = value(random, &[Value::Null, json!([{"key": "full", "operator": "Exists"}])]);
    let spec = json!({
        "selector": {"matchLabels": {"app": "web"}}, "template": pods, "updateStrategy": strategy(random),
        "revisionHistoryLimit": value(random, &[Value::Null, json!(0), json!(1)]),
    });
    Step::Create("daemonsets", json!({"metadata": {"name": "web"}, "spec": spec}))
}

fn strategy(random: &mut StdRng) -> Value {
    let rolling = |surge: Value, unavailable: Value| json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}});
    let strategies = [
        json!({"type": "OnDelete", "rollingUpdate": null}),
        // With fewer than all at once, which of several equal Nodes comes first is up to the controller.
        rolling(json!(0), json!("100%")),
        rolling(json!("100%"), json!(0)),
    ];
    value(random, &strategies)
}

fn step(random: &mut StdRng) -> Step {
    let on_it = |spec: Value| Step::Patch("daemonsets", "web".to_owned(), json!({"spec": spec}));
    let name = one(random, &["a", "b", "c", "d"]);
    let n = random.random_range(0..4);
    match random.random_range(0..20) {
        0..=6 => Step::Run(random.random_range(1..5)),
        7 | 8 => on_it(new_image(random)),
        9..=11 => Step::Pod(n, pod_step(random)),
        12 => Step::Pod(n, PodStep::Delete),
        13 => on_it(json!({"updateStrategy": strategy(random)})),
        14 | 15 => {
            let effect = one(random, &["NoSchedule", "NoExecute", "PreferNoSchedule"]);
            let key =
                one(random, &["full", "other", "node.kubernetes.io/unschedulable", "node.kubernetes.io/not-ready"]);
            let taints = [json!([]), json!([{"key": key, "effect": effect}])];
            taint(name, &value(random, &taints))
        }
        16 => {
            let label = value(random, &[json!("<namespace>"), json!("none")]);
            Step::Patch(NODES, format!("<namespace>-{name}"), json!({"metadata": {"labels": {LABEL: label}}}))
        }
        17 => match random.random_bool(0.5) {
            true => node(name),
            false => Step::Delete(NODES, format!("<namespace>-{name}"), "Background"),
        },
        18 => Step::Patch(
            NODES,
            format!("<namespace>-{name}"),
            json!({"spec": {"unschedulable": random.random_bool(0.5)}}),
        ),
        _ => match random.random_bool(0.6) {
            true => Step::Delete("daemonsets", "web".to_owned(), propagation(random)),
            false => create(random),
        },
    }
}
