//! What must be true of every history of workloads, whoever ran the controllers and however fast.
//!
//! At each write:
//! 1. a ReplicaSet grows only while those of its Deployment together want no more Pods than replicas and surge;
//! 2. once a rolling Deployment is complete, enough of its Pods stay ready until somebody scales it;
//! 3. when recreating, no Pod comes beside one of another ReplicaSet that has not ended;
//! 4. a Pod comes only where its owner wants more than it has, terminating and finished ones not counted;
//! 5. there is one ReplicaSet per template, and one is deleted only when it is empty;
//! 6. what was observed of a workload or a budget is never less than before, and a condition of a Deployment that keeps its
//!    status keeps the time of its transition.
//!
//! At the end, unless the one in charge was killed meanwhile:
//! 7. the events of a Deployment tell each step of each of its ReplicaSets, in order and without a gap, in one event or
//!    in several that follow each other;
//! 8. the events of an owner name each Pod that was made for it, and each that went while it stayed, and no other.
//!
//! Those of PodDisruptionBudgets are in `budget_rules`.
//!
//! A controller acts on what it has seen. So wherever a rule looks at what is wanted, everything counts that was wanted
//! since the generation that the status says was observed.
//!
//! Those of StatefulSets are in `stateful_rules`.
//!
//! Pods may be more than wanted for the moment between a scale-down and its deletions, as upstream.
//!
//! Not here: what is true of one kind alone, which is in a file of its own.

mod cron_jobs;
mod daemon_sets;
mod endpoint_slices;
mod jobs;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::budget_rules;
use super::history::{Effect, History, Id, Write, text};
use super::stateful_rules;
use crate::objects::has_condition;

/// Kinds whose status names the generation that was observed (rule 6).
const OBSERVED: [&str; 6] =
    ["daemonsets", "deployments", "poddisruptionbudgets", "replicasets", "replicationcontrollers", "statefulsets"];

/// Changes that a user makes to objects of the controllers; the rules that these may break are not checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UserActions {
    /// Pods were deleted, finished or taken away: fewer may be ready (rule 2).
    pub pods: bool,
    /// ReplicaSets were scaled or deleted (rules 1, 5 and 7).
    pub sets: bool,
    /// EndpointSlices were changed or deleted (`endpoint_slices`).
    pub slices: bool,
    /// A subject was killed and may have died between a write and its event (rules 7 and 8).
    pub replaces_subject: bool,
}

/// What a Deployment wants.
#[derive(Debug, Clone, Copy)]
struct Wish {
    replicas: i64,
    surge: i64,
    unavailable: i64,
    recreate: bool,
}

#[derive(Debug, Default)]
struct Deployment {
    name: String,
    /// Generation -> what was wanted, from the observed one on.
    wishes: BTreeMap<u64, Wish>,
    /// It has been complete since it was last scaled.
    served: bool,
    leaving: bool,
}

/// A ReplicaSet or ReplicationController.
#[derive(Debug, Default)]
struct Set {
    deployment: Option<String>,
    /// Generation -> replicas, from the observed one on.
    wishes: BTreeMap<u64, i64>,
    template: Value,
    live: bool,
    /// The last write made it want more.
    grew: bool,
}

#[derive(Debug)]
struct Pod {
    owner: Option<String>,
    ready: bool,
    terminating: bool,
    finished: bool,
}

#[derive(Debug, Default)]
struct Replay {
    user_actions: UserActions,
    deployments: BTreeMap<String, Deployment>,
    sets: BTreeMap<String, Set>,
    pods: BTreeMap<String, Pod>,
    /// uid -> status of each object of [`OBSERVED`].
    statuses: BTreeMap<String, Value>,
    broken: Vec<String>,
}

