//! The status of a StatefulSet.

use pintle_sdk::document::Document;
use pintle_sdk::time::Timestamp;
use pintle_sdk::{Mutation, Refusal};
use plugin_lib::{pods, status};
use serde::Serialize;

use crate::history::{Revisions, revision};
use crate::set::Set;
use crate::types::{Pod, StatefulSet};

/// What is reported. It replaces the whole status, conditions included, as nobody but the controller writes one.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Status {
    observed_generation: i64,
    pub(crate) replicas: i32,
    pub(crate) ready_replicas: i32,
    pub(crate) available_replicas: i32,
    pub(crate) current_replicas: i32,
    pub(crate) updated_replicas: i32,
    current_revision: String,
    update_revision: String,
    collision_count: i32,
}

impl Status {
    /// Counts Pods.
    pub(crate) fn of<'a>(
        set: &Set,
        revisions: &Revisions,
        all: impl IntoIterator<Item = &'a Pod>,
        now: Timestamp,
    ) -> Self {
        let (current, update) = (revisions.current.name(), revisions.update.name());
        let mut status = Self {
            observed_generation: set.object.metadata.generation,
            replicas: 0,
            ready_replicas: 0,
            available_replicas: 0,
            current_replicas: 0,
            updated_replicas: 0,
            current_revision: current.to_owned(),
            update_revision: update.to_owned(),
            collision_count: revisions.collision_count,
        };
        for pod in all {
            let is_created = !pod.status.phase.is_empty();
            let of = revision(pod).filter(|_| is_created && !pod.metadata.is_deleting());
            let is_ready = is_running_and_ready(pod);
            status.replicas += i32::from(is_created);
            status.ready_replicas += i32::from(is_ready);
            status.available_replicas += i32::from(is_ready && pods::is_available(pod, set.min_ready_seconds(), now));
            status.current_replicas += i32::from(of == Some(current));
            status.updated_replicas += i32::from(of == Some(update));
        }
        status
    }

    /// If all replicas are updated, the update revision becomes the current one.
    #[doc(alias = "completeRollingUpdate")]
    fn complete(&mut self, set: &Set) {
        let is_all = |count: i32| i64::from(count) == set.replicas;
        if set.object.spec.update_strategy.type_ == "RollingUpdate"
            && [self.updated_replicas, self.ready_replicas, self.replicas].into_iter().all(is_all)
        {
            self.current_replicas = self.updated_replicas;
            self.current_revision.clone_from(&self.update_revision);
        }
    }

    #[doc(alias = "inconsistentStatus")]
    fn differs(&self, set: &Set) -> bool {
        let old = &set.object.status;
        self.observed_generation > old.observed_generation
            || self.replicas != old.replicas
            || self.current_replicas != old.current_replicas
            || self.ready_replicas != old.ready_replicas
            || self.updated_replicas != old.updated_replicas
            || self.current_revision != old.current_revision
            || self.available_replicas != old.available_replicas
            || self.update_revision != old.update_revision
    }

    /// The update to it, if it differs from that of the object.
    pub(crate) fn update(mut self, set: &Set, document: Document) -> Option<Mutation> {
        self.complete(set);
        if !self.differs(set) {
            return None;
        }
        Some(status::replace::<StatefulSet>(document, &self).tolerate([Refusal::NotFound]))
    }
}

/// Whether a Pod runs and is ready.
pub(crate) fn is_running_and_ready(pod: &Pod) -> bool {
    pod.status.phase == "Running" && pods::is_ready(pod)
}

/// Whether a Pod does not serve, or is about to stop.
pub(crate) fn is_unavailable(pod: &Pod, min_ready_seconds: i32, now: Timestamp) -> bool {
    !pods::is_available(pod, min_ready_seconds, now) || pod.metadata.is_deleting()
}
