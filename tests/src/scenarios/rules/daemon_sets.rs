//! What must be true of every history of DaemonSets.
//!
//! At each write:
//! 1. a Node gets a Pod only if it has none that counts, or, with a surge, no other than one old one;
//! 2. no more Nodes than the surge allows have a new Pod beside an old one that is ready;
//! 3. when a Pod that is ready is deleted, no fewer are left than the Nodes that want one, without those that may be unavailable;
//! 4. no two revisions of a DaemonSet have the same template, unless they came to it so.
//!
//! A controller acts on what it has seen. So limits and templates count that were wanted since the generation that the status says was
//! observed. A Pod that is being deleted, or has ended, does not count.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{UserActions, controller, describe, portion};
use crate::objects::{has_condition, pinned_node};
use crate::scenarios::history::{Effect, History, Write, text};

/// The hash of the revision that a Pod has.
const HASH: &str = "controller-revision-hash";

#[derive(Debug, Default)]
struct Set {
    /// Generation -> limits of an update (strategy), from the observed one on.
    strategies: BTreeMap<u64, Value>,
    /// Nodes that want a Pod, as it was reported last and before.
    desired: [i64; 2],
    leaving: bool,
}

#[derive(Debug, Clone)]
struct Pod {
    set: String,
    node: String,
    hash: String,
    ready: bool,
    counts: bool,
}

#[derive(Debug, Default)]
struct Replay {
    user_actions: UserActions,
    sets: BTreeMap<String, Set>,
    pods: BTreeMap<String, Pod>,
    /// uid -> owner and data.
    revisions: BTreeMap<String, (String, Value)>,
}

/// The rules that a history broke, in words.
pub(super) fn broken(history: &History, user_actions: UserActions) -> Vec<String> {
    let mut replay = Replay { user_actions, ..Replay::default() };
    for ((plural, _), object) in &history.base {
        replay.step(&Write { plural, effect: Effect::Added, object: object.clone() });
    }
    let mut broken = Vec::new();
    for write in &history.writes {
        if let Some(rule) = replay.step(write) {
            broken.push(describe(write, &rule));
        }
    }
    broken
}

impl Replay {
    fn step(&mut self, write: &Write) -> Option<String> {
        match write.plural {
            "daemonsets" => self.set(write),
            "controllerrevisions" => return self.revision(write),
            "pods" => return self.pod(write),
            _ => {}
        }
        None
    }

    fn set(&mut self, write: &Write) {
        let known = self.sets.entry(text(&write.object, "uid").to_owned()).or_default();
        let (object, status) = (&write.object, &write.object["status"]);
        known.leaving = write.left().is_none() || !object["metadata"]["deletionTimestamp"].is_null();
        let generation = object["metadata"]["generation"].as_u64().unwrap_or(0);
        known.strategies.insert(generation, object["spec"]["updateStrategy"].clone());
        known.strategies = known.strategies.split_off(&status["observedGeneration"].as_u64().unwrap_or(0));
        let desired = status["desiredNumberScheduled"].as_i64().unwrap_or(0);
        if desired != known.desired[0] {
            known.desired = [desired, known.desired[0]];
        }
    }

    /// Rule 4.
    fn revision(&mut self, write: &Write) -> Option<String> {
        let uid = text(&write.object, "uid").to_owned();
        let owner = write.left().and_then(controller).map(str::to_owned);
        let data = write.object["data"].clone();
        let Some(owner) = owner.filter(|owner| self.sets.contains_key(owner)) else {
            self.revisions.remove(&uid);
            return None;
        };
        let of_owner = self.revisions.iter().filter(|(other, known)| **other != uid && known.0 == owner);
        let is_double =
            write.effect == Effect::Added && of_owner.map(|(_, known)| &known.1).any(|other| *other == data);
        self.revisions.insert(uid, (owner, data));
        is_double.then(|| "a second revision of one template".to_owned())
    }

