//! A budget while the API server evicts by its status: never too many Pods are deleted. And API server responses that a
//! case cannot have.

#![allow(clippy::unwrap_used, reason = "a helper of a test fails the test by panicking")]

use std::time::Duration;

use pintle_sdk::testing::{Cluster, Fault, Plugin, seeds};
use pintle_sdk::{Action, ApiError, ApiResource, Error, Key, Kind, Need, Outcome};
use plugin_disruption::reconcile;
use serde_json::{Value, json};

use super::answers::Answers;
use crate::disruption::plugin;

const BUDGET: Kind = Kind::new("policy", "v1", "PodDisruptionBudget");
const POD: Kind = Kind::new("", "v1", "Pod");
const MIN_AVAILABLE: usize = 4;

struct Story {
    cluster: Cluster,
    plugin: Plugin<'static>,
    key: Key,
    /// Pods whose eviction was granted, and which are not deleted yet.
    granted: Vec<String>,
    n_made: usize,
}

impl Story {
    fn new(seed: u64) -> Self {
        let mut cluster = Cluster::new(seed);
        cluster.insert(budget(&json!({"minAvailable": MIN_AVAILABLE})));
        let plugin = plugin();
        let key = plugin.key(&BUDGET, "default", "b");
        Self { cluster, plugin, key, granted: Vec::new(), n_made: 0 }
    }

    fn make(&mut self) {
        let name = format!("p-{}", self.n_made);
        self.n_made += 1;
        self.cluster.insert(pod(&name, None));
    }

    /// Ready Pods that are not being deleted.
    fn ready(&self) -> Vec<String> {
        let is_ready = |pod: &&Value| pod["metadata"]["deletionTimestamp"].is_null();
        self.cluster
            .list(&POD)
            .filter(is_ready)
            .filter_map(|pod| Some(pod["metadata"]["name"].as_str()?.into()))
            .collect()
    }

    /// As the API server: it decrements and records the Pod, in one update.
    fn grant(&mut self) {
        let ready = self.ready();
        let number = self.cluster.random(u64::try_from(ready.len().max(1)).unwrap()) as usize;
        let Some(name) = ready.get(number).cloned() else { return };
        let now = self.cluster.now();
        let status = &self.cluster.get(&BUDGET, "default", "b").unwrap()["status"];
        let allowed = status["disruptionsAllowed"].as_i64().unwrap_or(0);
        if allowed == 0 || self.granted.contains(&name) {
            return;
        }
        self.cluster.edit(&BUDGET, "default", "b", |budget| {
            budget["status"]["disruptionsAllowed"] = (allowed - 1).into();
            budget["status"]["disruptedPods"][&name] = json!(now);
        });
        self.granted.push(name);
    }

    /// The API server deletes granted Pods, or has crashed before, and never does.
    fn delete(&mut self, is_forgotten: bool) {
        let Some(name) = self.granted.pop() else { return };
        if !is_forgotten {
            self.cluster.remove(&POD, "default", &name);
        }
    }

    fn step(&mut self) {
        match self.cluster.random(7) {
            0 => self.make(),
            1 | 2 => self.grant(),
            3 => self.delete(false),
            4 => {
                let is_forgotten = self.cluster.random(8) == 0;
                self.delete(is_forgotten);
            }
            // Shorter than the limit for a deletion, so that a grant is used or forgotten before it expires.
            5 => self.cluster.advance(Duration::from_secs(3)),
            _ => {
                self.cluster.run(&self.plugin, &self.key);
            }
        }
    }
}

fn budget(spec: &Value) -> Value {
    let mut object = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": "b", "namespace": "default", "uid": "b", "generation": 1},
        "spec": {"selector": {"matchLabels": {"app": "web"}}},
    });
    for (field, value) in spec.as_object().into_iter().flatten() {
        object["spec"][field] = value.clone();
    }
    object
}

fn pod(name: &str, owner: Option<&str>) -> Value {
    let owners = owner.map(|owner| {
        json!({"apiVersion": "example.com/v1", "kind": "Crowd", "name": owner, "uid": owner, "controller": true})
    });
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": "web"}, "ownerReferences": Vec::from_iter(owners)},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    })
}

