//! Server-side apply, and field ownership.
//!
//! ```text
//! apply:  live + config --merge--> --prune what this manager no longer lists--> new; conflicts unless forced
//! update: old, new --compare--> the manager owns what it changed, the others lose it
//! ```
//!
//! Invariants:
//! 1. A field that another manager owns changes only by force or by an ordinary update.
//! 2. A field disappears through apply only when the applying manager was its last owner.
//! 3. Applying the same configuration twice changes nothing, times in `managedFields` included.
//!
//! Not here: defaulting and validation of the result; conversion between versions (a manager of another version is
//! treated as one of this version).
//!
//! Source: structured-merge-diff's `merge/update.go` and `typed`, apimachinery's `managedfields`.

mod managers;
mod set;
mod validate;
mod walk;

use serde_json::{Map, Value, json};

use crate::schema::{self, Node, Shape, TypeRef};
use managers::{Manager, Managers};
use set::{FieldSet, PathElement};

/// The reason why an apply was rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    /// Other managers own fields that would change: 409 Conflict with a cause `FieldManagerConflict` per field.
    #[error("{message}")]
    Conflict {
        /// The message of the response.
        message: String,
        /// `(field, message)` of each cause.
        causes: Vec<(String, String)>,
    },
    /// The configuration is invalid: 400 BadRequest.
    #[error("{0}")]
    BadRequest(String),
    /// The configuration does not fit the schema, for which upstream has no specific code: 500.
    #[error("{0}")]
    Misfit(String),
}

/// The annotation with the last configuration of client-side apply.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Applies `config` for `manager`; `live` is `None` when the object is created. `now` is an RFC 3339 time.
///
/// # Errors
/// [`ApplyError::Conflict`] without `force` when another manager owns a field that would change,
/// [`ApplyError::BadRequest`] when the configuration contains managed fields, [`ApplyError::Misfit`] when it contains
/// unknown fields, values of another type, or a list key twice.
pub fn apply(
    schema: Option<TypeRef>,
    live: Option<&Value>,
    config: &Value,
    manager: &str,
    force: bool,
    subresource: Option<&str>,
    now: &str,
) -> Result<Value, ApplyError> {
    if config["metadata"].get("managedFields").is_some_and(|fields| !fields.is_null()) {
        return Err(ApplyError::BadRequest("metadata.managedFields must be nil".to_owned()));
    }
    let node = Node::root(schema.as_ref());
    if let Some(error) = validate::error(node, config) {
        return Err(ApplyError::Misfit(format!("the configuration does not fit its kind: {error}")));
    }
    let version = config["apiVersion"].as_str().unwrap_or_default();
    let applying = Manager::new(manager, "Apply", "", subresource);
    let (mut live_object, mut managers) = match live {
        Some(live) => {
            let mut object = live.clone();
            let managers = Managers::take(&mut object);
            (object, managers)
        }
        None => (empty_object(schema.as_ref(), config), Managers::default()),
    };
    if managers.is_empty() && live.is_some() {
        let before = Manager::new("before-first-apply", "Update", version, None);
        let mut everything = walk::compare(node, &empty_object(schema.as_ref(), config), &live_object).changed();
        strip(&mut everything, subresource);
        managers.set(before, everything, version, Some(now));
    }
    let last = managers.fields(&applying);
    let merged = walk::merge(node, &live_object, config);
    let mut owned = walk::field_set(node, config);
    ignore(&mut owned, subresource);
    managers.set(applying.clone(), owned.clone(), version, None);
    let new = match &last {
        Some(last) => prune(node, merged, last, &managers.union()),
        None => merged,
    };
    let mut change = walk::compare(node, &live_object, &new);
    change.ignore(|set| ignore(set, subresource));
    let conflicts = managers.conflicts(&applying, &change.changed());
    let conflicts = allow_last_applied(node, manager, &live_object, conflicts);
    if !force && !conflicts.is_empty() {
        return Err(conflict(&conflicts));
    }
    managers.take_from_others(&applying, &change.changed(), &change.removed);
    strip(&mut owned, subresource);
    // Ownership may change without a new time: only a changed object gets one.
    let same = live.is_some() && new == live_object;
    let time = if same { None } else { Some(now) };
    managers.set(applying, owned, version, time);
    live_object = new;
    managers.put(&mut live_object);
    Ok(live_object)
}

