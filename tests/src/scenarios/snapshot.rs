//! What is left at the end of a scenario, made comparable.
//!
//! Names that a controller made up are replaced by what they stand for: a ReplicaSet is called after
//! the Deployment and the content of its template, and so is a revision of a DaemonSet; a Pod is called after its owner, a Job
//! of a CronJob after the CronJob; uids in names, labels and owner references are replaced by whose they are. Times, versions, nodes and addresses are dropped. Events are counted by what they
//! say; how often a warning was repeated is chance (a backoff decides), so it is only kept that it was.
//! What every namespace has is left out, and reported where it is missing.
//!
//! Not here: what of it a scenario leaves to chance, but for how that is left out.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::history::{History, Id};
use super::{Chance, passage};
use crate::behaviour::normalize::is_time;

/// The letters of which generated names and hashes are made.
const SAFE_LETTERS: &str = "bcdfghjklmnpqrstvwxz2456789";

/// The length of what `generateName` appends.
const SUFFIX_LENGTH: usize = 5;

/// The length of the time in the name of a CronJob's Job, in minutes since 1970.
const MINUTES_LENGTH: usize = 8;

/// What makes objects with generated names: plural and kind. ReplicaSets have generated names themselves.
const MAKERS: [(&str, &str); 6] = [
    ("cronjobs", "CronJob"),
    ("daemonsets", "DaemonSet"),
    ("deployments", "Deployment"),
    ("jobs", "Job"),
    ("replicationcontrollers", "ReplicationController"),
    ("statefulsets", "StatefulSet"),
];

/// Fields that differ from run to run, wherever they are.
const DROPPED: [&str; 12] = [
    "managedFields",
    "resourceVersion",
    "uid",
    "creationTimestamp",
    "nodeName",
    "podIP",
    "podIPs",
    "hostIP",
    "hostIPs",
    "startTime",
    "containerID",
    "imageID",
];

/// The name of the config map with the certificate authority.
const ROOT_CA: &str = "kube-root-ca.crt";

/// What the certificate authority of the cluster is shown as.
const AUTHORITY: &str = "<the certificate authority>";

/// Makes kind -> objects comparable, and adds how they came so.
///
/// The result holds `objects` (kind -> objects; a kind without objects is absent), `missing` (what every namespace has and this one has
/// not; absent if there is nothing), `events` (lines) and `passage` (see [`passage::of`]).
pub fn normalize(left: &Value, history: &History, root_ca: &str) -> Value {
    let names = Names::learn(&all_ever(left, history));
    let mut kinds = Map::new();
    let mut missing: Vec<String> = Vec::new();
    let mut told = Value::Null;
    for (plural, objects) in left.as_object().into_iter().flatten() {
        let objects = objects.as_array().map(Vec::as_slice).unwrap_or_default();
        if plural == "events" {
            told = events(objects, &names);
            continue;
        }
        let mut all: Vec<Value> = objects.iter().map(|object| one(plural, object, &names, root_ca)).collect();
        if let Some(common) = common(plural) {
            let name = &common["metadata"]["name"];
            if !all.iter().any(|object| object["metadata"]["name"] == *name) {
                missing.push(format!("{plural} {}", name.as_str().unwrap_or_default()));
            }
            all.retain(|object| *object != common);
        }
        if !all.is_empty() {
            all.sort_by_cached_key(Value::to_string);
            kinds.insert(plural.clone(), all.into());
        }
    }
    kinds.sort_keys();
    let mut seen = json!({"objects": kinds});
    if !missing.is_empty() {
        seen["missing"] = json!(missing);
    }
    seen["events"] = told;
    seen["passage"] = passage::of(history, &names);
    seen
}

