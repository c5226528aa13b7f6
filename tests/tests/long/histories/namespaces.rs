//! A namespace that is deleted while it holds things.

use rand::RngExt as _;
use rand::rngs::StdRng;
use serde_json::{Value, json};

use super::plan::{Kind, Step, claim_spec, one, template, value};

pub(super) const KIND: Kind = Kind {
    name: "namespaces",
    compared: &["secrets", "persistentvolumeclaims", "poddisruptionbudgets"],
    n_quiet_looks: SLOW,
    has_metrics: false,
    begin,
    step,
    last: Vec::new,
};

const NAMESPACES: &str = "/api/v1/namespaces";
/// kube-controller-manager looks at a namespace 5 s after its deletion.
const SLOW: usize = 80;

const HOLD: &str = "example.com/hold";

fn begin(random: &mut StdRng) -> Vec<Step> {
    (0..random.random_range(2..6)).map(|_| create(random)).collect()
}

fn create(random: &mut StdRng) -> Step {
    let finalizers = value(random, &[Value::Null, Value::Null, json!([HOLD]), json!([HOLD, "example.com/other"])]);
    let name = one(random, &["a", "b", "c"]);
    let metadata = json!({"name": name, "finalizers": finalizers});
    match random.random_range(0..4) {
        0 => Step::Create("configmaps", json!({"metadata": metadata})),
        1 => Step::Create("secrets", json!({"metadata": metadata})),
        2 => Step::Create("persistentvolumeclaims", json!({"metadata": metadata, "spec": claim_spec()})),
        _ => {
            let mut pod = template(&json!({"app": "web"}), "image:1");
            pod["metadata"] = metadata;
            Step::Create("pods", pod)
        }
    }
}

fn step(random: &mut StdRng) -> Step {
    let plural = one(random, &["configmaps", "secrets", "persistentvolumeclaims", "pods"]);
    let name = one(random, &["a", "b", "c"]).to_owned();
    match random.random_range(0..10) {
        0..=2 => create(random),
        3..=5 => Step::Delete(NAMESPACES, "<namespace>".to_owned(), "Background"),
        6..=8 => Step::Patch(plural, name, json!({"metadata": {"finalizers": null}})),
        _ => Step::Delete(plural, name, "Background"),
    }
}
