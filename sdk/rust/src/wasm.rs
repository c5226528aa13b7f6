//! Conversions between the contract's bindings and the SDK's own types. Built for WebAssembly only.

use std::time::Duration;

use crate::bindings::pintle::controller::{types as w, view as v};
use crate::error::Error;
use crate::limits::Limits;
use crate::lister::{ApiResource, Lister, OwnedBy, Query};
use crate::need::{CertificateRequest, LiveDetail, Need};
use crate::outcome::{
    Action, ApiError, Event, EventType, Moment, Mutation, MutationFailure, Order, Outcome, PatchType, Place,
    Preconditions, Propagation, Refusal, Wake,
};
use crate::types::{Key, Kind, ObjectKey};

/// The host's lister.
pub struct WasmLister(v::Lister);

impl Lister for WasmLister {
    fn now_text(&self) -> String {
        self.0.now()
    }

    fn uptime(&self) -> Duration {
        Duration::try_from_secs_f64(self.0.uptime()).unwrap_or_default()
    }

    fn get_json(&self, kind: &Kind, object: &ObjectKey) -> Option<String> {
        self.0.get(&kind.into(), &object.into())
    }

    fn list_json(&self, kind: &Kind, query: &Query) -> Vec<String> {
        self.0.list(&kind.into(), &query.into())
    }

    fn count(&self, kind: &Kind, query: &Query) -> u32 {
        self.0.count(&kind.into(), &query.into())
    }

    fn selecting_json(&self, kind: &Kind, namespace: &str, labels: &[(String, String)]) -> Vec<String> {
        self.0.selecting(&kind.into(), namespace, labels)
    }

    fn dependents_json(&self, uid: &str) -> Vec<String> {
        self.0.dependents(uid)
    }

    fn by_uid_json(&self, uid: &str) -> Option<String> {
        self.0.by_uid(uid)
    }

    fn resources(&self) -> Vec<ApiResource> {
        self.0.resources().into_iter().map(Into::into).collect()
    }

    fn resources_of(&self, group: &str, name: &str) -> Vec<ApiResource> {
        self.0.resources_of(group, name).into_iter().map(Into::into).collect()
    }

    fn config_json(&self) -> String {
        self.0.config()
    }

    fn state(&self, name: &str) -> Option<String> {
        self.0.state(name)
    }

    fn attempt(&self) -> u32 {
        self.0.attempt()
    }

    fn failures(&self) -> Vec<MutationFailure> {
        self.0.failures().into_iter().map(Into::into).collect()
    }

    fn answer(&self, need: &Need) -> Option<Result<String, ApiError>> {
        let answer = self.0.answer(&need.clone().into())?;
        Some(answer.map_err(|error| ApiError { code: error.code, reason: error.reason, message: error.message }))
    }
}

/// Panic messages of the standard library without an operating system, and the replacements; the panic location is
/// inside the library.
const INSTEAD: [(&str, &str); 1] = [(
    "time not implemented on this platform",
    " (of SystemTime::now or Instant::now; the same view must give the same outcome: use lister.now())",
)];

/// Logs the message and location of a panic in one line of the host's log; the trap that follows contains neither.
fn log_panics() {
    static HOOK: std::sync::Once = std::sync::Once::new();
    HOOK.call_once(|| {
        std::panic::set_hook(Box::new(|panic| {
            let message = panic.payload_as_str().unwrap_or("of another type than text");
            let place = panic.location().map(|place| format!(" at {}:{}", place.file(), place.line()));
            let instead = INSTEAD.iter().find(|(said, _)| message.contains(said)).map_or("", |(_, instead)| instead);
            crate::log::error(&format!("panic: {message}{}{instead}", place.unwrap_or_default()));
        }));
    });
}

/// Runs a plugin's function with the host's arguments.
///
/// # Errors
/// The error that the plugin declared.
pub fn reconcile(
    key: w::Key,
    lister: v::Lister,
    limits: &Limits,
    function: impl FnOnce(&Key, &WasmLister) -> Result<Outcome, Error>,
) -> Result<w::Outcome, w::ReconcileError> {
    log_panics();
    let lister = WasmLister(lister);
    let outcome = function(&key.into(), &lister).or_else(|error| declared(error).map_or_else(Ok, Err))?;
    Ok(outcome.within(limits, || lister.failures()).into())
}

/// The error in the host's form, or the outcome that requests its needs.
fn declared(error: Error) -> Result<w::ReconcileError, Outcome> {
    match error {
        Error::Needs(needs) => Err(Outcome::of_needs(needs)),
        Error::Retry { message, after } => {
            Ok(w::ReconcileError::Retry(w::Retry { message, after_ms: after.map(milliseconds) }))
        }
        Error::Terminal(message) => Ok(w::ReconcileError::Terminal(message)),
    }
}

