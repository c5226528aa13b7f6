//! The result of a run: steps of mutations, and other requests to the host.
//!
//! ```
//! use pintle_sdk::{Kind, Mutation, Outcome, Step};
//! const CONFIG_MAP: Kind = Kind::new("", "v1", "ConfigMap");
//! let outcome = Outcome::new()
//!     .step(Step::sequential([Mutation::delete(&CONFIG_MAP, "default", "old").uid("42")]))
//!     .requeue_after(std::time::Duration::from_secs(10));
//! assert_eq!(outcome.steps.len(), 1);
//! ```

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::api::meta::Metadata;
use crate::document::Document;
use crate::error::Error;
use crate::need::{MAX_NEEDS, Need};
use crate::time::Timestamp;
use crate::types::{Key, Kind, ObjectKey};

/// JSON text of a serializable value.
pub fn json<T: Serialize + ?Sized>(value: &T) -> String {
    // In-memory serialization fails only for maps with keys that are not strings, which no Kubernetes type has.
    serde_json::to_string(value).expect("keys are strings")
}

/// The body of an object or a patch: JSON text, a [`serde_json::Value`], a [`Document`]. For other types see [`json`].
pub trait Body {
    /// The JSON text.
    fn into_json(self) -> String;
}

impl Body for String {
    fn into_json(self) -> String {
        self
    }
}

impl Body for &str {
    fn into_json(self) -> String {
        self.to_owned()
    }
}

impl Body for serde_json::Value {
    fn into_json(self) -> String {
        self.to_string()
    }
}

impl Body for &serde_json::Value {
    fn into_json(self) -> String {
        self.to_string()
    }
}

impl Body for Document {
    fn into_json(self) -> String {
        self.to_string()
    }
}

impl Body for &RawValue {
    fn into_json(self) -> String {
        self.get().to_owned()
    }
}

/// Conditions that must still hold when a write arrives; otherwise it fails with a conflict.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "Kubernetes' own names")]
pub struct Preconditions {
    pub uid: Option<String>,
    pub resource_version: Option<String>,
}

/// Patch types.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PatchType {
    /// RFC 6902.
    Json,
    /// RFC 7386.
    Merge,
    /// Kubernetes' own, for built-in kinds.
    StrategicMerge,
    /// Server-side apply.
    Apply {
        /// The field manager.
        field_manager: String,
        /// Takes over fields of other managers.
        force: bool,
    },
}

/// Propagation policy of a delete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "Kubernetes' own names")]
pub enum Propagation {
    Background,
    Foreground,
    Orphan,
}

/// `Normal` or `Warning`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "Kubernetes' own names")]
pub enum EventType {
    Normal,
    Warning,
}

/// A Kubernetes Event; the host adds time, source, count and series.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Kind of the regarding object.
    pub regarding_kind: Kind,
    /// The regarding object.
    pub regarding: ObjectKey,
    /// Its uid; empty if unknown.
    pub regarding_uid: String,
    /// Type.
    pub event_type: EventType,
    /// Upper camel case, for machines.
    pub reason: String,
    /// For humans, at most 1,024 bytes. In `on_success` and `on_failure`, `{name}` stands for the name of the written
    /// object and `{error}` for the server's message.
    pub message: String,
}

impl Event {
    /// A `Normal` event about an object.
    pub fn normal(kind: &Kind, about: &impl Metadata, reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(EventType::Normal, kind, about, reason, message)
    }

    /// A `Warning` about an object.
    pub fn warning(kind: &Kind, about: &impl Metadata, reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(EventType::Warning, kind, about, reason, message)
    }

    fn new(
        event_type: EventType,
        kind: &Kind,
        about: &impl Metadata,
        reason: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        Self {
            regarding_kind: kind.clone(),
            regarding: about.key(),
            regarding_uid: about.uid().to_owned(),
            event_type,
            reason: reason.into(),
            message: message.into(),
        }
    }
}

