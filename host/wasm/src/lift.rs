//! Converts the contract's types to the host's. This module handles shapes only; `pintle_core::contract::check` checks
//! values.

use std::time::Duration;

use pintle_core::contract::check::MAX_U32;
use pintle_core::contract::outcome::{
    Action, CertificateRequest, Event, LiveDetail, Moment, Mutation, Need, Observation, Order, Outcome, PatchType,
    Place, Preconditions, Propagation, ReconcileError, Refusal, Step, Wake,
};
use pintle_core::object::id::{Key, Kind, ObjectKey};
use pintle_core::text::printable;

use crate::contract::types;

/// Longest message of a declared error; longer ones are truncated.
const MAX_ERROR_BYTES: usize = 4096;

pub(crate) fn kind(kind: &types::Kind) -> Kind {
    Kind::new(&kind.group, &kind.version, &kind.name)
}

pub(crate) fn object(object: &types::ObjectKey) -> ObjectKey {
    ObjectKey::new(&object.namespace, &object.name)
}

pub(crate) fn key(from: types::Key) -> Key {
    Key { queue: from.queue.into(), kind: kind(&from.kind), object: object(&from.object) }
}

pub(crate) fn wake(from: types::Wake) -> Wake {
    Wake { key: key(from.key), after: from.after_ms.map(millis) }
}

/// The opposite direction: lowers arguments for a guest.
pub(crate) fn lower_key(key: &Key) -> types::Key {
    types::Key { queue: key.queue.as_ref().to_owned(), kind: lower_kind(&key.kind), object: lower_object(&key.object) }
}

pub(crate) fn lower_object(object: &ObjectKey) -> types::ObjectKey {
    types::ObjectKey { namespace: object.namespace.as_ref().to_owned(), name: object.name.as_ref().to_owned() }
}

pub(crate) fn lower_kind(kind: &Kind) -> types::Kind {
    types::Kind {
        group: kind.group.as_ref().to_owned(),
        version: kind.version.as_ref().to_owned(),
        name: kind.name.as_ref().to_owned(),
    }
}

pub(crate) fn need(need: types::Need) -> Need {
    match need {
        types::Need::LiveObject(live) => {
            Need::LiveObject { kind: kind(&live.kind), object: object(&live.object), subresource: live.subresource }
        }
        types::Need::LiveList(live) => Need::LiveList {
            kind: kind(&live.kind),
            namespace: live.namespace,
            label_selector: live.label_selector,
            field_selector: live.field_selector,
            detail: match live.detail {
                types::Detail::Metadata => LiveDetail::Metadata,
                types::Detail::Projection => LiveDetail::Projection,
                types::Detail::Whole => LiveDetail::Whole,
            },
            limit: live.limit,
        },
        types::Need::RawPath(path) => Need::RawPath(path),
        types::Need::Discovery => Need::Discovery,
        types::Need::Review(review) => {
            Need::Review { kind: kind(&review.kind), namespace: review.namespace, object: review.object }
        }
        types::Need::SignJwt(types::SignJwt { key, claims }) => Need::SignJwt { key, claims },
        types::Need::SignCertificate(types::SignCertificate { authority, request, usages, not_before, not_after }) => {
            Need::SignCertificate(CertificateRequest { authority, request, usages, not_before, not_after })
        }
        types::Need::Call(types::Call { endpoint, operation, body, timeout_ms }) => {
            Need::Call { endpoint, operation, body, timeout: timeout_ms.map(millis) }
        }
    }
}

/// # Errors
/// If a number is out of range.
pub(crate) fn reconcile_error(error: types::ReconcileError) -> Result<ReconcileError, String> {
    // Truncated before escaping: characters added by escapes do not count.
    let cut = |message: String| printable(&message[..message.floor_char_boundary(MAX_ERROR_BYTES)], usize::MAX);
    Ok(match error {
        types::ReconcileError::Retry(retry) => {
            if let Some(ms) = retry.after_ms.filter(|ms| *ms > MAX_U32) {
                return Err(format!("after-ms is {ms}, more than {MAX_U32}"));
            }
            ReconcileError::Retry { message: cut(retry.message), after: retry.after_ms.map(millis) }
        }
        types::ReconcileError::Terminal(message) => ReconcileError::Terminal(cut(message)),
    })
}