/// The object of a kind that every namespace has, as controllers make it.
fn common(plural: &str) -> Option<Value> {
    match plural {
        "configmaps" => {
            let description = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as \
                               the internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of \
                               Kubernetes clusters.";
            let annotations = json!({"kubernetes.io/description": description});
            Some(json!({"data": {"ca.crt": AUTHORITY}, "metadata": {"annotations": annotations, "name": ROOT_CA}}))
        }
        "serviceaccounts" => Some(json!({"metadata": {"name": "default"}})),
        _ => None,
    }
}

/// Kind -> every object that there ever was, as it was last.
fn all_ever(left: &Value, history: &History) -> Value {
    let mut last: BTreeMap<Id, &Value> = history.base.iter().map(|(id, object)| (id.clone(), object)).collect();
    last.extend(history.writes.iter().map(|write| (write.id(), &write.object)));
    let mut all = left.clone();
    let mut gone: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
    for ((plural, uid), object) in last {
        let is_left = left[plural].as_array().into_iter().flatten().any(|o| o["metadata"]["uid"] == uid);
        if !is_left {
            gone.entry(plural).or_default().push(object.clone());
        }
    }
    for (plural, mut objects) in gone {
        // First, so that what is left counts where a name was used twice.
        objects.extend(all[plural].as_array().cloned().unwrap_or_default());
        all[plural] = objects.into();
    }
    all
}

/// Leaves out what chance decides.
pub fn without_chance(seen: &Value, chance: Chance) -> Value {
    let mut seen = seen.clone();
    if chance.steps
        && let Some(sets) = seen["objects"]["replicasets"].as_array_mut()
    {
        // Each step of scaling is a generation.
        sets.iter_mut().for_each(|set| set["metadata"]["generation"] = Value::Null);
    }
    for objects in seen["objects"].as_object_mut().into_iter().flat_map(Map::values_mut) {
        for object in objects.as_array_mut().into_iter().flatten() {
            if chance.order
                && let Some(Value::Array(conditions)) = object.pointer_mut("/status/conditions")
            {
                conditions.sort_by_cached_key(|condition| condition["type"].to_string());
            }
        }
    }
    if let Some(lines) = seen["events"].as_array_mut() {
        lines.retain(|line| {
            let is_about = |reason: &str| line.as_str().is_some_and(|line| line.contains(&format!(" {reason}: ")));
            let of_steps = is_about("ScalingReplicaSet");
            let of_pods = is_about("SuccessfulCreate") || is_about("SuccessfulDelete");
            !(chance.steps && of_steps || chance.pods && of_pods)
        });
    }
    passage::without_chance(&mut seen["passage"], chance);
    seen
}

fn one(plural: &str, object: &Value, names: &Names, root_ca: &str) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = object["metadata"].as_object_mut() {
        // That of the scenario, whose number depends on which scenarios run.
        metadata.shift_remove("namespace");
    }
    let is_current = object["status"]["observedGeneration"] == object["metadata"]["generation"];
    if object["status"].get("observedGeneration").is_some() {
        object["status"]["observedGeneration"] = json!(if is_current { "current" } else { "stale" });
    }
    if plural == "configmaps" && object["data"]["ca.crt"] == root_ca {
        object["data"]["ca.crt"] = json!(AUTHORITY);
    }
    if let Some(owners) = object["metadata"]["ownerReferences"].as_array_mut() {
        for owner in owners {
            owner["of"] = json!(names.whose(owner["uid"].as_str().unwrap_or_default()));
        }
    }
    names.rewrite(&object)
}

/// The names that controllers made up, and what they stand for.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// uid -> `kind name`, as shown.
    owners: HashMap<String, String>,
    /// ReplicaSet, or revision of a DaemonSet -> as shown.
    hashed: HashMap<String, String>,
    /// Template hash -> as shown.
    hashes: HashMap<String, String>,
    /// Whatever else makes objects with generated names, of which events may speak after it has gone.
    others: BTreeSet<String>,
}

