//! How workloads came to where they are: what of a history is compared.
//!
//! How many steps are taken depends on how much a controller sees at once; sums, beginnings and ends do not. Both are
//! noted here, and [`without_chance`] leaves the former out where a scenario says so.
//!
//! Three states of conditions are left out everywhere, because kube-controller-manager itself passes through them in one
//! run and not in the next: that a rollout advances, which it may have done to its end when it is looked at; that too few
//! Pods are available, which may be over by then; and that a ReplicaSet was made, which is told by a write of its own that
//! is not repeated after a conflict. As the last state they are compared, with the object.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::Chance;
use super::history::{Effect, History, Id, Write};
use super::rules::{self, controller};
use super::snapshot::Names;

/// Kinds whose objects pass through states that a controller decides.
const PASSING: [&str; 6] =
    ["daemonsets", "deployments", "jobs", "replicasets", "replicationcontrollers", "statefulsets"];

/// Kinds whose objects have revisions in an annotation.
const WITH_REVISIONS: [&str; 2] = ["deployments", "replicasets"];

/// The type of condition whose states come and go unseen.
const FLEETING_TYPE: &str = "Available";

/// The states that come and go unseen.
const FLEETING_STATES: [&str; 2] = ["True ReplicaSetUpdated", "True NewReplicaSetCreated"];

/// `plural name` -> an entry for each object that had this name, in order.
///
/// An entry holds `conditions` (type -> states in order), `revisions` in order, `scaled` (of ReplicaSets that a
/// Deployment scaled) and `pods` (how many were made for it and went).
pub(super) fn of(history: &History, names: &Names) -> Value {
    let mut order: Vec<Id> = Vec::new();
    let mut entries: BTreeMap<Id, (String, Entry)> = BTreeMap::new();
    for write in &history.writes {
        if PASSING.contains(&write.plural) {
            let id = write.id();
            let (_, entry) = entries.entry(id.clone()).or_insert_with(|| {
                order.push(id);
                (format!("{} {}", write.plural, names.text(write.name())), Entry::default())
            });
            entry.pass(write);
        }
        if write.plural == "pods"
            && let Some(owner) = controller(&write.object)
        {
            for (id, (_, entry)) in &mut entries {
                if id.1 == owner {
                    entry.n_made += u64::from(write.effect == Effect::Added);
                    entry.n_gone += u64::from(write.effect == Effect::Deleted);
                }
            }
        }
    }
    let mut steps = rules::steps_done(history);
    let mut all = Map::new();
    for id in &order {
        let Some((name, entry)) = entries.remove(id) else { continue };
        let shown = entry.show(id.0, steps.remove(id));
        match all.entry(name).or_insert_with(|| json!([])) {
            Value::Array(list) => list.push(shown),
            _ => continue,
        }
    }
    all.sort_keys();
    Value::Object(all)
}

#[derive(Debug, Default)]
struct Entry {
    conditions: BTreeMap<String, Vec<String>>,
    revisions: Vec<String>,
    n_made: u64,
    n_gone: u64,
}

impl Entry {
    fn pass(&mut self, write: &Write) {
        let object = &write.object;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        for condition in object["status"]["conditions"].as_array().into_iter().flatten() {
            let state = format!("{} {}", text(&condition["status"]), text(&condition["reason"]));
            if condition["type"] == FLEETING_TYPE || FLEETING_STATES.contains(&state.as_str()) {
                continue;
            }
            push_new(self.conditions.entry(text(&condition["type"])).or_default(), state);
        }
        let revision = text(&object["metadata"]["annotations"]["deployment.kubernetes.io/revision"]);
        if !revision.is_empty() {
            push_new(&mut self.revisions, revision);
        }
    }

    fn show(self, plural: &str, steps: Option<Vec<(i64, i64)>>) -> Value {
        let mut shown = json!({"conditions": self.conditions});
        if WITH_REVISIONS.contains(&plural) {
            shown["revisions"] = json!(self.revisions);
        }
        if plural != "deployments" {
            shown["pods"] = json!({"made": self.n_made, "gone": self.n_gone});
        }
        if let Some(steps) = steps {
            let moved = |way: fn(i64) -> bool| -> i64 {
                steps.iter().map(|(from, to)| to - from).filter(|by| way(*by)).map(i64::abs).sum()
            };
            let told: Vec<String> = steps.iter().map(|(from, to)| format!("{from} -> {to}")).collect();
            shown["scaled"] = json!({
                "up by": moved(|by| by > 0), "down by": moved(|by| by < 0),
                "first": told.first(), "to": steps.last().map(|(_, to)| to), "steps": told,
            });
        }
        shown
    }
}

fn push_new(list: &mut Vec<String>, state: String) {
    if list.last() != Some(&state) {
        list.push(state);
    }
}

/// Leaves out what chance decides.
pub(super) fn without_chance(passage: &mut Value, chance: Chance) {
    for entry in passage.as_object_mut().into_iter().flat_map(Map::values_mut).filter_map(Value::as_array_mut).flatten()
    {
        if chance.steps && entry.get("scaled").is_some() {
            entry["scaled"]["steps"] = Value::Null;
        }
        if chance.states {
            entry["conditions"] = Value::Null;
        }
        if chance.pods {
            entry["pods"] = Value::Null;
        }
    }
}
