//! Strategic merge: a merge patch in which lists with a merge key are merged element by element.
//!
//! Directives: `$patch: delete | replace | merge`, `$deleteFromPrimitiveList/field`, `$setElementOrder/field`, `$retainKeys`.
//!
//! Source: apimachinery `strategicpatch` with unmatched nulls ignored, as the API server calls it.

use serde_json::{Map, Value};

use super::PatchError;
use crate::schema::{Node, PatchStrategy};

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM: &str = "$deleteFromPrimitiveList/";
const SET_ORDER: &str = "$setElementOrder/";

/// Merges `patch` into a copy of `current`.
pub(super) fn merge(node: Node<'_>, current: &Value, patch: Value) -> Result<Value, PatchError> {
    let original = match current {
        Value::Object(map) => map.clone(),
        _ => Map::new(),
    };
    match patch {
        Value::Object(patch) => merge_map(node, original, patch).map(Value::Object),
        _ => Err(PatchError::Malformed("the patch must be a JSON object".to_owned())),
    }
}

fn merge_map(
    node: Node<'_>,
    mut original: Map<String, Value>,
    mut patch: Map<String, Value>,
) -> Result<Map<String, Value>, PatchError> {
    if let Some(directive) = patch.shift_remove(DIRECTIVE) {
        return match directive.as_str() {
            Some("replace") => Ok(patch),
            Some("delete") => Ok(Map::new()),
            _ => Err(PatchError::Malformed(format!("unknown patch type: {directive} in map: {patch:?}"))),
        };
    }
    retain_keys(&mut original, &mut patch)?;
    let mut deferred: Vec<(String, Value)> = Vec::new();
    let orders: Vec<String> = patch.keys().filter(|key| key.starts_with(SET_ORDER)).cloned().collect();
    for key in orders {
        let order = patch.shift_remove(&key).unwrap_or_default();
        let field = key[SET_ORDER.len()..].to_owned();
        merge_with_order(node, &field, order, &mut original, &mut patch)?;
    }
    for (key, value) in patch {
        match key.strip_prefix(DELETE_FROM) {
            // Removals come last in the loop's order upstream only by chance of map iteration; doing them after the
            // merge gives the one result that does not depend on it.
            Some(field) => deferred.push((field.to_owned(), value)),
            None => merge_field(node, &mut original, key, value)?,
        }
    }
    for (field, remove) in deferred {
        let (Some(Value::Array(items)), Value::Array(remove)) = (original.get_mut(&field), remove) else {
            continue;
        };
        items.retain(|item| !remove.contains(item));
    }
    Ok(original)
}

fn merge_field(node: Node<'_>, original: &mut Map<String, Value>, key: String, patch: Value) -> Result<(), PatchError> {
    if patch.is_null() {
        original.shift_remove(&key);
        return Ok(());
    }
    let strategy = node.declared(&key).map(|field| &field.patch);
    let merged = match (original.get_mut(&key).map(Value::take), patch) {
        (Some(Value::Object(_)), Value::Object(patch)) if strategy.is_some_and(|strategy| strategy.replace) => {
            Some(Value::Object(patch))
        }
        (Some(Value::Object(current)), Value::Object(patch)) => {
            Some(Value::Object(merge_map(node.child(&key), current, patch)?))
        }
        (Some(Value::Array(current)), Value::Array(patch)) => {
            Some(Value::Array(merge_list(node.child(&key).item(), strategy, &key, current, patch)?))
        }
        (_, mut patch) => {
            drop_nulls(&mut patch);
            drop_directives(patch)
        }
    };
    match merged {
        Some(value) => original.insert(key, value),
        None => original.shift_remove(&key),
    };
    Ok(())
}