impl Names {
    fn learn(left: &Value) -> Names {
        let mut names = Names::default();
        let objects = |plural: &str| left[plural].as_array().into_iter().flatten();
        let name_of = |o: &Value| o["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        for set in objects("replicasets") {
            let name = name_of(set);
            let hash = set["metadata"]["labels"]["pod-template-hash"].as_str();
            if let Some(hash) = hash
                && let Some(base) = name.strip_suffix(hash)
            {
                let shown = content_of(&set["spec"]["template"]);
                names.hashed.insert(name.clone(), format!("{base}{shown}"));
                names.hashes.insert(hash.to_owned(), shown);
            } else {
                names.hashed.insert(name.clone(), name);
            }
        }
        // The revisions of a StatefulSet have the same names whoever makes them.
        for revision in objects("controllerrevisions") {
            let name = name_of(revision);
            if let Some(hash) = revision["metadata"]["labels"]["controller-revision-hash"].as_str()
                && let Some(base) = name.strip_suffix(hash)
                && !base.is_empty()
            {
                let shown = content_of(&revision["data"]["spec"]["template"]);
                names.hashed.insert(name.clone(), format!("{base}{shown}"));
                names.hashes.insert(hash.to_owned(), shown);
            }
        }
        for plural in MAKERS.map(|(plural, _)| plural) {
            names.others.extend(objects(plural).map(name_of));
        }
        for event in objects("events") {
            let about = &event["involvedObject"];
            let name = about["name"].as_str().unwrap_or_default().to_owned();
            match about["kind"].as_str() {
                Some(kind) if MAKERS.iter().any(|(_, maker)| *maker == kind) => {
                    names.others.insert(name);
                }
                // One without a hash keeps its name; one with a hash is recognised by its Deployment.
                Some("ReplicaSet") if !looks_made_up(&name) => {
                    names.hashed.entry(name.clone()).or_insert(name);
                }
                _ => {}
            }
        }
        for plural in left.as_object().into_iter().flat_map(Map::keys) {
            for object in objects(plural) {
                if let Some(uid) = object["metadata"]["uid"].as_str() {
                    let shown = format!("{plural} {}", names.text(&name_of(object)));
                    names.owners.insert(uid.to_owned(), shown);
                }
            }
        }
        names
    }

    fn whose(&self, uid: &str) -> String {
        self.owners.get(uid).cloned().unwrap_or_else(|| "nobody".to_owned())
    }

    fn rewrite(&self, value: &Value) -> Value {
        match value {
            Value::Object(fields) => {
                let mut rewritten = Map::new();
                for (key, value) in fields {
                    if !DROPPED.contains(&key.as_str()) && !value.is_null() {
                        rewritten.insert(self.text(key), self.rewrite(value));
                    }
                }
                rewritten.sort_keys();
                Value::Object(rewritten)
            }
            Value::Array(items) => items.iter().map(|v| self.rewrite(v)).collect(),
            Value::String(text) if is_time(text) => "<time>".into(),
            Value::String(text) => self.text(text).into(),
            other => other.clone(),
        }
    }

    /// Replaces made-up names word by word.
    pub(super) fn text(&self, text: &str) -> String {
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '-';
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while !rest.is_empty() {
            let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
            let (word, tail) = rest.split_at(end);
            out.push_str(&self.word(word));
            let next = tail.find(is_part).unwrap_or(tail.len());
            out.push_str(&tail[..next]);
            rest = &tail[next..];
        }
        out
    }