/// One write.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "documented in wit/controller.wit")]
pub enum Action {
    Create {
        kind: Kind,
        namespace: String,
        object: String,
        subresource: Option<String>,
    },
    Update {
        kind: Kind,
        object: String,
        subresource: Option<String>,
    },
    Patch {
        kind: Kind,
        object: ObjectKey,
        subresource: Option<String>,
        patch_type: PatchType,
        body: String,
        preconditions: Preconditions,
    },
    Delete {
        kind: Kind,
        object: ObjectKey,
        preconditions: Preconditions,
        propagation: Option<Propagation>,
        grace_period_seconds: Option<u32>,
    },
    DeleteCollection {
        kind: Kind,
        namespace: String,
        label_selector: Option<String>,
        propagation: Option<Propagation>,
    },
    Event(Event),
}

/// Errors of the API server that controllers distinguish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the API server's own reasons")]
pub enum Refusal {
    NotFound,
    AlreadyExists,
    Conflict,
    Invalid,
    Forbidden,
    /// Forbidden because the namespace is being deleted.
    NamespaceTerminating,
}

/// One write, and how to handle its result.
#[derive(Clone, Debug, PartialEq)]
pub struct Mutation {
    /// The write.
    pub action: Action,
    /// Recorded if the write succeeds.
    pub on_success: Option<Event>,
    /// Recorded if the write fails.
    pub on_failure: Option<Event>,
    /// Errors that count as success.
    pub tolerate: Vec<Refusal>,
}

impl From<Action> for Mutation {
    fn from(action: Action) -> Self {
        Self { action, on_success: None, on_failure: None, tolerate: Vec::new() }
    }
}

impl From<Event> for Mutation {
    fn from(event: Event) -> Self {
        Action::Event(event).into()
    }
}

impl Mutation {
    /// Creates an object; the host fills in `apiVersion` and `kind`.
    pub fn create(kind: &Kind, namespace: impl Into<String>, object: impl Body) -> Self {
        Action::Create {
            kind: kind.clone(),
            namespace: namespace.into(),
            object: object.into_json(),
            subresource: None,
        }
        .into()
    }

    /// Replaces an object. It must carry `metadata.resourceVersion` or `metadata.uid`. Edit a [`Document`] to keep all
    /// fields.
    pub fn update(kind: &Kind, object: impl Body) -> Self {
        Action::Update { kind: kind.clone(), object: object.into_json(), subresource: None }.into()
    }

    /// Replaces the status. The metadata must be complete: the API server also takes labels, annotations, finalizers
    /// and owner references from a status update. Edit a [`Document`].
    pub fn update_status(kind: &Kind, object: impl Body) -> Self {
        Self::update(kind, object).subresource("status")
    }

    /// Changes part of an object.
    pub fn patch(kind: &Kind, object: ObjectKey, patch_type: PatchType, body: impl Body) -> Self {
        Action::Patch {
            kind: kind.clone(),
            object,
            subresource: None,
            patch_type,
            body: body.into_json(),
            preconditions: Preconditions::default(),
        }
        .into()
    }

    /// Server-side apply: sets the fields of `object`, creates it if it does not exist, and removes fields that an
    /// earlier apply of the same field manager set and this one does not. Takes over fields of other managers if
    /// `force`.
    pub fn apply(
        kind: &Kind,
        object: ObjectKey,
        field_manager: impl Into<String>,
        force: bool,
        body: impl Body,
    ) -> Self {
        Self::patch(kind, object, PatchType::Apply { field_manager: field_manager.into(), force }, body)
    }

    /// Deletes an object. Pass the [`uid`](Self::uid) that was read, so that a later object of the same name survives.
    pub fn delete(kind: &Kind, namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Action::Delete {
            kind: kind.clone(),
            object: ObjectKey::new(namespace, name),
            preconditions: Preconditions::default(),
            propagation: None,
            grace_period_seconds: None,
        }
        .into()
    }

    /// Deletes the objects of a kind in a namespace that the selector matches, or all of them.
    pub fn delete_collection(kind: &Kind, namespace: impl Into<String>, label_selector: Option<String>) -> Self {
        Action::DeleteCollection { kind: kind.clone(), namespace: namespace.into(), label_selector, propagation: None }
            .into()
    }

