//! The nodes that a Pod may be bound to: node selectors, required node affinity, taints, cordons.
//!
//! Invariants: pure. Resources, inter-pod affinity, topology spread and preferences are ignored.
//!
//! Source: the filter plugins NodeAffinity, NodeUnschedulable and TaintToleration of kube-scheduler.

use crate::node::{NodeState, ObservedNode, Taint};
use crate::pod::{ObservedPod, Requirement, SelectorTerm, Toleration};

/// Whether a Pod may run on a node.
pub(crate) fn fits(pod: &ObservedPod, node: &ObservedNode) -> bool {
    node.state() == NodeState::Ready && selects(pod, node) && tolerates(pod, node)
}

fn selects(pod: &ObservedPod, node: &ObservedNode) -> bool {
    let labels = &node.metadata.labels;
    let selected = pod.spec.node_selector.iter().all(|(key, value)| labels.get(key) == Some(value));
    let required = &pod.spec.affinity.node_affinity.required_during_scheduling_ignored_during_execution;
    selected
        && required.as_ref().is_none_or(|required| required.node_selector_terms.iter().any(|term| holds(term, node)))
}

/// Whether all requirements of a term hold; an empty term matches nothing.
fn holds(term: &SelectorTerm, node: &ObservedNode) -> bool {
    let label = |wanted: &Requirement| meets(wanted, node.metadata.labels.get(&wanted.key).map(String::as_str));
    let field =
        |wanted: &Requirement| meets(wanted, (wanted.key == "metadata.name").then_some(node.metadata.name.as_str()));
    let is_empty = term.match_expressions.is_empty() && term.match_fields.is_empty();
    !is_empty && term.match_expressions.iter().all(label) && term.match_fields.iter().all(field)
}

fn meets(wanted: &Requirement, value: Option<&str>) -> bool {
    let is_listed = value.is_some_and(|value| wanted.values.iter().any(|listed| listed == value));
    let numbers = || {
        let bound: i64 = wanted.values.first()?.parse().ok()?;
        Some((value?.parse::<i64>().ok()?, bound))
    };
    match wanted.operator.as_str() {
        "In" => is_listed,
        "NotIn" => !is_listed,
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => numbers().is_some_and(|(value, bound)| value > bound),
        "Lt" => numbers().is_some_and(|(value, bound)| value < bound),
        _ => false,
    }
}

fn tolerates(pod: &ObservedPod, node: &ObservedNode) -> bool {
    let cordon = node.spec.unschedulable.then(|| Taint {
        key: "node.kubernetes.io/unschedulable".to_owned(),
        effect: "NoSchedule".to_owned(),
        ..Taint::default()
    });
    let taints = node.spec.taints.iter().filter(|taint| matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute"));
    taints.chain(&cordon).all(|taint| pod.spec.tolerations.iter().any(|toleration| covers(toleration, taint)))
}

fn covers(toleration: &Toleration, taint: &Taint) -> bool {
    let effect = toleration.effect.is_empty() || toleration.effect == taint.effect;
    let key = toleration.key.is_empty() || toleration.key == taint.key;
    effect
        && key
        && match toleration.operator.as_str() {
            "Exists" => true,
            "" | "Equal" => !toleration.key.is_empty() && toleration.value == taint.value,
            _ => false,
        }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn on(pod: Value, node: Value) -> bool {
        let pod: ObservedPod = serde_json::from_value(json!({"spec": pod})).unwrap();
        fits(&pod, &serde_json::from_value(node).unwrap())
    }

    fn affinity(terms: Value) -> Value {
        json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}})
    }

    #[test]
    fn selectors_and_affinity_choose_nodes() {
        let node = json!({"metadata": {"name": "n1", "labels": {"zone": "a", "cores": "8"}}});
        let expression = |key: &str, operator: &str, values: Value| {
            affinity(json!([{"matchExpressions": [{"key": key, "operator": operator, "values": values}]}]))
        };
        let field = |name: &str| {
            affinity(json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]}]))
        };
        for (pod, wanted) in [
            (json!({}), true),
            (json!({"nodeSelector": {"zone": "a"}}), true),
            (json!({"nodeSelector": {"zone": "b"}}), false),
            (expression("zone", "In", json!(["b", "a"])), true),
            (expression("zone", "NotIn", json!(["a"])), false),
            (expression("zone", "Exists", json!([])), true),
            (expression("disk", "DoesNotExist", json!([])), true),
            (expression("cores", "Gt", json!(["7"])), true),
            (expression("cores", "Lt", json!(["8"])), false),
            (expression("zone", "Like", json!(["a"])), false),
            (field("n1"), true),
            (field("n2"), false),
            (affinity(json!([])), false),
            (affinity(json!([{}])), false),
            (affinity(json!([{}, {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}])), true),
        ] {
            assert_eq!(on(pod.clone(), node.clone()), wanted, "{pod}");
        }
    }

    #[test]
    fn taints_cordons_and_failures_keep_pods_away() {
        let tainted = |effect: &str| json!({"spec": {"taints": [{"key": "k", "value": "v", "effect": effect}]}});
        let tolerates = |key: &str, operator: &str, value: &str, effect: &str| json!({"tolerations": [{"key": key, "operator": operator, "value": value, "effect": effect}]});
        for (pod, node, wanted) in [
            (json!({}), tainted("NoSchedule"), false),
            (json!({}), tainted("NoExecute"), false),
            (json!({}), tainted("PreferNoSchedule"), true),
            (tolerates("k", "Equal", "v", ""), tainted("NoSchedule"), true),
            (tolerates("k", "", "v", "NoSchedule"), tainted("NoSchedule"), true),
            (tolerates("k", "Equal", "w", ""), tainted("NoSchedule"), false),
            (tolerates("k", "Exists", "", "NoExecute"), tainted("NoSchedule"), false),
            (tolerates("", "Exists", "", ""), tainted("NoExecute"), true),
            (json!({}), json!({"spec": {"unschedulable": true}}), false),
            (
                tolerates("node.kubernetes.io/unschedulable", "Exists", "", ""),
                json!({"spec": {"unschedulable": true}}),
                true,
            ),
            (json!({}), json!({"metadata": {"annotations": {"sim.pintle.dev/not-ready": "true"}}}), false),
            (json!({}), json!({"metadata": {"annotations": {"sim.pintle.dev/not-ready": "false"}}}), true),
        ] {
            assert_eq!(on(pod.clone(), node.clone()), wanted, "{pod} {node}");
        }
    }
}