/// The rules that a history broke, in words; none is right.
pub fn broken(history: &History, user_actions: UserActions) -> Vec<String> {
    let mut replay = Replay { user_actions, ..Replay::default() };
    for ((plural, uid), object) in &history.base {
        let write = Write { plural, effect: Effect::Added, object: object.clone() };
        if OBSERVED.contains(plural) {
            replay.statuses.insert(uid.clone(), object["status"].clone());
        }
        replay.take_in(&write, uid.clone());
    }
    for write in &history.writes {
        replay.step(write);
    }
    let mut broken = replay.broken;
    broken.extend(cron_jobs::broken(history, user_actions));
    broken.extend(daemon_sets::broken(history, user_actions));
    broken.extend(budget_rules::broken(history));
    broken.extend(endpoint_slices::broken(history, user_actions));
    broken.extend(jobs::broken(history));
    broken.extend(stateful_rules::broken(history, user_actions));
    broken.extend(super::autoscaler_rules::broken(history));
    if !user_actions.replaces_subject {
        if !user_actions.sets {
            broken.extend(steps_not_told(history));
        }
        broken.extend(pods_not_told(history, user_actions));
    }
    broken
}

/// A rule that a write broke, with the write.
pub(super) fn describe(write: &Write, rule: &str) -> String {
    let version = text(&write.object, "resourceVersion");
    format!("{:?} {} {} ({version}): {rule}", write.effect, write.plural, write.name())
}

impl Replay {
    fn take_in(&mut self, write: &Write, uid: String) {
        match write.plural {
            "deployments" => self.deployment(write, uid),
            "replicasets" | "replicationcontrollers" => self.set(write, uid),
            "pods" => match write.left() {
                Some(object) => {
                    self.pods.insert(uid, Pod::read(object));
                }
                None => {
                    self.pods.remove(&uid);
                }
            },
            _ => {}
        }
    }

    fn step(&mut self, write: &Write) {
        let uid = text(&write.object, "uid").to_owned();
        let breaks = match write.plural {
            "replicasets" | "replicationcontrollers" => self.before_set(write),
            "pods" if write.effect == Effect::Added => self.before_pod(&write.object),
            _ => None,
        };
        let breaks = breaks.or_else(|| self.fallen_back(write, &uid));
        self.take_in(write, uid.clone());
        let breaks = breaks.or_else(|| match write.plural {
            "replicasets" if !self.user_actions.sets => self.surge(&uid),
            "pods" if !self.user_actions.pods => self.too_few_ready(&write.object),
            _ => None,
        });
        if let Some(rule) = breaks {
            self.broken.push(describe(write, &rule));
        }
    }

    fn deployment(&mut self, write: &Write, uid: String) {
        let known = self.deployments.entry(uid).or_default();
        let object = &write.object;
        known.name = write.name().to_owned();
        known.leaving = write.left().is_none() || !object["metadata"]["deletionTimestamp"].is_null();
        let (status, generation) = (&object["status"], object["metadata"]["generation"].as_u64().unwrap_or(0));
        let wish = Wish::read(&object["spec"]);
        if known.wishes.values().any(|old| old.replicas != wish.replicas) {
            known.served = false;
        }
        known.wishes.insert(generation, wish);
        let observed = status["observedGeneration"].as_u64().unwrap_or(0);
        known.wishes = known.wishes.split_off(&observed);
        let all = |field: &str| status[field].as_i64().unwrap_or(0) == wish.replicas;
        known.served |=
            observed == generation && ["replicas", "updatedReplicas", "availableReplicas"].map(all) == [true; 3];
    }

    fn set(&mut self, write: &Write, uid: String) {
        let known = self.sets.entry(uid).or_default();
        let object = &write.object;
        known.live = write.left().is_some();
        known.deployment = controller(object).map(str::to_owned);
        known.template = template(object);
        let generation = object["metadata"]["generation"].as_u64().unwrap_or(0);
        let before = known.wanted();
        known.wishes.insert(generation, object["spec"]["replicas"].as_i64().unwrap_or(1));
        known.grew = known.wanted() > before;
        known.wishes = known.wishes.split_off(&object["status"]["observedGeneration"].as_u64().unwrap_or(0));
    }

