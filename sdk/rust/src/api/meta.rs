//! Metadata, owner references, selectors and conditions, common to all objects.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde::ser::SerializeStruct as _;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::time::Timestamp;
use crate::types::{Kind, ObjectKey};

/// An object type that the lister can decode.
pub trait Resource: DeserializeOwned {
    /// Kind of these objects.
    const KIND: Kind;

    /// Type of its metadata.
    type Metadata: Metadata;

    /// Its metadata.
    fn metadata(&self) -> &Self::Metadata;
}

/// The metadata of every object: name, namespace, uid and resourceVersion.
pub trait Metadata {
    /// `metadata.name`.
    fn name(&self) -> &str;
    /// `metadata.namespace`; empty for a cluster-scoped object.
    fn namespace(&self) -> &str;
    /// `metadata.uid`.
    fn uid(&self) -> &str;
    /// `metadata.resourceVersion`.
    fn resource_version(&self) -> &str;

    /// Namespace and name.
    fn key(&self) -> ObjectKey {
        ObjectKey::new(self.namespace(), self.name())
    }
}

/// Metadata with labels.
#[diagnostic::on_unimplemented(message = "`{Self}` has no labels", note = "declare `metadata.labels` in the manifest")]
pub trait HasLabels: Metadata {
    /// `metadata.labels`.
    fn labels(&self) -> &BTreeMap<String, String>;
}

/// Metadata with finalizers.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no finalizers",
    note = "declare `metadata.finalizers` in the manifest"
)]
pub trait HasFinalizers: Metadata {
    /// `metadata.finalizers`.
    fn finalizers(&self) -> &[String];
}

/// Metadata with the deletion timestamp.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no deletion timestamp",
    note = "declare `metadata.deletionTimestamp` in the manifest"
)]
pub trait HasDeletionTimestamp: Metadata {
    /// `metadata.deletionTimestamp`.
    fn deletion_timestamp(&self) -> Option<Timestamp>;
}

/// Metadata with the controller reference.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no controller reference",
    note = "declare `metadata.ownerReferences.uid` and `metadata.ownerReferences.controller` in the manifest"
)]
pub trait HasController: Metadata {
    /// `uid` of the controller reference.
    fn controller_uid(&self) -> Option<&str>;
}

/// Implements [`Resource`](crate::api::meta::Resource) for a struct with a field `metadata: ObjectMeta`: for custom
/// kinds. For Kubernetes' own kinds, see [`types!`](crate::types).
///
/// ```
/// use pintle_sdk::api::meta::ObjectMeta;
///
/// #[derive(Default, serde::Deserialize)]
/// #[serde(default, rename_all = "camelCase")]
/// struct Widget {
///     metadata: ObjectMeta,
/// }
///
/// pintle_sdk::resource!(Widget, "example.com", "v1", "Widget");
/// ```
#[macro_export]
macro_rules! resource {
    ($type:ty, $group:literal, $version:literal, $kind:literal) => {
        impl $crate::api::Listed for $type {}

        impl $crate::api::meta::Resource for $type {
            const KIND: $crate::Kind = $crate::Kind::new($group, $version, $kind);

            type Metadata = $crate::api::meta::ObjectMeta;

            fn metadata(&self) -> &$crate::api::meta::ObjectMeta {
                &self.metadata
            }
        }
    };
}

/// Metadata of an object.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[allow(missing_docs, reason = "Kubernetes' own fields")]
pub struct ObjectMeta {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub generate_name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub resource_version: String,
    #[serde(skip_serializing_if = "is_zero")]
    pub generation: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub creation_timestamp: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion_timestamp: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion_grace_period_seconds: Option<i64>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub owner_references: Vec<OwnerReference>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub finalizers: Vec<String>,
}

fn is_zero(number: &i64) -> bool {
    *number == 0
}

impl ObjectMeta {
    /// Namespace and name.
    pub fn key(&self) -> ObjectKey {
        ObjectKey::new(&self.namespace, &self.name)
    }

    /// The controller reference.
    #[doc(alias = "GetControllerOf")]
    #[doc(alias = "controller_of")]
    pub fn controller(&self) -> Option<&OwnerReference> {
        self.owner_references.iter().find(|reference| reference.controller == Some(true))
    }

    /// Whether its controller has this uid.
    pub fn is_controlled_by(&self, uid: &str) -> bool {
        self.controller().is_some_and(|reference| reference.uid == uid)
    }

    /// Whether it is being deleted.
    pub fn is_deleting(&self) -> bool {
        self.deletion_timestamp.is_some()
    }
}

