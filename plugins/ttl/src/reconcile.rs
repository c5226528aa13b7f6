//! The annotation of one Node.

use pintle_sdk::{Error, Key, Lister, Mutation, Outcome, PatchType, Query, Resource, Step};
use plugin_lib::state::Record;
use serde_json::json;

use crate::types::Node;

/// Part of the API: kubelets read it.
#[doc(alias = "ObjectTTLAnnotationKey")]
const ANNOTATION: &str = "node.alpha.kubernetes.io/ttl";

/// Name of the state entry: the last step, for hysteresis.
const STEP: &str = "step";

/// A range of cluster sizes. Ranges overlap, so that a Node more or less does not change every Node.
#[doc(alias = "ttlBoundary")]
struct Boundary {
    min: u32,
    max: u32,
    seconds: i64,
}

/// The ranges, from small to large.
#[doc(alias = "ttlBoundaries")]
const BOUNDARIES: [Boundary; 5] = [
    Boundary { min: 0, max: 100, seconds: 0 },
    Boundary { min: 90, max: 500, seconds: 15 },
    Boundary { min: 450, max: 1_000, seconds: 30 },
    Boundary { min: 900, max: 2_000, seconds: 60 },
    Boundary { min: 1_800, max: u32::MAX, seconds: 300 },
];

/// Computes the changes for one Node.
///
/// # Errors
/// If an object does not fit its type.
#[doc(alias = "updateNodeIfNeeded")]
pub fn reconcile(key: &Key, lister: &impl Lister) -> Result<Outcome, Error> {
    let last = Record::<usize>::read(lister, STEP);
    let before = last.get().copied().unwrap_or_default();
    let step = step_of(before, lister.count(&Node::KIND, &Query::all()));
    let outcome = if step == before { Outcome::new() } else { last.keep(Outcome::new(), &step) };
    let Some(node) = lister.get::<Node>("", &key.name)? else { return Ok(outcome) };
    Ok(outcome.step(Step::sequential(patch(&node, BOUNDARIES[step].seconds))))
}

/// The step for a number of Nodes, from the last one.
#[doc(alias = "addNode", alias = "deleteNode")]
fn step_of(last: usize, n_nodes: u32) -> usize {
    let mut step = last.min(BOUNDARIES.len() - 1);
    while n_nodes > BOUNDARIES[step].max {
        step += 1;
    }
    while n_nodes < BOUNDARIES[step].min {
        step -= 1;
    }
    step
}

/// Sets the annotation if it differs. A value that is not a number counts as absent.
#[doc(alias = "patchNodeWithAnnotation", alias = "getIntFromAnnotation", alias = "setIntAnnotation")]
fn patch(node: &Node, seconds: i64) -> Option<Mutation> {
    let current = node.metadata.annotations.ttl.as_ref().and_then(|text| text.parse::<i64>().ok());
    let body = json!({"metadata": {"annotations": {ANNOTATION: seconds.to_string()}}});
    let patch = || Mutation::patch(&Node::KIND, node.metadata.key(), PatchType::StrategicMerge, body);
    (current != Some(seconds)).then(patch).map(|patch| patch.uid(&node.metadata.uid))
}

#[cfg(test)]
mod tests {
    use pintle_sdk::{Action, ObjectKey};

    use super::*;

    /// `TestDesiredTTL`: a Node is added, or deleted, at this number of Nodes.
    #[test]
    fn a_step_begins_above_its_maximum_and_ends_below_its_minimum() {
        for (n_nodes, change, last, expected) in [
            (0, 1, 0, 0),
            (99, 1, 0, 0),
            (100, 1, 0, 15),
            (101, -1, 1, 15),
            (91, -1, 1, 15),
            (91, 1, 1, 15),
            (90, -1, 1, 0),
            (1800, -1, 4, 60),
            (10_000, -1, 4, 300),
        ] {
            let n_nodes = u32::try_from(n_nodes + change).unwrap();
            assert_eq!(BOUNDARIES[step_of(last, n_nodes)].seconds, expected, "{n_nodes} after step {last}");
        }
    }

    #[test]
    fn many_steps_are_made_at_once_whatever_the_last_one_was() {
        assert_eq!([step_of(0, 2_001), step_of(4, 1), step_of(0, 5_000), step_of(4, 0)], [4, 0, 4, 0]);
        assert_eq!([step_of(99, 90), step_of(usize::MAX, 5_000)], [1, 4], "a state that no version has written");
    }

    /// `TestUpdateNodeIfNeeded`, and values that this controller does not write.
    #[test]
    fn only_another_number_is_patched() {
        for (annotation, seconds, is_patched) in [
            (None, 0, true),
            (None, 15, true),
            (None, 30, true),
            (Some("0"), 60, true),
            (Some("60"), 60, false),
            (Some("60"), 30, true),
            (Some("060"), 60, false),
            (Some("+60"), 60, false),
            (Some(""), 0, true),
            (Some("0s"), 0, true),
            (Some(" 0"), 0, true),
        ] {
            let node =
                json!({"metadata": {"name": "name", "uid": "u", "annotations": {ANNOTATION: annotation, "a": "b"}}});
            let node: Node = serde_json::from_value(node).unwrap();
            let patched = patch(&node, seconds).map(|patch| match patch.action {
                Action::Patch { object, patch_type, body, preconditions, .. } => {
                    assert_eq!((object, patch_type), (ObjectKey::new("", "name"), PatchType::StrategicMerge));
                    assert_eq!(preconditions.uid.as_deref(), Some("u"));
                    body
                }
                other => panic!("{other:?}"),
            });
            let expected =
                format!(r#"{{"metadata":{{"annotations":{{"node.alpha.kubernetes.io/ttl":"{seconds}"}}}}}}"#);
            assert_eq!(patched, is_patched.then_some(expected), "{annotation:?}, {seconds}");
        }
    }
}
