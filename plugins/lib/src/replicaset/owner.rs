//! The engine's requirements on an owner of Pods.

use pintle_sdk::api::Listed;
use pintle_sdk::api::core::PodTemplateSpec;
use pintle_sdk::api::meta::{HasController, HasDeletionTimestamp};
use pintle_sdk::selector::Selector;
use pintle_sdk::{Error, Resource};

use super::types::{
    ListedReplicaSet, ListedReplicationController, ReplicaSet, ReplicaSetStatus, ReplicationController,
};

/// An object that selects Pods.
pub trait HasSelector {
    /// The selector of its Pods.
    ///
    /// # Errors
    /// If the selector in the object is invalid.
    fn selector(&self) -> Result<Selector, Error>;
}

/// A kind that owns a number of Pods made from one template.
pub trait Owner: HasSelector + Resource<Metadata: HasController + HasDeletionTimestamp> {
    /// Whether its status can have `terminatingReplicas`; the manifest then has the setting of this name.
    const COUNTS_TERMINATING: bool;

    /// The kind with its fields for lists.
    type Listed: HasSelector + Listed;

    /// `metadata.generation`.
    fn generation(&self) -> i64;

    /// The desired state.
    fn spec(&self) -> Spec<'_>;

    /// The last reported status.
    fn status(&self) -> &ReplicaSetStatus;
}

/// The desired state.
#[derive(Clone, Copy, Debug)]
pub struct Spec<'a> {
    /// Number of Pods.
    pub replicas: i32,
    /// How long a Pod must be ready before it counts as available.
    pub min_ready_seconds: i32,
    /// Template of the Pods.
    pub template: &'a PodTemplateSpec,
}

impl<'a> Spec<'a> {
    fn new(replicas: Option<i32>, min_ready_seconds: i32, template: &'a PodTemplateSpec) -> Self {
        Self { replicas: replicas.unwrap_or(1), min_ready_seconds, template }
    }
}

impl HasSelector for ReplicaSet {
    fn selector(&self) -> Result<Selector, Error> {
        Selector::from_label_selector(self.spec.selector.as_ref())
    }
}

impl HasSelector for ListedReplicaSet {
    fn selector(&self) -> Result<Selector, Error> {
        Selector::from_label_selector(self.spec.selector.as_ref())
    }
}

impl Owner for ReplicaSet {
    const COUNTS_TERMINATING: bool = true;

    type Listed = ListedReplicaSet;

    fn generation(&self) -> i64 {
        self.metadata.generation
    }

    fn spec(&self) -> Spec<'_> {
        Spec::new(self.spec.replicas, self.spec.min_ready_seconds, &self.spec.template)
    }

    fn status(&self) -> &ReplicaSetStatus {
        &self.status
    }
}

impl HasSelector for ReplicationController {
    fn selector(&self) -> Result<Selector, Error> {
        Ok(Selector::from_map(&self.spec.selector))
    }
}

impl HasSelector for ListedReplicationController {
    fn selector(&self) -> Result<Selector, Error> {
        Ok(Selector::from_map(&self.spec.selector))
    }
}

impl Owner for ReplicationController {
    const COUNTS_TERMINATING: bool = false;

    type Listed = ListedReplicationController;

    fn generation(&self) -> i64 {
        self.metadata.generation
    }

    fn spec(&self) -> Spec<'_> {
        Spec::new(self.spec.replicas, self.spec.min_ready_seconds, &self.spec.template)
    }

    fn status(&self) -> &ReplicaSetStatus {
        &self.status
    }
}