impl Metadata for ObjectMeta {
    fn name(&self) -> &str {
        &self.name
    }

    fn namespace(&self) -> &str {
        &self.namespace
    }

    fn uid(&self) -> &str {
        &self.uid
    }

    fn resource_version(&self) -> &str {
        &self.resource_version
    }
}

impl HasLabels for ObjectMeta {
    fn labels(&self) -> &BTreeMap<String, String> {
        &self.labels
    }
}

impl HasFinalizers for ObjectMeta {
    fn finalizers(&self) -> &[String] {
        &self.finalizers
    }
}

impl HasDeletionTimestamp for ObjectMeta {
    fn deletion_timestamp(&self) -> Option<Timestamp> {
        self.deletion_timestamp
    }
}

impl HasController for ObjectMeta {
    fn controller_uid(&self) -> Option<&str> {
        self.controller().map(|reference| reference.uid.as_str())
    }
}

/// An entry of `metadata.ownerReferences`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[allow(missing_docs, reason = "Kubernetes' own fields")]
pub struct OwnerReference {
    pub api_version: String,
    pub kind: String,
    pub name: String,
    pub uid: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controller: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_owner_deletion: Option<bool>,
}

impl OwnerReference {
    /// The controller reference of an object, which blocks a foreground deletion of the controller.
    #[doc(alias = "NewControllerRef")]
    #[doc(alias = "controller_ref")]
    pub fn controller(kind: &Kind, owner: &impl Metadata) -> Self {
        Self {
            api_version: kind.api_version(),
            kind: kind.name.to_string(),
            name: owner.name().to_owned(),
            uid: owner.uid().to_owned(),
            controller: Some(true),
            block_owner_deletion: Some(true),
        }
    }

    /// Kind of the owner.
    pub fn owner_kind(&self) -> Kind {
        Kind::from_api_version(&self.api_version, &self.kind)
    }
}

/// A selector in a spec. See [`Selector`](crate::selector::Selector) for matching.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[allow(missing_docs, reason = "Kubernetes' own fields")]
pub struct LabelSelector {
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub match_labels: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub match_expressions: Vec<LabelSelectorRequirement>,
}

/// A condition of a [`LabelSelector`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[allow(missing_docs, reason = "Kubernetes' own fields")]
pub struct LabelSelectorRequirement {
    pub key: String,
    pub operator: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
}

/// A condition of a status. Its timestamps depend on the kind. See [`conditions`](crate::conditions).
///
/// If it has a reason, its message is written even if empty, because `metav1.Condition` requires both. The older
/// condition types of Kubernetes may have neither.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[allow(missing_docs, reason = "Kubernetes' own fields")]
pub struct Condition {
    #[serde(rename = "type")]
    pub type_: String,
    pub status: String,
    pub observed_generation: Option<i64>,
    pub last_probe_time: Option<Timestamp>,
    pub last_update_time: Option<Timestamp>,
    pub last_transition_time: Option<Timestamp>,
    pub reason: String,
    pub message: String,
}

impl Serialize for Condition {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut written = serializer.serialize_struct("Condition", 8)?;
        written.serialize_field("type", &self.type_)?;
        written.serialize_field("status", &self.status)?;
        if let Some(generation) = &self.observed_generation {
            written.serialize_field("observedGeneration", generation)?;
        }
        for (name, time) in [
            ("lastProbeTime", &self.last_probe_time),
            ("lastUpdateTime", &self.last_update_time),
            ("lastTransitionTime", &self.last_transition_time),
        ] {
            if let Some(time) = time {
                written.serialize_field(name, time)?;
            }
        }
        if !self.reason.is_empty() {
            written.serialize_field("reason", &self.reason)?;
        }
        if !self.reason.is_empty() || !self.message.is_empty() {
            written.serialize_field("message", &self.message)?;
        }
        written.end()
    }
}

/// A part of an object that is kept as text. Absent and `null` are equal.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Raw(pub Option<Box<RawValue>>);

impl Raw {
    /// The text; `null` if absent.
    pub fn text(&self) -> &str {
        self.0.as_deref().map_or("null", RawValue::get)
    }

    /// Decodes it.
    ///
    /// # Errors
    /// If it does not fit the type.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(self.text())
    }

    /// Decodes it into a generic tree.
    pub fn value(&self) -> serde_json::Value {
        self.parse().unwrap_or_default()
    }
}

impl PartialEq for Raw {
    /// Equality of the text; for semantic equality see [`equality`](crate::equality).
    fn eq(&self, other: &Self) -> bool {
        self.text() == other.text()
    }
}
