//! Patches with the semantics of the API server: strategic merge patches and server-side apply.
//!
//! *Not here*: JSON patches and merge patches, which the crate `json-patch` applies.
//!
//! *Source*: `k8s.io/apimachinery/pkg/util/strategicpatch`, and KEP-555. Simpler than upstream: list keys are known
//! only for the lists below, and fields set by a write other than an apply have no manager, so that they never
//! conflict.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

/// The last applied configuration of each field manager.
pub(super) type Applied = BTreeMap<String, Value>;

/// The member that identifies the items of a list of built-in kinds; without one, the list is replaced as a whole.
fn key_of(list: &str, items: &[Value]) -> Option<&'static str> {
    match list {
        "ownerReferences" => Some("uid"),
        "conditions" => Some("type"),
        "containers"
        | "initContainers"
        | "ephemeralContainers"
        | "volumes"
        | "env"
        | "imagePullSecrets"
        | "secrets" => Some("name"),
        "volumeMounts" => Some("mountPath"),
        "ports" if items.iter().any(|item| item.get("containerPort").is_some()) => Some("containerPort"),
        "ports" => Some("port"),
        _ => None,
    }
}

/// Whether the list is a set of scalars.
fn is_set(list: &str) -> bool {
    list == "finalizers"
}

/// Applies a strategic merge patch. `name` is the field that holds `target`.
pub(super) fn strategic(target: &mut Value, patch: &Value, name: &str) {
    match patch {
        Value::Object(patch) => {
            if !target.is_object() || patch.get("$patch").is_some_and(|directive| directive == "replace") {
                *target = json!({});
            }
            let Value::Object(members) = target else { return };
            for (name, value) in patch {
                if let Some(list) = name.strip_prefix("$deleteFromPrimitiveList/") {
                    let removed = value.as_array().map(Vec::as_slice).unwrap_or_default();
                    if let Some(Value::Array(items)) = members.get_mut(list) {
                        items.retain(|item| !removed.contains(item));
                    }
                } else if value.is_null() {
                    members.remove(name);
                } else if !name.starts_with('$') {
                    strategic(members.entry(name.clone()).or_insert(Value::Null), value, name);
                }
            }
        }
        Value::Array(changes) => match (target, key_of(name, changes)) {
            (Value::Array(items), Some(key)) => merge_items(items, changes, key),
            (Value::Array(items), None) if is_set(name) => {
                let missing: Vec<_> = changes.iter().filter(|change| !items.contains(change)).cloned().collect();
                items.extend(missing);
            }
            (target, Some(key)) => {
                let mut items = Vec::new();
                merge_items(&mut items, changes, key);
                *target = items.into();
            }
            (target, None) => *target = patch.clone(),
        },
        scalar => *target = scalar.clone(),
    }
}

fn merge_items(items: &mut Vec<Value>, changes: &[Value], key: &str) {
    if changes.iter().any(|change| change["$patch"] == "replace") {
        items.clear();
    }
    for change in changes {
        let place = items.iter().position(|item| item.get(key).is_some() && item.get(key) == change.get(key));
        match (change["$patch"].as_str(), place) {
            (Some("delete"), Some(place)) => drop(items.remove(place)),
            (Some("delete" | "replace"), _) => {}
            (_, Some(place)) => strategic(&mut items[place], change, ""),
            (_, None) => {
                let mut item = Value::Null;
                strategic(&mut item, change, "");
                items.push(item);
            }
        }
    }
}

/// A step from a value to one in it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Segment {
    Member(String),
    /// The item whose member has this value, as text.
    Item(&'static str, String),
    /// The scalar of a set, as text.
    Scalar(String),
}

type Path = Vec<Segment>;

/// The identity of a list item, as text, because values have no order.
fn identity(value: &Value) -> String {
    value.to_string()
}

/// Fields that are set as a whole: scalars, empty objects, and lists whose items have no key.
fn leaves(value: &Value, name: &str, path: &mut Path, found: &mut BTreeMap<Path, Value>) {
    let mut below = |segment, value: &Value, name: &str| {
        path.push(segment);
        leaves(value, name, path, found);
        path.pop();
    };
    match value {
        Value::Object(members) if !members.is_empty() => {
            for (name, value) in members {
                below(Segment::Member(name.clone()), value, name);
            }
        }
        Value::Array(items) if is_set(name) => {
            for item in items {
                below(Segment::Scalar(identity(item)), item, "");
            }
        }
        Value::Array(items) if key_of(name, items).is_some() => {
            let key = key_of(name, items).unwrap_or_default();
            for item in items {
                below(Segment::Item(key, identity(&item[key])), item, "");
            }
        }
        _ => drop(found.insert(path.clone(), value.clone())),
    }
}

