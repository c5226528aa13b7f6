//! Parses the file into a tree of fields.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use serde_json::{Map, Value};
use serde_norway::Value as Yaml;

/// The API version of the file.
pub(crate) const API_VERSION: &str = "pintle.dev/v1alpha1";
/// The kind of the file.
pub(crate) const KIND: &str = "HostConfiguration";
/// Longest file: 1 MiB, the limit of ConfigMaps, from which such files are mounted.
const MAX_BYTES: usize = 1 << 20;

/// A file's content.
#[derive(Clone, Debug)]
pub(crate) struct File {
    /// Its name, as given.
    pub(crate) name: String,
    /// The base folder of relative paths.
    pub(crate) folder: PathBuf,
    /// The fields, without `apiVersion` and `kind`.
    pub(crate) fields: Map<String, Value>,
}

impl File {
    /// Reads a file.
    ///
    /// # Errors
    /// It is unreadable, not YAML or JSON, of another kind or version, or contains a key twice.
    pub(crate) fn read(path: &Path) -> anyhow::Result<Self> {
        let name = path.display().to_string();
        let bytes = pintle_oci::read(path, MAX_BYTES).context("read --config")?;
        let text = std::str::from_utf8(&bytes).ok().with_context(|| format!("{name} is not UTF-8"))?;
        let absolute = std::path::absolute(path).with_context(|| format!("find the folder of {name}"))?;
        Self::of(&name, absolute.parent().unwrap_or(Path::new("/")), text)
    }

    /// Parses this text as the file with this name in this folder.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub(crate) fn of(name: &str, folder: &Path, text: &str) -> anyhow::Result<Self> {
        let fields = parse(text).with_context(|| name.to_owned())?;
        Ok(Self { name: name.to_owned(), folder: folder.to_owned(), fields })
    }
}

fn parse(text: &str) -> anyhow::Result<Map<String, Value>> {
    let yaml: Yaml = serde_norway::from_str(text).map_err(|why| anyhow::anyhow!("not YAML: {why}"))?;
    let head = format!("begin with `apiVersion: {API_VERSION}` and `kind: {KIND}`");
    let mut fields = match json(yaml, "")? {
        Value::Object(fields) => fields,
        Value::Null => bail!("it is empty: {head}"),
        other => bail!("it is {}, not a map of fields: {head}", describe(&other)),
    };
    for (field, expected) in [("apiVersion", API_VERSION), ("kind", KIND)] {
        match fields.shift_remove(field) {
            Some(Value::String(given)) if given == expected => {}
            Some(other) => bail!("{field}: must be {expected}, not {}", describe(&other)),
            None => bail!("{field} is missing: {head}"),
        }
    }
    Ok(fields)
}

/// Converts to JSON types. `path`: the location in the file.
fn json(yaml: Yaml, path: &str) -> anyhow::Result<Value> {
    let at = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    Ok(match yaml {
        Yaml::Null => Value::Null,
        Yaml::Bool(value) => value.into(),
        Yaml::String(text) => text.into(),
        Yaml::Number(number) => {
            let whole = number.as_u64().map(Value::from).or_else(|| number.as_i64().map(Value::from));
            let number = whole.or_else(|| number.as_f64().and_then(serde_json::Number::from_f64).map(Value::Number));
            number.with_context(|| format!("{path}: not a finite number"))?
        }
        Yaml::Sequence(items) => {
            let items = items.into_iter().enumerate().map(|(i, item)| json(item, &format!("{path}[{i}]")));
            Value::Array(items.collect::<Result<_, _>>()?)
        }
        Yaml::Mapping(map) => {
            let mut fields = Map::new();
            for (key, value) in map {
                let Yaml::String(name) = key else {
                    let place = if path.is_empty() { "the file" } else { path };
                    bail!("{place}: the key {} is not text: write it in quotes", describe(&json(key, path)?));
                };
                let value = json(value, &at(&name))?;
                fields.insert(name, value);
            }
            Value::Object(fields)
        }
        Yaml::Tagged(tagged) => bail!("{path}: the tag {} has no meaning here: leave it out", tagged.tag),
    })
}

/// A value in an error.
pub(super) fn describe(value: &Value) -> String {
    match value {
        Value::Null => "nothing".to_owned(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::String(text) => format!("{text:?}"),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "a map".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    #[test]
    fn what_is_not_a_file_of_this_kind_is_refused_with_its_place() {
        let check = |text: &str, expected: Expect| {
            let why = parse(text).unwrap_err();
            expected.assert_eq(&why.to_string());
        };
        let head = "apiVersion: pintle.dev/v1alpha1\nkind: HostConfiguration\n";
        check("", expect!["it is empty: begin with `apiVersion: pintle.dev/v1alpha1` and `kind: HostConfiguration`"]);
        check(
            "[]",
            expect![
                "it is a list, not a map of fields: begin with `apiVersion: pintle.dev/v1alpha1` and `kind: HostConfiguration`"
            ],
        );
        check(
            "kind: HostConfiguration",
            expect![
                "apiVersion is missing: begin with `apiVersion: pintle.dev/v1alpha1` and `kind: HostConfiguration`"
            ],
        );
        check("apiVersion: v1\nkind: Pod", expect![[r#"apiVersion: must be pintle.dev/v1alpha1, not "v1""#]]);
        check(
            "apiVersion: pintle.dev/v1alpha1\nkind: KubeletConfiguration",
            expect![[r#"kind: must be HostConfiguration, not "KubeletConfiguration""#]],
        );
        check(
            &format!("{head}a:\n  - b\n c: d"),
            expect!["not YAML: did not find expected key at line 5 column 2, while parsing a block mapping"],
        );
        check(
            &format!("{head}serving:\n  port: 1\n  port: 2"),
            expect![[r#"not YAML: serving: duplicate entry with key "port" at line 4 column 3"#]],
        );
        check(&format!("{head}serving:\n  7: 1"), expect!["serving: the key 7 is not text: write it in quotes"]);
        check(&format!("{head}serving:\n  a: .nan"), expect!["serving.a: not a finite number"]);
        check(&format!("{head}serving: !tag {{}}"), expect!["serving: the tag !tag has no meaning here: leave it out"]);
        check(
            &format!("{head}---\n{head}"),
            expect!["not YAML: deserializing from YAML containing more than one document is not supported"],
        );
    }

    #[test]
    fn json_is_accepted() {
        let fields = parse(r#"{"kind": "HostConfiguration", "apiVersion": "pintle.dev/v1alpha1", "a": [1, -1, 0.5]}"#);
        assert_eq!(Value::Object(fields.unwrap()), serde_json::json!({"a": [1, -1, 0.5]}));
    }
}