    fn pod(&mut self, write: &Write) -> Option<String> {
        let uid = text(&write.object, "uid").to_owned();
        let new = write.left().and_then(Pod::read).filter(|pod| self.sets.contains_key(&pod.set));
        let old = match &new {
            Some(pod) => self.pods.insert(uid.clone(), pod.clone()),
            None => self.pods.remove(&uid),
        };
        match (&old, &new) {
            (None, Some(pod)) if write.effect == Effect::Added && pod.counts => self.added(&uid, pod),
            (Some(old), new) if old.counts && old.ready && !new.as_ref().is_some_and(|pod| pod.counts) => {
                self.removed(old)
            }
            _ => None,
        }
    }

    fn of<'a>(&'a self, set: &'a str) -> impl Iterator<Item = (&'a String, &'a Pod)> {
        self.pods.iter().filter(move |(_, pod)| pod.set == set && pod.counts)
    }

    /// The Pods of a DaemonSet on the Node of one of them, with itself.
    fn beside<'a>(&'a self, pod: &'a Pod) -> impl Iterator<Item = (&'a String, &'a Pod)> {
        self.of(&pod.set).filter(|(_, other)| other.node == pod.node)
    }

    /// Rules 1 and 2, after the write.
    fn added(&self, uid: &str, pod: &Pod) -> Option<String> {
        let set = self.sets.get(&pod.set)?;
        let surge = set.limit("maxSurge", 99);
        let others: Vec<&Pod> = self.beside(pod).filter(|(other, _)| *other != uid).map(|(_, other)| other).collect();
        let is_allowed = match others.as_slice() {
            [] => true,
            [other] => surge > 0 && other.hash != pod.hash,
            _ => false,
        };
        if !is_allowed {
            return Some(format!("the Node has {} Pods already", others.len()));
        }
        let news = self.of(&pod.set).filter(|(_, new)| new.hash == pod.hash);
        let n_beside =
            news.filter(|(_, new)| self.beside(new).any(|(_, old)| old.hash != new.hash && old.ready)).count();
        let n_beside = i64::try_from(n_beside).unwrap_or(i64::MAX);
        (n_beside > surge).then(|| format!("{n_beside} Nodes have a new Pod beside an old one, more than {surge}"))
    }

    /// Rule 3, after the write.
    fn removed(&self, pod: &Pod) -> Option<String> {
        let set = self.sets.get(&pod.set).filter(|set| !set.leaving && !self.user_actions.pods)?;
        let nodes: std::collections::BTreeSet<&str> =
            self.of(&pod.set).filter(|(_, pod)| pod.ready).map(|(_, pod)| pod.node.as_str()).collect();
        let n_ready = i64::try_from(nodes.len()).unwrap_or(i64::MAX);
        let desired = set.desired[0].min(set.desired[1]);
        let mut unavailable = set.limit("maxUnavailable", 99);
        if unavailable == 0 && set.limit("maxSurge", 99) == 0 {
            unavailable = 1;
        }
        (n_ready < desired - unavailable)
            .then(|| format!("{n_ready} of {desired} Nodes have a Pod that is ready, and {unavailable} may have none"))
    }
}

impl Set {
    /// The highest of the limits that may be in use.
    fn limit(&self, name: &str, rounding: i64) -> i64 {
        let desired = self.desired[0].max(self.desired[1]);
        let limits =
            self.strategies.values().map(|strategy| portion(&strategy["rollingUpdate"][name], desired, rounding));
        limits.max().unwrap_or(0)
    }
}

