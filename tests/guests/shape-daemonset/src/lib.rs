//! The shape of the DaemonSet controller: one queue of Nodes that wakes the DaemonSets which a Node's change concerns, one queue of
//! DaemonSets that puts a Pod on each Node that fits, and a delay for Nodes on which Pods fail, kept in the state.

use std::collections::BTreeMap;
use std::time::Duration;

use pintle_sdk::api::core::PodTemplateSpec;
use pintle_sdk::api::meta::{ObjectMeta, OwnerReference};
use pintle_sdk::nodes::{self, Placement, Taint, Target};
use pintle_sdk::{Error, Key, Lister, Mutation, Outcome, Query, Resource, Step, resource};
use serde::{Deserialize, Serialize};
use serde_json::json;

pintle_sdk::types!(
    "manifest.yaml",
    "apps/v1/DaemonSet" = _,
    "v1/Node": ["metadata.labels", "spec.taints": Vec<Taint>],
    "v1/Pod": [
        "metadata.ownerReferences",
        "metadata.deletionTimestamp",
        "spec.nodeName",
        "spec.affinity": nodes::Affinity,
        "status.phase",
    ],
);

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct DaemonSet {
    metadata: ObjectMeta,
    spec: Spec,
}

resource!(DaemonSet, "apps", "v1", "DaemonSet");

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Spec {
    template: PodTemplateSpec,
}

/// Delays of one DaemonSet by Node: failures in a row, and when the last one was seen, in seconds since the start of the host.
type Delays = BTreeMap<String, Failures>;

#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
struct Failures {
    n: u32,
    last: f64,
}

pub fn reconcile(key: &Key, lister: &impl Lister) -> Result<Outcome, Error> {
    if key.queue == "daemonset-node-updates" { of_node(key, lister) } else { of_set(key, lister) }
}

/// The DaemonSets that want a Pod on this Node and have none, or have one and do not want it.
fn of_node(key: &Key, lister: &impl Lister) -> Result<Outcome, Error> {
    let node = lister.get::<Node>("", &key.name)?;
    let pods: Vec<Pod> = lister.list(&Query::all().index("node", &key.name))?;
    let sets = lister.list_json(&DaemonSet::KIND, &Query::all());
    let sets: Vec<DaemonSet> =
        sets.iter().map(|text| pintle_sdk::decode(&DaemonSet::KIND, text)).collect::<Result<_, _>>()?;
    let mut outcome = Outcome::new();
    for set in &sets {
        let has = pods.iter().any(|pod| is_of(pod, set));
        let wants = node.as_ref().map(|node| fit(set, node)).transpose()?.is_some_and(|fit| fit.should_run);
        if has != wants {
            let ObjectMeta { namespace, name, .. } = &set.metadata;
            outcome = outcome.wake(Key::new("daemonset", DaemonSet::KIND, namespace, name));
        }
    }
    Ok(outcome)
}

fn of_set(key: &Key, lister: &impl Lister) -> Result<Outcome, Error> {
    let state = format!("delays/{}/{}", key.namespace, key.name);
    let Some(set) = lister.get::<DaemonSet>(&key.namespace, &key.name)? else {
        return Ok(Outcome::new().forget(state));
    };
    let pods: Vec<Pod> = lister.list(&Query::namespace(&key.namespace).controlled_by(&set.metadata.uid))?;
    let mut delays: Delays =
        lister.state(&state).map_or_else(Delays::new, |text| serde_json::from_str(&text).unwrap_or_default());
    let now = lister.uptime().as_secs_f64();
    let (mut creates, mut deletes, mut soonest) = (Vec::new(), Vec::new(), None);
    for node in lister.list::<Node>(&Query::all())? {
        let fit = fit(&set, &node)?;
        let name = &node.metadata.name;
        let here: Vec<&Pod> = pods.iter().filter(|pod| node_of(pod) == *name && is_of(pod, &set)).collect();
        let failed = here.iter().filter(|pod| pod.status.phase == "Failed");
        let n_failed = failed.clone().count();
        deletes.extend(failed.map(|pod| delete(pod)));
        if n_failed > 0 {
            let n = delays.get(name).map_or(0, |failures| failures.n) + 1;
            delays.insert(name.clone(), Failures { n, last: now });
        } else if !fit.should_continue {
            deletes.extend(here.iter().map(|pod| delete(pod)));
        } else if fit.should_run && here.is_empty() {
            // 1 s, 2 s, 4 s, ... at most 15 min.
            let delay = delays.get(name).map_or(0.0, |old| (f64::from(1 << (old.n - 1).min(10))).min(900.0));
            let left = delays.get(name).map_or(0.0, |old| old.last + delay - now);
            if left <= 0.0 {
                creates.push(create(&set, name));
            } else {
                soonest = Some(soonest.map_or(left, |other: f64| other.min(left)));
            }
        }
    }
    let mut outcome = Outcome::new().step(Step::slow_start(creates)).step(Step::parallel(deletes));
    if !delays.is_empty() {
        outcome = outcome.keep(state, json!(delays).to_string());
    }
    Ok(soonest.map(Duration::from_secs_f64).into_iter().fold(outcome, Outcome::requeue_after))
}

fn fit(set: &DaemonSet, node: &Node) -> Result<nodes::DaemonFit, Error> {
    let placement: Placement = set.spec.template.spec.parse().map_err(|error| Error::Terminal(error.to_string()))?;
    let target = Target { name: &node.metadata.name, labels: &node.metadata.labels, taints: &node.spec.taints };
    Ok(placement.for_daemon().daemon_fit(&target, false))
}

fn is_of(pod: &Pod, set: &DaemonSet) -> bool {
    pod.metadata.deletion_timestamp.is_none()
        && pod
            .metadata
            .owner_references
            .iter()
            .any(|owner| owner.controller == Some(true) && owner.uid == set.metadata.uid)
}

/// Where it runs, or shall run.
fn node_of(pod: &Pod) -> &str {
    nodes::pinned_node(&pod.spec.node_name, pod.spec.affinity.node_affinity.as_ref()).unwrap_or_default()
}

fn delete(pod: &Pod) -> Mutation {
    Mutation::delete(&Pod::KIND, &pod.metadata.namespace, &pod.metadata.name).uid(&pod.metadata.uid)
}

fn create(set: &DaemonSet, node: &str) -> Mutation {
    let template = &set.spec.template;
    let mut spec = template.spec.value();
    let mut affinity = spec["affinity"].take();
    nodes::pin_to_node(&mut affinity, node);
    spec["affinity"] = affinity;
    let owner = OwnerReference::controller(&DaemonSet::KIND, &set.metadata);
    let metadata = json!({
        "generateName": format!("{}-", set.metadata.name), "labels": template.metadata.labels, "ownerReferences": [owner],
    });
    Mutation::create(&Pod::KIND, &set.metadata.namespace, json!({"metadata": metadata, "spec": spec}))
}

pintle_sdk::export!(reconcile);
