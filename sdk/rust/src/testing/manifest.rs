//! What a fixture needs of a manifest. The format is the host's; unknown fields are its business.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::types::Kind;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Manifest {
    pub(super) name: String,
    pub(super) watches: Vec<Watch>,
    pub(super) queues: Vec<Queue>,
    pub(super) config: BTreeMap<String, Setting>,
    pub(super) discovery: bool,
}

impl Manifest {
    /// The settings that have a default.
    pub(super) fn default_config(&self) -> serde_json::Map<String, Value> {
        self.config.iter().filter_map(|(name, setting)| Some((name.clone(), setting.default.clone()?))).collect()
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Watch {
    pub(super) kind: Option<Kind>,
    pub(super) every: Option<Value>,
    pub(super) namespace: Option<String>,
    pub(super) label_selector: Option<String>,
    pub(super) fields: Vec<String>,
    pub(super) whole: bool,
    pub(super) indexes: Vec<Index>,
    pub(super) selects: Option<Selects>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Index {
    pub(super) name: String,
    pub(super) field: String,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Selects {
    pub(super) field: String,
    pub(super) form: String,
    /// `nothing` or `everything`.
    #[serde(default)]
    pub(super) empty: String,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Queue {
    pub(super) name: String,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Setting {
    pub(super) default: Option<Value>,
}

/// Segments of a field path such as `spec.nodeName` or `metadata.annotations['example.com/x']`.
pub(super) fn segments(path: &str) -> Vec<String> {
    let mut segments = Vec::new();
    let mut rest = path;
    while !rest.is_empty() {
        if let Some(quoted) = rest.strip_prefix("['")
            && let Some((name, after)) = quoted.split_once("']")
        {
            segments.push(name.to_owned());
            rest = after.strip_prefix('.').unwrap_or(after);
            continue;
        }
        let end = rest.find(['.', '[']).unwrap_or(rest.len());
        let (name, after) = rest.split_at(end);
        assert!(
            !name.is_empty(),
            "{path:?} is not a field path: write spec.nodeName or metadata.labels['example.com/x']"
        );
        segments.push(name.to_owned());
        rest = after.strip_prefix('.').unwrap_or(after);
    }
    segments
}

/// The values at a path; a list on the way stands for its elements, and so does one at the end.
pub(super) fn values_at<'a>(object: &'a Value, path: &[String], found: &mut Vec<&'a Value>) {
    match (object, path.split_first()) {
        (Value::Array(items), _) => items.iter().for_each(|item| values_at(item, path, found)),
        (value, None) => found.push(value),
        (Value::Object(fields), Some((first, rest))) => {
            if let Some(value) = fields.get(first) {
                values_at(value, rest, found);
            }
        }
        _ => {}
    }
}

/// A copy with only what the paths name.
pub(super) fn project(object: &Value, paths: &[Vec<String>]) -> Value {
    match object {
        Value::Object(fields) => fields
            .iter()
            .filter_map(|(name, value)| {
                let below: Vec<Vec<String>> =
                    paths.iter().filter(|path| path.first() == Some(name)).map(|path| path[1..].to_vec()).collect();
                if below.is_empty() {
                    None
                } else if below.iter().any(Vec::is_empty) {
                    Some((name.clone(), value.clone()))
                } else {
                    Some((name.clone(), project(value, &below)))
                }
            })
            .collect(),
        Value::Array(items) => items.iter().map(|item| project(item, paths)).collect(),
        scalar => scalar.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn paths_go_through_lists_and_quoted_names() {
        let object = json!({
            "metadata": {"annotations": {"a.b/c": "1", "other": "2"}},
            "spec": {"containers": [{"name": "a", "image": "x"}, {"name": "b"}]},
        });
        let paths: Vec<_> =
            ["metadata.annotations['a.b/c']", "spec.containers.name"].iter().map(|path| segments(path)).collect();
        assert_eq!(
            project(&object, &paths),
            json!({
                "metadata": {"annotations": {"a.b/c": "1"}},
                "spec": {"containers": [{"name": "a"}, {"name": "b"}]},
            })
        );
        let mut found = Vec::new();
        values_at(&object, &paths[1], &mut found);
        assert_eq!(found, [&json!("a"), &json!("b")]);
    }
}
