//! Objects for unit tests, from YAML with only the relevant fields.

use pintle_sdk::time::Timestamp;
use serde_json::{Value, json};

use crate::context::Context;
use crate::types::{Deployment, ReplicaSet};

fn template() -> Value {
    json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}})
}

fn overlay(base: &mut Value, over: Value) {
    match (base, over) {
        (Value::Object(base), Value::Object(over)) => {
            for (name, value) in over {
                overlay(base.entry(name).or_insert(Value::Null), value);
            }
        }
        (base, over) => *base = over,
    }
}

fn yaml(text: &str) -> Value {
    serde_norway::from_str(text).unwrap()
}

/// A Deployment `web` with this spec.
pub(crate) fn deployment(spec: &str) -> Deployment {
    let mut object = json!({
        "metadata": {"name": "web", "namespace": "default", "uid": "d", "resourceVersion": "1", "generation": 1},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "strategy": {"type": "RollingUpdate"}, "template": template()},
    });
    overlay(&mut object["spec"], yaml(spec));
    serde_json::from_str(&object.to_string()).unwrap()
}

/// A ReplicaSet of the Deployment, with the same template unless `fields` overrides it.
pub(crate) fn replica_set(name: &str, fields: &str) -> ReplicaSet {
    let mut object = json!({
        "metadata": {"name": name, "namespace": "default", "uid": name, "resourceVersion": "1", "generation": 1,
            "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"template": template()},
    });
    overlay(&mut object, yaml(fields));
    serde_json::from_str(&object.to_string()).unwrap()
}

/// A run for a Deployment with this spec; `sets` are ordered oldest first, and `new` is the name of the new one.
pub(crate) fn context(spec: &str, sets: impl IntoIterator<Item = ReplicaSet>, new: Option<&str>) -> Context {
    let sets = (0..).zip(sets).map(|(age, mut set)| {
        set.metadata.creation_timestamp = Some(Timestamp::from_micros(age * 60_000_000));
        set
    });
    let mut context =
        Context::new(Timestamp::from_micros(0), deployment(spec), "{}".into(), sets.collect(), Vec::new());
    context.new = new.map(|new| context.sets.iter().position(|set| set.metadata.name == new).unwrap());
    context
}

/// A ReplicaSet of this size with this number of available Pods.
pub(crate) fn sized(name: &str, replicas: i64, available: i64) -> ReplicaSet {
    let status = format!("{{replicas: {replicas}, availableReplicas: {available}}}");
    replica_set(name, &format!("spec: {{replicas: {replicas}}}\nstatus: {status}"))
}

/// Names and sizes, oldest first.
pub(crate) fn sizes(context: &Context) -> Vec<(&str, i64)> {
    (0..context.sets.len()).map(|i| (context.sets[i].metadata.name.as_str(), context.size(i))).collect()
}