    fn word(&self, word: &str) -> String {
        // The number of a namespace depends on which scenarios run.
        if word.strip_prefix("scenario-").is_some_and(|n| n.bytes().all(|b| b.is_ascii_digit())) {
            return "<namespace>".to_owned();
        }
        // `generateName` is an owner with a dash behind it.
        if let Some(owner) = word.strip_suffix('-') {
            return format!("{}-", self.word(owner));
        }
        // Before hashes, which can have digits alone too.
        if let Some((owner, minutes)) = word.rsplit_once('-')
            && minutes.len() == MINUTES_LENGTH
            && minutes.bytes().all(|c| c.is_ascii_digit())
            && self.others.contains(owner)
        {
            return format!("{owner}-<minute>");
        }
        if let Some(shown) = self.owner(word) {
            return shown;
        }
        if let Some(owner) = self.owners.get(word) {
            return format!("<uid of {owner}>");
        }
        if let Some((owner, suffix)) = word.rsplit_once('-')
            && suffix.len() == SUFFIX_LENGTH
            && is_safe(suffix)
        {
            if owner == "kube-api-access" {
                return "kube-api-access-*".to_owned();
            }
            if let Some(shown) = self.owner(owner) {
                return format!("{shown}-*");
            }
            if self.others.contains(owner) {
                return format!("{}-*", self.word(owner));
            }
            // Of an indexed Job.
            if let Some((job, index)) = owner.rsplit_once('-')
                && index.bytes().all(|c| c.is_ascii_digit())
                && self.others.contains(job)
            {
                return format!("{}-{index}-*", self.word(job));
            }
        }
        if let Some((job, index)) = word.rsplit_once('-')
            && index.bytes().all(|c| c.is_ascii_digit())
            && self.others.contains(job)
        {
            return format!("{}-{index}", self.word(job));
        }
        word.to_owned()
    }

    /// What a ReplicaSet, or the hash of its template, is shown as.
    fn owner(&self, word: &str) -> Option<String> {
        if let Some(shown) = self.hashed.get(word).or_else(|| self.hashes.get(word)) {
            return Some(shown.clone());
        }
        let (deployment, hash) = word.rsplit_once('-')?;
        (self.others.contains(deployment) && hash.len() > SUFFIX_LENGTH && is_safe(hash))
            .then(|| format!("{deployment}-gone"))
    }
}

fn is_safe(text: &str) -> bool {
    text.chars().all(|c| SAFE_LETTERS.contains(c))
}

fn looks_made_up(name: &str) -> bool {
    name.rsplit_once('-').is_some_and(|(_, hash)| hash.len() > SUFFIX_LENGTH && is_safe(hash))
}

/// A short name for the content of a template, the same for every contender.
fn content_of(template: &Value) -> String {
    let mut template = template.clone();
    if let Some(labels) = template["metadata"]["labels"].as_object_mut() {
        labels.shift_remove("pod-template-hash");
    }
    template.sort_all_objects();
    let digest = Sha256::digest(template.to_string().as_bytes());
    let image = template["spec"]["containers"][0]["image"].as_str().unwrap_or_default();
    let image = image.replace([':', '/', '.'], "_");
    format!("<{image}_{:02x}{:02x}>", digest[0], digest[1])
}

