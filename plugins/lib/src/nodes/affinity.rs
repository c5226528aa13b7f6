//! Node selectors: parsing and matching.

use std::collections::BTreeMap;

use pintle_sdk::Error;
use pintle_sdk::selector::Selector;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Target;
use crate::selector::valid::{key_flaws, value_flaws};

/// The required part of a Pod's `nodeAffinity`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[allow(missing_docs, reason = "Kubernetes' own fields")]
pub struct NodeAffinity {
    pub required_during_scheduling_ignored_during_execution: Option<NodeSelector>,
}

impl NodeAffinity {
    /// The selector that a Node must match when the Pod is scheduled.
    pub fn required(&self) -> Option<&NodeSelector> {
        self.required_during_scheduling_ignored_during_execution.as_ref()
    }
}

/// Terms, one of which must match. PersistentVolumes have it too.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[allow(missing_docs, reason = "Kubernetes' own fields")]
pub struct NodeSelector {
    #[serde(deserialize_with = "pintle_sdk::api::or_default")]
    pub node_selector_terms: Vec<NodeSelectorTerm>,
}

impl NodeSelector {
    /// Whether one of the terms matches. A term without requirements, or one that does not parse, never matches.
    #[doc(alias = "MatchNodeSelectorTerms")]
    pub fn matches(&self, node: &Target<'_>) -> bool {
        self.node_selector_terms.iter().filter_map(Term::parse).any(|term| term.matches(node))
    }
}

/// Requirements, all of which must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[allow(missing_docs, reason = "Kubernetes' own fields")]
pub struct NodeSelectorTerm {
    #[serde(deserialize_with = "pintle_sdk::api::or_default", skip_serializing_if = "Vec::is_empty")]
    pub match_expressions: Vec<NodeSelectorRequirement>,
    #[serde(deserialize_with = "pintle_sdk::api::or_default", skip_serializing_if = "Vec::is_empty")]
    pub match_fields: Vec<NodeSelectorRequirement>,
}

/// A requirement on a label or a field.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[allow(missing_docs, reason = "Kubernetes' own fields")]
pub struct NodeSelectorRequirement {
    pub key: String,
    pub operator: String,
    #[serde(deserialize_with = "pintle_sdk::api::or_default", skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
}

/// A Pod's requirements on a Node's labels and name.
#[doc(alias = "RequiredNodeAffinity")]
#[derive(Clone, Debug)]
pub struct Required {
    /// The node selector.
    labels: Selector,
    /// `None`: no affinity, which every Node satisfies.
    terms: Option<Vec<Term>>,
}

impl Required {
    /// The requirements of a node selector and of the required node affinity.
    #[doc(alias = "NewRequiredNodeAffinity")]
    pub fn new(node_selector: &BTreeMap<String, String>, affinity: Option<&NodeSelector>) -> Self {
        let parse = |selector: &NodeSelector| selector.node_selector_terms.iter().filter_map(Term::parse).collect();
        Self { labels: Selector::from_map(node_selector), terms: affinity.map(parse) }
    }

    /// Whether a Node meets the requirements.
    #[doc(alias = "Match")]
    pub fn matches(&self, node: &Target<'_>) -> bool {
        self.labels.matches(node.labels)
            && self.terms.as_ref().is_none_or(|terms| terms.iter().any(|term| term.matches(node)))
    }
}

/// A term that parses.
#[doc(alias = "nodeSelectorTerm")]
#[derive(Clone, Debug)]
struct Term {
    expressions: Vec<(String, Test)>,
    /// Key, value, and whether it must be equal.
    fields: Vec<(String, String, bool)>,
}

#[derive(Clone, Debug)]
enum Test {
    In(Vec<String>),
    NotIn(Vec<String>),
    Exists,
    DoesNotExist,
    Above(i64),
    Below(i64),
}

impl Term {
    #[doc(alias = "newNodeSelectorTerm")]
    #[doc(alias = "isEmptyNodeSelectorTerm")]
    fn parse(term: &NodeSelectorTerm) -> Option<Self> {
        if term.match_expressions.is_empty() && term.match_fields.is_empty() {
            return None;
        }
        let expressions = term.match_expressions.iter().map(expression).collect::<Option<_>>()?;
        let fields = term.match_fields.iter().map(field).collect::<Option<_>>()?;
        Some(Self { expressions, fields })
    }

