//! What must be true of every history of HorizontalPodAutoscalers.
//!
//! At each write of a status that says that the target was scaled (`lastScaleTime`):
//! 1. the new size is within limits that the autoscaler has, or had before;
//! 2. it differs from the old one.
//!
//! At each write:
//! 3. a condition that keeps its status keeps the time of its transition;
//! 4. there is one condition of each type.
//!
//! A controller acts on what it has seen, so that limits count which were wanted before.

use std::collections::BTreeMap;

use serde_json::Value;

use super::history::{Effect, History, Write, text};
use super::rules::describe;

#[derive(Debug, Default)]
struct Autoscaler {
    /// Least and most.
    limits: Vec<(i64, i64)>,
    status: Value,
}

/// The rules that a history broke, in words.
pub(super) fn broken(history: &History) -> Vec<String> {
    let mut known: BTreeMap<String, Autoscaler> = BTreeMap::new();
    let mut broken = Vec::new();
    let base = history.base.iter().map(|((plural, _), object)| (*plural, object));
    for (_, object) in base.filter(|(plural, _)| *plural == "horizontalpodautoscalers") {
        known.entry(text(object, "uid").to_owned()).or_default().take_in(object);
    }
    for write in history.of("horizontalpodautoscalers").filter(|write| write.effect != Effect::Deleted) {
        let autoscaler = known.entry(text(&write.object, "uid").to_owned()).or_default();
        broken.extend(autoscaler.step(write));
    }
    broken
}

impl Autoscaler {
    fn take_in(&mut self, object: &Value) {
        let spec = &object["spec"];
        let limits = (spec["minReplicas"].as_i64().unwrap_or(1), spec["maxReplicas"].as_i64().unwrap_or(0));
        if !self.limits.contains(&limits) {
            self.limits.push(limits);
        }
        self.status = object["status"].clone();
    }

    fn step(&mut self, write: &Write) -> Vec<String> {
        let old = std::mem::take(&mut self.status);
        self.take_in(&write.object);
        let new = &self.status;
        let mut rules = Vec::new();
        let size = new["desiredReplicas"].as_i64().unwrap_or(0);
        if new["lastScaleTime"] != old["lastScaleTime"] {
            if !self.limits.iter().any(|(least, most)| (*least..=*most).contains(&size)) {
                rules.push(format!("the size {size} is beyond all limits {:?}", self.limits));
            }
            if new["currentReplicas"].as_i64().unwrap_or(0) == size {
                rules.push(format!("scaled from {size} to {size}"));
            }
        }
        let conditions = |status: &Value| status["conditions"].as_array().cloned().unwrap_or_default();
        let (before, after) = (conditions(&old), conditions(new));
        for (i, condition) in after.iter().enumerate() {
            let kind = &condition["type"];
            if after[..i].iter().any(|other| other["type"] == *kind) {
                rules.push(format!("two conditions {kind}"));
            }
            // Upstream may set this one to True and back before it writes the status.
            let may_pass = *kind == "AbleToScale";
            let is_same = |old: &&Value| !may_pass && old["type"] == *kind && old["status"] == condition["status"];
            let same = before.iter().find(is_same);
            if same.is_some_and(|old| old["lastTransitionTime"] != condition["lastTransitionTime"]) {
                rules.push(format!("the condition {kind} has another time and the same status"));
            }
        }
        rules.iter().map(|rule| describe(write, rule)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn history(states: &[(i64, i64, i64, &str, &str)]) -> History {
        let writes = states.iter().map(|(most, from, to, time, condition)| Write {
            plural: "horizontalpodautoscalers",
            effect: Effect::Modified,
            object: json!({
                "metadata": {"name": "a", "uid": "u", "resourceVersion": "1"},
                "spec": {"minReplicas": 2, "maxReplicas": most},
                "status": {
                    "currentReplicas": from, "desiredReplicas": to, "lastScaleTime": time,
                    "conditions": [{"type": "ScalingActive", "status": "True", "lastTransitionTime": condition}],
                },
            }),
        });
        History { writes: writes.collect(), ..History::default() }
    }

    #[test]
    fn each_rule_can_be_broken() {
        for (states, wanted) in [
            (&[(5, 2, 4, "1", "1"), (5, 4, 4, "1", "1")][..], 0),
            (&[(5, 2, 6, "1", "1")][..], 1),
            (&[(5, 4, 1, "1", "1")][..], 1),
            // The limits of before count.
            (&[(5, 2, 4, "1", "1"), (3, 4, 5, "2", "1")][..], 0),
            (&[(5, 4, 4, "1", "1")][..], 1),
            (&[(5, 2, 4, "1", "1"), (5, 4, 4, "1", "2")][..], 1),
        ] {
            let found = broken(&history(states));
            assert_eq!(found.len(), wanted, "{states:?}: {found:?}");
        }
    }
}