    /// Rule 5.
    fn before_set(&self, write: &Write) -> Option<String> {
        let deployment = controller(&write.object).and_then(|uid| self.deployments.get(uid)).filter(|d| !d.leaving)?;
        if self.user_actions.sets {
            return None;
        }
        match write.effect {
            Effect::Added => {
                let new = template(&write.object);
                let owner = controller(&write.object)?;
                let exists = self.sets_of(owner).any(|(_, set)| set.template == new);
                exists.then(|| format!("a second ReplicaSet of one template of {}", deployment.name))
            }
            Effect::Deleted => {
                let n = write.object["spec"]["replicas"].as_i64().unwrap_or(1);
                (n != 0).then(|| format!("deleted while it wants {n} Pods"))
            }
            Effect::Modified => None,
        }
    }

    /// Rule 6.
    fn fallen_back(&mut self, write: &Write, uid: &str) -> Option<String> {
        if !OBSERVED.contains(&write.plural) {
            return None;
        }
        let new = &write.object["status"];
        let old = self.statuses.insert(uid.to_owned(), new.clone())?;
        let [before, now] = [&old, new].map(|status| status["observedGeneration"].as_i64().unwrap_or(0));
        if now < before {
            return Some(format!("generation {now} is observed after {before}"));
        }
        let moved = |condition: &&Value| {
            let same = |field: &str, other: &Value| condition[field] == other[field];
            let before = old["conditions"].as_array().into_iter().flatten().find(|other| same("type", other));
            before.is_some_and(|before| same("status", before) && !same("lastTransitionTime", before))
        };
        let conditions = new["conditions"].as_array().filter(|_| write.plural == "deployments");
        let moved = conditions.into_iter().flatten().find(moved)?;
        Some(format!("{} has the status that it had, and another time of transition", moved["type"]))
    }

    /// Rule 1, after the write.
    fn surge(&self, uid: &str) -> Option<String> {
        let set = self.sets.get(uid)?;
        let owner = set.deployment.as_deref()?;
        let deployment = self.deployments.get(owner)?;
        let total: i64 = self.sets_of(owner).map(|(_, set)| set.wanted()).sum();
        let allowed = deployment.wishes.values().map(|wish| wish.replicas + wish.surge).max()?;
        (set.grew && total > allowed && set.live)
            .then(|| format!("the ReplicaSets of {} want {total} Pods, more than {allowed}", deployment.name))
    }

    /// Rules 3 and 4, before the write.
    fn before_pod(&self, object: &Value) -> Option<String> {
        let owner = controller(object)?;
        let set = self.sets.get(owner)?;
        let present = self.pods.values().filter(|pod| pod.owner.as_deref() == Some(owner) && pod.counts()).count();
        let wanted = set.wishes.values().copied().max()?;
        if i64::try_from(present).unwrap_or(i64::MAX) >= wanted {
            return Some(format!("surplus: {present} of {wanted} Pods are there already"));
        }
        let deployment = self.deployments.get(set.deployment.as_deref()?)?;
        let recreates = deployment.wishes.values().all(|wish| wish.recreate);
        let siblings: BTreeSet<&str> =
            self.sets_of(set.deployment.as_deref()?).map(|(uid, _)| uid).filter(|uid| *uid != owner).collect();
        let beside = |pod: &&Pod| !pod.finished && pod.owner.as_deref().is_some_and(|uid| siblings.contains(uid));
        (recreates && self.pods.values().any(|pod| beside(&pod)))
            .then(|| format!("{} recreates, and an old Pod has not ended", deployment.name))
    }

    /// Rule 2, after the write.
    fn too_few_ready(&self, object: &Value) -> Option<String> {
        let owner = self.sets.get(controller(object)?)?.deployment.as_deref()?;
        let deployment = self.deployments.get(owner).filter(|deployment| deployment.served && !deployment.leaving)?;
        let sets: BTreeSet<&str> = self.sets_of(owner).map(|(uid, _)| uid).collect();
        let serves =
            |pod: &&Pod| pod.ready && pod.counts() && pod.owner.as_deref().is_some_and(|uid| sets.contains(uid));
        let ready = i64::try_from(self.pods.values().filter(serves).count()).unwrap_or(i64::MAX);
        let needed = deployment.wishes.values().map(Wish::floor).min()?;
        (ready < needed).then(|| format!("{ready} Pods of {} are ready, fewer than {needed}", deployment.name))
    }

