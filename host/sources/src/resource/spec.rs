//! Parses a `ControllerPlugin`.

use std::path::{Component, Path, PathBuf};

use pintle_core::lifecycle::Spec;
use pintle_oci::ArtifactRef;
use serde::Deserialize;
use serde_json::Value;

use crate::folder;

/// The default class of hosts and resources.
pub const DEFAULT_CLASS: &str = "default";

/// The class of a resource with this spec: only the host of this class applies it. A class that is not a string counts
/// as the default one, whose host rejects the resource.
pub fn class_of(spec: &Value) -> &str {
    spec["class"].as_str().unwrap_or(DEFAULT_CLASS)
}

/// One resource.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct ControllerPlugin {
    pub(super) metadata: Metadata,
    #[serde(default)]
    pub(super) spec: Value,
    #[serde(default)]
    pub(super) status: Value,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Metadata {
    pub(super) name: String,
    #[serde(default)]
    pub(super) uid: String,
    #[serde(default)]
    pub(super) resource_version: String,
    #[serde(default)]
    pub(super) generation: i64,
}

/// The source of a component.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) enum Source {
    /// Below the plugin folder.
    File(String),
    /// By the name of its plugin.
    Builtin(String),
    /// A key of a ConfigMap's binaryData.
    ConfigMap(ConfigMapKey),
    /// A component in a registry.
    Oci(ArtifactRef),
}

/// A key of a ConfigMap's binaryData.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ConfigMapKey {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) key: String,
}

impl Source {
    /// Whether it always results in the same component, or is provided by the operator of the host. Users who may push
    /// to the registry can move a tag, and users who may write to its namespace can edit a ConfigMap.
    pub(super) fn is_pinned(&self) -> bool {
        match self {
            Self::File(_) | Self::Builtin(_) => true,
            Self::ConfigMap(_) => false,
            Self::Oci(reference) => !reference.is_by_tag_only(),
        }
    }
}

impl ControllerPlugin {
    /// The source of the component, and the spec.
    ///
    /// # Errors
    /// The error, with the field.
    pub(super) fn parse(&self) -> Result<(Source, Spec), String> {
        parse(&self.spec)
    }
}

/// The source of the component in a resource's spec, and the rest of the spec.
///
/// # Errors
/// The error, with the field.
pub(super) fn parse(spec: &Value) -> Result<(Source, Spec), String> {
    let mut spec = spec.clone();
    let mut take = |field: &str| spec.as_object_mut().and_then(|spec| spec.remove(field)).unwrap_or_default();
    let source = take("source");
    if !matches!(take("class"), Value::Null | Value::String(_)) {
        return Err("spec.class: it is not a text; write the --plugin-class of a host, or leave it out".to_owned());
    }
    let source =
        serde_path_to_error::deserialize(source).map_err(|error: serde_path_to_error::Error<serde_json::Error>| {
            format!("spec.source: {}; name one of file, builtin, configMap, oci", error.inner())
        })?;
    if let Source::File(file) = &source {
        below(Path::new(""), file).map_err(|error| format!("spec.source.file: {error}"))?;
    }
    if let Source::ConfigMap(ConfigMapKey { namespace, name, .. }) = &source {
        for (field, name) in [("namespace", namespace), ("name", name)] {
            if name.is_empty()
                || !name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-.".contains(&b))
            {
                return Err(format!("spec.source.configMap.{field}: {name:?} is not an object name"));
            }
        }
    }
    let spec = folder::from_value(spec).map_err(|error| format!("spec.{error}"))?;
    Ok((source, spec))
}

