//! What must be true of every history of PodDisruptionBudgets and their Pods.
//!
//! At each write:
//! 1. a budget allows no more disruptions than healthy Pods that it does not need, and none while it expects no Pods;
//! 2. the condition `DisruptionAllowed` is `True` if and only if some are allowed, and keeps the time of its transition as long as it
//!    keeps its status;
//! 3. the eviction of a ready Pod leaves as many ready ones as its budget wants.
//!
//! The eviction of a Pod is known by its condition `DisruptionTarget`.

use std::collections::BTreeMap;

use serde_json::Value;

use super::history::{History, Write, text};
use super::rules::describe;
use crate::objects::has_condition;

#[derive(Debug, Default)]
struct Replay<'a> {
    /// By uid.
    budgets: BTreeMap<String, &'a Value>,
    /// By uid.
    pods: BTreeMap<String, &'a Value>,
}

/// The rules that a history broke, in words.
pub(super) fn broken(history: &History) -> Vec<String> {
    let mut replay = Replay::default();
    for ((plural, uid), object) in &history.base {
        if let Some(known) = replay.known(plural) {
            known.insert(uid.clone(), object);
        }
    }
    history.writes.iter().filter_map(|write| replay.step(write)).collect()
}

impl<'a> Replay<'a> {
    fn known(&mut self, plural: &str) -> Option<&mut BTreeMap<String, &'a Value>> {
        match plural {
            "poddisruptionbudgets" => Some(&mut self.budgets),
            "pods" => Some(&mut self.pods),
            _ => None,
        }
    }

    fn step(&mut self, write: &'a Write) -> Option<String> {
        let uid = text(&write.object, "uid").to_owned();
        let known = self.known(write.plural)?;
        let old = match write.left() {
            Some(object) => known.insert(uid, object),
            None => known.remove(&uid),
        };
        let new = write.left()?;
        let rule = match write.plural {
            "pods" => old.and_then(|old| self.evicted(old, new)),
            _ => of_status(old, new),
        };
        rule.map(|rule| describe(write, &rule))
    }

    /// Rule 3.
    fn evicted(&self, old: &Value, new: &Value) -> Option<String> {
        let is_evicted = is_alive(old)
            && !is_alive(new)
            && is_ready(old)
            && condition(new, "DisruptionTarget").is_some_and(|target| target["reason"] == "EvictionByEvictionAPI");
        let guard = self.budgets.values().find(|budget| is_evicted && selects(budget, new))?;
        let n_left = self.pods.values().filter(|pod| selects(guard, pod) && is_alive(pod) && is_ready(pod)).count();
        let wanted = number(guard, "desiredHealthy");
        (i64::try_from(n_left).unwrap_or(i64::MAX) < wanted).then(|| {
            format!("its eviction leaves {n_left} ready Pods of the {wanted} that {} wants", text(guard, "name"))
        })
    }
}

/// Rules 1 and 2.
fn of_status(old: Option<&Value>, new: &Value) -> Option<String> {
    let of = |field| number(new, field);
    let allowed = of("disruptionsAllowed");
    let room = if of("expectedPods") > 0 { (of("currentHealthy") - of("desiredHealthy")).max(0) } else { 0 };
    if allowed > room {
        return Some(format!("{allowed} disruptions are allowed where there is room for {room}"));
    }
    let verdict = condition(new, "DisruptionAllowed");
    if let Some(verdict) = verdict
        && (verdict["status"] == "True") != (allowed > 0)
    {
        return Some(format!("the condition is {} with {allowed} allowed", verdict["status"]));
    }
    let (before, now) = (condition(old?, "DisruptionAllowed")?, verdict?);
    let is_moved = before["status"] == now["status"] && before["lastTransitionTime"] != now["lastTransitionTime"];
    is_moved.then(|| "the condition has the status that it had, and another time of transition".to_owned())
}

fn number(budget: &Value, field: &str) -> i64 {
    budget["status"][field].as_i64().unwrap_or(0)
}

fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    object["status"]["conditions"].as_array()?.iter().find(|condition| condition["type"] == kind)
}

fn is_ready(pod: &Value) -> bool {
    has_condition(pod, "Ready", "True")
}

fn is_alive(pod: &Value) -> bool {
    pod["metadata"]["deletionTimestamp"].is_null()
}

/// By `matchLabels` alone; a selector with expressions selects nothing here.
fn selects(budget: &Value, pod: &Value) -> bool {
    let selector = &budget["spec"]["selector"];
    let labels = selector["matchLabels"].as_object();
    let has = |(key, value): (&String, &Value)| pod["metadata"]["labels"][key] == *value;
    selector.is_object() && selector["matchExpressions"].is_null() && labels.into_iter().flatten().all(has)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::history::Effect;
    use super::*;

    fn budget(version: u64, allowed: i64, healthy: i64, verdict: &str, since: &str) -> Write {
        let object = json!({
            "metadata": {"name": "b", "uid": "b", "resourceVersion": version.to_string()},
            "spec": {"selector": {"matchLabels": {"app": "web"}}},
            "status": {
                "disruptionsAllowed": allowed, "currentHealthy": healthy, "desiredHealthy": 1, "expectedPods": 2,
                "observedGeneration": 1,
                "conditions": [{"type": "DisruptionAllowed", "status": verdict, "lastTransitionTime": since}],
            },
        });
        Write { plural: "poddisruptionbudgets", effect: Effect::Modified, object }
    }

    fn pod(name: &str, is_evicted: bool) -> Write {
        let mut object = json!({
            "metadata": {"name": name, "uid": name, "labels": {"app": "web"}},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        });
        if is_evicted {
            object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
            let target = json!({"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"});
            object["status"]["conditions"].as_array_mut().unwrap().push(target);
        }
        Write { plural: "pods", effect: Effect::Modified, object }
    }

    fn of(writes: Vec<Write>) -> Vec<String> {
        broken(&History { writes, ..History::default() })
    }

    #[test]
    fn what_is_right_breaks_no_rule() {
        let writes = vec![
            pod("p", false),
            pod("q", false),
            budget(1, 1, 2, "True", "t1"),
            budget(2, 0, 2, "False", "t2"),
            pod("p", true),
            budget(3, 0, 1, "False", "t2"),
        ];
        assert_eq!(of(writes), Vec::<String>::new());
    }

    #[test]
    fn each_rule_can_be_broken() {
        for (writes, rule) in [
            (vec![budget(1, 2, 2, "True", "t")], "2 disruptions are allowed where there is room for 1"),
            (vec![budget(1, 0, 1, "True", "t")], "the condition is \"True\" with 0 allowed"),
            (vec![budget(1, 0, 1, "False", "t"), budget(2, 0, 0, "False", "u")], "another time of transition"),
            (vec![pod("p", false), budget(1, 0, 1, "False", "t"), pod("p", true)], "leaves 0 ready Pods of the 1"),
        ] {
            let broken = of(writes);
            assert!(broken.len() == 1 && broken[0].contains(rule), "{rule}: {broken:?}");
        }
    }
}