fn merge_list(
    item: Node<'_>,
    strategy: Option<&PatchStrategy>,
    field: &str,
    original: Vec<Value>,
    patch: Vec<Value>,
) -> Result<Vec<Value>, PatchError> {
    let Some(strategy) = strategy.filter(|strategy| strategy.merge) else {
        return Ok(patch);
    };
    if original.is_empty() && patch.is_empty() {
        return Ok(original);
    }
    let maps = original.iter().chain(&patch).all(Value::is_object);
    if !maps {
        let mut merged = original.clone();
        for value in &patch {
            if !merged.contains(value) {
                merged.push(value.clone());
            }
        }
        return Ok(ordered(merged, &patch, &original, None));
    }
    let Some(key) = strategy.merge_key.as_deref() else {
        return Err(PatchError::Invalid(format!("cannot merge lists without merge key for {field}")));
    };
    let (original, patch) = special_elements(original, patch, key)?;
    let mut merged = original.clone();
    for value in &patch {
        let Value::Object(element) = value else {
            continue;
        };
        let id = key_of(value, key)?;
        match merged.iter_mut().find(|candidate| candidate.get(key) == Some(id)) {
            Some(found) => {
                if let Value::Object(current) = found.take() {
                    *found = Value::Object(merge_map(item, current, element.clone())?);
                }
            }
            None => {
                // Upstream appends the element as it is; nulls in it never survive the decoding that follows.
                let mut added = value.clone();
                drop_nulls(&mut added);
                merged.extend(drop_directives(added));
            }
        }
    }
    for value in &merged {
        key_of(value, key)?;
    }
    Ok(ordered(merged, &patch, &original, Some(key)))
}

/// Removes `$patch` elements from the patch and applies them.
fn special_elements(
    mut original: Vec<Value>,
    patch: Vec<Value>,
    key: &str,
) -> Result<(Vec<Value>, Vec<Value>), PatchError> {
    let mut plain = Vec::with_capacity(patch.len());
    let mut replace = false;
    for value in patch {
        match value.get(DIRECTIVE).map(Value::as_str) {
            None => plain.push(value),
            Some(Some("delete")) => {
                let id = key_of(&value, key)?;
                original.retain(|candidate| candidate.get(key) != Some(id));
            }
            Some(Some("replace")) => replace = true,
            Some(Some("merge")) => {
                return Err(PatchError::Invalid("merging lists cannot yet be specified in the patch".to_owned()));
            }
            Some(_) => {
                return Err(PatchError::Malformed(format!("unknown patch type in {value}")));
            }
        }
    }
    Ok(if replace { (plain, Vec::new()) } else { (original, plain) })
}

fn merge_with_order(
    node: Node<'_>,
    field: &str,
    order: Value,
    original: &mut Map<String, Value>,
    patch: &mut Map<String, Value>,
) -> Result<(), PatchError> {
    let Value::Array(order) = order else {
        return Err(PatchError::Malformed(format!("{SET_ORDER}{field} must be a list")));
    };
    let strategy = node.declared(field).map(|field| &field.patch);
    let key = strategy.and_then(|strategy| strategy.merge_key.as_deref());
    let listed = match patch.shift_remove(field) {
        Some(Value::Array(list)) => Some(list),
        Some(other) => {
            // Not a list: an ordinary value, null included, takes precedence over the order.
            patch.insert(field.to_owned(), other);
            return Ok(());
        }
        None => None,
    };
    if let Some(listed) = &listed {
        check_order(listed, &order, key, field)?;
    }
    let current = match original.get(field) {
        Some(Value::Array(current)) => Some(current.clone()),
        _ => None,
    };
    let merged = match (&current, listed) {
        (None, None) => return Ok(()),
        (Some(current), None) => current.clone(),
        (None, Some(mut listed)) => {
            listed.iter_mut().for_each(drop_nulls);
            listed.into_iter().filter_map(drop_directives).collect()
        }
        (Some(current), Some(listed)) => {
            merge_list(node.child(field).item(), strategy, field, current.clone(), listed)?
        }
    };
    let server_order = current.unwrap_or_default();
    original.insert(field.to_owned(), Value::Array(ordered(merged, &order, &server_order, key)));
    Ok(())
}