    #[doc(alias = "match")]
    fn matches(&self, node: &Target<'_>) -> bool {
        let label_holds = |(key, test): &(String, Test)| test.holds(node.labels.get(key).map(String::as_str));
        // A Node has one field. A Node without a name is not compared.
        let field_holds = |(key, value, wanted): &(String, String, bool)| {
            node.name.is_empty()
                || (if key == "metadata.name" { node.name == value } else { value.is_empty() }) == *wanted
        };
        self.expressions.iter().all(label_holds) && self.fields.iter().all(field_holds)
    }
}

impl Test {
    #[doc(alias = "Matches")]
    fn holds(&self, label: Option<&str>) -> bool {
        let listed = |values: &[String]| label.is_some_and(|label| values.iter().any(|value| value == label));
        let number = || label?.parse::<i64>().ok();
        match self {
            Self::In(values) => listed(values),
            Self::NotIn(values) => !listed(values),
            Self::Exists => label.is_some(),
            Self::DoesNotExist => label.is_none(),
            Self::Above(bound) => number().is_some_and(|number| number > *bound),
            Self::Below(bound) => number().is_some_and(|number| number < *bound),
        }
    }
}

#[doc(alias = "nodeSelectorRequirementsAsSelector")]
fn expression(requirement: &NodeSelectorRequirement) -> Option<(String, Test)> {
    let values = &requirement.values;
    let number = || if let [value] = values.as_slice() { value.parse::<i64>().ok() } else { None };
    let test = match requirement.operator.as_str() {
        "In" if !values.is_empty() => Test::In(values.clone()),
        "NotIn" if !values.is_empty() => Test::NotIn(values.clone()),
        "Exists" if values.is_empty() => Test::Exists,
        "DoesNotExist" if values.is_empty() => Test::DoesNotExist,
        "Gt" => Test::Above(number()?),
        "Lt" => Test::Below(number()?),
        _ => return None,
    };
    let is_valid = key_flaws(&requirement.key).is_empty() && values.iter().all(|value| value_flaws(value).is_empty());
    is_valid.then(|| (requirement.key.clone(), test))
}

#[doc(alias = "nodeSelectorRequirementsAsFieldSelector")]
fn field(requirement: &NodeSelectorRequirement) -> Option<(String, String, bool)> {
    let [value] = requirement.values.as_slice() else { return None };
    let wanted = match requirement.operator.as_str() {
        "In" => true,
        "NotIn" => false,
        _ => return None,
    };
    Some((requirement.key.clone(), value.clone(), wanted))
}

/// Replaces the required node affinity in a Pod's `spec.affinity` by one for the Node of this name. Preferred node
/// affinity and affinities to Pods stay.
#[doc(alias = "ReplaceDaemonSetPodNodeNameNodeAffinity")]
pub fn pin_to_node(affinity: &mut Value, node: &str) {
    let term = json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]});
    if !affinity.is_object() {
        *affinity = json!({});
    }
    if !affinity["nodeAffinity"].is_object() {
        affinity["nodeAffinity"] = json!({});
    }
    affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] = json!({"nodeSelectorTerms": [term]});
}

/// The Node of a DaemonSet's Pod: from its `spec.nodeName`, or its [affinity](pin_to_node).
///
/// # Errors
/// Terminal, if there is none, or several.
#[doc(alias = "GetTargetNodeName")]
pub fn pinned_node<'a>(node_name: &'a str, affinity: Option<&'a NodeAffinity>) -> Result<&'a str, Error> {
    if !node_name.is_empty() {
        return Ok(node_name);
    }
    let terms = affinity.and_then(NodeAffinity::required).map_or(&[][..], |selector| &selector.node_selector_terms);
    let is_pin = |field: &&NodeSelectorRequirement| field.key == "metadata.name" && field.operator == "In";
    match terms.iter().flat_map(|term| &term.match_fields).find(is_pin).map(|field| field.values.as_slice()) {
        Some([node]) => Ok(node),
        Some(_) => Err(Error::terminal("the node affinity of the Pod does not name exactly one Node")),
        None => Err(Error::terminal("neither spec.nodeName nor the required node affinity of the Pod names a Node")),
    }
}