    /// A standalone event.
    pub fn event(event: Event) -> Self {
        event.into()
    }

    /// Writes a subresource instead of the object. No effect on deletes and events.
    #[must_use]
    pub fn subresource(mut self, name: impl Into<String>) -> Self {
        match &mut self.action {
            Action::Create { subresource, .. }
            | Action::Update { subresource, .. }
            | Action::Patch { subresource, .. } => {
                *subresource = Some(name.into());
            }
            Action::Delete { .. } | Action::DeleteCollection { .. } | Action::Event(_) => {}
        }
        self
    }

    /// Requires this uid. For patches and deletes; creates and updates carry it in the object.
    #[must_use]
    pub fn uid(mut self, uid: impl Into<String>) -> Self {
        if let Action::Patch { preconditions, .. } | Action::Delete { preconditions, .. } = &mut self.action {
            preconditions.uid = Some(uid.into());
        }
        self
    }

    /// Requires this resourceVersion. For patches and deletes.
    #[must_use]
    pub fn resource_version(mut self, resource_version: impl Into<String>) -> Self {
        if let Action::Patch { preconditions, .. } | Action::Delete { preconditions, .. } = &mut self.action {
            preconditions.resource_version = Some(resource_version.into());
        }
        self
    }

    /// Propagation policy of a delete.
    #[must_use]
    pub fn propagation(mut self, policy: Propagation) -> Self {
        if let Action::Delete { propagation, .. } | Action::DeleteCollection { propagation, .. } = &mut self.action {
            *propagation = Some(policy);
        }
        self
    }

    /// Grace period of a delete.
    #[must_use]
    pub fn grace_period_seconds(mut self, seconds: u32) -> Self {
        if let Action::Delete { grace_period_seconds, .. } = &mut self.action {
            *grace_period_seconds = Some(seconds);
        }
        self
    }

    /// Records an event if the write succeeds.
    #[must_use]
    pub fn on_success(mut self, event: Event) -> Self {
        self.on_success = Some(event);
        self
    }

    /// Records an event if the write fails.
    #[must_use]
    pub fn on_failure(mut self, event: Event) -> Self {
        self.on_failure = Some(event);
        self
    }

    /// Treats these errors as success.
    #[must_use]
    pub fn tolerate(mut self, refusals: impl IntoIterator<Item = Refusal>) -> Self {
        self.tolerate.extend(refusals);
        self
    }
}

/// How the mutations of a step are carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Sequentially, stopping at the first failure.
    Sequential,
    /// In parallel; all are tried.
    Parallel,
    /// In batches of 1, 2, 4, ...; the first batch with a failure is the last.
    SlowStart,
}

/// Mutations that belong together. After a failed step, later steps are skipped unless they are
/// [`always`](Self::always).
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// Execution order.
    pub order: Order,
    /// The mutations.
    pub mutations: Vec<Mutation>,
    /// Carried out even if an earlier step failed.
    pub always: bool,
}

impl Step {
    /// Sequentially, stopping at the first failure.
    pub fn sequential(mutations: impl IntoIterator<Item = Mutation>) -> Self {
        Self { order: Order::Sequential, mutations: mutations.into_iter().collect(), always: false }
    }

    /// In parallel; all are tried.
    pub fn parallel(mutations: impl IntoIterator<Item = Mutation>) -> Self {
        Self { order: Order::Parallel, ..Self::sequential(mutations) }
    }

    /// In batches of 1, 2, 4, ..., for many writes that would all fail for the same reason.
    pub fn slow_start(mutations: impl IntoIterator<Item = Mutation>) -> Self {
        Self { order: Order::SlowStart, ..Self::sequential(mutations) }
    }

    /// Runs the step even if an earlier step failed.
    #[must_use]
    pub fn always(self) -> Self {
        Self { always: true, ..self }
    }
}

/// Another key of the plugin to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wake {
    /// The key.
    pub key: Key,
    /// Delay; immediately if absent.
    pub after: Option<Duration>,
}

impl Wake {
    /// Runs the key immediately.
    pub fn now(key: Key) -> Self {
        Self { key, after: None }
    }

