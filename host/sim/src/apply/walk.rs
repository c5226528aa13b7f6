//! Walks objects along their schema: field sets, comparison, merge, removal.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::set::{FieldSet, PathElement};
use crate::schema::{ListKind, Node};

/// Differences between two objects.
#[derive(Debug, Default)]
pub(super) struct Comparison {
    pub(super) added: FieldSet,
    pub(super) modified: FieldSet,
    pub(super) removed: FieldSet,
}

impl Comparison {
    pub(super) fn changed(&self) -> FieldSet {
        self.added.union(&self.modified)
    }

    pub(super) fn ignore(&mut self, ignore: impl Fn(&mut FieldSet)) {
        for set in [&mut self.added, &mut self.modified, &mut self.removed] {
            ignore(set);
        }
    }
}

/// Whether a value is owned as a whole.
fn is_leaf(node: Node<'_>, value: &Value) -> bool {
    match value {
        Value::Object(_) => node.is_atomic(),
        Value::Array(_) => *node.list_kind() == ListKind::Atomic,
        _ => true,
    }
}

/// The path element of each element of a list that is not atomic.
pub(super) fn element(node: Node<'_>, item: &Value) -> PathElement {
    match node.list_kind() {
        ListKind::Map(keys) => {
            let mut found = BTreeMap::new();
            for key in keys {
                if let Some(value) = item.get(key).cloned().or_else(|| node.item().key_default(key)) {
                    found.insert(key.clone(), value);
                }
            }
            PathElement::key(&found)
        }
        ListKind::Set | ListKind::Atomic => PathElement::Value(item.to_string()),
    }
}

/// The children of a value that is not a leaf.
fn children<'v>(node: Node<'_>, value: &'v Value) -> Vec<(PathElement, &'v Value)> {
    match value {
        Value::Object(map) => map.iter().map(|(name, child)| (PathElement::field(name), child)).collect(),
        Value::Array(items) => items.iter().map(|item| (element(node, item), item)).collect(),
        _ => Vec::new(),
    }
}

fn descend<'a>(node: Node<'a>, step: &PathElement) -> Node<'a> {
    match step {
        PathElement::Field(name) => node.child(name),
        _ => node.item(),
    }
}

/// The fields that an applied configuration lists.
pub(super) fn field_set(node: Node<'_>, value: &Value) -> FieldSet {
    let mut set = FieldSet::default();
    if is_leaf(node, value) {
        return set;
    }
    for (step, child) in children(node, value) {
        let below = descend(node, &step);
        let empty = child.as_object().is_some_and(Map::is_empty) || child.as_array().is_some_and(Vec::is_empty);
        // List elements and map keys count by being listed; a declared field only through its content.
        let by_itself = match &step {
            PathElement::Field(name) => node.declared(name).is_none(),
            _ => true,
        };
        if is_leaf(below, child) || empty || by_itself {
            set.members.insert(step.clone());
        }
        let inner = field_set(below, child);
        if !inner.is_empty() {
            set.children.insert(step, inner);
        }
    }
    set
}

/// The fields that only one of `new` and `old` has.
pub(super) fn compare(node: Node<'_>, old: &Value, new: &Value) -> Comparison {
    let mut result = Comparison::default();
    compare_at(node, Some(old), Some(new), &mut Vec::new(), &mut result);
    result
}

fn compare_at(
    node: Node<'_>,
    old: Option<&Value>,
    new: Option<&Value>,
    path: &mut Vec<PathElement>,
    result: &mut Comparison,
) {
    let is_empty = |value: Option<&Value>| match value {
        None => true,
        Some(Value::Object(map)) => map.is_empty(),
        Some(Value::Array(items)) => items.is_empty(),
        Some(_) => false,
    };
    // A null list has no elements, but it exists: adding elements neither adds nor changes the list itself.
    let (elements_old, elements_new) = (old.filter(|old| !old.is_null()), new.filter(|new| !new.is_null()));
    let one_kind = match (elements_old, elements_new) {
        (Some(old), Some(new)) => std::mem::discriminant(old) == std::mem::discriminant(new),
        _ => true,
    };
    let leaf = [elements_old, elements_new].into_iter().flatten().any(|value| is_leaf(node, value));
    if leaf || !one_kind || (is_empty(elements_old) && is_empty(elements_new)) {
        if let (Some(old), Some(new)) = (old, new)
            && old != new
        {
            result.modified.insert(path);
        }
    } else {
        let before: BTreeMap<PathElement, &Value> =
            elements_old.map(|old| children(node, old)).into_iter().flatten().collect();
        let after: BTreeMap<PathElement, &Value> =
            elements_new.map(|new| children(node, new)).into_iter().flatten().collect();
        for (step, child) in &before {
            path.push(step.clone());
            compare_at(descend(node, step), Some(child), after.get(step).copied(), path, result);
            path.pop();
        }
        for (step, child) in after.iter().filter(|(step, _)| !before.contains_key(step)) {
            path.push(step.clone());
            compare_at(descend(node, step), None, Some(child), path, result);
            path.pop();
        }
    }
    match (old, new) {
        (None, Some(_)) => result.added.insert(path),
        (Some(_), None) => result.removed.insert(path),
        _ => {}
    }
}

