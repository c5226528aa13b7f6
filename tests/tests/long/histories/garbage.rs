//! Graphs of owners and dependents.

use rand::RngExt as _;
use rand::rngs::StdRng;
use serde_json::{Value, json};

use super::plan::{Kind, QUIET_LOOKS, Step, one, propagation, value};

pub(super) const KIND: Kind = Kind {
    name: "graphs of owners",
    compared: &["secrets"],
    n_quiet_looks: QUIET_LOOKS,
    has_metrics: false,
    begin,
    step,
    last: Vec::new,
};

const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
const KINDS: [&str; 2] = ["configmaps", "secrets"];

fn begin(random: &mut StdRng) -> Vec<Step> {
    (0..random.random_range(2..5)).map(|_| create(random)).collect()
}

fn create(random: &mut StdRng) -> Step {
    let plural = one(random, &KINDS);
    let owners: Vec<Value> = (0..random.random_range(0..3)).map(|_| owner(random)).collect();
    let finalizers = value(random, &[Value::Null, Value::Null, Value::Null, json!(["example.com/hold"])]);
    Step::Create(
        plural,
        json!({"metadata": {"name": one(random, &NAMES), "ownerReferences": owners, "finalizers": finalizers}}),
    )
}

fn owner(random: &mut StdRng) -> Value {
    let (plural, name) = (one(random, &KINDS), one(random, &NAMES));
    let kind = if plural == "configmaps" { "ConfigMap" } else { "Secret" };
    json!({
        "apiVersion": "v1", "kind": kind, "name": name, "uid": format!("uid:{plural}/{name}"),
        "blockOwnerDeletion": value(random, &[Value::Null, json!(true), json!(true), json!(false)]),
    })
}

fn step(random: &mut StdRng) -> Step {
    let (plural, name) = (one(random, &KINDS), one(random, &NAMES).to_owned());
    match random.random_range(0..10) {
        0..=3 => create(random),
        4..=6 => Step::Delete(plural, name, propagation(random)),
        7 => {
            let owners: Vec<Value> = (0..random.random_range(0..3)).map(|_| owner(random)).collect();
            Step::Patch(plural, name, json!({"metadata": {"ownerReferences": owners}}))
        }
        8 => Step::Patch(plural, name, json!({"metadata": {"finalizers": null}})),
        _ => Step::Patch(plural, name, json!({"metadata": {"finalizers": ["example.com/hold"]}})),
    }
}