    /// Runs the key after a delay, at most [`LONGEST_REQUEUE`].
    pub fn after(key: Key, after: Duration) -> Self {
        Self { key, after: Some(after.min(LONGEST_REQUEUE)) }
    }
}

impl From<Key> for Wake {
    fn from(key: Key) -> Self {
        Self::now(key)
    }
}

/// Position of a mutation in an outcome, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Index of the step.
    pub step: u32,
    /// Index of the mutation in the step.
    pub position: u32,
}

/// When a sample is recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Moment {
    /// When the outcome is accepted, before its writes are sent. The retry of a failed run records it again.
    #[default]
    Now,
    /// When this mutation has succeeded, or its error was tolerated.
    Done(Place),
    /// When this mutation has failed, or was skipped.
    Failed(Place),
}

/// A sample of a metric that the manifest declares.
#[derive(Clone, Debug, PartialEq)]
pub struct Observation {
    /// Name of the metric.
    pub metric: String,
    /// Values in the order of the label names in the manifest.
    pub labels: Vec<String>,
    /// Added to a counter, set on a gauge, observed by a histogram.
    pub value: f64,
    /// When it is recorded.
    pub at: Moment,
}

/// Longest delay of a requeue: 2^31 - 1 ms, 24.8 days, the maximum of the contract.
pub const LONGEST_REQUEUE: Duration = Duration::from_millis(2_147_483_647);

/// The result of one run. The default changes nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Needs that the host must answer first; it ignores everything else in this outcome, and calls again.
    pub needs: Vec<Need>,
    /// Writes.
    pub steps: Vec<Step>,
    /// Runs this key again after this time, at least 5 ms, regardless of other events. If a write fails, not before the
    /// retry of the run. In milliseconds in the contract.
    pub requeue_after: Option<Duration>,
    /// State to store (or remove) by name.
    pub state: Vec<(String, Option<String>)>,
    /// Samples of metrics.
    pub observations: Vec<Observation>,
    /// Other keys of this plugin to run, at most 10,000.
    pub wake: Vec<Wake>,
    /// Label values for the metrics of runs, by label name.
    pub run_labels: Vec<(String, String)>,
    /// The error that the run declares; see [`Outcome::fail`].
    pub error: Option<Error>,
}

impl Outcome {
    /// Requests reads. If they are too many for one round, the next one requests the rest.
    pub(crate) fn of_needs(mut needs: Vec<Need>) -> Self {
        needs.truncate(MAX_NEEDS);
        Self { needs, ..Self::default() }
    }

    /// Nothing to do.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a step, unless it is empty.
    #[must_use]
    pub fn step(mut self, step: Step) -> Self {
        self.push(step);
        self
    }

    /// Adds a step, unless it is empty.
    pub fn push(&mut self, step: Step) {
        if !step.mutations.is_empty() {
            self.steps.push(step);
        }
    }

    /// Runs the key again after this time, at most [`LONGEST_REQUEUE`]. The earliest of several calls counts.
    #[must_use]
    pub fn requeue_after(mut self, after: Duration) -> Self {
        let after = after.min(LONGEST_REQUEUE);
        self.requeue_after = Some(self.requeue_after.map_or(after, |earlier| earlier.min(after)));
        self
    }

    /// Runs the key again at this time; [`Lister::now`](crate::Lister::now) is the `now` of the run. The earliest of several calls counts.
    ///
    /// The longest delay is [`LONGEST_REQUEUE`]. For a later time, the key runs then and must call this again: decide
    /// by the clock, not by the fact that the key runs.
    #[must_use]
    pub fn requeue_at(self, time: Timestamp, now: Timestamp) -> Self {
        self.requeue_after(time.since(now))
    }

    /// Adds a need; the host answers it and calls again.
    #[must_use]
    pub fn need(mut self, need: Need) -> Self {
        self.needs.push(need);
        self
    }

    /// Stores a value under a name, for later runs of this plugin.
    #[must_use]
    pub fn keep(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.state.push((name.into(), Some(value.into())));
        self
    }