fn leaves_of(config: &Value) -> BTreeMap<Path, Value> {
    let mut found = BTreeMap::new();
    leaves(config, "", &mut Vec::new(), &mut found);
    // They identify the object, and have no manager.
    for name in ["apiVersion", "kind"] {
        found.remove(&vec![Segment::Member(name.into())]);
    }
    for name in ["name", "namespace", "uid", "resourceVersion"] {
        found.remove(&vec![Segment::Member("metadata".into()), Segment::Member(name.into())]);
    }
    found
}

fn value_at<'a>(mut value: &'a Value, path: &[Segment]) -> Option<&'a Value> {
    for segment in path {
        value = match segment {
            Segment::Member(name) => value.get(name)?,
            Segment::Item(key, wanted) => value.as_array()?.iter().find(|item| identity(&item[*key]) == *wanted)?,
            Segment::Scalar(wanted) => value.as_array()?.iter().find(|item| identity(item) == *wanted)?,
        };
    }
    Some(value)
}

/// Removes a field, and enclosing objects and lists that become empty.
fn remove_at(value: &mut Value, path: &[Segment]) {
    let Some((first, rest)) = path.split_first() else { return };
    let is_empty = |value: &Value| matches!(value, Value::Object(all) if all.is_empty()) || *value == json!([]);
    match (first, value) {
        (Segment::Member(name), Value::Object(members)) => {
            let Some(member) = members.get_mut(name) else { return };
            remove_at(member, rest);
            if rest.is_empty() || is_empty(member) {
                members.remove(name);
            }
        }
        (Segment::Item(key, wanted), Value::Array(items)) => {
            let Some(place) = items.iter().position(|item| identity(&item[*key]) == *wanted) else { return };
            remove_at(&mut items[place], rest);
            if is_empty(&items[place]) {
                items.remove(place);
            }
        }
        (Segment::Scalar(wanted), Value::Array(items)) => items.retain(|item| identity(item) != *wanted),
        _ => {}
    }
}

/// Server-side apply of `config` by `manager`: sets its fields, and removes those that only this manager applied
/// before.
///
/// # Errors
/// The conflicting managers and fields, unless `force`.
pub(super) fn apply(
    object: &mut Value,
    applied: &mut Applied,
    manager: &str,
    config: &Value,
    force: bool,
) -> Result<(), String> {
    let wanted = leaves_of(config);
    let others: Vec<_> = applied.iter().filter(|(name, _)| *name != manager).collect();
    let mut conflicts = Vec::new();
    for (name, other) in &others {
        for path in leaves_of(other).into_keys() {
            let is_taken = wanted.get(&path).is_some_and(|value| value_at(object, &path) != Some(value));
            if is_taken {
                conflicts.push(((*name).clone(), path));
            }
        }
    }
    if let (false, Some((other, path))) = (force, conflicts.first()) {
        return Err(format!("Apply failed with {} conflict: conflict with {other:?}: {path:?}", conflicts.len()));
    }
    let held: BTreeSet<Path> = others.into_iter().flat_map(|(_, other)| leaves_of(other).into_keys()).collect();
    let before = applied.get(manager).map(leaves_of).unwrap_or_default();
    // Item keys are removed last, because the other fields are found by them.
    let is_key =
        |path: &Path| matches!(path.as_slice(), [.., Segment::Item(key, _), Segment::Member(name)] if key == name);
    let mut gone: Vec<Path> =
        before.into_keys().filter(|path| !wanted.contains_key(path) && !held.contains(path)).collect();
    gone.sort_by_key(is_key);
    for path in &gone {
        remove_at(object, path);
    }
    strategic(object, config, "");
    for (other, path) in conflicts {
        if let Some(config) = applied.get_mut(&other) {
            remove_at(config, &path);
        }
    }
    applied.insert(manager.to_owned(), config.clone());
    Ok(())
}
