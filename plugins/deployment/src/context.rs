//! One run of one Deployment: the objects it has read, and its decisions so far ([`crate::writes`]).
//!
//! *Invariant*: `sets` stay as read (except for annotations of the new one): the counts of a status are those of the
//! cache.
//!
//! *Not here*: decisions.

use pintle_sdk::MutationFailure;
use pintle_sdk::api::meta::Condition;
use pintle_sdk::time::Timestamp;
use plugin_lib::conditions;

use crate::replicas::{size, wanted};
use crate::revision::REVISION;
use crate::types::{Deployment, DeploymentStatus, ReplicaSet};
use crate::writes::Writes;

/// Type of condition: the minimum of Pods is available.
#[doc(alias = "DeploymentAvailable")]
pub(crate) const AVAILABLE: &str = "Available";
/// Type of condition: the rollout advances, or is done.
#[doc(alias = "DeploymentProgressing")]
pub(crate) const PROGRESSING: &str = "Progressing";
/// Type of condition: Pods could not be created or deleted.
#[doc(alias = "DeploymentReplicaFailure")]
pub(crate) const REPLICA_FAILURE: &str = "ReplicaFailure";

/// Reasons of `Progressing` and `Available`.
#[allow(missing_docs, reason = "the API's own names")]
pub(crate) mod reason {
    #[doc(alias = "ReplicaSetUpdatedReason")]
    pub(crate) const REPLICA_SET_UPDATED: &str = "ReplicaSetUpdated";
    #[doc(alias = "FailedRSCreateReason")]
    pub(crate) const FAILED_CREATE: &str = "ReplicaSetCreateError";
    #[doc(alias = "NewReplicaSetReason")]
    pub(crate) const NEW_REPLICA_SET: &str = "NewReplicaSetCreated";
    #[doc(alias = "FoundNewRSReason")]
    pub(crate) const FOUND_NEW: &str = "FoundNewReplicaSet";
    #[doc(alias = "NewRSAvailableReason")]
    pub(crate) const NEW_AVAILABLE: &str = "NewReplicaSetAvailable";
    #[doc(alias = "TimedOutReason")]
    pub(crate) const TIMED_OUT: &str = "ProgressDeadlineExceeded";
    #[doc(alias = "PausedDeployReason")]
    pub(crate) const PAUSED: &str = "DeploymentPaused";
    #[doc(alias = "ResumedDeployReason")]
    pub(crate) const RESUMED: &str = "DeploymentResumed";
    #[doc(alias = "MinimumReplicasAvailable")]
    pub(crate) const MINIMUM_AVAILABLE: &str = "MinimumReplicasAvailable";
    #[doc(alias = "MinimumReplicasUnavailable")]
    pub(crate) const MINIMUM_UNAVAILABLE: &str = "MinimumReplicasUnavailable";
}

/// One run of one Deployment.
#[derive(Debug)]
pub(crate) struct Context {
    /// Time of the run.
    pub(crate) now: Timestamp,
    /// The Deployment, with the desired status and annotations.
    pub(crate) d: Deployment,
    /// ReplicaSets of the Deployment, oldest first.
    pub(crate) sets: Vec<ReplicaSet>,
    /// Index of the ReplicaSet with the Deployment's template.
    pub(crate) new: Option<usize>,
    /// Failed writes of the previous run.
    pub(crate) failures: Vec<MutationFailure>,
    /// Whether the status reports `terminatingReplicas`.
    pub(crate) counts_terminating: bool,
    /// Decisions so far.
    pub(crate) writes: Writes,
    /// The Deployment as it was read.
    pub(crate) text: String,
    cached: DeploymentStatus,
    cached_revision: Option<String>,
}

impl Context {
    /// Starts a run for a Deployment; `text` is its JSON as it was read.
    pub(crate) fn new(
        now: Timestamp,
        d: Deployment,
        text: String,
        mut sets: Vec<ReplicaSet>,
        failures: Vec<MutationFailure>,
    ) -> Self {
        sets.sort_by(|a, b| age(a).cmp(&age(b)));
        Self {
            cached: d.status.clone(),
            cached_revision: d.metadata.annotations.get(REVISION).cloned(),
            now,
            d,
            sets,
            new: None,
            failures,
            counts_terminating: true,
            text,
            writes: Writes::default(),
        }
    }

    /// The new ReplicaSet.
    pub(crate) fn new_set(&self) -> Option<&ReplicaSet> {
        self.new.map(|i| &self.sets[i])
    }

    /// Indexes of the old ReplicaSets, oldest first.
    pub(crate) fn old(&self) -> Vec<usize> {
        (0..self.sets.len()).filter(|i| Some(*i) != self.new).collect()
    }

    /// The old ReplicaSets, oldest first.
    #[doc(alias = "FindOldReplicaSets")]
    pub(crate) fn old_sets(&self) -> impl Iterator<Item = &ReplicaSet> {
        self.sets.iter().enumerate().filter(|(i, _)| Some(*i) != self.new).map(|(_, set)| set)
    }

    /// All ReplicaSets, the new one last.
    pub(crate) fn all_sets(&self) -> impl Iterator<Item = &ReplicaSet> {
        self.old_sets().chain(self.new_set())
    }

    /// Replicas of a ReplicaSet, including this run's decisions.
    pub(crate) fn size(&self, i: usize) -> i64 {
        self.writes.size(i).unwrap_or_else(|| size(&self.sets[i]))
    }

    /// A condition with the current time.
    #[doc(alias = "NewDeploymentCondition")]
    pub(crate) fn condition(&self, kind: &str, status: &str, reason: &str, message: impl Into<String>) -> Condition {
        let now = Some(self.now.truncate());
        Condition {
            type_: kind.into(),
            status: status.into(),
            last_update_time: now,
            last_transition_time: now,
            reason: reason.into(),
            message: message.into(),
            ..Condition::default()
        }
    }

    /// The condition `Progressing` of the status.
    pub(crate) fn progressing(&self) -> Option<&Condition> {
        conditions::find(&self.d.status.conditions, PROGRESSING)
    }

    /// Whether the Deployment's status shows a complete rollout.
    #[doc(alias = "DeploymentComplete")]
    pub(crate) fn is_complete(&self, status: &DeploymentStatus) -> bool {
        let wanted = wanted(&self.d);
        [status.updated_replicas, status.replicas, status.available_replicas]
            .iter()
            .all(|count| i64::from(*count) == wanted)
            && status.observed_generation >= self.d.metadata.generation
    }

    /// Whether a lack of progress is reported.
    #[doc(alias = "HasProgressDeadline")]
    pub(crate) fn has_progress_deadline(&self) -> bool {
        self.d.spec.progress_deadline_seconds.is_some_and(|seconds| seconds != i32::MAX)
    }

    /// Whether the Deployment's status must be written.
    pub(crate) fn is_status_changed(&self) -> bool {
        self.d.status != self.cached || self.cached_revision.as_ref() != self.d.metadata.annotations.get(REVISION)
    }
}

/// Sort key of a ReplicaSet, oldest first; names break ties.
#[doc(alias = "ReplicaSetsByCreationTimestamp")]
pub(crate) fn age(set: &ReplicaSet) -> (Option<Timestamp>, &str) {
    (set.metadata.creation_timestamp, &set.metadata.name)
}