/// The elements of the patch must be in the order that the patch itself specifies.
fn check_order(listed: &[Value], order: &[Value], key: Option<&str>, field: &str) -> Result<(), PatchError> {
    if order.is_empty() {
        return Ok(());
    }
    let mut rest = order.iter();
    for value in listed.iter().filter(|value| value.get(DIRECTIVE).is_none()) {
        if !rest.any(|wanted| same(value, wanted, key)) {
            return Err(PatchError::Malformed(format!(
                "The order in patch list:\n{listed:?}\n doesn't match {SET_ORDER}{field} list:\n{order:?}\n"
            )));
        }
    }
    Ok(())
}

fn same(left: &Value, right: &Value, key: Option<&str>) -> bool {
    match key {
        Some(key) => left.get(key).is_some() && left.get(key) == right.get(key),
        None => left == right,
    }
}

/// Elements in `order` follow it; the others keep the server's order, placed before the first element that followed
/// them on the server.
fn ordered(merged: Vec<Value>, order: &[Value], server: &[Value], key: Option<&str>) -> Vec<Value> {
    let place = |list: &[Value], value: &Value| list.iter().position(|candidate| same(value, candidate, key));
    let (mut named, mut others): (Vec<Value>, Vec<Value>) =
        merged.into_iter().partition(|value| place(order, value).is_some());
    named.sort_by_key(|value| place(order, value));
    others.sort_by_key(|value| place(server, value).unwrap_or(usize::MAX));
    let mut result = Vec::with_capacity(named.len() + others.len());
    let (mut named, mut others) = (named.into_iter().peekable(), others.into_iter().peekable());
    loop {
        let server_first = match (others.peek(), named.peek()) {
            (Some(other), Some(name)) => match (place(server, other), place(server, name)) {
                (Some(left), Some(right)) => left < right,
                _ => false,
            },
            (Some(_), None) => true,
            (None, _) => false,
        };
        match if server_first { others.next() } else { named.next() } {
            Some(value) => result.push(value),
            None => return result,
        }
    }
}

fn key_of<'a>(value: &'a Value, key: &str) -> Result<&'a Value, PatchError> {
    value
        .get(key)
        .ok_or_else(|| PatchError::Malformed(format!("map: {value} does not contain declared merge key: {key}")))
}

fn retain_keys(original: &mut Map<String, Value>, patch: &mut Map<String, Value>) -> Result<(), PatchError> {
    let Some(keys) = patch.shift_remove(RETAIN_KEYS) else {
        return Ok(());
    };
    let bad = || PatchError::Malformed("invalid patch format of retainKeys".to_owned());
    let keys: Vec<&str> = keys.as_array().ok_or_else(bad)?.iter().filter_map(Value::as_str).collect();
    let stray = patch.iter().any(|(key, value)| {
        !value.is_null()
            && !key.starts_with(DELETE_FROM)
            && !key.starts_with(SET_ORDER)
            && !keys.contains(&key.as_str())
    });
    if stray {
        return Err(bad());
    }
    original.retain(|key, _| keys.contains(&key.as_str()));
    Ok(())
}

fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, child| !child.is_null());
            map.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

