//! A cached object: its metadata, and one JSON text per declared projection.
//!
//! Invariants:
//! 1. An object is immutable, and shared with the store.
//! 2. No text contains `managedFields`.
//!
//! Not here: parsing JSON text into an object (`ingest`), storage (`pintle-cache`).

pub mod field;
pub mod id;
pub mod ingest;
pub mod project;
pub mod schema;
pub mod selector;
pub mod texts;
pub mod version;
pub mod work;

use std::sync::Arc;

use crate::object::id::{Kind, ObjectKey};
use crate::object::selector::Selector;
use crate::object::texts::TextSet;
use crate::object::version::{ResourceVersion, Uid};

/// Labels of an object, sorted by key.
pub type Labels = Box<[(Arc<str>, Arc<str>)]>;

/// The metadata of an object that the host uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Meta {
    /// Namespace and name.
    pub key: ObjectKey,
    /// `metadata.uid`.
    pub uid: Uid,
    /// `metadata.resourceVersion`.
    pub resource_version: ResourceVersion,
    /// `metadata.labels`.
    pub labels: Labels,
    /// `metadata.ownerReferences`.
    pub owners: Box<[OwnerRef]>,
    /// Whether `metadata.deletionTimestamp` is set.
    pub terminating: bool,
}

/// One owner reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnerRef {
    /// Kind of the owner, in the version of the reference.
    pub kind: Kind,
    /// Name of the owner, which is in the object's namespace or cluster-scoped.
    pub name: Arc<str>,
    /// Uid of the owner.
    pub uid: Uid,
    /// Whether it is the controller.
    pub controller: bool,
}

impl Meta {
    /// The reference to the controller.
    pub fn controller(&self) -> Option<&OwnerRef> {
        self.owners.iter().find(|owner| owner.controller)
    }

    /// The value of a label.
    pub fn label(&self, key: &str) -> Option<&str> {
        let at = self.labels.binary_search_by(|(ours, _)| (**ours).cmp(key)).ok()?;
        Some(&*self.labels[at].1)
    }
}

/// A cached object.
#[derive(Debug)]
pub struct Object {
    /// Metadata.
    pub meta: Meta,
    /// The projection of each text. Shared by all objects that were ingested under one plan.
    pub text_set: Arc<TextSet>,
    /// One text per projection of the text set.
    pub texts: Box<[Arc<str>]>,
    /// (index slot, value) of the declared indexes, sorted, without duplicates.
    pub index_values: Box<[(usize, Arc<str>)]>,
    /// The object's own selector per selector slot; absent if the object has no valid one.
    pub selectors: Box<[Option<Selector>]>,
}