    fn sets_of<'a>(&'a self, deployment: &'a str) -> impl Iterator<Item = (&'a str, &'a Set)> {
        let all = self.sets.iter().map(|(uid, set)| (uid.as_str(), set));
        all.filter(move |(_, set)| set.live && set.deployment.as_deref() == Some(deployment))
    }
}

impl Set {
    /// What it wants now.
    fn wanted(&self) -> i64 {
        self.wishes.values().next_back().copied().unwrap_or(0)
    }
}

impl Pod {
    fn read(object: &Value) -> Pod {
        Pod {
            owner: controller(object).map(str::to_owned),
            ready: has_condition(object, "Ready", "True"),
            terminating: !object["metadata"]["deletionTimestamp"].is_null(),
            finished: matches!(object["status"]["phase"].as_str(), Some("Failed" | "Succeeded")),
        }
    }

    /// As a replica of its owner.
    fn counts(&self) -> bool {
        !self.terminating && !self.finished
    }
}

impl Wish {
    fn read(spec: &Value) -> Wish {
        let replicas = spec["replicas"].as_i64().unwrap_or(1);
        let recreate = spec["strategy"]["type"] == "Recreate";
        let rolling = &spec["strategy"]["rollingUpdate"];
        let (mut surge, mut unavailable) = (0, 0);
        if !recreate {
            surge = portion(&rolling["maxSurge"], replicas, 99);
            unavailable = portion(&rolling["maxUnavailable"], replicas, 0);
            if surge == 0 && unavailable == 0 {
                unavailable = 1;
            }
        }
        Wish { replicas, surge, unavailable, recreate }
    }

    /// How many Pods must be ready.
    fn floor(&self) -> i64 {
        if self.recreate { 0 } else { self.replicas - self.unavailable }
    }
}

/// A number, or a percentage of `replicas`, to which `rounding` hundredths are added before the rest is cut off.
fn portion(value: &Value, replicas: i64, rounding: i64) -> i64 {
    let percent = value.as_str().and_then(|text| text.strip_suffix('%')?.parse::<i64>().ok());
    percent.map_or_else(|| value.as_i64().unwrap_or(0), |percent| (replicas * percent + rounding) / 100)
}

/// The template of a workload, without the label that tells those of one Deployment apart.
fn template(object: &Value) -> Value {
    let mut template = object["spec"]["template"].clone();
    if let Some(labels) = template["metadata"]["labels"].as_object_mut() {
        labels.remove("pod-template-hash");
    }
    template
}

/// The uid of the owner that is its controller.
pub fn controller(object: &Value) -> Option<&str> {
    let owners = object["metadata"]["ownerReferences"].as_array()?;
    owners.iter().find(|owner| owner["controller"] == true)?["uid"].as_str()
}

/// Each time that an event happened: (uid of what it is about, reason, message), in the order of the writes.
pub fn occurrences(history: &History) -> Vec<(String, String, String)> {
    let mut counts: BTreeMap<Id, u64> = BTreeMap::new();
    let mut all = Vec::new();
    for write in history.of("events").filter(|write| write.effect != Effect::Deleted) {
        let count = write.object["count"].as_u64().unwrap_or(1);
        let before = counts.insert(write.id(), count).unwrap_or(0);
        let text = |field: &str| write.object[field].as_str().unwrap_or_default();
        let about = write.object["involvedObject"]["uid"].as_str().unwrap_or_default();
        let message = text("message").trim_start_matches("(combined from similar events): ");
        let occurrence = (about.to_owned(), text("reason").to_owned(), message.to_owned());
        all.extend((before..count).map(|_| occurrence.clone()));
    }
    all
}

/// ReplicaSet -> steps (from, to), in which it was scaled while it had an owner.
pub fn steps_done(history: &History) -> BTreeMap<Id, Vec<(i64, i64)>> {
    let replicas = |object: &Value| object["spec"]["replicas"].as_i64().unwrap_or(1);
    let base = history.base.iter().filter(|((plural, _), _)| *plural == "replicasets");
    let mut last: BTreeMap<Id, i64> = base.map(|(id, object)| (id.clone(), replicas(object))).collect();
    let mut steps: BTreeMap<Id, Vec<(i64, i64)>> = BTreeMap::new();
    for write in history.of("replicasets").filter(|write| write.effect != Effect::Deleted) {
        let now = replicas(&write.object);
        let before = last.insert(write.id(), now).unwrap_or(0);
        if before != now && controller(&write.object).is_some() {
            steps.entry(write.id()).or_default().push((before, now));
        }
    }
    steps
}