impl Pod {
    fn read(object: &Value) -> Option<Pod> {
        let node = object["spec"]["nodeName"].as_str().or(pinned_node(object))?;
        let has_ended = matches!(object["status"]["phase"].as_str(), Some("Failed" | "Succeeded"));
        Some(Pod {
            set: controller(object)?.to_owned(),
            node: node.to_owned(),
            hash: object["metadata"]["labels"][HASH].as_str().unwrap_or_default().to_owned(),
            ready: has_condition(object, "Ready", "True"),
            counts: object["metadata"]["deletionTimestamp"].is_null() && !has_ended,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A history of `agent`, told write by write.
    #[derive(Default)]
    struct Story(History);

    impl Story {
        fn tell(mut self, plural: &'static str, effect: Effect, mut object: Value) -> Story {
            object["metadata"]["resourceVersion"] = json!(self.0.writes.len().to_string());
            object["metadata"]["uid"] = object["metadata"]["name"].clone();
            self.0.writes.push(Write { plural, effect, object });
            self
        }

        fn agent(self, surge: u64, unavailable: u64, desired: u64) -> Story {
            let rolling = json!({"maxSurge": surge, "maxUnavailable": unavailable});
            self.tell(
                "daemonsets",
                Effect::Added,
                json!({"metadata": {"name": "agent", "generation": 1},
                    "spec": {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": rolling}},
                    "status": {"observedGeneration": 1, "desiredNumberScheduled": desired}}),
            )
            // Reported once more: the number before does not count.
            .tell(
                "daemonsets",
                Effect::Modified,
                json!({"metadata": {"name": "agent", "generation": 1},
                    "spec": {"updateStrategy": {"type": "RollingUpdate",
                        "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}},
                    "status": {"observedGeneration": 1, "desiredNumberScheduled": desired + 1}}),
            )
        }

        fn pod(self, effect: Effect, name: &str, hash: &str, ready: &str) -> Story {
            let (node, _) = name.split_once('-').unwrap();
            let owners = json!([{"kind": "DaemonSet", "uid": "agent", "controller": true}]);
            self.tell(
                "pods",
                effect,
                json!({"metadata": {"name": name, "labels": {HASH: hash}, "ownerReferences": owners},
                    "spec": {"nodeName": node}, "status": {"conditions": [{"type": "Ready", "status": ready}]}}),
            )
        }

        fn check(&self, broken: &[&str]) {
            assert_eq!(super::broken(&self.0, UserActions::default()), broken);
        }
    }

    #[test]
    fn a_second_pod_of_a_node_is_reported() {
        let story = Story::default().agent(0, 1, 2).pod(Effect::Added, "a-1", "x", "False");
        story.pod(Effect::Added, "a-2", "y", "False").check(&["Added pods a-2 (3): the Node has 1 Pods already"]);
        let surge = Story::default().agent(1, 0, 2).pod(Effect::Added, "a-1", "x", "True");
        surge.pod(Effect::Added, "a-2", "y", "False").check(&[]);
        let same = Story::default().agent(1, 0, 2).pod(Effect::Added, "a-1", "x", "True");
        same.pod(Effect::Added, "a-2", "x", "False").check(&["Added pods a-2 (3): the Node has 1 Pods already"]);
    }

    #[test]
    fn more_than_the_surge_is_reported() {
        let story = Story::default().agent(1, 0, 2).pod(Effect::Added, "a-1", "x", "True");
        let story = story.pod(Effect::Added, "b-1", "x", "True").pod(Effect::Added, "a-2", "y", "False");
        story
            .pod(Effect::Added, "b-2", "y", "False")
            .check(&["Added pods b-2 (5): 2 Nodes have a new Pod beside an old one, more than 1"]);
    }

    #[test]
    fn fewer_than_may_be_unavailable_is_reported_unless_a_user_did_it() {
        let story = Story::default().agent(0, 1, 3);
        let story = ["a-1", "b-1", "c-1"].iter().fold(story, |story, pod| story.pod(Effect::Added, pod, "x", "True"));
        let story = story.pod(Effect::Deleted, "a-1", "x", "True").pod(Effect::Deleted, "b-1", "x", "True");
        story.check(&["Deleted pods b-1 (6): 1 of 3 Nodes have a Pod that is ready, and 1 may have none"]);
        assert!(broken(&story.0, UserActions { pods: true, ..UserActions::default() }).is_empty());
    }

    #[test]
    fn a_second_revision_of_a_template_is_reported() {
        let revision = |name: &str, data: &str| {
            let owners = json!([{"kind": "DaemonSet", "uid": "agent", "controller": true}]);
            json!({"metadata": {"name": name, "ownerReferences": owners}, "data": data})
        };
        let story = Story::default().agent(0, 1, 2).tell("controllerrevisions", Effect::Added, revision("a", "1"));
        let story = story.tell("controllerrevisions", Effect::Added, revision("b", "2"));
        story
            .tell("controllerrevisions", Effect::Added, revision("c", "1"))
            .check(&["Added controllerrevisions c (4): a second revision of one template"]);
    }
}
