//! One Node: its taints with the effect `NoSchedule`, which follow its conditions at once, and its labels.

use pintle_sdk::time::Timestamp;
use pintle_sdk::{Error, Key, Lister, Mutation, Outcome, PatchType, Refusal, Resource, Step};
use serde_json::{Map, json};

use crate::taints::{self, NO_SCHEDULE, OF_CONDITIONS, UNSCHEDULABLE};
use crate::types::Node;

/// Labels, and their old names, which have the same values.
#[doc(alias = "labelReconcileInfo")]
const LABELS: [(&str, &str); 2] =
    [("kubernetes.io/os", "beta.kubernetes.io/os"), ("kubernetes.io/arch", "beta.kubernetes.io/arch")];

/// Computes the changes of one Node. Each of its two patches is sent even if the other one fails.
///
/// # Errors
/// If the Node does not fit its type.
#[doc(alias = "doNodeProcessingPassWorker")]
pub(crate) fn sync(key: &Key, lister: &impl Lister) -> Result<Outcome, Error> {
    let Some(node) = lister.get::<Node>("", &key.name)? else { return Ok(Outcome::new()) };
    let taints = taint(&node, lister.now()?);
    Ok(Outcome::new().step(Step::sequential(taints)).step(Step::sequential(label(&node)).always()))
}

/// Adds and removes the taints of conditions, and that of unschedulable Nodes. Other taints stay.
#[doc(alias = "doNoScheduleTaintingPass")]
fn taint(node: &Node, now: Timestamp) -> Option<Mutation> {
    let unschedulable = node.spec.unschedulable.then_some(UNSCHEDULABLE);
    let mut wanted: Vec<&str> = Vec::new();
    for key in node.status.conditions.iter().filter_map(taints::of_condition).chain(unschedulable) {
        if !wanted.contains(&key) {
            wanted.push(key);
        }
    }
    let is_own = |key: &str| key == UNSCHEDULABLE || OF_CONDITIONS.contains(&key);
    let of_effect = node.spec.taints.iter().filter(|taint| taint.effect == NO_SCHEDULE).map(|taint| taint.key.as_str());
    let remove: Vec<&str> = of_effect.filter(|key| is_own(key) && !wanted.contains(key)).collect();
    let add: Vec<&str> = wanted.into_iter().filter(|key| !node.has_taint(key, NO_SCHEDULE)).collect();
    let is_changed = !add.is_empty() || !remove.is_empty();
    is_changed.then(|| taints::change(node, NO_SCHEDULE, &add, &remove, now))
}

/// Sets the old labels to the values of the new ones.
#[doc(alias = "reconcileNodeLabels", alias = "AddOrUpdateLabelsOnNode")]
fn label(node: &Node) -> Option<Mutation> {
    let labels = &node.metadata.labels;
    let mut changed = Map::new();
    for (name, old_name) in LABELS {
        if let Some(value) = labels.get(name).filter(|value| labels.get(old_name) != Some(*value)) {
            changed.insert(old_name.to_owned(), json!(value));
        }
    }
    if changed.is_empty() {
        return None;
    }
    let body = json!({"metadata": {"labels": changed}});
    let patch = Mutation::patch(&Node::KIND, node.metadata.key(), PatchType::StrategicMerge, body);
    Some(patch.uid(&node.metadata.uid).tolerate([Refusal::NotFound]))
}