/// Rule 7.
fn steps_not_told(history: &History) -> Vec<String> {
    let mut told: BTreeMap<String, Vec<(i64, i64)>> = BTreeMap::new();
    for (_, _, message) in occurrences(history).iter().filter(|(_, reason, _)| reason == "ScalingReplicaSet") {
        match read_step(message) {
            Some((set, step)) => told.entry(set.to_owned()).or_default().push(step),
            None => return vec![format!("an event about scaling says {message:?}")],
        }
    }
    let mut done: BTreeMap<String, Vec<(i64, i64)>> = BTreeMap::new();
    for (id, steps) in steps_done(history) {
        // Events name a ReplicaSet without its uid.
        let name = history.of("replicasets").find(|write| write.id() == id).map(Write::name).unwrap_or_default();
        done.entry(name.to_owned()).or_default().extend(steps);
    }
    let is_told = told.keys().eq(done.keys())
        && done.iter().all(|(set, done)| told.get(set).is_some_and(|told| leads_through(told, done)));
    if is_told { Vec::new() } else { vec![format!("steps told: {told:?}, done: {done:?}")] }
}

/// Whether these small steps are those big ones, some of them cut into smaller ones of one direction.
fn leads_through(small: &[(i64, i64)], big: &[(i64, i64)]) -> bool {
    let mut rest = small.iter();
    for &(from, to) in big {
        let mut at = from;
        while at != to {
            match rest.next() {
                Some(&(start, end)) if start == at && (to - from).signum() == (end - start).signum() => at = end,
                _ => return false,
            }
        }
    }
    rest.next().is_none()
}

/// `Scaled up replica set web-5f from 1 to 2`.
fn read_step(message: &str) -> Option<(&str, (i64, i64))> {
    let rest = message.strip_prefix("Scaled ")?;
    let (direction, rest) = rest.split_once(" replica set ")?;
    let (set, rest) = rest.split_once(" from ")?;
    let (from, to) = rest.split_once(" to ")?;
    let (from, to) = (from.parse().ok()?, to.parse().ok()?);
    (direction == if from < to { "up" } else { "down" }).then_some((set, (from, to)))
}

/// Kinds whose events name each Pod that is made for their objects or goes.
const TELLING: [&str; 4] = ["daemonsets", "jobs", "replicasets", "replicationcontrollers"];

/// (uid of the owner, name) of Pods.
type Owned = BTreeSet<(String, String)>;

