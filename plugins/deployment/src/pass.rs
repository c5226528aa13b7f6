//! One pass over one Deployment: the objects that it read, and its decisions so far.
//!
//! *Flow*: the subjects (`rolling`, `recreate`, `scaling`, ...) read `sets` and record changes; [`Pass::finish`] turns them into
//! sequential steps: writes of ReplicaSets with their events in the order of the decisions, and the Deployment's status.
//!
//! ```text
//! writes -> forgiven writes -> status (also if a forgiven write failed)
//! create -> status -> forgiven writes
//! ```
//!
//! *Invariants*
//! 1. A ReplicaSet is patched at most once in a pass, by all that was decided of it: a second patch would carry a stale
//!    resourceVersion.
//! 2. The status is written at most once, after what it depends on, and only if it differs from the cached one.
//! 3. `sets` stay as they were read (but for annotations of the new one): counts of a status are those of the cache.
//!
//! *Not here*: decisions.
//!
//! *Source*: `scaleReplicaSet` of sync.go. Upstream writes in the middle of its decisions, and so writes an object twice where
//! this writes it once; the last state is the same.

use std::collections::BTreeMap;

use pintle_sdk::api::meta::Condition;
use pintle_sdk::document::Document;
use pintle_sdk::time::Timestamp;
use pintle_sdk::{Error, Event, EventType, Mutation, MutationFailure, Outcome, PatchType, Resource, Step};
use plugin_lib::conditions;
use serde_json::{Map, Value};

use crate::replicas::{DESIRED_REPLICAS, MAX_REPLICAS, max_surge, narrow, size, wanted};
use crate::revision::REVISION;
use crate::types::{Deployment, DeploymentStatus, ReplicaSet};

/// Most writes of one pass.
pub(crate) const MAX_WRITES: usize = 550;

/// Type of condition: the minimum of Pods is available.
pub const AVAILABLE: &str = "Available";
/// Type of condition: the rollout advances, or is done.
pub const PROGRESSING: &str = "Progressing";
/// Type of condition: Pods could not be created or deleted.
pub const REPLICA_FAILURE: &str = "ReplicaFailure";

/// Reasons of `Progressing` and `Available`.
#[allow(missing_docs, reason = "the API's own names")]
pub mod reason {
    pub const REPLICA_SET_UPDATED: &str = "ReplicaSetUpdated";
    pub const FAILED_CREATE: &str = "ReplicaSetCreateError";
    pub const NEW_REPLICA_SET: &str = "NewReplicaSetCreated";
    pub const FOUND_NEW: &str = "FoundNewReplicaSet";
    pub const NEW_AVAILABLE: &str = "NewReplicaSetAvailable";
    pub const TIMED_OUT: &str = "ProgressDeadlineExceeded";
    pub const PAUSED: &str = "DeploymentPaused";
    pub const RESUMED: &str = "DeploymentResumed";
    pub const MINIMUM_AVAILABLE: &str = "MinimumReplicasAvailable";
    pub const MINIMUM_UNAVAILABLE: &str = "MinimumReplicasUnavailable";
}

/// What a pass has decided of a ReplicaSet.
#[derive(Debug, Default)]
struct Change {
    replicas: Option<i64>,
    min_ready_seconds: Option<i32>,
    annotations: BTreeMap<String, String>,
}

#[derive(Debug)]
enum Write {
    /// The patch of this ReplicaSet, with all that is decided of it by the end.
    Patch(usize),
    Other(Box<Mutation>),
}

/// One pass over one Deployment.
#[derive(Debug)]
pub struct Pass {
    /// Time of the run.
    pub now: Timestamp,
    /// The Deployment; its status and annotations are those that it should have.
    pub d: Deployment,
    /// ReplicaSets of the Deployment, from old to new.
    pub sets: Vec<ReplicaSet>,
    /// Place of the one with the Deployment's template.
    pub new: Option<usize>,
    /// What failed of the previous pass.
    pub failures: Vec<MutationFailure>,
    /// Whether the status reports `terminatingReplicas`.
    pub counts_terminating: bool,
    text: String,
    cached: DeploymentStatus,
    cached_revision: Option<String>,
    writes: Vec<Write>,
    /// Place of the first forgiven write.
    forgiven: Option<usize>,
    creates: bool,
    changes: BTreeMap<usize, Change>,
    requeue: Option<std::time::Duration>,
}