/// The path of a file below a folder; it must not lead out of the folder. Links are not resolved here, because users
/// who can create one in the folder can put files there as well.
///
/// # Errors
/// The path is absolute, or goes up.
pub(super) fn below(folder: &Path, file: &str) -> Result<PathBuf, String> {
    let mut path = folder.to_owned();
    let mut n_parts = 0;
    for part in Path::new(file).components() {
        match part {
            Component::Normal(part) => {
                path.push(part);
                n_parts += 1;
            }
            Component::CurDir => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
                return Err(format!(
                    "{file:?} leads out of the plugin folder; write a path relative to it without `..`"
                ));
            }
        }
    }
    if n_parts == 0 { Err(format!("{file:?} names no file")) } else { Ok(path) }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use serde_json::json;

    use super::*;

    fn check(spec: Value, expected: Expect) {
        let object =
            json!({"metadata": {"name": "p", "uid": "u", "resourceVersion": "1", "generation": 1}, "spec": spec});
        let plugin: ControllerPlugin = serde_json::from_value(object).unwrap();
        let text = match plugin.parse() {
            Ok((source, spec)) => format!("{source:?} {}", spec.disabled),
            Err(why) => why,
        };
        expected.assert_eq(&text);
    }

    #[test]
    fn what_is_wrong_is_told_with_its_field() {
        check(json!({"source": {"file": "a/b.wasm"}, "disabled": true}), expect![[r#"File("a/b.wasm") true"#]]);
        check(json!({"source": {"builtin": "x"}}), expect![[r#"Builtin("x") false"#]]);
        check(
            json!({"source": {"configMap": {"namespace": "n", "name": "m", "key": "k"}}}),
            expect![[r#"ConfigMap(ConfigMapKey { namespace: "n", name: "m", key: "k" }) false"#]],
        );
        check(
            json!({"source": {"oci": "oci://registry.example.com/team/widgets:1"}}),
            expect![[
                r#"Oci(ArtifactRef { registry: "registry.example.com", repository: "team/widgets", tag: Some("1"), digest: None }) false"#
            ]],
        );
        check(
            json!({"source": {"oci": "widgets"}}),
            expect![[
                r#"spec.source: "widgets": it does not begin with oci://; write oci://REGISTRY/REPOSITORY:TAG, oci://REGISTRY/REPOSITORY@sha256:DIGEST, or both; name one of file, builtin, configMap, oci"#
            ]],
        );
        check(
            json!({}),
            expect![
                "spec.source: invalid type: null, expected string or map; name one of file, builtin, configMap, oci"
            ],
        );
        check(
            json!({"source": {"image": "x"}}),
            expect![
                "spec.source: unknown variant `image`, expected one of `file`, `builtin`, `configMap`, `oci`; name one of file, builtin, configMap, oci"
            ],
        );
        check(
            json!({"source": {"configMap": {"namespace": "n"}}}),
            expect!["spec.source: missing field `name`; name one of file, builtin, configMap, oci"],
        );
        check(
            json!({"source": {"file": "../x.wasm"}}),
            expect![[
                r#"spec.source.file: "../x.wasm" leads out of the plugin folder; write a path relative to it without `..`"#
            ]],
        );
        check(
            json!({"source": {"file": "/etc/passwd"}}),
            expect![[
                r#"spec.source.file: "/etc/passwd" leads out of the plugin folder; write a path relative to it without `..`"#
            ]],
        );
        check(json!({"source": {"builtin": "x"}, "class": "blue"}), expect![[r#"Builtin("x") false"#]]);
        check(
            json!({"source": {"builtin": "x"}, "class": 5}),
            expect!["spec.class: it is not a text; write the --plugin-class of a host, or leave it out"],
        );
        check(json!({"source": {"file": "./"}}), expect![[r#"spec.source.file: "./" names no file"#]]);
        check(
            json!({"source": {"builtin": "x"}, "limits": {"deadlineMs": "5"}}),
            expect![[r#"spec.limits.deadlineMs: invalid type: string "5", expected u32"#]],
        );
        check(
            json!({"source": {"builtin": "x"}, "colour": "red"}),
            expect![
                "spec.colour: unknown field `colour`, expected one of `digest`, `config`, `grants`, `ungranted`, `limits`, `strategy`, `failurePolicy`, `disabled`"
            ],
        );
    }

    #[test]
    fn a_resource_without_a_class_has_that_of_a_host_without_one() {
        let class = |spec: Value| class_of(&spec).to_owned();
        assert_eq!(class(json!({})), DEFAULT_CLASS);
        assert_eq!(class(json!({ "class": null })), DEFAULT_CLASS);
        assert_eq!(class(json!({ "class": "blue" })), "blue");
        assert_eq!(class(json!({ "class": 5 })), DEFAULT_CLASS);
    }

    #[test]
    fn a_file_is_below_the_folder() {
        assert_eq!(below(Path::new("/plugins"), "./a//b.wasm").unwrap(), Path::new("/plugins/a/b.wasm"));
        assert!(below(Path::new("/plugins"), "a/../../b").is_err());
    }
}
