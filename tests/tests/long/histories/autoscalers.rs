//! HorizontalPodAutoscalers of each kind of target, with metrics of each kind that come, change and go.

use rand::RngExt as _;
use rand::rngs::StdRng;
use serde_json::{Value, json};

use super::plan::{Kind, PodStep, Step, one, pod, pod_step, running, template, value};

pub(super) const KIND: Kind = Kind {
    name: "HorizontalPodAutoscalers",
    compared: &[AUTOSCALERS],
    // Longer than the autoscaler waits for its next look at the metrics.
    n_quiet_looks: 25,
    has_metrics: true,
    begin,
    step,
    last: Vec::new,
};

const AUTOSCALERS: &str = "horizontalpodautoscalers";

const MAPS: &str = "configmaps";

const TARGETS: [(&str, &str, &str); 4] = [
    ("apps/v1", "Deployment", "deployments"),
    ("apps/v1", "ReplicaSet", "replicasets"),
    ("apps/v1", "StatefulSet", "statefulsets"),
    ("v1", "ReplicationController", "replicationcontrollers"),
];

fn begin(random: &mut StdRng) -> Vec<Step> {
    let (version, kind, plural) = one(random, &TARGETS);
    let target = json!({"apiVersion": version, "kind": kind, "name": "web"});
    vec![
        workload(random, plural),
        map(random, "queue"),
        map(random, "hits"),
        Step::Run(random.random_range(0..6)),
        Step::Use(usage(random)),
        autoscaler(random, "a", &target),
    ]
}

fn workload(random: &mut StdRng, plural: &'static str) -> Step {
    let labels = json!({"app": "web"});
    let mut template = template(&labels, "image:1");
    let requests = [Value::Null, json!({"memory": "100Mi", "cpu": "100m"}), json!({"memory": "100Mi"})];
    template["spec"]["containers"][0]["resources"]["requests"] = value(random, &requests);
    template["metadata"]["annotations"] =
        json!({"sim.pintle.dev/shared-metric.requests": one(random, &["0", "90", "600"])});
    let selector = if plural == "replicationcontrollers" { labels } else { json!({"matchLabels": labels}) };
    let mut spec = json!({"replicas": random.random_range(0..5), "selector": selector, "template": template});
    if plural == "statefulsets" {
        spec["serviceName"] = json!("web");
        spec["podManagementPolicy"] = json!("Parallel");
    }
    Step::Create(plural, json!({"metadata": {"name": "web"}, "spec": spec}))
}

/// The ConfigMap of an external metric, `queue`, or of a custom one of a Service, `hits`.
fn map(random: &mut StdRng, name: &str) -> Step {
    let mut metadata = json!({"name": name, "labels": {"sim.pintle.dev/metrics": "external", "queue": "jobs"}});
    if name == "hits" {
        metadata["labels"]["sim.pintle.dev/metrics"] = json!("custom");
        metadata["annotations"] = json!({"sim.pintle.dev/object": "services/web"});
    }
    Step::Create(MAPS, json!({"metadata": metadata, "data": {name: metric_value(random)}}))
}

fn metric_value(random: &mut StdRng) -> &'static str {
    one(random, &["0", "1", "1500m", "9", "10", "11", "30", "44", "500", "none"])
}

fn autoscaler(random: &mut StdRng, name: &str, target: &Value) -> Step {
    let n_metrics = random.random_range(0..3);
    let spec = json!({
        "scaleTargetRef": target, "minReplicas": value(random, &[Value::Null, json!(1), json!(2)]),
        "maxReplicas": random.random_range(2..9), "behavior": behavior(random), "metrics": metrics(random, n_metrics),
    });
    Step::Create(AUTOSCALERS, json!({"metadata": {"name": name}, "spec": spec}))
}