/// Updates `managedFields` of an object that `manager` created, updated or patched.
pub fn track_update(
    schema: Option<TypeRef>,
    old: Option<&Value>,
    new: &mut Value,
    manager: &str,
    subresource: Option<&str>,
    now: &str,
) {
    let node = Node::root(schema.as_ref());
    let sent = new["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    let reset = matches!(sent.as_slice(), [Value::Object(entry)] if entry.is_empty());
    let mut managers = Managers::take(new);
    let before = match old {
        Some(old) => {
            let mut before = old.clone();
            let known = Managers::take(&mut before);
            if reset {
                managers = Managers::default();
            } else if managers.is_empty() {
                managers = known;
            }
            // Without a record the owners are unknown; the record starts with the first apply.
            if managers.is_empty() {
                return;
            }
            before
        }
        None => {
            managers = Managers::default();
            empty_object(schema.as_ref(), new)
        }
    };
    let version = new["apiVersion"].as_str().unwrap_or_default().to_owned();
    let mut change = walk::compare(node, &before, new);
    change.ignore(|set| ignore(set, subresource));
    let updating = Manager::new(manager, "Update", &version, subresource);
    let mut changed = change.changed();
    managers.take_from_others(&Manager::default(), &changed, &change.removed);
    strip(&mut changed, subresource);
    if !changed.is_empty() {
        let owned = managers.fields(&updating).unwrap_or_default().union(&changed);
        managers.set(updating, owned, &version, Some(now));
    }
    managers.put(new);
}

/// The empty object of this kind, which a new object is compared with.
fn empty_object(schema: Option<&TypeRef>, like: &Value) -> Value {
    let mut empty = json!({});
    for field in ["apiVersion", "kind"] {
        if let Some(value) = like.get(field) {
            empty[field] = value.clone();
        }
    }
    match schema {
        Some(schema) => {
            schema::canonicalize(schema, &mut empty);
            // Types of custom kinds have no name, and no required lists.
            if !schema.name.is_empty() {
                show_lists(Node::root(Some(schema)), &mut empty);
            }
        }
        None => empty["metadata"] = json!({}),
    }
    empty
}

/// Adds the lists that upstream's types encode as `null` when empty, so that no manager owns the list itself.
fn show_lists(node: Node<'_>, value: &mut Value) {
    let Value::Object(map) = value else { return };
    for (name, child) in map.iter_mut() {
        show_lists(node.child(name), child);
    }
    let Node::Struct(schema) = node else { return };
    for (name, field) in &schema.fields {
        if field.pointer && matches!(field.shape, Shape::List { .. }) && !map.contains_key(name) {
            map.insert(name.clone(), Value::Null);
        }
    }
}

/// Ignores fields that another endpoint of the object writes.
fn ignore(set: &mut FieldSet, subresource: Option<&str>) {
    match subresource {
        Some("status") => set.remove_tree(&PathElement::field("spec")),
        _ => set.remove_tree(&PathElement::field("status")),
    }
}

/// Removes fields that no manager owns: identity and fields set by the server.
fn strip(set: &mut FieldSet, subresource: Option<&str>) {
    ignore(set, subresource);
    for field in ["apiVersion", "kind"] {
        set.remove_member(&[field]);
    }
    set.remove_member(&["metadata"]);
    for field in [
        "name",
        "namespace",
        "creationTimestamp",
        "selfLink",
        "uid",
        "clusterName",
        "generation",
        "managedFields",
        "resourceVersion",
    ] {
        set.remove_member(&["metadata", field]);
    }
}

/// Removes the fields in `last`, except those that a manager still owns.
fn prune(node: Node<'_>, merged: Value, last: &FieldSet, owned: &FieldSet) -> Value {
    let named = |set: &FieldSet| walk::with_named_fields(node, set);
    let all = named(&walk::field_set(node, &merged));
    let pruned = walk::remove(node, &merged, &named(last));
    let kept = named(&walk::field_set(node, &pruned));
    let back = walk::remove(node, &merged, &all.difference(&kept.union(&named(owned))));
    // Restores fields below a removed item that this manager never owned.
    let kept = named(&walk::field_set(node, &back));
    walk::remove(node, &merged, &all.difference(&kept).intersection(&named(last)))
}

/// Allows kubectl to take over the fields of its client-side apply.
fn allow_last_applied(
    node: Node<'_>,
    manager: &str,
    live: &Value,
    conflicts: Vec<(Manager, FieldSet)>,
) -> Vec<(Manager, FieldSet)> {
    let annotation = live["metadata"]["annotations"][LAST_APPLIED].as_str();
    let last = annotation.filter(|_| manager == "kubectl").and_then(|text| serde_json::from_str::<Value>(text).ok());
    let Some(last) = last else { return conflicts };
    let allowed = walk::field_set(node, &last);
    let rest = conflicts.into_iter().map(|(manager, set)| (manager, set.difference(&allowed)));
    rest.filter(|(_, set)| !set.is_empty()).collect()
}

fn conflict(conflicts: &[(Manager, FieldSet)]) -> ApplyError {
    let mut causes = Vec::new();
    let mut groups = Map::new();
    for (manager, set) in conflicts {
        for path in set.paths() {
            causes.push((path.clone(), format!("conflict with {manager}")));
            let group = groups.entry(manager.to_string()).or_insert_with(|| json!([]));
            if let Some(paths) = group.as_array_mut() {
                paths.push(path.into());
            }
        }
    }
    let message = match causes.as_slice() {
        [(path, message)] => format!("Apply failed with 1 conflict: {message}: {path}"),
        _ => {
            let mut lines = Vec::new();
            for (manager, paths) in &groups {
                lines.push(format!("conflicts with {manager}:"));
                lines.extend(
                    paths.as_array().into_iter().flatten().filter_map(Value::as_str).map(|path| format!("- {path}")),
                );
            }
            format!("Apply failed with {} conflicts: {}", causes.len(), lines.join("\n"))
        }
    };
    ApplyError::Conflict { message, causes }
}

#[cfg(test)]
mod tests;
