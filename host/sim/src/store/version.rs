//! One version of one object, with values for requests extracted once.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use serde_json::{Value, json};

use crate::discovery::{Resource, selectable_fields};
use crate::server::status::ApiError;

/// One immutable version of an object, shared by logs and watches.
#[derive(Debug)]
pub struct Version {
    /// "namespace/name", or "name".
    pub key: Arc<str>,
    /// `None` for cluster-scoped kinds.
    pub namespace: Option<Box<str>>,
    /// `metadata.name`.
    pub name: Box<str>,
    /// `metadata.uid`.
    pub uid: Box<str>,
    /// `metadata.resourceVersion`.
    pub rv: u64,
    /// `metadata.labels`.
    pub labels: Box<[(Box<str>, Box<str>)]>,
    /// Selectable fields other than name and namespace.
    pub fields: Box<[(Box<str>, Box<str>)]>,
    /// The object in its storage version, serialized once.
    pub bytes: Bytes,
    partial: OnceLock<Bytes>,
}

impl Version {
    /// The object parsed again.
    pub fn value(&self) -> Value {
        // These bytes were serialized from a value, so they always parse.
        serde_json::from_slice(&self.bytes).unwrap_or(Value::Null)
    }

    /// The object as `PartialObjectMetadata`, serialized at first use.
    pub(crate) fn partial(&self) -> Bytes {
        self.partial.get_or_init(|| partial_object(&self.value()).to_string().into()).clone()
    }

    /// The value of a selectable field.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        match name {
            "metadata.name" => Some(&self.name),
            "metadata.namespace" => Some(self.namespace.as_deref().unwrap_or("")),
            _ => self.fields.iter().find(|(field, _)| &**field == name).map(|(_, value)| &**value),
        }
    }

    /// The value of a label.
    pub(crate) fn label(&self, name: &str) -> Option<&str> {
        self.labels.iter().find(|(label, _)| &**label == name).map(|(_, value)| &**value)
    }
}

/// The metadata of an object as `PartialObjectMetadata`.
pub(crate) fn partial_object(object: &Value) -> Value {
    json!({
        "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
        "metadata": object.get("metadata").unwrap_or(&Value::Null),
    })
}

/// The current version of an object, parsed and serialized.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The version that watches share.
    pub version: Arc<Version>,
    /// The object in its storage version.
    pub value: Arc<Value>,
}

impl Entry {
    pub(crate) fn new(resource: &Resource, key: &str, rv: u64, value: Value) -> Result<Self, ApiError> {
        let bytes = serde_json::to_vec(&value).map_err(ApiError::internal)?;
        let text = |path: &str| value.pointer(path).and_then(Value::as_str).unwrap_or("");
        let labels = match value.pointer("/metadata/labels") {
            Some(Value::Object(labels)) => {
                labels.iter().map(|(name, value)| (name.as_str().into(), value.as_str().unwrap_or("").into())).collect()
            }
            _ => Box::default(),
        };
        let namespace = text("/metadata/namespace");
        let version = Version {
            key: key.into(),
            namespace: (!namespace.is_empty()).then(|| namespace.into()),
            name: text("/metadata/name").into(),
            uid: text("/metadata/uid").into(),
            rv,
            labels,
            fields: selectable_fields(resource, &value).into(),
            bytes: bytes.into(),
            partial: OnceLock::new(),
        };
        Ok(Self { version: Arc::new(version), value: Arc::new(value) })
    }
}