/// Rule 8.
fn pods_not_told(history: &History, user_actions: UserActions) -> Vec<String> {
    // What a user made for an owner of another kind is nobody's to tell; what goes with its owner goes silently.
    let mut owners: BTreeMap<&str, bool> = BTreeMap::new();
    for write in history.writes.iter().filter(|write| TELLING.contains(&write.plural)) {
        let stays = write.left().is_some_and(|object| object["metadata"]["deletionTimestamp"].is_null());
        *owners.entry(text(&write.object, "uid")).or_insert(true) &= stays;
    }
    let (mut made, mut gone) = (Owned::new(), Owned::new());
    for write in history.of("pods") {
        let Some(owner) = controller(&write.object) else { continue };
        let Some(stays) = owners.get(owner) else { continue };
        let pod = (owner.to_owned(), write.name().to_owned());
        match write.effect {
            Effect::Added => made.insert(pod),
            Effect::Deleted if *stays => gone.insert(pod),
            _ => false,
        };
    }
    let (mut told_made, mut told_gone) = (Owned::new(), Owned::new());
    let mut broken = Vec::new();
    for (about, reason, message) in occurrences(history) {
        let (told, pod) = match (reason.as_str(), message.split_once(": ")) {
            ("SuccessfulCreate", Some(("Created pod", pod))) => (&mut told_made, pod),
            ("SuccessfulDelete", Some(("Deleted pod", pod))) => (&mut told_gone, pod),
            _ => continue,
        };
        if reason == "SuccessfulDelete" && owners.get(about.as_str()) != Some(&true) {
            continue;
        }
        if !told.insert((about, pod.to_owned())) {
            broken.push(format!("Pod {pod}: {reason} is told twice"));
        }
    }
    if made != told_made {
        broken.push(format!("Pods made: {made:?}, told: {told_made:?}"));
    }
    let fits = if user_actions.pods { told_gone.is_subset(&gone) } else { told_gone == gone };
    if !fits {
        broken.push(format!("Pods deleted: {gone:?}, told: {told_gone:?}"));
    }
    broken
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A history that is told write by write.
    #[derive(Default)]
    struct Story(History);

    fn owned_by(kind: &str, uid: &str) -> Value {
        json!([{"kind": kind, "uid": uid, "controller": true}])
    }

    impl Story {
        fn tell(mut self, plural: &'static str, effect: Effect, mut object: Value) -> Story {
            object["metadata"]["resourceVersion"] = json!(self.0.writes.len().to_string());
            object["metadata"]["uid"] = object["metadata"]["name"].clone();
            self.0.writes.push(Write { plural, effect, object });
            self
        }

        /// `web` with 2 replicas, surge 1 and nothing unavailable, at this generation.
        fn deployment(self, generation: u64, strategy: &str, available: i64) -> Story {
            let effect = if generation == 0 { Effect::Added } else { Effect::Modified };
            let counts = json!({"observedGeneration": generation, "replicas": available, "updatedReplicas": available,
                "availableReplicas": available});
            let rolling = json!({"maxSurge": "10%", "maxUnavailable": "10%"});
            let strategy = json!({"type": strategy, "rollingUpdate": rolling});
            self.tell(
                "deployments",
                effect,
                json!({"metadata": {"name": "web", "generation": generation},
                    "spec": {"replicas": 2, "strategy": strategy}, "status": counts}),
            )
        }

        fn set(self, effect: Effect, name: &str, generation: u64, replicas: i64) -> Story {
            let spec = json!({"replicas": replicas, "template": {"image": name[..2]}});
            let metadata =
                json!({"name": name, "generation": generation, "ownerReferences": owned_by("Deployment", "web")});
            self.tell(
                "replicasets",
                effect,
                json!({"metadata": metadata, "spec": spec, "status": {"observedGeneration": generation}}),
            )
        }

        fn pod(self, effect: Effect, name: &str, ready: &str) -> Story {
            let (owner, _) = name.split_once('-').unwrap();
            self.tell(
                "pods",
                effect,
                json!({"metadata": {"name": name, "ownerReferences": owned_by("ReplicaSet", owner)},
                    "status": {"conditions": [{"type": "Ready", "status": ready}]}}),
            )
        }

        fn event(self, about: &str, reason: &str, message: &str) -> Story {
            let n = self.0.writes.len();
            self.tell(
                "events",
                Effect::Added,
                json!({"metadata": {"name": format!("event-{n}")}, "involvedObject": {"uid": about},
                    "reason": reason, "message": message, "count": 1}),
            )
        }

        fn made(self, pod: &str) -> Story {
            let owner = &pod[..2];
            let story = self.pod(Effect::Added, pod, "False").pod(Effect::Modified, pod, "True");
            story.event(owner, "SuccessfulCreate", &format!("Created pod: {pod}"))
        }

        fn deleted(self, pod: &str) -> Story {
            let owner = &pod[..2];
            let story = self.pod(Effect::Deleted, pod, "True");
            story.event(owner, "SuccessfulDelete", &format!("Deleted pod: {pod}"))
        }

        fn scaled(self, way: &str, set: &str, from: i64, to: i64) -> Story {
            let message = format!("Scaled {way} replica set {set} from {from} to {to}");
            self.event("web", "ScalingReplicaSet", &message)
        }

        /// `web` complete, with its ReplicaSet `r1` and two Pods.
        fn complete(strategy: &str) -> Story {
            Story::default()
                .deployment(0, strategy, 0)
                .set(Effect::Added, "r1", 1, 2)
                .scaled("up", "r1", 0, 2)
                .made("r1-a")
                .made("r1-b")
                .deployment(1, strategy, 2)
        }

        fn check(&self, broken: &[&str]) {
            assert_eq!(super::broken(&self.0, UserActions::default()), broken);
        }
    }

    #[test]
    fn a_rolling_update_breaks_no_rule() {
        Story::complete("RollingUpdate")
            .set(Effect::Added, "r2", 1, 1)
            .scaled("up", "r2", 0, 1)
            .made("r2-a")
            .set(Effect::Modified, "r1", 2, 1)
            .scaled("down", "r1", 2, 1)
            .deleted("r1-a")
            .check(&[]);
    }

    #[test]
    fn growing_beyond_the_surge_is_told() {
        let story = Story::complete("RollingUpdate").set(Effect::Added, "r2", 1, 2).scaled("up", "r2", 0, 2);
        story.check(&["Added replicasets r2 (10): the ReplicaSets of web want 4 Pods, more than 3"]);
    }

    #[test]
    fn too_few_ready_pods_are_told_unless_somebody_took_them() {
        let story = Story::complete("RollingUpdate")
            .set(Effect::Modified, "r1", 2, 1)
            .scaled("down", "r1", 2, 1)
            .deleted("r1-a");
        story.check(&["Deleted pods r1-a (12): 1 Pods of web are ready, fewer than 2"]);
        assert!(broken(&story.0, UserActions { pods: true, ..UserActions::default() }).is_empty());
    }

    #[test]
    fn a_recreated_pod_beside_an_old_one_is_told() {
        let story = Story::complete("Recreate")
            .set(Effect::Modified, "r1", 2, 0)
            .scaled("down", "r1", 2, 0)
            .deleted("r1-a")
            .set(Effect::Added, "r2", 1, 2)
            .scaled("up", "r2", 0, 2)
            .made("r2-a")
            .deleted("r1-b");
        story.check(&["Added pods r2-a (16): web recreates, and an old Pod has not ended"]);
    }

    #[test]
    fn a_surplus_pod_is_told() {
        let story = Story::complete("RollingUpdate").made("r1-c");
        story.check(&["Added pods r1-c (10): surplus: 2 of 2 Pods are there already"]);
    }

    #[test]
    fn a_second_replica_set_of_a_template_and_a_full_one_that_goes_are_told() {
        let story = Story::complete("RollingUpdate")
            .set(Effect::Added, "r1x", 1, 0)
            .set(Effect::Deleted, "r1x", 1, 0)
            .set(Effect::Added, "r3", 1, 1)
            .scaled("up", "r3", 0, 1)
            .set(Effect::Deleted, "r3", 1, 1);
        story.check(&[
            "Added replicasets r1x (10): a second ReplicaSet of one template of web",
            "Deleted replicasets r3 (14): deleted while it wants 1 Pods",
        ]);
    }

    #[test]
    fn steps_that_are_not_told_or_leave_a_gap_are_told() {
        let silent = Story::complete("RollingUpdate").set(Effect::Added, "r2", 1, 1);
        silent.check(&[r#"steps told: {"r1": [(0, 2)]}, done: {"r1": [(0, 2)], "r2": [(0, 1)]}"#]);
        let gap = Story::complete("RollingUpdate").set(Effect::Modified, "r1", 2, 3).scaled("up", "r1", 1, 3);
        gap.check(&[r#"steps told: {"r1": [(0, 2), (1, 3)]}, done: {"r1": [(0, 2), (2, 3)]}"#]);
        let wrong_way = Story::complete("RollingUpdate").set(Effect::Modified, "r1", 2, 3).scaled("down", "r1", 2, 3);
        wrong_way.check(&[r#"an event about scaling says "Scaled down replica set r1 from 2 to 3""#]);
    }

    #[test]
    fn a_step_may_be_told_in_parts() {
        let story = Story::complete("RollingUpdate").set(Effect::Modified, "r1", 2, 0);
        story.scaled("down", "r1", 2, 1).scaled("down", "r1", 1, 0).check(&[]);
        assert!(!leads_through(&[(2, 1), (0, -1)], &[(2, -1)]));
        assert!(!leads_through(&[(2, 3), (3, 0)], &[(2, 0)]));
        assert!(!leads_through(&[(2, 0), (0, 1)], &[(2, 0)]));
    }

    #[test]
    fn pods_that_no_event_names_are_told() {
        let story = Story::complete("RollingUpdate")
            .pod(Effect::Deleted, "r1-a", "False")
            .pod(Effect::Added, "r1-c", "True")
            .event("r1", "SuccessfulCreate", "Created pod: r1-a");
        let broken = broken(&story.0, UserActions { pods: true, ..UserActions::default() });
        assert_eq!(
            broken,
            [
                "Pod r1-a: SuccessfulCreate is told twice",
                r#"Pods made: {("r1", "r1-a"), ("r1", "r1-b"), ("r1", "r1-c")}, told: {("r1", "r1-a"), ("r1", "r1-b")}"#,
            ]
        );
    }

    #[test]
    fn a_status_that_falls_back_is_told() {
        let web = |observed: u64, status: &str, time: &str| {
            let conditions = json!([{"type": "Progressing", "status": status, "lastTransitionTime": time}]);
            json!({"metadata": {"name": "web", "generation": 3},
                "status": {"observedGeneration": observed, "conditions": conditions}})
        };
        let story = Story::default()
            .tell("deployments", Effect::Added, web(2, "Unknown", "1"))
            .tell("deployments", Effect::Modified, web(2, "True", "2"))
            .tell("deployments", Effect::Modified, web(3, "True", "3"))
            .tell("deployments", Effect::Modified, web(2, "True", "3"));
        story.check(&[
            r#"Modified deployments web (2): "Progressing" has the status that it had, and another time of transition"#,
            "Modified deployments web (3): generation 2 is observed after 3",
        ]);
        let observed = |n: u64| json!({"metadata": {"name": "web"}, "status": {"observedGeneration": n}});
        for plural in OBSERVED {
            let story =
                Story::default().tell(plural, Effect::Added, observed(0)).tell(plural, Effect::Modified, observed(1));
            let story = story.tell(plural, Effect::Modified, observed(0));
            story.check(&[format!("Modified {plural} web (2): generation 0 is observed after 1").as_str()]);
            // What was there when the history began counts too.
            let mut story = Story::default();
            story.0.base.insert((plural, "web".to_owned()), observed(1));
            let story = story.tell(plural, Effect::Modified, observed(0));
            story.check(&[format!("Modified {plural} web (0): generation 0 is observed after 1").as_str()]);
        }
    }

    #[test]
    fn what_is_wanted_counts_from_the_generation_that_was_observed() {
        // Scaled down to 2 by a user, while the controller has seen that 3 are wanted.
        let wants = |generation: u64, replicas: i64, observed: u64| {
            json!({"metadata": {"name": "r1", "generation": generation}, "spec": {"replicas": replicas},
                "status": {"observedGeneration": observed}})
        };
        let base = || Story::default().tell("replicasets", Effect::Added, wants(1, 3, 1)).made("r1-a").made("r1-b");
        base().tell("replicasets", Effect::Modified, wants(2, 2, 1)).made("r1-c").check(&[]);
        base()
            .tell("replicasets", Effect::Modified, wants(2, 2, 2))
            .made("r1-c")
            .check(&["Added pods r1-c (8): surplus: 2 of 2 Pods are there already"]);
    }

    #[test]
    fn percentages_round_as_upstream() {
        let wish = |surge: Value, unavailable: Value, replicas: i64| {
            let rolling = json!({"maxSurge": surge, "maxUnavailable": unavailable});
            let wish = Wish::read(&json!({"replicas": replicas, "strategy": {"rollingUpdate": rolling}}));
            (wish.surge, wish.unavailable)
        };
        assert_eq!(wish(json!("25%"), json!("25%"), 3), (1, 0));
        assert_eq!(wish(json!("25%"), json!("25%"), 10), (3, 2));
        assert_eq!(wish(json!(0), json!("10%"), 4), (0, 1));
        assert_eq!(wish(json!("100%"), json!(2), 4), (4, 2));
    }
}