/// Events as `about: type reason message` -> how often. Not those of the API server, which repairs the addresses of Services that it has
/// just allocated.
fn events(events: &[Value], names: &Names) -> Value {
    let mut counted: BTreeMap<String, u64> = BTreeMap::new();
    for event in events.iter().filter(|event| event["reason"] != "ClusterIPNotAllocated") {
        let about = &event["involvedObject"];
        let text = |v: &Value| names.text(v.as_str().unwrap_or_default());
        let source = event["source"]["component"].as_str().unwrap_or_default();
        let heading = format!("{source}: {} {}", text(&about["kind"]), text(&about["name"]));
        let message = text(&event["message"]);
        // How often a Warning repeats is left to chance, and so is whether it repeats so often that it is combined. So is how often
        // the end of one Job is reported: upstream's cache of the CronJob may not have the status that it has just written.
        let (message, count) = match (event["type"].as_str(), event["reason"].as_str()) {
            (Some("Warning"), _) => (message.trim_start_matches("(combined from similar events): "), 0),
            (_, Some("SawCompletedJob")) => (&*message, 1),
            _ => (&*message, event["count"].as_u64().unwrap_or(1)),
        };
        let line = format!("{heading}: {} {}: {message}", text(&event["type"]), text(&event["reason"]));
        *counted.entry(line).or_default() += count;
    }
    let counted = counted.into_iter().map(|(line, n)| match n {
        0 => json!(line),
        n => json!(format!("{n} x {line}")),
    });
    counted.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(hash: &str, suffix: &str, uid: &str) -> Value {
        let set = format!("web-{hash}");
        json!({
            "deployments": [{"metadata": {"name": "web", "uid": "d"}}],
            "replicasets": [{
                "metadata": {"name": set, "uid": uid, "labels": {"pod-template-hash": hash}},
                "spec": {"template": {
                    "metadata": {"labels": {"pod-template-hash": hash}},
                    "spec": {"containers": [{"image": "image:1"}]},
                }},
            }],
            "pods": [{"metadata": {
                "name": format!("{set}-{suffix}"),
                "generateName": format!("{set}-"),
                "labels": {"pod-template-hash": hash},
                "ownerReferences": [{"kind": "ReplicaSet", "name": set, "uid": uid}],
            }}],
            "events": [{
                "involvedObject": {"kind": "ReplicaSet", "name": set},
                "type": "Normal", "reason": "SuccessfulCreate", "count": 1,
                "message": format!("Created pod: {set}-{suffix}"),
            }],
        })
    }

    fn seen(left: &Value) -> Value {
        normalize(left, &History::default(), "")
    }

    #[test]
    fn runs_that_differ_in_made_up_names_are_equal() {
        let one = seen(&left("6d4cf56db6", "x7k2z", "u1"));
        let other = seen(&left("5b9f8c7d4", "bbbbb", "u2"));
        assert_eq!(format!("{one:#}"), format!("{other:#}"));
        assert_eq!(
            one["objects"]["pods"][0]["metadata"]["ownerReferences"][0]["of"].as_str().map(|s| &s[..16]),
            Some("replicasets web-")
        );
    }

    #[test]
    fn another_owner_is_a_difference() {
        let one = left("6d4cf56db6", "x7k2z", "u1");
        let mut other = one.clone();
        other["pods"][0]["metadata"]["ownerReferences"][0]["uid"] = json!("u9");
        assert_ne!(seen(&one), seen(&other));
    }

    #[test]
    fn jobs_of_cron_jobs_and_their_pods_are_called_after_the_cron_job() {
        let left = |minutes: u32, suffix: &str, uid: &str| {
            let job = format!("hourly-{minutes}");
            seen(&json!({
                "cronjobs": [{"metadata": {"name": "hourly", "uid": "c"}}],
                "jobs": [{
                    "metadata": {"name": job, "uid": uid},
                    "spec": {"selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}},
                }],
                "pods": [{"metadata": {"name": format!("{job}-3-{suffix}"), "generateName": format!("{job}-3-")}}],
            }))
        };
        let one = left(29_876_543, "x7k2z", "0c5a1c1e-3f0e-4f5e-9a52-1f1f0a7b6c11");
        assert_eq!(one, left(29_876_544, "bbbbb", "7d1f6f0a-9c68-4d0c-8d7f-2b8a3f4c5d22"));
        let objects = &one["objects"];
        assert_eq!(objects["pods"][0]["metadata"]["name"], "hourly-<minute>-3-*");
        let selector = &objects["jobs"][0]["spec"]["selector"]["matchLabels"];
        assert_eq!(selector["batch.kubernetes.io/controller-uid"], "<uid of jobs hourly-<minute>>");
    }

    #[test]
    fn revisions_of_daemon_sets_are_called_after_their_content() {
        let left = |hash: &str, image: &str| {
            let labels = json!({"controller-revision-hash": hash});
            let template = json!({"spec": {"containers": [{"image": image}]}});
            seen(&json!({
                "daemonsets": [{"metadata": {"name": "agent"}}],
                "controllerrevisions": [{
                    "metadata": {"name": format!("agent-{hash}"), "labels": labels},
                    "data": {"spec": {"template": template}},
                }],
                "pods": [{"metadata": {"name": "agent-x7k2z", "labels": labels}}],
            }))
        };
        assert_eq!(left("6d4cf56db6", "image:1"), left("5b9f8c7d4", "image:1"));
        assert_ne!(left("6d4cf56db6", "image:1"), left("6d4cf56db6", "image:2"));
    }

    #[test]
    fn the_end_of_a_job_is_one_event_however_often_it_is_reported() {
        let seen_as = |reason: &str, count: u64| {
            let event = json!({
                "involvedObject": {"kind": "CronJob", "name": "c"}, "source": {"component": "cronjob-controller"},
                "type": "Normal", "reason": reason, "message": "m", "count": count,
            });
            normalize(&json!({"events": [event]}), &History::default(), "")["events"].clone()
        };
        assert_eq!(seen_as("SawCompletedJob", 1), seen_as("SawCompletedJob", 2));
        assert_ne!(seen_as("SuccessfulCreate", 1), seen_as("SuccessfulCreate", 2));
    }

    #[test]
    fn steps_of_scaling_do_not_matter_when_left_to_chance() {
        let event = |from: u32, to: u32| {
            json!({
                "involvedObject": {"kind": "Deployment", "name": "web"},
                "type": "Normal", "reason": "ScalingReplicaSet", "count": 1,
                "message": format!("Scaled up replica set web-6d4cf56db6 from {from} to {to}"),
            })
        };
        let one = seen(&json!({"events": [event(0, 2), event(2, 3)]}));
        let other = seen(&json!({"events": [event(0, 3)]}));
        assert_ne!(one, other);
        let steps = Chance { steps: true, ..Chance::default() };
        assert_eq!(without_chance(&one, steps), without_chance(&other, steps));
    }

    #[test]
    fn the_order_of_conditions_matters_unless_left_to_chance() {
        let set = |types: [&str; 2]| {
            let conditions = types.map(|kind| json!({"type": kind}));
            seen(&json!({"replicasets": [{"metadata": {"name": "web"}, "status": {"conditions": conditions}}]}))
        };
        let (one, other) = (set(["a", "b"]), set(["b", "a"]));
        assert_ne!(one, other);
        let order = Chance { order: true, ..Chance::default() };
        assert_eq!(without_chance(&one, order), without_chance(&other, order));
    }

    #[test]
    fn what_every_namespace_has_is_left_out_unless_it_is_missing_or_another() {
        let left = |account: &Value| {
            let annotations = &common("configmaps").unwrap()["metadata"]["annotations"];
            let authority =
                json!({"metadata": {"name": ROOT_CA, "annotations": annotations}, "data": {"ca.crt": "pem"}});
            normalize(
                &json!({"configmaps": [authority], "serviceaccounts": [account], "pods": []}),
                &History::default(),
                "pem",
            )
        };
        let as_always = left(&json!({"metadata": {"name": "default", "uid": "u"}}));
        assert_eq!(as_always, json!({"objects": {}, "events": null, "passage": {}}));
        let labelled = json!({"metadata": {"name": "default", "labels": {"a": "b"}}});
        assert_eq!(left(&labelled)["objects"]["serviceaccounts"], json!([labelled]));
        let other = left(&json!({"metadata": {"name": "other"}}));
        assert_eq!(other["missing"], json!(["serviceaccounts default"]));
        assert_ne!(other, as_always);
    }

    #[test]
    fn a_certificate_authority_that_is_not_the_clusters_is_a_difference() {
        let map = |data: &str| json!({"configmaps": [{"metadata": {"name": "m"}, "data": {"ca.crt": data}}]});
        let normal = |data: &str, root: &str| normalize(&map(data), &History::default(), root);
        assert_eq!(normal("one", "one"), normal("other", "other"));
        assert_ne!(normal("one", "one"), normal("one", "other"));
    }
}
