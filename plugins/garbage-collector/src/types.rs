//! Objects of any kind, as far as garbage collection looks at them.

use pintle_sdk::api::meta::{ObjectMeta, OwnerReference};
use pintle_sdk::{Error, Key, Kind, Lister, Mutation, ObjectKey, PatchType, decode};
use serde::Deserialize;
use serde_json::{Value, json};

/// Finalizer of an object that waits for its dependents to go.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";

/// Most references that one patch removes. The API server refuses JSON patches with more than 10,000 operations.
pub(crate) const MOST_REMOVED: usize = 1_000;

/// Finalizer of an object whose dependents shall stay.
pub(crate) const ORPHAN: &str = "orphan";

/// The metadata of an object of any kind.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Object {
    api_version: String,
    kind: String,
    pub(crate) metadata: ObjectMeta,
}

impl Object {
    /// The object of a key, if it is in the cache.
    pub(crate) fn get(key: &Key, lister: &impl Lister) -> Result<Option<Self>, Error> {
        let name = ObjectKey::new(&key.namespace, &key.name);
        lister.get_json(&key.kind, &name).map(|text| decode(&key.kind, &text)).transpose()
    }

    /// Parses an object that the lister gave.
    pub(crate) fn parse(text: &str) -> Result<Self, Error> {
        Ok(serde_json::from_str(text)?)
    }

    pub(crate) fn kind(&self) -> Kind {
        Kind::from_api_version(&self.api_version, &self.kind)
    }

    pub(crate) fn is_deleting(&self) -> bool {
        self.metadata.is_deleting()
    }

    pub(crate) fn has_finalizer(&self, finalizer: &str) -> bool {
        self.metadata.finalizers.iter().any(|name| name == finalizer)
    }

    /// Whether it is being deleted, its dependents before it.
    pub(crate) fn waits_for_dependents(&self) -> bool {
        self.is_deleting() && self.has_finalizer(FOREGROUND)
    }

    /// The objects of the cache that name it as an owner, and can: dependents of a namespaced owner live in its namespace. Each
    /// is decoded when it is reached, because there may be hundreds of thousands.
    pub(crate) fn dependents(&self, lister: &impl Lister) -> impl Iterator<Item = Result<Self, Error>> {
        let namespace = &self.metadata.namespace;
        let all = lister.dependents_json(&self.metadata.uid).into_iter().map(|text| Self::parse(&text));
        all.filter(move |dependent| {
            dependent.as_ref().map_or(true, |one| namespace.is_empty() || one.metadata.namespace == *namespace)
        })
    }

    /// Writes other owner references. The resourceVersion ensures that no concurrently added reference is lost.
    pub(crate) fn set_owners(&self, owners: &[OwnerReference]) -> Mutation {
        self.patch(json!({"metadata": {"ownerReferences": or_null(owners)}}))
    }

    /// Removes references, at most [`MOST_REMOVED`], and leaves the others as they are by now. The tests fail if the list is not
    /// what the cache shows, but other changes of the object do not matter.
    pub(crate) fn remove_owners(&self, is_removed: impl Fn(usize, &OwnerReference) -> bool) -> Mutation {
        let mut operations = Vec::new();
        // From the end, so that the places before it stay.
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
