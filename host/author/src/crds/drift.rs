//! The first difference between a definition in a file and the one generated from the types.

use serde_json::{Map, Value};
use similar::TextDiff;

/// Lines around a change in a diff.
const CONTEXT: usize = 2;

/// Length of a value in a message.
const MAX_SHOWN: usize = 60;

/// A difference.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Difference {
    /// Path of the first value that differs, for example `spec.versions[0].name`.
    pub(super) place: String,
    /// The value in the file.
    pub(super) file: String,
    /// The value from the types.
    pub(super) types: String,
    /// A diff of the first lines.
    pub(super) diff: String,
}

/// Compares a definition in a file with that from the types. Additions by the API server and tools are ignored.
pub(super) fn difference(file: &Value, types: &Value, max_lines: usize) -> Option<Difference> {
    let [file, types] = [file, types].map(|definition| sorted(&without_status(definition)));
    let (place, in_file, of_types) = first(&file, &types, "")?;
    Some(Difference { place, file: short(in_file), types: short(of_types), diff: diff(&file, &types, max_lines) })
}

/// Members sorted by name.
pub(super) fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let mut names: Vec<&String> = members.keys().collect();
            names.sort();
            names.into_iter().map(|name| (name.clone(), sorted(&members[name]))).collect::<Map<_, _>>().into()
        }
        Value::Array(items) => items.iter().map(sorted).collect(),
        other => other.clone(),
    }
}

fn without_status(definition: &Value) -> Value {
    let mut definition = definition.clone();
    if let Some(members) = definition.as_object_mut() {
        members.remove("status");
    }
    definition
}

/// Path and values of the first difference; an absent value is `None`.
fn first<'a>(file: &'a Value, types: &'a Value, place: &str) -> Option<(String, Option<&'a Value>, Option<&'a Value>)> {
    match (file, types) {
        (Value::Object(a), Value::Object(b)) => {
            let mut names: Vec<&String> = a.keys().chain(b.keys().filter(|name| !a.contains_key(*name))).collect();
            names.sort();
            names.into_iter().find_map(|name| {
                let place = if place.is_empty() { name.clone() } else { format!("{place}.{name}") };
                match (a.get(name), b.get(name)) {
                    (Some(a), Some(b)) => first(a, b, &place),
                    (a, b) => Some((place, a, b)),
                }
            })
        }
        (Value::Array(a), Value::Array(b)) => (0..a.len().max(b.len())).find_map(|i| {
            let place = format!("{place}[{i}]");
            match (a.get(i), b.get(i)) {
                (Some(a), Some(b)) => first(a, b, &place),
                (a, b) => Some((place, a, b)),
            }
        }),
        _ => (file != types).then(|| (place.to_owned(), Some(file), Some(types))),
    }
}

fn short(value: Option<&Value>) -> String {
    let Some(value) = value else { return "nothing".to_owned() };
    let text = value.to_string();
    match text.char_indices().nth(MAX_SHOWN) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

fn diff(file: &Value, types: &Value, max_lines: usize) -> String {
    let [file, types] = [file, types].map(|value| serde_norway::to_string(value).unwrap_or_default());
    let diff = TextDiff::from_lines(&file, &types);
    let diff = diff.unified_diff().context_radius(CONTEXT).header("the file", "the types").to_string();
    let n_lines = diff.lines().count();
    let mut shown: Vec<&str> = diff.lines().take(max_lines).collect();
    let more = format!("({} more lines; `pintle crds --check` shows all)", n_lines.saturating_sub(max_lines));
    if n_lines > max_lines {
        shown.push(&more);
    }
    shown.join("\n")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn place(file: &Value, types: &Value) -> Option<(String, String, String)> {
        difference(file, types, 9).map(|found| (found.place, found.file, found.types))
    }

    #[test]
    fn the_first_difference_has_its_path_and_both_values() {
        let text = |parts: [&str; 3]| Some(parts.map(str::to_owned).into());
        let file = json!({"spec": {"versions": [{"name": "v1", "schema": {"maxLength": 63}}]}});
        for (types, expected) in [
            (
                json!({"spec": {"versions": [{"name": "v1", "schema": {"maxLength": 64}}]}}),
                ["spec.versions[0].schema.maxLength", "63", "64"],
            ),
            (
                json!({"spec": {"versions": [{"name": "v1", "schema": {}}]}}),
                ["spec.versions[0].schema.maxLength", "63", "nothing"],
            ),
            (json!({"spec": {"scope": "Cluster", "versions": []}}), ["spec.scope", "nothing", "\"Cluster\""]),
            (
                json!({"spec": {"versions": [{"name": "v1", "schema": {"maxLength": 63}}, 1]}}),
                ["spec.versions[1]", "nothing", "1"],
            ),
        ] {
            assert_eq!(place(&file, &types), text(expected), "{types}");
        }
        assert_eq!(place(&file, &file), None);
    }

    #[test]
    fn order_of_members_and_the_status_do_not_count() {
        let file: Value = serde_json::from_str(r#"{"b": 1, "a": [2, 1], "status": {"x": 1}}"#).unwrap();
        assert_eq!(place(&file, &json!({"a": [2, 1], "b": 1})), None);
        assert!(place(&file, &json!({"a": [1, 2], "b": 1})).is_some(), "the order of a list does");
    }

    #[test]
    fn a_long_diff_is_cut_and_a_long_value_shortened() {
        let many = |n: u32| json!({"spec": (0..n).map(|i| (format!("f{i:02}"), json!(i))).collect::<Map<_, _>>()});
        let found = difference(&many(0), &many(40), 5).unwrap();
        assert_eq!(found.diff.lines().count(), 6);
        assert!(found.diff.ends_with(" more lines; `pintle crds --check` shows all)"), "{}", found.diff);
        let long = "x".repeat(100);
        let found = difference(&json!({"a": long}), &json!({"a": 1}), 9).unwrap();
        assert_eq!(found.file, format!("\"{}...", "x".repeat(59)));
        assert_eq!(found.diff, format!("--- the file\n+++ the types\n@@ -1 +1 @@\n-a: {long}\n+a: 1"));
    }
}
