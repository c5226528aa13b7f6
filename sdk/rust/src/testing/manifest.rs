//! The parts of a manifest that fixtures use. The host defines the format, and unknown fields are ignored.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::limits::Limits;
use crate::time::go_duration;
use crate::types::Kind;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Manifest {
    pub(super) name: String,
    pub(super) watches: Vec<Watch>,
    pub(super) queues: Vec<Queue>,
    pub(super) config: BTreeMap<String, Setting>,
    pub(super) discovery: bool,
    pub(super) limits: Limits,
}

impl Manifest {
    /// The settings that have a default.
    pub(super) fn default_config(&self) -> serde_json::Map<String, Value> {
        let given = |(name, setting): (&String, &Setting)| Some((name.clone(), setting.default.clone()?));
        self.config.iter().filter_map(given).map(|(name, value)| (name.clone(), self.seen(&name, value))).collect()
    }

    /// A value as the plugin reads it: a duration in milliseconds, rounded up.
    pub(super) fn seen(&self, name: &str, value: Value) -> Value {
        let is_duration = self.config.get(name).is_some_and(|setting| setting.kind == "duration");
        match value.as_str().filter(|_| is_duration).and_then(milliseconds) {
            Some(milliseconds) => milliseconds.into(),
            None => value,
        }
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
    #[serde(default, rename = "type")]
    pub(super) kind: String,
    pub(super) default: Option<Value>,
}

impl Setting {
    /// Whether it is a key or an authority, which the configuration shows only as bound.
    pub(super) fn is_secret(&self) -> bool {
        ["key", "authority"].contains(&self.kind.as_str())
    }
}

/// A duration in Go's syntax, rounded up.
fn milliseconds(text: &str) -> Option<u64> {
    let nanos = u64::try_from(go_duration(text)?).ok()?;
    Some(nanos.div_ceil(1_000_000))
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

/// The values at a path; a list, also at the end, stands for its elements.
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

/// A copy with only these paths.
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
    use serde_json::json;

    use super::*;

    #[test]
    fn durations_are_milliseconds() {
        let setting = |kind: &str| Setting { kind: kind.into(), default: Some("1h30m0.5s".into()) };
        let config = BTreeMap::from([("a".to_owned(), setting("duration")), ("b".to_owned(), setting("string"))]);
        let manifest = Manifest { config, ..Manifest::default() };
        assert_eq!(Value::Object(manifest.default_config()), json!({"a": 5_400_500, "b": "1h30m0.5s"}));
        for (text, wanted) in
            [("0", Some(0)), ("1500us", Some(2)), ("15s", Some(15_000)), ("", None), ("5", None), ("s", None)]
        {
            assert_eq!(milliseconds(text), wanted, "{text}");
        }
        assert_eq!(manifest.seen("a", 7.into()), 7);
    }

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
