//! What must be true of every history of StatefulSets, whoever ran the controllers and however fast.
//!
//! At each write:
//! 1. a Pod that is made for a StatefulSet has a name and an ordinal that the StatefulSet wants, its labels, and its hostname;
//! 2. it is of a revision that exists, and its claims exist;
//! 3. in an ordered StatefulSet it comes only when all replicas below it are ready, and a replica goes only if none above it is left
//!    that is not wanted.
//!
//! At the end, unless the one in charge was killed meanwhile:
//! 4. the events name each Pod and each claim that was made, once for each time.
//!
//! A controller acts on what it has seen. So wherever a rule looks at what is wanted, everything counts that was wanted since the
//! generation that the status says was observed.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::history::{Effect, History, Write, text};
use super::rules::{UserActions, controller, describe, occurrences};
use crate::objects::has_condition;

#[derive(Debug, Default)]
struct Set {
    name: String,
    /// Generation -> (first ordinal, number of replicas), from the observed one on.
    wishes: BTreeMap<u64, (u64, u64)>,
    is_ordered: bool,
}

#[derive(Debug, Default)]
struct Replay<'a> {
    /// By uid.
    sets: BTreeMap<String, Set>,
    /// By uid.
    pods: BTreeMap<String, &'a Value>,
    /// Names of revisions and claims that ever were, and of claims that are.
    revisions: BTreeSet<&'a str>,
    claims: BTreeSet<&'a str>,
}

/// The rules that a history broke, in words.
pub(super) fn broken(history: &History, user_actions: UserActions) -> Vec<String> {
    let mut replay = Replay::default();
    for ((plural, uid), object) in &history.base {
        replay.take_in(plural, uid, object, true);
    }
    let is_watched = |plural: &str| history.of(plural).next().is_some();
    let knows_parts = is_watched("controllerrevisions");
    let mut broken = Vec::new();
    for write in &history.writes {
        if write.plural == "pods"
            && write.effect == Effect::Added
            && let Some(rule) = replay.made(&write.object, knows_parts, user_actions)
        {
            broken.push(describe(write, &rule));
        }
        let is_left = write.left().is_some();
        replay.take_in(write.plural, text(&write.object, "uid"), &write.object, is_left);
    }
    if !user_actions.replaces_subject {
        broken.extend(not_told(history, &replay));
    }
    broken
}

impl<'a> Replay<'a> {
    fn take_in(&mut self, plural: &str, uid: &str, object: &'a Value, is_left: bool) {
        let name = text(object, "name");
        match (plural, is_left) {
            ("statefulsets", _) => self.sets.entry(uid.to_owned()).or_default().take_in(object),
            ("pods", true) => drop(self.pods.insert(uid.to_owned(), object)),
            ("pods", false) => drop(self.pods.remove(uid)),
            ("controllerrevisions", true) => drop(self.revisions.insert(name)),
            ("persistentvolumeclaims", true) => drop(self.claims.insert(name)),
            ("persistentvolumeclaims", false) => drop(self.claims.remove(name)),
            _ => {}
        }
    }

