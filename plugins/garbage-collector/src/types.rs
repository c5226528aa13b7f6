//! The metadata of objects of any kind that garbage collection reads.

use pintle_sdk::api::meta::{ObjectMeta, OwnerReference};
use pintle_sdk::{Error, Key, Kind, Lister, Mutation, ObjectKey, PatchType, decode};
use serde::Deserialize;
use serde_json::{Value, json};

/// Finalizer of an object that waits for the deletion of its dependents.
#[doc(alias = "FinalizerDeleteDependents")]
pub(crate) const FOREGROUND: &str = "foregroundDeletion";

/// Most references that one patch removes. The API server rejects JSON patches with more than 10,000 operations.
pub(crate) const MOST_REMOVED: usize = 1_000;

/// Finalizer of an object whose dependents stay.
#[doc(alias = "FinalizerOrphanDependents")]
pub(crate) const ORPHAN: &str = "orphan";

/// The metadata of an object of any kind.
#[doc(alias = "PartialObjectMetadata")]
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Object {
    api_version: String,
    kind: String,
    pub(crate) metadata: ObjectMeta,
}

impl Object {
    /// The object of a key, if the cache has it.
    pub(crate) fn get(key: &Key, lister: &impl Lister) -> Result<Option<Self>, Error> {
        let name = ObjectKey::new(&key.namespace, &key.name);
        lister.get_json(&key.kind, &name).map(|text| decode(&key.kind, &text)).transpose()
    }

    /// Parses an object from the lister.
    pub(crate) fn parse(text: &str) -> Result<Self, Error> {
        Ok(serde_json::from_str(text)?)
    }

    pub(crate) fn kind(&self) -> Kind {
        Kind::from_api_version(&self.api_version, &self.kind)
    }

    #[doc(alias = "beingDeleted")]
    pub(crate) fn is_deleting(&self) -> bool {
        self.metadata.is_deleting()
    }

    #[doc(alias = "hasFinalizer")]
    pub(crate) fn has_finalizer(&self, finalizer: &str) -> bool {
        self.metadata.finalizers.iter().any(|name| name == finalizer)
    }

    /// Whether it is being deleted in the foreground.
    #[doc(alias = "isDeletingDependents")]
    pub(crate) fn waits_for_dependents(&self) -> bool {
        self.is_deleting() && self.has_finalizer(FOREGROUND)
    }

    /// The objects in the cache that refer to it as an owner, and can: dependents of a namespaced owner live in its
    /// namespace. Each is decoded when it is reached, because there may be hundreds of thousands.
    #[doc(alias = "getDependents")]
    pub(crate) fn dependents(&self, lister: &impl Lister) -> impl Iterator<Item = Result<Self, Error>> {
        let namespace = &self.metadata.namespace;
        let all = lister.dependents_json(&self.metadata.uid).into_iter().map(|text| Self::parse(&text));
        all.filter(move |dependent| {
            dependent.as_ref().map_or(true, |one| namespace.is_empty() || one.metadata.namespace == *namespace)
        })
    }

    /// Replaces the owner references. The resourceVersion ensures that no concurrently added reference is lost.
    pub(crate) fn set_owners(&self, owners: &[OwnerReference]) -> Mutation {
        self.patch(json!({"metadata": {"ownerReferences": or_null(owners)}}))
    }

    /// Removes at most [`MOST_REMOVED`] references, and leaves the others as they are. The tests of the patch fail if
    /// the list differs from the cache, but other changes of the object do not matter.
    #[doc(alias = "deleteOwnerRefJSONMergePatch")]
    pub(crate) fn remove_owners(&self, is_removed: impl Fn(usize, &OwnerReference) -> bool) -> Mutation {
        let mut operations = Vec::new();
        // From the end, so that earlier indexes stay valid.
        let owners = self.metadata.owner_references.iter().enumerate().rev();
        for (i, owner) in owners.filter(|(i, owner)| is_removed(*i, owner)).take(MOST_REMOVED) {
            let path = format!("/metadata/ownerReferences/{i}");
            operations.push(json!({"op": "test", "path": format!("{path}/uid"), "value": owner.uid}));
            operations.push(json!({"op": "remove", "path": path}));
        }
        Mutation::patch(&self.kind(), self.metadata.key(), PatchType::Json, Value::Array(operations))
            .uid(&self.metadata.uid)
    }

    /// Removes a finalizer.
    #[doc(alias = "removeFinalizer")]
    pub(crate) fn remove_finalizer(&self, finalizer: &str) -> Mutation {
        let rest: Vec<&String> = self.metadata.finalizers.iter().filter(|name| *name != finalizer).collect();
        self.patch(json!({"metadata": {"finalizers": or_null(&rest)}}))
    }

    fn patch(&self, body: Value) -> Mutation {
        Mutation::patch(&self.kind(), self.metadata.key(), PatchType::Merge, body)
            .uid(&self.metadata.uid)
            .resource_version(&self.metadata.resource_version)
    }
}

/// An empty list is removed, as upstream's patches do.
fn or_null<T: serde::Serialize>(list: &[T]) -> Value {
    if list.is_empty() { Value::Null } else { json!(list) }
}