/// `None` if the value itself is a directive.
fn drop_directives(value: Value) -> Option<Value> {
    match value {
        Value::Object(map) if map.contains_key(DIRECTIVE) => None,
        Value::Object(map) => Some(Value::Object(
            map.into_iter()
                .filter(|(key, _)| !key.starts_with(DELETE_FROM) && !key.starts_with(SET_ORDER) && key != RETAIN_KEYS)
                .filter_map(|(key, child)| Some((key, drop_directives(child)?)))
                .collect(),
        )),
        Value::Array(items) => Some(Value::Array(items.into_iter().filter_map(drop_directives).collect())),
        scalar => Some(scalar),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::schema::lookup;

    fn deployment(current: Value, patch: Value) -> Result<Value, PatchError> {
        let schema = lookup("apps", "v1", "Deployment").unwrap();
        merge(Node::Struct(&schema), &current, patch)
    }

    fn pod(current: Value, patch: Value) -> Value {
        let schema = lookup("", "v1", "Pod").unwrap();
        merge(Node::Struct(&schema), &current, patch).unwrap()
    }

    #[test]
    fn the_replace_directive_replaces_a_map_or_a_list() {
        let current = json!({"metadata": {"labels": {"a": "1"}}, "spec": {"containers": [{"name": "a"}]}});
        let patched = pod(
            current,
            json!({"metadata": {"labels": {"$patch": "replace", "c": "3"}}, "spec": {"containers": [{"$patch": "replace"}, {"name": "z"}]}}),
        );
        assert_eq!(patched, json!({"metadata": {"labels": {"c": "3"}}, "spec": {"containers": [{"name": "z"}]}}));
    }

    #[test]
    fn primitive_lists_are_united_and_deleted_from() {
        let current = json!({"metadata": {"finalizers": ["a", "b", "c"]}});
        let patched = pod(
            current,
            json!({"metadata": {"finalizers": ["d"], "$deleteFromPrimitiveList/finalizers": ["b"], "$setElementOrder/finalizers": ["a", "c", "d"]}}),
        );
        assert_eq!(patched, json!({"metadata": {"finalizers": ["a", "c", "d"]}}));
    }

    #[test]
    fn the_set_element_order_directive_orders_and_keeps_what_only_the_server_has() {
        let current = json!({"spec": {"containers": [{"name": "sidecar"}, {"name": "a"}, {"name": "b"}]}});
        let patched = pod(
            current,
            json!({"spec": {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}], "containers": [{"name": "b", "image": "2"}]}}),
        );
        assert_eq!(
            patched["spec"]["containers"],
            json!([{"name": "sidecar"}, {"name": "b", "image": "2"}, {"name": "a"}])
        );
    }

    #[test]
    fn retain_keys_clears_the_other_members_of_a_union() {
        let current = json!({"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}});
        let patch = json!({"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}});
        assert_eq!(deployment(current.clone(), patch).unwrap(), json!({"spec": {"strategy": {"type": "Recreate"}}}));
        let stray = json!({"spec": {"strategy": {"$retainKeys": ["rollingUpdate"], "type": "Recreate"}}});
        assert!(matches!(deployment(current, stray), Err(PatchError::Malformed(_))));
    }

    #[test]
    fn lists_without_a_strategy_and_maps_of_the_replace_strategy_are_replaced() {
        let current = json!({"spec": {"tolerations": [{"key": "a"}], "nodeSelector": {"a": "1"}}});
        let patched = pod(current, json!({"spec": {"tolerations": [{"key": "b"}], "nodeSelector": {"b": "1"}}}));
        assert_eq!(patched, json!({"spec": {"tolerations": [{"key": "b"}], "nodeSelector": {"a": "1", "b": "1"}}}));
        let schema = lookup("policy", "v1", "PodDisruptionBudget").unwrap();
        let current = json!({"spec": {"selector": {"matchLabels": {"a": "1"}}}});
        let patch = json!({"spec": {"selector": {"matchLabels": {"b": "1"}}}});
        assert_eq!(merge(Node::Struct(&schema), &current, patch.clone()).unwrap(), patch);
    }

    #[test]
    fn an_element_without_its_merge_key_is_refused() {
        let schema = lookup("", "v1", "Pod").unwrap();
        let current = json!({"spec": {"containers": [{"name": "a"}]}});
        let patch = json!({"spec": {"containers": [{"image": "x"}]}});
        assert!(matches!(merge(Node::Struct(&schema), &current, patch), Err(PatchError::Malformed(_))));
    }
}