#[test]
fn evictions_never_leave_too_few_pods() {
    for seed in seeds(0..15) {
        let mut story = Story::new(seed);
        story.cluster.inject(Fault::reject(500, "InternalError", "etcd is away").one_in(9));
        story.cluster.inject(Fault::reject(409, "Conflict", "somebody else was faster").one_in(7));
        for _ in 0..6 {
            story.make();
        }
        let mut n_granted = 0;
        for step in 0..300 {
            let before = story.granted.len();
            story.step();
            n_granted += usize::from(story.granted.len() > before);
            // Granted Pods count as deleted.
            let left = story.ready().iter().filter(|name| !story.granted.contains(name)).count();
            let is_enough = left >= MIN_AVAILABLE || n_granted == 0;
            assert!(is_enough, "seed {seed}, step {step}: {left} Pods are left, and {:?} granted", story.granted);
        }
        assert!(n_granted > 0, "seed {seed}: nothing was evicted");
        // The final state is as without failures.
        story.cluster.clear_faults();
        while !story.granted.is_empty() {
            story.delete(false);
        }
        story.cluster.advance(Duration::from_secs(121));
        let keys = [(&story.plugin, &story.key)];
        while let Some(after) = story.cluster.settle(&keys, |_| false) {
            story.cluster.advance(after);
        }
        let n = story.ready().len();
        let status = &story.cluster.get(&BUDGET, "default", "b").unwrap()["status"];
        let expected = json!([n, n, n.saturating_sub(MIN_AVAILABLE)]);
        let seen = json!([status["expectedPods"], status["currentHealthy"], status["disruptionsAllowed"]]);
        assert_eq!(seen, expected, "seed {seed}");
        assert!(status["disruptedPods"].is_null(), "seed {seed}: {status}");
    }
}

/// A budget with `maxUnavailable`, whose Pods each have an owner of a custom kind.
fn crowd(n: usize) -> (Cluster, Key) {
    let resource = ApiResource {
        kind: Kind::new("example.com", "v1", "Crowd"),
        plural: "crowds".into(),
        namespaced: true,
        verbs: vec!["get".into()],
        subresources: vec!["scale".into()],
        preferred: true,
    };
    let mut cluster = Cluster::new(1).resources(vec![resource]);
    cluster.insert(budget(&json!({"maxUnavailable": 1})));
    for i in 0..n {
        cluster.insert(pod(&format!("p-{i:04}"), Some(&format!("c-{i:04}"))));
    }
    (cluster, plugin().key(&BUDGET, "default", "b"))
}

/// The status written by a run, and the number of its reads.
fn status(n: usize, answer: impl Fn(&Need) -> Result<String, ApiError>) -> (Value, usize) {
    let (cluster, key) = crowd(n);
    let fixture = cluster.fixture(&plugin(), &key);
    let (result, asked) = fixture.outcome(|key, lister| reconcile(key, &Answers::to_needs(lister, &answer)));
    (written(result), asked.len())
}

fn written(result: Result<Outcome, Error>) -> Value {
    let outcome = result.unwrap();
    let updates = outcome.steps.iter().flat_map(|step| &step.mutations).filter_map(|mutation| match &mutation.action {
        Action::Update { object, .. } => serde_json::from_str::<Value>(object).ok(),
        _ => None,
    });
    let mut updates: Vec<Value> = updates.collect();
    assert_eq!(updates.len(), 1);
    assert!(
        updates[0]["metadata"]["resourceVersion"].is_string(),
        "an update without a version could undo an eviction"
    );
    updates[0]["status"].take()
}

fn scale(need: &Need) -> Result<String, ApiError> {
    let Need::LiveObject { object, subresource: Some(subresource), .. } = need else { panic!("{need:?}") };
    assert_eq!(subresource, "scale");
    Ok(json!({"metadata": {"uid": object.name}, "spec": {"replicas": 2}}).to_string())
}

#[test]
fn many_owners_take_several_rounds() {
    for n in [1, 256, 257] {
        let (status, n_asked) = status(n, scale);
        assert_eq!((status["expectedPods"].as_u64(), n_asked), (Some(2 * n as u64), n), "{status}");
    }
}

#[test]
fn a_scale_that_is_refused_allows_nothing() {
    let refused =
        |_: &Need| Err(ApiError { code: 403, reason: "Forbidden".into(), message: "crowds is forbidden".into() });
    let (status, n_asked) = status(2, refused);
    assert_eq!((status["disruptionsAllowed"].as_i64(), n_asked), (Some(0), 2));
    assert_eq!(status["conditions"][0]["message"], "crowds is forbidden");
}

#[test]
fn a_scale_that_does_not_make_sense_allows_nothing() {
    let (status, _) = status(1, |_: &Need| Ok(json!({"spec": {"replicas": "many"}}).to_string()));
    assert_eq!(
        (status["disruptionsAllowed"].as_i64(), &status["conditions"][0]["reason"]),
        (Some(0), &json!("SyncFailed"))
    );
}