/// # Errors
/// If a number of its error is out of range.
pub(crate) fn outcome(outcome: types::Outcome) -> Result<Outcome, String> {
    let error = outcome.error.map(reconcile_error).transpose().map_err(|why| format!("error: {why}"))?;
    Ok(Outcome {
        needs: outcome.needs.into_iter().map(need).collect(),
        steps: outcome.steps.into_iter().map(step).collect(),
        requeue_after: outcome.requeue_after_ms.map(millis),
        state: outcome.state.into_iter().map(|write| (write.name, write.value)).collect(),
        observations: outcome.observations.into_iter().map(observation).collect(),
        wake: outcome.wake.into_iter().map(wake).collect(),
        run_labels: outcome.run_labels,
        error,
    })
}

fn millis(ms: u32) -> Duration {
    Duration::from_millis(ms.into())
}

fn observation(observation: types::Observation) -> Observation {
    let place = |place: types::Place| Place { step: place.step, position: place.position };
    let at = match observation.at {
        types::Moment::Now => Moment::Now,
        types::Moment::Done(at) => Moment::Done(place(at)),
        types::Moment::Failed(at) => Moment::Failed(place(at)),
    };
    Observation { metric: observation.metric, labels: observation.labels, value: observation.value, at }
}

fn step(step: types::Step) -> Step {
    Step {
        order: match step.order {
            types::Order::Sequential => Order::Sequential,
            types::Order::Parallel => Order::Parallel,
            types::Order::SlowStart => Order::SlowStart,
        },
        mutations: step.mutations.into_iter().map(mutation).collect(),
        always: step.always,
    }
}

fn mutation(mutation: types::Mutation) -> Mutation {
    Mutation {
        action: action(mutation.action),
        on_success: mutation.on_success.map(event),
        on_failure: mutation.on_failure.map(event),
        tolerate: mutation.tolerate.into_iter().map(refusal).collect(),
    }
}

fn refusal(refusal: types::Refusal) -> Refusal {
    match refusal {
        types::Refusal::NotFound => Refusal::NotFound,
        types::Refusal::AlreadyExists => Refusal::AlreadyExists,
        types::Refusal::Conflict => Refusal::Conflict,
        types::Refusal::Invalid => Refusal::Invalid,
        types::Refusal::Forbidden => Refusal::Forbidden,
        types::Refusal::NamespaceTerminating => Refusal::NamespaceTerminating,
    }
}

fn action(action: types::Action) -> Action {
    match action {
        types::Action::Create(create) => Action::Create {
            kind: kind(&create.kind),
            namespace: create.namespace,
            object: create.object,
            subresource: create.subresource,
        },
        types::Action::Update(update) => {
            Action::Update { kind: kind(&update.kind), object: update.object, subresource: update.subresource }
        }
        types::Action::Patch(patch) => Action::Patch {
            kind: kind(&patch.kind),
            object: object(&patch.object),
            subresource: patch.subresource,
            patch_type: match patch.patch_type {
                types::PatchType::Json => PatchType::Json,
                types::PatchType::Merge => PatchType::Merge,
                types::PatchType::StrategicMerge => PatchType::StrategicMerge,
                types::PatchType::Apply(apply) => {
                    PatchType::Apply { field_manager: apply.field_manager, force: apply.force }
                }
            },
            body: patch.body,
            preconditions: preconditions(patch.preconditions),
        },
        types::Action::Delete(delete) => Action::Delete {
            kind: kind(&delete.kind),
            object: object(&delete.object),
            preconditions: preconditions(delete.preconditions),
            propagation: delete.propagation.map(propagation),
            grace_period_seconds: delete.grace_period_seconds,
        },
        types::Action::DeleteCollection(collection) => Action::DeleteCollection {
            kind: kind(&collection.kind),
            namespace: collection.namespace,
            label_selector: collection.label_selector,
            propagation: collection.propagation.map(propagation),
        },
        types::Action::Event(one) => Action::Event(event(one)),
    }
}

fn preconditions(preconditions: types::Preconditions) -> Preconditions {
    Preconditions { uid: preconditions.uid, resource_version: preconditions.resource_version }
}

fn propagation(propagation: types::Propagation) -> Propagation {
    match propagation {
        types::Propagation::Background => Propagation::Background,
        types::Propagation::Foreground => Propagation::Foreground,
        types::Propagation::Orphan => Propagation::Orphan,
    }
}

fn event(event: types::Event) -> Event {
    Event {
        regarding_kind: kind(&event.regarding_kind),
        regarding: object(&event.regarding),
        regarding_uid: event.regarding_uid,
        warning: matches!(event.event_type, types::EventType::Warning),
        reason: event.reason,
        message: event.message,
    }
}