/// Maps a change to keys with a plugin's function.
pub fn keys_of<T: Into<Wake>>(
    kind: w::Kind,
    old: Option<String>,
    new: Option<String>,
    lister: v::Lister,
    function: impl FnOnce(&Kind, Option<&str>, Option<&str>, &WasmLister) -> Vec<T>,
) -> Vec<w::Wake> {
    log_panics();
    function(&kind.into(), old.as_deref(), new.as_deref(), &WasmLister(lister))
        .into_iter()
        .map(|key| w::Wake::from(key.into()))
        .collect()
}

fn milliseconds(duration: Duration) -> u32 {
    // Rounded up, so that the awaited time has passed; within the contract's range.
    let millis = duration.as_micros().div_ceil(1000).min(2_147_483_647);
    u32::try_from(millis).unwrap_or(2_147_483_647)
}

impl From<&Kind> for w::Kind {
    fn from(kind: &Kind) -> Self {
        Self { group: kind.group.to_string(), version: kind.version.to_string(), name: kind.name.to_string() }
    }
}

impl From<Kind> for w::Kind {
    fn from(kind: Kind) -> Self {
        Self { group: kind.group.into_owned(), version: kind.version.into_owned(), name: kind.name.into_owned() }
    }
}

impl From<w::Kind> for Kind {
    fn from(kind: w::Kind) -> Self {
        Self { group: kind.group.into(), version: kind.version.into(), name: kind.name.into() }
    }
}

impl From<&ObjectKey> for w::ObjectKey {
    fn from(object: &ObjectKey) -> Self {
        object.clone().into()
    }
}

impl From<ObjectKey> for w::ObjectKey {
    fn from(object: ObjectKey) -> Self {
        Self { namespace: object.namespace, name: object.name }
    }
}

impl From<w::Key> for Key {
    fn from(key: w::Key) -> Self {
        Self { queue: key.queue, kind: key.kind.into(), namespace: key.object.namespace, name: key.object.name }
    }
}

impl From<Key> for w::Key {
    fn from(key: Key) -> Self {
        let object = w::ObjectKey { namespace: key.namespace, name: key.name };
        Self { queue: key.queue, kind: key.kind.into(), object }
    }
}

impl From<Wake> for w::Wake {
    fn from(wake: Wake) -> Self {
        Self { key: wake.key.into(), after_ms: wake.after.map(milliseconds) }
    }
}

impl From<Moment> for w::Moment {
    fn from(moment: Moment) -> Self {
        let place = |Place { step, position }| w::Place { step, position };
        match moment {
            Moment::Now => Self::Now,
            Moment::Done(at) => Self::Done(place(at)),
            Moment::Failed(at) => Self::Failed(place(at)),
        }
    }
}

impl From<&Query> for v::Query {
    fn from(query: &Query) -> Self {
        let query = query.clone();
        Self {
            namespace: query.namespace,
            label_selector: query.label_selector,
            owner: query.owner.map(|owner| match owner {
                OwnedBy::Controller(uid) => v::OwnedBy::Controller(uid),
                OwnedBy::ControllerOrOrphan(uid) => v::OwnedBy::ControllerOrOrphan(uid),
                OwnedBy::Any(uid) => v::OwnedBy::Any(uid),
            }),
            index: query.index.map(|(index, value)| v::IndexQuery { index, value }),
            whole: query.whole,
        }
    }
}

impl From<v::MutationFailure> for MutationFailure {
    fn from(failure: v::MutationFailure) -> Self {
        Self {
            step: failure.step,
            position: failure.position,
            verb: failure.verb,
            kind: Some(failure.kind.into()),
            object: ObjectKey { namespace: failure.object.namespace, name: failure.object.name },
            subresource: failure.subresource,
            code: failure.code,
            reason: failure.reason,
            message: failure.message,
            causes: failure.causes,
        }
    }
}

impl From<Need> for w::Need {
    fn from(need: Need) -> Self {
        match need {
            Need::LiveObject { kind, object, subresource } => {
                Self::LiveObject(w::LiveObject { kind: kind.into(), object: object.into(), subresource })
            }
            Need::LiveList { kind, namespace, label_selector, field_selector, detail, limit } => {
                let detail = match detail {
                    LiveDetail::Metadata => w::Detail::Metadata,
                    LiveDetail::Projection => w::Detail::Projection,
                    LiveDetail::Whole => w::Detail::Whole,
                };
                let kind = kind.into();
                Self::LiveList(w::LiveList { kind, namespace, label_selector, field_selector, detail, limit })
            }
            Need::Review { kind, namespace, object } => {
                Self::Review(w::Review { kind: kind.into(), namespace, object })
            }
            Need::SignJwt { key, claims } => Self::SignJwt(w::SignJwt { key, claims }),
            Need::SignCertificate(request) => {
                let CertificateRequest { authority, request, usages, not_before, not_after } = request;
                Self::SignCertificate(w::SignCertificate { authority, request, usages, not_before, not_after })
            }
            Need::Call { endpoint, operation, body, timeout } => {
                let timeout_ms = timeout.map(milliseconds);
                Self::Call(w::Call { endpoint, operation, body, timeout_ms })
            }
            Need::RawPath(path) => Self::RawPath(path),
            Need::Discovery => Self::Discovery,
        }
    }
}

