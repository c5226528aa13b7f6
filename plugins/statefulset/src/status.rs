//! The status of a StatefulSet.

use pintle_sdk::api::meta::Condition;
use pintle_sdk::document::Document;
use pintle_sdk::time::Timestamp;
use pintle_sdk::{Mutation, Refusal};
use plugin_lib::conditions::{find, set_condition};
use plugin_lib::{pods, status};
use serde::Serialize;

use crate::history::{Revisions, revision};
use crate::set::Set;
use crate::types::{Pod, StatefulSet};

const PROGRESSING: &str = "Progressing";

/// The fields of the status, the conditions last.
const FIELDS: &[&str] = &[
    "observedGeneration",
    "replicas",
    "readyReplicas",
    "availableReplicas",
    "currentReplicas",
    "updatedReplicas",
    "currentRevision",
    "updateRevision",
    "collisionCount",
    "conditions",
];

/// The reported status.
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
    /// Conditions of other types stay.
    conditions: Vec<Condition>,
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
            conditions: set.object.status.conditions.clone(),
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

    /// Sets the condition `Progressing`, which exists only for the strategy `Recreate`.
    #[doc(alias = "setProgressingCondition")]
    pub(crate) fn progressing(&mut self, status: &str, reason: &str, message: &str, now: Timestamp) {
        let (type_, status, reason, message) = (PROGRESSING.into(), status.into(), reason.into(), message.into());
        let condition = Condition { type_, status, reason, message, ..Condition::default() };
        self.conditions = set_condition(&self.conditions, condition, now);
    }

    /// If all replicas are updated, the update revision becomes the current one.
    #[doc(alias = "completeUpdate")]
    fn complete(&mut self, set: &Set, now: Timestamp) {
        let is_all = |count: i32| i64::from(count) == set.replicas;
        if [self.updated_replicas, self.ready_replicas, self.replicas].into_iter().all(is_all) {
            self.current_replicas = self.updated_replicas;
            self.current_revision.clone_from(&self.update_revision);
            if set.recreates() && find(&self.conditions, PROGRESSING).is_some() {
                self.progressing("False", "RecreateCompleted", "All pods recreated successfully", now);
            }
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
            || self.conditions != old.conditions
    }

    /// The status update, if the status differs from the object's.
    pub(crate) fn update(mut self, set: &Set, document: Document, now: Timestamp) -> Option<Mutation> {
        self.complete(set, now);
        if !self.differs(set) {
            return None;
        }
        // Unchanged conditions are kept as they were written.
        let n_fields = FIELDS.len() - usize::from(self.conditions == set.object.status.conditions);
        Some(status::update::<StatefulSet>(document, &FIELDS[..n_fields], &self).tolerate([Refusal::NotFound]))
    }
}

/// Whether a Pod runs and is ready.
pub(crate) fn is_running_and_ready(pod: &Pod) -> bool {
    pod.status.phase == "Running" && pods::is_ready(pod)
}

/// Whether a Pod is unavailable or terminating.
pub(crate) fn is_unavailable(pod: &Pod, min_ready_seconds: i32, now: Timestamp) -> bool {
    !pods::is_available(pod, min_ready_seconds, now) || pod.metadata.is_deleting()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// As `TestCompleteUpdate`.
    #[test]
    fn the_update_revision_becomes_the_current_one_whatever_the_strategy() {
        // Strategy; updated, ready and existing replicas, of 3; whether the update is complete.
        for (strategy, updated, ready, replicas, is_complete) in [
            ("RollingUpdate", 3, 3, 3, true),
            ("OnDelete", 3, 3, 3, true),
            ("OnDelete", 1, 3, 3, false),
            ("RollingUpdate", 3, 2, 3, false),
            ("RollingUpdate", 2, 2, 2, false),
        ] {
            let spec = json!({"replicas": 3, "updateStrategy": {"type": strategy}, "selector": {"matchLabels": {}}});
            let set = Set::new(serde_json::from_value(json!({"spec": spec})).unwrap()).unwrap();
            let mut status = Status {
                observed_generation: 0,
                replicas,
                ready_replicas: ready,
                available_replicas: 0,
                current_replicas: 0,
                updated_replicas: updated,
                current_revision: "old".into(),
                update_revision: "new".into(),
                collision_count: 0,
                conditions: Vec::new(),
            };
            status.complete(&set, Timestamp::from_micros(0));
            let expected = if is_complete { ("new", updated) } else { ("old", 0) };
            assert_eq!((status.current_revision.as_str(), status.current_replicas), expected, "{strategy} {updated}");
        }
    }
}
