//! `pintle scaffold`: the ControllerPlugin of a component, for an operator to read, edit and apply.

use std::fmt::Write as _;

use pintle_core::contract::manifest::{Manifest, Setting};
use pintle_core::lifecycle::resource_kind;
use pintle_core::policy::grants::{asked_by, line, scalar};
use pintle_core::text::Printable;
use pintle_oci::ComponentSource;
use pintle_wasm::Inspection;
use serde_json::{Value, json};

/// The resource of a component: its source, its digest, and the grants that it requests.
#[derive(Clone, Copy, Debug)]
pub struct Resource<'a> {
    /// The component's metadata.
    pub found: &'a Inspection,
    /// Where it was read from.
    pub source: &'a ComponentSource,
}

impl Resource<'_> {
    /// With comments, as YAML.
    pub fn text(&self) -> String {
        let kind = resource_kind();
        let manifest = &self.found.manifest;
        let (member, place) = self.source();
        // A reference has no characters that need quotes.
        let place = if member == "oci" { place } else { scalar(&place) };
        let mut text = String::new();
        if matches!(self.source, ComponentSource::Path(_)) {
            text += "# The file is in the folder that the host has as --plugin-dir. Components can also come from a registry (oci), or from a\n\
                     # ConfigMap (configMap: {namespace, name, key}), which `pintle package --config-map` prints.\n";
        }
        let _ = writeln!(text, "apiVersion: {}\nkind: {}", kind.api_version(), kind.name);
        let _ = writeln!(text, "metadata:\n  name: {}\nspec:", scalar(&manifest.name));
        let _ = writeln!(text, "  source:\n    {member}: {place}");
        let _ = writeln!(text, "  digest: sha256:{}", self.found.digest);
        let grants = asked_by(manifest);
        if !grants.is_empty() {
            text +=
                "  # What it may read and write: all that it requests. Take away what it shall not have.\n  grants:\n";
            for grant in &grants {
                let _ = writeln!(text, "    {}", line(grant));
            }
        }
        text + &settings(manifest)
    }

    /// For programs. Settings have their defaults.
    pub fn json(&self) -> Value {
        let kind = resource_kind();
        let manifest = &self.found.manifest;
        let (member, place) = self.source();
        json!({
            "apiVersion": kind.api_version(),
            "kind": &*kind.name,
            "metadata": {"name": manifest.name},
            "spec": {
                "source": {member: place},
                "digest": format!("sha256:{}", self.found.digest),
                "grants": asked_by(manifest),
            },
        })
    }

    /// The member of `source`, and its value.
    fn source(&self) -> (&'static str, String) {
        match self.source {
            ComponentSource::Registry(reference) => ("oci", reference.to_string()),
            ComponentSource::Path(path) => {
                let name = path.file_name().unwrap_or(path.as_os_str());
                ("file", name.to_string_lossy().into_owned())
            }
        }
    }
}

/// The settings as comments, except those that an operator must set.
fn settings(manifest: &Manifest) -> String {
    if manifest.config.is_empty() {
        return String::new();
    }
    let is_required = |setting: &Setting| setting.default.is_none() && !setting.optional;
    let begin = if manifest.config.values().any(is_required) { "" } else { "# " };
    let mut text = format!("  {begin}config:\n");
    for (name, setting) in &manifest.config {
        let comment = if is_required(setting) { "" } else { "# " };
        let kind = json!(setting.kind);
        let kind = kind.as_str().unwrap_or_default();
        let value = match &setting.default {
            Some(value) => value.to_string(),
            None if setting.optional => String::new(),
            None => format!("REQUIRED-{}", kind.to_uppercase()),
        };
        let words = setting.description.split_whitespace().collect::<Vec<_>>().join(" ");
        let _ = writeln!(text, "  # {} ({kind})", Printable(&words));
        let _ = writeln!(text, "  {comment}  {}: {value}", scalar(name));
    }
    text
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::super::show::tests::found;
    use super::*;

    fn scaffold(source: &str, config: &Value) -> (String, Value) {
        let manifest = json!({
            "name": "widgets", "version": "1", "contract": "0.2", "queues": [{"name": "q"}], "config": config,
            "watches": [{"kind": "v1/Service", "fields": ["spec"]}],
            "grants": [{"verbs": ["create", "patch"], "kinds": ["v1/ConfigMap"], "of": "controlled"}],
        });
        let (found, source) = (found(&manifest, &[]), ComponentSource::parse(source).unwrap());
        let resource = Resource { found: &found, source: &source };
        (resource.text(), resource.json())
    }

    #[test]
    fn a_component_of_a_registry_is_named_with_its_digest_and_grants() {
        let config = json!({"workers": {"type": "integer", "default": 2, "description": "How many."}});
        let (text, json) = scaffold("oci://registry.example.com/team/widgets:1.2.0", &config);
        expect![[r#"
            apiVersion: pintle.dev/v1alpha1
            kind: ControllerPlugin
            metadata:
              name: widgets
            spec:
              source:
                oci: oci://registry.example.com/team/widgets:1.2.0
              digest: sha256:abc
              # What it may read and write: all that it requests. Take away what it shall not have.
              grants:
                - {verbs: [list, watch], kinds: [v1/Service]}
                - {verbs: [create, patch], kinds: [v1/ConfigMap], of: controlled}
                - {verbs: [create, patch], kinds: [v1/Event]}
              # config:
              # How many. (integer)
              #   workers: 2
        "#]]
        .assert_eq(&text);
        assert_eq!(serde_norway::from_str::<Value>(&text).unwrap(), json);
    }

    #[test]
    fn a_setting_without_a_default_has_to_be_filled_in() {
        let config =
            json!({"key": {"type": "string", "description": "a\n- b"}, "on": {"type": "boolean", "default": true}});
        let (text, _) = scaffold("folder/widgets.wasm", &config);
        let value: Value = serde_norway::from_str(&text).unwrap();
        assert_eq!(value["spec"]["config"], json!({"key": "REQUIRED-STRING"}));
        assert_eq!(value["spec"]["source"], json!({"file": "widgets.wasm"}));
        assert!(text.contains("# a - b (string)"), "{text}");
    }
}
