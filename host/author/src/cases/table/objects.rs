//! The objects of a table: labels -> objects.

use anyhow::{Context as _, bail, ensure};
use serde_json::{Map, Value};

/// Most nested fixtures; a larger depth is a cycle.
const MAX_DEPTH: usize = 8;

/// Merges as RFC 7386, with one addition: a null that removes nothing becomes a null of the object.
pub(super) fn merge(target: &mut Value, patch: Value) {
    match patch {
        Value::Object(patch) if target.is_object() => {
            let Value::Object(target) = target else { return };
            for (name, value) in patch {
                match target.get_mut(&name) {
                    Some(_) if value.is_null() => drop(target.shift_remove(&name)),
                    Some(before) => merge(before, value),
                    None => drop(target.insert(name, value)),
                }
            }
        }
        other => *target = other,
    }
}

/// Expands labels, one for each object: `p0..p3, x` is five. Later ones with the same label change earlier ones.
///
/// # Errors
/// A range has no numbers, or the objects are a list.
pub(super) fn by_label(labels: &Value) -> anyhow::Result<Value> {
    let Value::Object(labels) = labels else {
        bail!("the objects of a table have labels, `LABEL: {{...}}`, which become their names");
    };
    let mut all = Value::Object(Map::new());
    for (text, object) in labels {
        for label in text.split(',').map(str::trim) {
            for label in names(label)? {
                merge(&mut all, Value::Object([(label, object.clone())].into_iter().collect()));
            }
        }
    }
    Ok(all)
}

/// The labels of `p0..p3`.
fn names(label: &str) -> anyhow::Result<Vec<String>> {
    let Some((first, last)) = label.split_once("..") else { return Ok(vec![label.to_owned()]) };
    let wrong = || format!("{label:?} is not a range of labels: write `NAME0..NAME9`");
    let ((name, from), (other, to)) = (split_number(first), split_number(last));
    ensure!(name == other && !from.is_empty() && !to.is_empty(), wrong());
    let width = if from.starts_with('0') { from.len() } else { 0 };
    let (from, to): (u32, u32) = (from.parse().with_context(wrong)?, to.parse().with_context(wrong)?);
    ensure!(from < to, wrong());
    Ok((from..=to).map(|number| format!("{name}{number:0width$}")).collect())
}

/// Splits a name before the number at its end.
pub(super) fn split_number(name: &str) -> (&str, &str) {
    name.split_at(name.trim_end_matches(|c: char| c.is_ascii_digit()).len())
}

/// The objects without their labels.
///
/// # Errors
/// A fixture is unknown, or an object is not a mapping.
pub(super) fn list(labels: &Value, fixtures: &Map<String, Value>) -> anyhow::Result<Value> {
    let labels = labels.as_object().into_iter().flatten();
    labels.map(|(label, object)| one(label, object, fixtures).with_context(|| label.clone())).collect()
}

fn one(label: &str, object: &Value, fixtures: &Map<String, Value>) -> anyhow::Result<Value> {
    ensure!(!object.is_null(), "the row removes an object that the base does not have: remove the line");
    let mut object = resolve(object, fixtures, 0)?;
    ensure!(object.is_object(), "an object of a table is a mapping, such as `{{like: FIXTURE}}`");
    let meta = &mut object["metadata"];
    if meta.is_null() {
        *meta = Value::Object(Map::new());
    }
    // The part after the last slash: labels of two kinds with the same name differ before it.
    let name = meta["name"].as_str().unwrap_or_else(|| label.rsplit('/').next().unwrap_or(label)).to_owned();
    if meta.get("name").is_none() {
        meta["name"] = name.clone().into();
    }
    let ordinal = split_number(&name).1.parse::<u64>().ok();
    fill(&mut object, &name, ordinal.map(|ordinal| ordinal.to_string()).as_deref())?;
    Ok(object)
}

/// An object merged over its fixture.
fn resolve(object: &Value, fixtures: &Map<String, Value>, depth: usize) -> anyhow::Result<Value> {
    let mut object = object.clone();
    let like = object.as_object_mut().and_then(|fields| fields.shift_remove("like"));
    let Some(like) = like else { return Ok(object) };
    let name = like.as_str().context("`like` is the name of a fixture")?;
    let known = || fixtures.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
    let fixture = fixtures.get(name).with_context(|| format!("no fixture {name:?}; the table has: {}", known()))?;
    ensure!(depth < MAX_DEPTH, "the fixture {name:?} is like itself");
    let mut whole = resolve(fixture, fixtures, depth + 1)?;
    merge(&mut whole, object);
    Ok(whole)
}

/// Substitutes the name, and the number at its end, in strings.
fn fill(value: &mut Value, name: &str, ordinal: Option<&str>) -> anyhow::Result<()> {
    match value {
        Value::String(text) => {
            if text.contains("$(ordinal)") {
                let ordinal = ordinal.with_context(|| format!("{text:?}: the name {name:?} ends with no number"))?;
                *text = text.replace("$(ordinal)", ordinal);
            }
            if text.contains("$(name)") {
                *text = text.replace("$(name)", name);
            }
        }
        Value::Object(fields) => {
            for value in fields.values_mut() {
                fill(value, name, ordinal)?;
            }
        }
        Value::Array(items) => {
            for item in items {
                fill(item, name, ordinal)?;
            }
        }
        _ => {}
    }
    Ok(())
}
