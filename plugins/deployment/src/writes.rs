//! The writes of one run, in the order of its decisions.
//!
//! *Flow*: the modules (`rolling`, `recreate`, `scaling`, ...) record changes; [`Context::finish`] turns them into
//! sequential steps: writes of ReplicaSets with their events, and the Deployment's status.
//!
//! ```text
//! writes -> forgiven writes -> status (also if a forgiven write failed)
//! create -> status -> forgiven writes
//! ```
//!
//! *Invariants*
//! 1. A ReplicaSet is patched at most once in a run, with all its changes: a second patch would have a stale
//!    resourceVersion.
//! 2. The status is written at most once, after the writes that it depends on, and only if it differs from the cached
//!    one.
//!
//! *Source*: sync.go. Upstream writes in the middle of its decisions, so it writes an object twice where this writes it
//! once; the final state is the same.

use std::collections::BTreeMap;
use std::time::Duration;

use pintle_sdk::document::Document;
use pintle_sdk::{Error, Event, EventType, Mutation, Outcome, PatchType, Resource, Step};
use plugin_lib::number::narrow;
use plugin_lib::status;
use serde_json::{Map, Value};

use crate::context::Context;
use crate::replicas::{DESIRED_REPLICAS, MAX_REPLICAS, max_surge, wanted};
use crate::revision::REVISION;
use crate::types::{Deployment, ReplicaSet};

/// Decided changes of a ReplicaSet.
#[derive(Debug, Default)]
struct Change {
    replicas: Option<i64>,
    min_ready_seconds: Option<i32>,
    annotations: BTreeMap<String, String>,
}

#[derive(Debug)]
enum Write {
    /// The patch of this ReplicaSet, with all its changes.
    Patch(usize),
    Other(Box<Mutation>),
}

/// Decisions so far.
#[derive(Debug, Default)]
pub(crate) struct Writes {
    all: Vec<Write>,
    /// Index of the first forgiven write.
    forgiven: Option<usize>,
    creates: bool,
    changes: BTreeMap<usize, Change>,
    requeue: Option<Duration>,
}

impl Writes {
    /// The size decided for a ReplicaSet.
    pub(crate) fn size(&self, i: usize) -> Option<i64> {
        self.changes.get(&i)?.replicas
    }
}

impl Context {
    /// Records a ReplicaSet's annotations and `minReadySeconds` if they differ.
    pub(crate) fn annotate(&mut self, i: usize, annotations: BTreeMap<String, String>, min_ready_seconds: i32) {
        let set = &self.sets[i];
        let differs = |(name, value): &(&String, &String)| set.metadata.annotations.get(*name) != Some(*value);
        let changed: Vec<_> = annotations.iter().filter(differs).map(|(n, v)| (n.clone(), v.clone())).collect();
        let seconds = (set.spec.min_ready_seconds != min_ready_seconds).then_some(min_ready_seconds);
        let change = self.change(i);
        change.annotations.extend(changed);
        change.min_ready_seconds = seconds;
        self.sets[i].metadata.annotations = annotations;
    }

    /// Scales a ReplicaSet, and sets the related annotations. `force` also writes annotations alone. Returns whether
    /// the size changes.
    #[doc(alias = "scaleReplicaSet", alias = "ReplicasAnnotationsNeedUpdate", alias = "SetReplicasAnnotations")]
    pub(crate) fn scale(&mut self, i: usize, replicas: i64, force: bool) -> bool {
        let before = self.size(i);
        if before == replicas && !force {
            return false;
        }
        let wanted = wanted(&self.d);
        let expected =
            [(DESIRED_REPLICAS, wanted.to_string()), (MAX_REPLICAS, (wanted + max_surge(&self.d)).to_string())];
        let set = &self.sets[i];
        let decided = self.writes.changes.get(&i).map(|change| &change.annotations);
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
        if !self.writes.changes.contains_key(&i) {
            self.writes.all.push(Write::Patch(i));
        }
        self.writes.changes.entry(i).or_default()
    }

    /// Records an event of the Deployment, sent after the writes so far have succeeded.
    pub(crate) fn event(&mut self, event_type: EventType, reason: &str, message: String) {
        let event = match event_type {
            EventType::Normal => Event::normal(&Deployment::KIND, &self.d.metadata, reason, message),
            EventType::Warning => Event::warning(&Deployment::KIND, &self.d.metadata, reason, message),
        };
        self.write(event);
    }

    /// Records any other write.
    pub(crate) fn write(&mut self, mutation: impl Into<Mutation>) {
        self.writes.all.push(Write::Other(Box::new(mutation.into())));
    }

    /// Records the creation of the new ReplicaSet.
    pub(crate) fn create(&mut self, mutation: Mutation) {
        self.writes.creates = true;
        self.write(mutation);
    }

    /// From here on, a failed write does not prevent the status write. It is still retried.
    pub(crate) fn forgive(&mut self) {
        self.writes.forgiven = Some(self.writes.all.len());
    }

    /// Reverts [`forgive`](Self::forgive).
    pub(crate) fn forgive_nothing(&mut self) {
        self.writes.forgiven = None;
    }

    /// Whether any write is recorded.
    pub(crate) fn has_writes(&self) -> bool {
        !self.writes.all.is_empty()
    }

    /// Runs the Deployment again after this time.
    pub(crate) fn requeue(&mut self, after: Duration) {
        self.writes.requeue = Some(after);
    }

    /// The Deployment as it was read, to be written back.
    ///
    /// # Errors
    /// If it is not a JSON object.
    pub(crate) fn document(&self) -> Result<Document, Error> {
        Ok(Document::parse(&self.text)?)
    }

    /// The outcome.
    ///
    /// # Errors
    /// As [`document`](Self::document).
    pub(crate) fn finish(mut self) -> Result<Outcome, Error> {
        let writes = std::mem::take(&mut self.writes.all);
        let mutation = |write| match write {
            Write::Other(mutation) => *mutation,
            Write::Patch(i) => self.patch(i),
        };
        let mut writes: Vec<Mutation> = writes.into_iter().map(mutation).collect();
        let forgiven = writes.split_off(self.writes.forgiven.unwrap_or(writes.len()));
        let status = self.status_update()?;
        let mut outcome = Outcome::new();
        if forgiven.is_empty() {
            writes.extend(status);
            outcome.push(Step::sequential(writes));
        } else if self.writes.creates {
            // The condition for the created ReplicaSet starts the deadline, so it must not be lost.
            writes.extend(status);
            outcome.push(Step::sequential(writes));
            outcome.push(Step::sequential(forgiven));
        } else {
            let is_forgiving = writes.is_empty();
            outcome.push(Step::sequential(writes));
            outcome.push(Step::sequential(forgiven));
            outcome.push(Step { always: is_forgiving, ..Step::sequential(status) });
        }
        outcome.requeue_after = self.writes.requeue;
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
        Ok(Some(status::replace::<Deployment>(document, &self.d.status)))
    }

    fn patch(&self, i: usize) -> Mutation {
        let change = &self.writes.changes[&i];
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