impl From<Preconditions> for w::Preconditions {
    fn from(preconditions: Preconditions) -> Self {
        Self { uid: preconditions.uid, resource_version: preconditions.resource_version }
    }
}

impl From<Propagation> for w::Propagation {
    fn from(propagation: Propagation) -> Self {
        match propagation {
            Propagation::Background => Self::Background,
            Propagation::Foreground => Self::Foreground,
            Propagation::Orphan => Self::Orphan,
        }
    }
}

impl From<Event> for w::Event {
    fn from(event: Event) -> Self {
        Self {
            regarding_kind: event.regarding_kind.into(),
            regarding: event.regarding.into(),
            regarding_uid: event.regarding_uid,
            event_type: match event.event_type {
                EventType::Normal => w::EventType::Normal,
                EventType::Warning => w::EventType::Warning,
            },
            reason: event.reason,
            message: event.message,
        }
    }
}

impl From<Action> for w::Action {
    fn from(action: Action) -> Self {
        match action {
            Action::Create { kind, namespace, object, subresource } => {
                Self::Create(w::Create { kind: kind.into(), namespace, object, subresource })
            }
            Action::Update { kind, object, subresource } => {
                Self::Update(w::Update { kind: kind.into(), object, subresource })
            }
            Action::Patch { kind, object, subresource, patch_type, body, preconditions } => Self::Patch(w::Patch {
                kind: kind.into(),
                object: object.into(),
                subresource,
                patch_type: match patch_type {
                    PatchType::Json => w::PatchType::Json,
                    PatchType::Merge => w::PatchType::Merge,
                    PatchType::StrategicMerge => w::PatchType::StrategicMerge,
                    PatchType::Apply { field_manager, force } => w::PatchType::Apply(w::Apply { field_manager, force }),
                },
                body,
                preconditions: preconditions.into(),
            }),
            Action::Delete { kind, object, preconditions, propagation, grace_period_seconds } => {
                Self::Delete(w::Delete {
                    kind: kind.into(),
                    object: object.into(),
                    preconditions: preconditions.into(),
                    propagation: propagation.map(Into::into),
                    grace_period_seconds,
                })
            }
            Action::DeleteCollection { kind, namespace, label_selector, propagation } => {
                Self::DeleteCollection(w::DeleteCollection {
                    kind: kind.into(),
                    namespace,
                    label_selector,
                    propagation: propagation.map(Into::into),
                })
            }
            Action::Event(event) => Self::Event(event.into()),
        }
    }
}

impl From<Mutation> for w::Mutation {
    fn from(mutation: Mutation) -> Self {
        let refusal = |refusal| match refusal {
            Refusal::NotFound => w::Refusal::NotFound,
            Refusal::AlreadyExists => w::Refusal::AlreadyExists,
            Refusal::Conflict => w::Refusal::Conflict,
            Refusal::Invalid => w::Refusal::Invalid,
            Refusal::Forbidden => w::Refusal::Forbidden,
            Refusal::NamespaceTerminating => w::Refusal::NamespaceTerminating,
        };
        Self {
            action: mutation.action.into(),
            on_success: mutation.on_success.map(Into::into),
            on_failure: mutation.on_failure.map(Into::into),
            tolerate: mutation.tolerate.into_iter().map(refusal).collect(),
        }
    }
}

impl From<v::ApiResource> for ApiResource {
    fn from(resource: v::ApiResource) -> Self {
        Self {
            kind: resource.kind.into(),
            plural: resource.plural,
            namespaced: resource.namespaced,
            verbs: resource.verbs,
            subresources: resource.subresources,
            preferred: resource.preferred,
        }
    }
}

impl From<Outcome> for w::Outcome {
    fn from(outcome: Outcome) -> Self {
        let order = |order| match order {
            Order::Sequential => w::Order::Sequential,
            Order::Parallel => w::Order::Parallel,
            Order::SlowStart => w::Order::SlowStart,
        };
        Self {
            needs: outcome.needs.into_iter().map(Into::into).collect(),
            steps: outcome
                .steps
                .into_iter()
                .map(|step| w::Step {
                    order: order(step.order),
                    mutations: step.mutations.into_iter().map(Into::into).collect(),
                    always: step.always,
                })
                .collect(),
            requeue_after_ms: outcome.requeue_after.map(milliseconds),
            state: outcome.state.into_iter().map(|(name, value)| w::StateWrite { name, value }).collect(),
            observations: outcome
                .observations
                .into_iter()
                .map(|sample| w::Observation {
                    metric: sample.metric,
                    labels: sample.labels,
                    value: sample.value,
                    at: sample.at.into(),
                })
                .collect(),
            wake: outcome.wake.into_iter().map(Into::into).collect(),
            run_labels: outcome.run_labels,
            error: outcome.error.and_then(|error| declared(error).ok()),
        }
    }
}