    /// Removes the value under a name.
    #[must_use]
    pub fn forget(mut self, name: impl Into<String>) -> Self {
        self.state.push((name.into(), None));
        self
    }

    /// Adds a sample of a metric.
    #[must_use]
    pub fn observe(mut self, metric: impl Into<String>, labels: Vec<String>, value: f64) -> Self {
        self.observations.push(Observation { metric: metric.into(), labels, value, at: Moment::Now });
        self
    }

    /// Adds a sample that is recorded at another moment, for example once a write has succeeded.
    #[must_use]
    pub fn observe_at(mut self, at: Moment, metric: impl Into<String>, labels: Vec<String>, value: f64) -> Self {
        self.observations.push(Observation { metric: metric.into(), labels, value, at });
        self
    }

    /// The position of the last added mutation; `None` if there is none.
    pub fn last_place(&self) -> Option<Place> {
        let step = self.steps.len().checked_sub(1)?;
        let position = self.steps[step].mutations.len().checked_sub(1)?;
        Some(Place { step: u32::try_from(step).ok()?, position: u32::try_from(position).ok()? })
    }

    /// Runs another key of this plugin: a [`Key`] immediately, a [`Wake`] later.
    #[must_use]
    pub fn wake(mut self, key: impl Into<Wake>) -> Self {
        self.wake.push(key.into());
        self
    }

    /// Sets a label for the metrics of runs.
    #[must_use]
    pub fn run_label(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.run_labels.push((name.into(), value.into()));
        self
    }

    /// Fails the run after the host has carried out the rest of the outcome: the key is retried as after a returned
    /// error. For work that continues independently of the failure.
    ///
    /// If a mutation fails too, its failure decides on the retry. [`Error::Needs`] requests its reads, as if it were
    /// returned.
    #[must_use]
    pub fn fail(mut self, error: Error) -> Self {
        match error {
            Error::Needs(mut needs) => {
                needs.truncate(MAX_NEEDS.saturating_sub(self.needs.len()));
                self.needs.append(&mut needs);
            }
            error => self.error = Some(error),
        }
        self
    }
}

/// A failed mutation of this key's previous run that was not tolerated.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct MutationFailure {
    /// Index of the step in the previous outcome.
    pub step: u32,
    /// Index within the step.
    pub position: u32,
    /// `create`, `update`, `patch`, `delete` or `delete-collection`.
    pub verb: String,
    /// Kind of the object, in text form.
    pub kind: Option<Kind>,
    /// The object; the name is empty if it should be generated.
    pub object: ObjectKey,
    /// Subresource.
    pub subresource: Option<String>,
    /// HTTP status code; 0 without a response.
    pub code: u32,
    /// The server's reason, for example `AlreadyExists`; or `Transport`, `NotGranted`.
    pub reason: String,
    /// The server's message.
    pub message: String,
    /// Reasons of the causes, for example `NamespaceTerminating`.
    pub causes: Vec<String>,
}

/// The API server's error for a live read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[allow(missing_docs, reason = "fields of Kubernetes' Status")]
pub struct ApiError {
    pub code: u32,
    pub reason: String,
    pub message: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_that_is_too_far_away_is_looked_at_again() {
        const DAY: u64 = 86_400;
        let begin = Timestamp::parse("2026-01-01T00:00:00Z").unwrap();
        let due = begin.plus(Duration::from_secs(365 * DAY));
        let mut now = begin;
        let mut n_runs = 0;
        while now < due {
            let after = Outcome::new().requeue_at(due, now).requeue_after.unwrap();
            assert!(after <= Duration::from_millis(2_147_483_647));
            now = now.plus(after);
            n_runs += 1;
        }
        assert_eq!((now, n_runs), (due, 15));
        // A past time is due now, and the earliest time counts.
        assert_eq!(Outcome::new().requeue_at(begin, due).requeue_after, Some(Duration::ZERO));
        let both = Outcome::new().requeue_after(Duration::from_secs(5)).requeue_at(due, begin);
        assert_eq!(both.requeue_after, Some(Duration::from_secs(5)));
    }
}
