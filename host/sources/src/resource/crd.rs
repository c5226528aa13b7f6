//! The CustomResourceDefinition of ControllerPlugin.

use std::sync::Arc;

use anyhow::Context as _;
use pintle_core::contract::outcome::PatchType;
use pintle_core::object::id::Kind;
use pintle_core::ports::api::{ApiResource, ApiWriter, WriteRequest, WriteVerb};
use pintle_runtime::retry_throttled;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// The shipped definition.
pub const YAML: &str = include_str!("../../controllerplugin.crd.yaml");

/// Its name.
pub(super) const NAME: &str = "controllerplugins.pintle.dev";

/// The kind of definitions.
pub(super) fn definition_kind() -> Kind {
    Kind::new("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
}

/// Creates the definition of ControllerPlugin, or updates the existing one.
///
/// # Errors
/// As [`apply`].
pub async fn install(writer: &Arc<dyn ApiWriter>) -> anyhow::Result<()> {
    let definition: Value = serde_norway::from_str(YAML).context("read the definition of ControllerPlugin")?;
    apply(writer, &definition).await.context("install the definition of ControllerPlugin")
}

/// Creates a CustomResourceDefinition, or updates the existing one, by server-side apply.
///
/// # Errors
/// It has no name, or the server rejects it (the schema, permissions) or does not respond; a retry helps only in the
/// last case.
pub(crate) async fn apply(writer: &Arc<dyn ApiWriter>, definition: &Value) -> anyhow::Result<()> {
    let name = definition["metadata"]["name"].as_str().context("the definition has no metadata.name")?;
    let resource = ApiResource {
        kind: definition_kind(),
        plural: "customresourcedefinitions".to_owned(),
        namespaced: false,
        verbs: Vec::new(),
        subresources: Vec::new(),
        preferred: true,
    };
    let request = WriteRequest {
        resource: Arc::new(resource),
        namespace: String::new(),
        name: name.to_owned(),
        subresource: None,
        verb: WriteVerb::Patch {
            patch_type: PatchType::Apply { field_manager: super::watcher::WRITER.to_owned(), force: true },
            body: definition.to_string(),
        },
    };
    retry_throttled(&CancellationToken::new(), || (), || writer.write(&request)).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use pintle_core::contract::manifest::{Grant, Limits};
    use pintle_core::lifecycle::{Probation, Shadow, Spec, Strategy};
    use serde::Serialize;
    use serde_json::json;

    use super::*;

    fn names(schema: &Value) -> Vec<String> {
        let mut names: Vec<String> = schema["properties"].as_object().unwrap().keys().cloned().collect();
        names.sort();
        names
    }

    fn fields(value: &impl Serialize) -> Vec<String> {
        let mut names: Vec<String> =
            serde_json::to_value(value).unwrap().as_object().unwrap().keys().cloned().collect();
        names.sort();
        names
    }

    #[test]
    fn the_definition_has_every_field_of_a_spec_and_no_other() {
        let definition: Value = serde_norway::from_str(YAML).unwrap();
        assert_eq!(definition["metadata"]["name"], NAME);
        let version = &definition["spec"]["versions"][0];
        assert_eq!(
            (&version["name"], &definition["spec"]["names"]["kind"]),
            (&json!("v1alpha1"), &json!("ControllerPlugin"))
        );
        let spec = &version["schema"]["openAPIV3Schema"]["properties"]["spec"];
        let limits = json!({
            "deadlineMs": 1, "memoryBytes": 1, "mutations": 1, "outcomeBytes": 1, "hostCalls": 1, "readBytes": 1,
            "answerBytes": 1, "logLines": 1, "stateBytes": 1,
        });
        let grant = json!({
            "verbs": ["get"], "kinds": ["v1/Pod"], "subresources": ["a"], "namespaces": ["a"], "names": ["a"], "paths": ["/a"],
            "signers": ["a"], "of": "controlled", "adopt": true,
        });
        let grant: Grant = serde_json::from_value(grant).unwrap();
        let limits: Limits = serde_json::from_value(limits).unwrap();
        let strategy =
            Strategy { shadow: Some(Shadow::default()), probation: Probation::default(), sync_timeout_ms: Some(1) };
        let full = Spec {
            digest: Some(String::new()),
            config: json!({}),
            grants: Some(vec![grant.clone()]),
            limits: limits.clone(),
            strategy: strategy.clone(),
            ..Spec::default()
        };
        let mut expected = fields(&full);
        expected.extend(["source".into(), "class".into()]);
        expected.sort();
        assert_eq!(names(spec), expected);
        let of = |path: &str| spec.pointer(path).unwrap();
        assert_eq!(names(of("/properties/limits")), fields(&limits));
        assert_eq!(names(of("/properties/grants/items")), fields(&grant));
        assert_eq!(names(of("/properties/strategy")), fields(&strategy));
        assert_eq!(names(of("/properties/strategy/properties/shadow")), fields(&Shadow::default()));
        assert_eq!(names(of("/properties/strategy/properties/probation")), fields(&Probation::default()));
    }

    /// The paths of fields below this schema without a description for `kubectl explain`.
    fn undescribed(schema: &Value, path: &str) -> Vec<String> {
        let inner = [&schema["properties"], &schema["items"]["properties"]];
        let fields = inner.into_iter().filter_map(Value::as_object).flatten();
        let of = |(name, field): (&String, &Value)| {
            let path = format!("{path}.{name}");
            let own = field["description"].is_null().then(|| path.clone());
            own.into_iter().chain(undescribed(field, &path)).collect::<Vec<_>>()
        };
        fields.flat_map(of).collect()
    }

    #[test]
    fn kubectl_explains_every_field_of_a_spec() {
        let definition: Value = serde_norway::from_str(YAML).unwrap();
        let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
        assert!(schema["description"].is_string());
        assert_eq!(undescribed(schema, "spec"), [""; 0]);
    }
}