/// Merges a configuration into a live object.
pub(super) fn merge(node: Node<'_>, live: &Value, config: &Value) -> Value {
    match (live, config) {
        _ if is_leaf(node, config) => config.clone(),
        (Value::Object(live), Value::Object(config)) => {
            let mut merged = live.clone();
            for (name, value) in config {
                let value = match live.get(name) {
                    Some(live) => merge(node.child(name), live, value),
                    None => value.clone(),
                };
                merged.insert(name.clone(), value);
            }
            Value::Object(merged)
        }
        (Value::Array(live), Value::Array(config)) => Value::Array(merge_list(node, live, config)),
        _ => config.clone(),
    }
}

/// Common elements are in the order of the configuration; elements of the live list alone stay before the next common
/// one.
fn merge_list(node: Node<'_>, live: &[Value], config: &[Value]) -> Vec<Value> {
    let keyed = |items: &[Value]| -> Vec<PathElement> { items.iter().map(|item| element(node, item)).collect() };
    let (live_keys, config_keys) = (keyed(live), keyed(config));
    let place = |key: &PathElement| live_keys.iter().position(|live| live == key);
    let mut merged = Vec::with_capacity(live.len() + config.len());
    let mut next_live = 0;
    for (key, item) in config_keys.iter().zip(config) {
        let Some(shared) = place(key) else {
            merged.push(item.clone());
            continue;
        };
        while next_live < shared {
            if !config_keys.contains(&live_keys[next_live]) {
                merged.push(live[next_live].clone());
            }
            next_live += 1;
        }
        next_live = next_live.max(shared + 1);
        merged.push(merge(node.item(), &live[shared], item));
    }
    let rest = live.iter().zip(&live_keys).skip(next_live);
    let rest: Vec<Value> = rest.filter(|(_, key)| !config_keys.contains(key)).map(|(item, _)| item.clone()).collect();
    // New elements of the configuration come after existing ones.
    match config_keys.iter().rposition(|key| place(key).is_some()) {
        Some(_) => merged.extend(rest),
        None => merged.splice(0..0, rest).for_each(drop),
    }
    merged
}

/// Counts declared fields with children as listed themselves.
pub(super) fn with_named_fields(node: Node<'_>, set: &FieldSet) -> FieldSet {
    let mut result = FieldSet { members: set.members.clone(), children: BTreeMap::new() };
    for (step, child) in &set.children {
        if let PathElement::Field(name) = step
            && node.declared(name).is_some()
        {
            result.members.insert(step.clone());
        }
        result.children.insert(step.clone(), with_named_fields(descend(node, step), child));
    }
    result
}

/// The object without the listed items. A container that becomes empty is removed too.
pub(super) fn remove(node: Node<'_>, value: &Value, set: &FieldSet) -> Value {
    if is_leaf(node, value) {
        return value.clone();
    }
    let keep = |step: &PathElement, child: &Value| {
        if set.members.contains(step) {
            return None;
        }
        let Some(below) = set.children.get(step) else { return Some(child.clone()) };
        let left = remove(descend(node, step), child, below);
        let emptied = match (&left, child) {
            (Value::Object(left), Value::Object(child)) => left.is_empty() && !child.is_empty(),
            (Value::Array(left), Value::Array(child)) => left.is_empty() && !child.is_empty(),
            _ => false,
        };
        (!emptied).then_some(left)
    };
    match value {
        Value::Object(map) => Value::Object(
            map.iter()
                .filter_map(|(name, child)| Some((name.clone(), keep(&PathElement::field(name), child)?)))
                .collect(),
        ),
        Value::Array(items) => Value::Array(items.iter().filter_map(|item| keep(&element(node, item), item)).collect()),
        other => other.clone(),
    }
}
