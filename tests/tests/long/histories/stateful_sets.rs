//! StatefulSets with claims that nothing binds.

use rand::RngExt as _;
use rand::rngs::StdRng;
use serde_json::{Value, json};

use super::plan::{
    Kind, PodStep, QUIET_LOOKS, Step, claim_spec, new_image, one, pod, pod_step, propagation, template, value,
};

pub(super) const KIND: Kind = Kind {
    name: "StatefulSets",
    compared: &["statefulsets", "controllerrevisions", "persistentvolumeclaims"],
    n_quiet_looks: QUIET_LOOKS,
    has_metrics: false,
    begin,
    step,
    last: Vec::new,
};

fn begin(random: &mut StdRng) -> Vec<Step> {
    vec![create(random), Step::Run(random.random_range(0..4))]
}

fn create(random: &mut StdRng) -> Step {
    let mut spec = json!({
        "replicas": random.random_range(0..5), "serviceName": "web", "selector": {"matchLabels": {"app": "web"}},
        "template": template(&json!({"app": "web"}), one(random, &["image:1", "image:2"])),
        "podManagementPolicy": one(random, &["OrderedReady", "Parallel"]),
        "revisionHistoryLimit": value(random, &[Value::Null, json!(0), json!(1)]),
        "ordinals": value(random, &[Value::Null, Value::Null, json!({"start": 2})]),
        "updateStrategy": strategy(random),
    });
    if random.random_bool(0.6) {
        spec["volumeClaimTemplates"] = json!([{"metadata": {"name": "data"}, "spec": claim_spec()}]);
        let policies = ["Retain", "Delete"];
        spec["persistentVolumeClaimRetentionPolicy"] =
            json!({"whenDeleted": one(random, &policies), "whenScaled": one(random, &policies)});
    }
    Step::Create("statefulsets", json!({"metadata": {"name": "web"}, "spec": spec}))
}

fn strategy(random: &mut StdRng) -> Value {
    let partition = json!({"type": "RollingUpdate", "rollingUpdate": {"partition": random.random_range(0..4)}});
    value(
        random,
        &[json!({"type": "RollingUpdate"}), json!({"type": "RollingUpdate"}), partition, json!({"type": "OnDelete"})],
    )
}

fn step(random: &mut StdRng) -> Step {
    let on_it = |spec: Value| Step::Patch("statefulsets", "web".to_owned(), json!({"spec": spec}));
    let n = random.random_range(0..6);
    match random.random_range(0..20) {
        0..=6 => Step::Run(random.random_range(1..6)),
        7..=9 => on_it(json!({"replicas": random.random_range(0..6)})),
        10 | 11 => on_it(new_image(random)),
        12..=14 => Step::Pod(n, pod_step(random)),
        15 => Step::Pod(n, PodStep::Delete),
        16 => on_it(json!({"updateStrategy": strategy(random)})),
        17 => Step::Delete("persistentvolumeclaims", format!("data-web-{n}"), "Background"),
        18 => {
            // A Pod of the user, whose name the set may want.
            Step::Create("pods", pod(&format!("web-{n}"), one(random, &["web", "other"])))
        }
        _ => match random.random_bool(0.6) {
            true => Step::Delete("statefulsets", "web".to_owned(), propagation(random)),
            false => create(random),
        },
    }
}