    /// Rules 1 to 3, for a new Pod.
    fn made(&self, pod: &Value, knows_parts: bool, user_actions: UserActions) -> Option<String> {
        let owner = controller(pod)?;
        let set = self.sets.get(owner)?;
        let name = text(pod, "name");
        let labels = &pod["metadata"]["labels"];
        let Some(ordinal) = set.ordinal(name) else { return Some(format!("it is no replica of {}", set.name)) };
        if !set.wishes.values().any(|(start, n)| (*start..start + n).contains(&ordinal)) {
            return Some(format!("{} does not want it: {:?}", set.name, set.wishes));
        }
        let index = ordinal.to_string();
        if labels["statefulset.kubernetes.io/pod-name"] != name
            || labels["apps.kubernetes.io/pod-index"] != index
            || pod["spec"]["hostname"] != name
        {
            return Some(format!("labels {labels}, hostname {}", pod["spec"]["hostname"]));
        }
        let revision = labels["controller-revision-hash"].as_str().unwrap_or_default();
        if knows_parts && !self.revisions.contains(revision) {
            return Some(format!("it has the unknown revision {revision:?}"));
        }
        let volumes = pod["spec"]["volumes"].as_array().into_iter().flatten();
        let mut claims = volumes.filter_map(|volume| volume["persistentVolumeClaim"]["claimName"].as_str());
        if let Some(missing) = claims.find(|claim| knows_parts && !self.claims.contains(claim)) {
            return Some(format!("its claim {missing} does not exist"));
        }
        if !set.is_ordered || user_actions.pods {
            return None;
        }
        let first = set.wishes.values().map(|(start, _)| *start).max()?;
        let is_ready_below = |ordinal: u64| {
            let mut all = self.pods.values().filter(|pod| controller(pod) == Some(owner));
            all.any(|pod| set.ordinal(text(pod, "name")) == Some(ordinal) && serves(pod))
        };
        let waits_for = (first..ordinal).find(|below| !is_ready_below(*below))?;
        Some(format!("it comes before {}-{waits_for} is ready", set.name))
    }
}

impl Set {
    fn take_in(&mut self, object: &Value) {
        let (spec, number) = (&object["spec"], |value: &Value| value.as_u64());
        text(object, "name").clone_into(&mut self.name);
        self.is_ordered = spec["podManagementPolicy"] != "Parallel";
        let wish = (number(&spec["ordinals"]["start"]).unwrap_or(0), number(&spec["replicas"]).unwrap_or(1));
        self.wishes.insert(number(&object["metadata"]["generation"]).unwrap_or(0), wish);
        self.wishes = self.wishes.split_off(&number(&object["status"]["observedGeneration"]).unwrap_or(0));
    }

    fn ordinal(&self, pod: &str) -> Option<u64> {
        let digits = pod.strip_prefix(&self.name)?.strip_prefix('-')?;
        digits.parse().ok().filter(|ordinal: &u64| ordinal.to_string() == digits)
    }
}

fn serves(pod: &Value) -> bool {
    has_condition(pod, "Ready", "True") && pod["status"]["phase"] == "Running"
}

/// Rule 4.
fn not_told(history: &History, replay: &Replay<'_>) -> Vec<String> {
    let mut made: BTreeMap<String, usize> = BTreeMap::new();
    for write in history.writes.iter().filter(|write| write.effect == Effect::Added) {
        if let Some(what) = told_as(write, replay) {
            *made.entry(what).or_default() += 1;
        }
    }
    let mut told: BTreeMap<String, usize> = BTreeMap::new();
    for (about, reason, message) in occurrences(history) {
        if reason == "SuccessfulCreate" && replay.sets.contains_key(&about) {
            let what = message.strip_prefix("Create ").unwrap_or(&message);
            let what = what.split(' ').take(2).collect::<Vec<_>>().join(" ");
            *told.entry(what).or_default() += 1;
        }
    }
    // Claims are known only where a scenario compares them.
    told.retain(|what, _| !what.starts_with("Claim ") || history.of("persistentvolumeclaims").next().is_some());
    if made == told { Vec::new() } else { vec![format!("made for StatefulSets: {made:?}, told: {told:?}")] }
}