/// Windows end at once or never, so that nothing depends on the second in which a step is taken.
fn behavior(random: &mut StdRng) -> Value {
    let mut rules = |n_percent: u32| {
        let policies = [
            json!([{"type": "Percent", "value": n_percent, "periodSeconds": 1}]),
            json!([{"type": "Pods", "value": 1, "periodSeconds": 1800}]),
            json!([{"type": "Pods", "value": 2, "periodSeconds": 1800}, {"type": "Percent", "value": 50, "periodSeconds": 1800}]),
        ];
        json!({
            "stabilizationWindowSeconds": one(random, &[0, 0, 0, 3600]),
            "selectPolicy": value(random, &[Value::Null, Value::Null, json!("Min"), json!("Disabled")]),
            "policies": value(random, &policies),
        })
    };
    json!({"scaleUp": rules(1000), "scaleDown": rules(100)})
}

fn metrics(random: &mut StdRng, n_metrics: usize) -> Value {
    (0..n_metrics).map(|_| metric(random)).collect()
}

fn metric(random: &mut StdRng) -> Value {
    let average = |value: &str| json!({"type": "AverageValue", "averageValue": value});
    let one_of = [average("10"), json!({"type": "Value", "value": "10"})];
    let metrics = [
        json!({"type": "Resource", "resource": {"name": "memory", "target": average("100Mi")}}),
        json!({"type": "Resource", "resource": {
            "name": one(random, &["memory", "cpu"]), "target": {"type": "Utilization", "averageUtilization": 50},
        }}),
        json!({"type": "ContainerResource", "containerResource": {
            "name": "memory", "container": one(random, &["c", "other"]), "target": average("100Mi"),
        }}),
        json!({"type": "Pods", "pods": {"metric": {"name": one(random, &["requests", "none"])}, "target": average("100")}}),
        json!({"type": "Object", "object": {
            "describedObject": {"apiVersion": "v1", "kind": "Service", "name": one(random, &["web", "web", "none"])},
            "metric": {"name": "hits"}, "target": value(random, &one_of),
        }}),
        json!({"type": "External", "external": {
            "metric": {"name": "queue", "selector": value(random, &[Value::Null, json!({"matchLabels": {"queue": "jobs"}})])},
            "target": value(random, &one_of),
        }}),
    ];
    value(random, &metrics)
}

fn usage(random: &mut StdRng) -> Value {
    value(
        random,
        &[
            json!({"memory": "0", "cpu": "0"}),
            json!({"memory": "50Mi", "cpu": "40m"}),
            json!({"memory": "100Mi", "cpu": "200m"}),
            json!({"memory": "109Mi"}),
            json!({"memory": "300Mi", "cpu": "1"}),
        ],
    )
}

fn step(random: &mut StdRng) -> Step {
    let on_it = |spec: Value| Step::Patch(AUTOSCALERS, "a".to_owned(), json!({"spec": spec}));
    let (n, n_metrics) = (random.random_range(0..6), random.random_range(1..4));
    let (_, _, plural) = one(random, &TARGETS);
    let map_name = one(random, &["queue", "hits"]);
    match random.random_range(0..26) {
        0..=3 => Step::Run(random.random_range(1..6)),
        4..=6 => Step::Use(usage(random)),
        7..=10 => Step::Patch(MAPS, map_name.to_owned(), json!({"data": {map_name: metric_value(random)}})),
        11 => Step::Delete(MAPS, map_name.to_owned(), "Background"),
        12 => map(random, map_name),
        13 | 14 => on_it(json!({
            "minReplicas": value(random, &[Value::Null, json!(0), json!(1), json!(3), json!(6)]),
            "maxReplicas": random.random_range(1..9),
        })),
        15 | 16 => on_it(json!({"metrics": metrics(random, n_metrics)})),
        17 => on_it(json!({"behavior": behavior(random)})),
        // Whoever has no such target leaves it alone.
        18 | 19 => Step::Patch(plural, "web".to_owned(), json!({"spec": {"replicas": random.random_range(0..7)}})),
        20 => Step::Pod(n, pod_step(random)),
        21 => {
            // With a start, the use of CPU counts.
            let mut status = running(true);
            status["startTime"] = json!("2026-01-01T00:00:00Z");
            Step::Pod(n, PodStep::Status(status))
        }
        22 => Step::Create("pods", pod("mine", "web")),
        23 => autoscaler(random, "b", &json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"})),
        24 => Step::Delete(AUTOSCALERS, one(random, &["a", "b"]).to_owned(), "Background"),
        _ => Step::Delete(plural, "web".to_owned(), "Background"),
    }
}