impl Pass {
    /// A pass over a Deployment, given also as the text that was read.
    pub fn new(
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
            writes: Vec::new(),
            forgiven: None,
            creates: false,
            changes: BTreeMap::new(),
            requeue: None,
        }
    }

    /// The new ReplicaSet.
    pub fn new_set(&self) -> Option<&ReplicaSet> {
        self.new.map(|i| &self.sets[i])
    }

    /// Places of the old ReplicaSets, from old to new.
    pub fn old(&self) -> Vec<usize> {
        (0..self.sets.len()).filter(|i| Some(*i) != self.new).collect()
    }

    /// The old ReplicaSets, from old to new.
    pub fn old_sets(&self) -> impl Iterator<Item = &ReplicaSet> {
        self.sets.iter().enumerate().filter(|(i, _)| Some(*i) != self.new).map(|(_, set)| set)
    }

    /// All ReplicaSets, the new one last.
    pub fn all_sets(&self) -> impl Iterator<Item = &ReplicaSet> {
        self.old_sets().chain(self.new_set())
    }

    /// Replicas of a ReplicaSet, with what this pass has decided.
    pub fn size(&self, i: usize) -> i64 {
        self.changes.get(&i).and_then(|change| change.replicas).unwrap_or_else(|| size(&self.sets[i]))
    }

    /// A condition as of now.
    pub fn condition(&self, kind: &str, status: &str, reason: &str, message: impl Into<String>) -> Condition {
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
    pub fn progressing(&self) -> Option<&Condition> {
        conditions::find(&self.d.status.conditions, PROGRESSING)
    }

    /// Whether the Deployment's status says that the rollout is complete.
    pub fn is_complete(&self, status: &DeploymentStatus) -> bool {
        let wanted = wanted(&self.d);
        [status.updated_replicas, status.replicas, status.available_replicas]
            .iter()
            .all(|count| i64::from(*count) == wanted)
            && status.observed_generation >= self.d.metadata.generation
    }

    /// Whether a lack of progress is to be reported.
    pub fn has_progress_deadline(&self) -> bool {
        self.d.spec.progress_deadline_seconds.is_some_and(|seconds| seconds != i32::MAX)
    }

    /// Whether anything of the Deployment's status is to be written.
    pub fn is_status_changed(&self) -> bool {
        self.d.status != self.cached || self.cached_revision.as_ref() != self.d.metadata.annotations.get(REVISION)
    }

    /// Records annotations and `minReadySeconds` of a ReplicaSet that differ.
    pub fn annotate(&mut self, i: usize, annotations: BTreeMap<String, String>, min_ready_seconds: i32) {
        let set = &self.sets[i];
        let differs = |(name, value): &(&String, &String)| set.metadata.annotations.get(*name) != Some(*value);
        let changed: Vec<_> = annotations.iter().filter(differs).map(|(n, v)| (n.clone(), v.clone())).collect();
        let seconds = (set.spec.min_ready_seconds != min_ready_seconds).then_some(min_ready_seconds);
        let change = self.change(i);
        change.annotations.extend(changed);
        change.min_ready_seconds = seconds;
        self.sets[i].metadata.annotations = annotations;
    }

    /// Gives a ReplicaSet another size, and the annotations that go with it. `force` also writes annotations alone.
    /// Returns whether the size changes.
    pub fn scale(&mut self, i: usize, replicas: i64, force: bool) -> bool {
        let before = self.size(i);
        if before == replicas && !force {
            return false;
        }
        let wanted = wanted(&self.d);
        let expected =
            [(DESIRED_REPLICAS, wanted.to_string()), (MAX_REPLICAS, (wanted + max_surge(&self.d)).to_string())];
        let set = &self.sets[i];
        let decided = self.changes.get(&i).map(|change| &change.annotations);
        let current = |name: &str| decided.and_then(|a| a.get(name)).or_else(|| set.metadata.annotations.get(name));
        let stale: Vec<_> = expected.into_iter().filter(|(name, value)| current(name) != Some(value)).collect();
        if before == replicas && stale.is_empty() {
            return false;
        }
        let change = self.change(i);
        change.annotations.extend(stale.into_iter().map(|(name, value)| (name.to_owned(), value)));
        if before == replicas {
            return false;
        }
        change.replicas = Some(replicas);
        let direction = if before < replicas { "up" } else { "down" };
        let name = &self.sets[i].metadata.name;
        let message = format!("Scaled {direction} replica set {name} from {before} to {replicas}");
        self.event(EventType::Normal, "ScalingReplicaSet", message);
        true
    }

    fn change(&mut self, i: usize) -> &mut Change {
        if !self.changes.contains_key(&i) {
            self.writes.push(Write::Patch(i));
        }
        self.changes.entry(i).or_default()
    }

    /// Records an event of the Deployment, after the writes so far have succeeded.
    pub fn event(&mut self, event_type: EventType, reason: &str, message: String) {
        let event = match event_type {
            EventType::Normal => Event::normal(&Deployment::KIND, &self.d.metadata, reason, message),
            EventType::Warning => Event::warning(&Deployment::KIND, &self.d.metadata, reason, message),
        };
        self.write(event);
    }

    /// Records any other write.
    pub fn write(&mut self, mutation: impl Into<Mutation>) {
        self.writes.push(Write::Other(Box::new(mutation.into())));
    }

    /// Records the creation of the new ReplicaSet.
    pub fn create(&mut self, mutation: Mutation) {
        self.creates = true;
        self.write(mutation);
    }

    /// From here on a refused write keeps nothing from the status. It is tried again all the same.
    pub fn forgive(&mut self) {
        self.forgiven = Some(self.writes.len());
    }

    /// Takes [`forgive`](Self::forgive) back.
    pub fn forgive_nothing(&mut self) {
        self.forgiven = None;
    }

    /// Whether anything has been written so far.
    pub fn has_writes(&self) -> bool {
        !self.writes.is_empty()
    }

    /// Runs the Deployment again after this time.
    pub fn requeue(&mut self, after: std::time::Duration) {
        self.requeue = Some(after);
    }

    /// The Deployment as it was read, for writing it back.
    ///
    /// # Errors
    /// If it is not a JSON object.
    pub fn document(&self) -> Result<Document, Error> {
        Ok(Document::parse(&self.text)?)
    }

    /// The outcome.
    ///
    /// # Errors
    /// As [`document`](Self::document).
    pub fn finish(mut self) -> Result<Outcome, Error> {
        let writes = std::mem::take(&mut self.writes);
        let mutation = |write| match write {
            Write::Other(mutation) => *mutation,
            Write::Patch(i) => self.patch(i),
        };
        let is_partial = writes.len() > MAX_WRITES;
        let mut writes: Vec<Mutation> = writes.into_iter().take(MAX_WRITES).map(mutation).collect();
        if is_partial {
            // What they change runs the key again, for the rest and the status.
            return Ok(Outcome::new().step(Step::sequential(writes)));
        }
        let forgiven = writes.split_off(self.forgiven.unwrap_or(writes.len()));
        let status = self.status_update()?;
        let mut outcome = Outcome::new();
        if forgiven.is_empty() {
            writes.extend(status);
            outcome.push(Step::sequential(writes));
        } else if self.creates {
            // The condition that the new ReplicaSet was created starts the deadline: it must not be lost.
            writes.extend(status);
            outcome.push(Step::sequential(writes));
            outcome.push(Step::sequential(forgiven));
        } else {
            let is_forgiving = writes.is_empty();
            outcome.push(Step::sequential(writes));
            outcome.push(Step::sequential(forgiven));
            outcome.push(Step { always: is_forgiving, ..Step::sequential(status) });
        }
        outcome.requeue_after = self.requeue;
        Ok(outcome)
    }

    fn status_update(&self) -> Result<Option<Mutation>, Error> {
        if !self.is_status_changed() {
            return Ok(None);
        }
        let mut document = self.document()?;
        if let Some(revision) = self.d.metadata.annotations.get(REVISION) {
            document.set(&["metadata", "annotations", REVISION], revision);
        }
        document.set(&["status"], &self.d.status);
        Ok(Some(Mutation::update_status(&Deployment::KIND, document)))
    }

    fn patch(&self, i: usize) -> Mutation {
        let change = &self.changes[&i];
        let mut body = Map::new();
        if !change.annotations.is_empty() {
            body.insert("metadata".into(), serde_json::json!({ "annotations": change.annotations }));
        }
        let mut spec = Map::new();
        if let Some(replicas) = change.replicas {
            spec.insert("replicas".into(), narrow(replicas).into());
        }
        if let Some(seconds) = change.min_ready_seconds {
            spec.insert("minReadySeconds".into(), seconds.into());
        }
        if !spec.is_empty() {
            body.insert("spec".into(), spec.into());
        }
        let meta = &self.sets[i].metadata;
        Mutation::patch(&ReplicaSet::KIND, meta.key(), PatchType::Merge, Value::Object(body))
            .uid(&meta.uid)
            .resource_version(&meta.resource_version)
    }
}

/// Place of a ReplicaSet in the order from old to new; names break ties.
pub fn age(set: &ReplicaSet) -> (Option<Timestamp>, &str) {
    (set.metadata.creation_timestamp, &set.metadata.name)
}