/// `Pod web-0`, `Claim data-web-0`, if it was made for a StatefulSet.
fn told_as(write: &Write, replay: &Replay<'_>) -> Option<String> {
    let name = write.name();
    match write.plural {
        "pods" => {
            let set = replay.sets.get(controller(&write.object)?)?;
            // One that had an owner when it came.
            set.ordinal(name).map(|_| format!("Pod {name}"))
        }
        "persistentvolumeclaims" => {
            let is_of = |set: &Set| {
                let (rest, ordinal) = name.rsplit_once('-')?;
                ordinal.parse::<u64>().ok()?;
                rest.strip_suffix(&set.name)?.strip_suffix('-').map(drop)
            };
            // One that a user made has another owner from the start.
            let is_its = controller(&write.object).is_none_or(|owner| replay.sets.contains_key(owner));
            let is_made = is_its && replay.sets.values().any(|set| is_of(set).is_some());
            is_made.then(|| format!("Claim {name}"))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn set(replicas: u64, observed: u64) -> Value {
        json!({
            "metadata": {"name": "web", "uid": "set", "generation": 1, "resourceVersion": "1"},
            "spec": {"replicas": replicas}, "status": {"observedGeneration": observed},
        })
    }

    fn pod(name: &str, ready: bool) -> Value {
        let status = if ready { "True" } else { "False" };
        let index = name.rsplit('-').next().unwrap();
        json!({
            "metadata": {
                "name": name, "uid": name, "resourceVersion": "2",
                "labels": {"statefulset.kubernetes.io/pod-name": name, "apps.kubernetes.io/pod-index": index},
                "ownerReferences": [{"kind": "StatefulSet", "uid": "set", "controller": true}],
            },
            "spec": {"hostname": name},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": status}]},
        })
    }

    fn event(n: u64, message: &str) -> (&'static str, Effect, Value) {
        let object = json!({
            "metadata": {"name": format!("e{n}"), "uid": format!("e{n}")}, "involvedObject": {"uid": "set"},
            "reason": "SuccessfulCreate", "message": message, "count": 1,
        });
        ("events", Effect::Added, object)
    }

    fn check(writes: Vec<(&'static str, Effect, Value)>) -> Vec<String> {
        let mut history = History::default();
        for (plural, effect, object) in writes {
            history.writes.push(Write { plural, effect, object });
        }
        broken(&history, UserActions::default())
    }

    #[test]
    fn a_replica_comes_when_those_below_it_are_ready() {
        let story = |ready| {
            check(vec![
                ("statefulsets", Effect::Added, set(2, 0)),
                ("pods", Effect::Added, pod("web-0", ready)),
                event(1, "Create Pod web-0 in StatefulSet web successful"),
                ("pods", Effect::Added, pod("web-1", false)),
                event(2, "Create Pod web-1 in StatefulSet web successful"),
            ])
        };
        assert_eq!(story(true), Vec::<String>::new());
        let broken = story(false);
        assert!(broken.len() == 1 && broken[0].contains("before web-0 is ready"), "{broken:?}");
    }

    #[test]
    fn a_claim_is_reported_whether_or_not_the_set_owns_it() {
        let story = |owners: Value, events: usize| {
            let claim = json!({"metadata": {"name": "data-web-0", "uid": "c", "resourceVersion": "2", "ownerReferences": owners}});
            let message = "Create Claim data-web-0 Pod web-0 in StatefulSet web success";
            let events = (0..events).map(|n| event(n as u64, message));
            check(
                vec![("statefulsets", Effect::Added, set(1, 1)), ("persistentvolumeclaims", Effect::Added, claim)]
                    .into_iter()
                    .chain(events)
                    .collect(),
            )
        };
        let owned_by = |uid: &str| json!([{"kind": "StatefulSet", "uid": uid, "controller": true}]);
        assert_eq!(story(json!([]), 1), Vec::<String>::new());
        assert_eq!(story(owned_by("set"), 1), Vec::<String>::new());
        assert_eq!(story(owned_by("set"), 0).len(), 1);
        assert_eq!(story(owned_by("other"), 0), Vec::<String>::new());
    }

    #[test]
    fn each_replica_is_wanted_and_told() {
        let broken = check(vec![
            ("statefulsets", Effect::Added, set(1, 0)),
            ("pods", Effect::Added, pod("web-0", true)),
            ("pods", Effect::Added, pod("web-1", true)),
        ]);
        assert_eq!(broken.len(), 2, "{broken:?}");
        assert!(broken[0].contains("does not want it") && broken[1].contains("told"));
    }
}
