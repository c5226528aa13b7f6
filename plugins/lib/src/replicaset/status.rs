//! The status of an owner of Pods.

use pintle_sdk::api::meta::Condition;
use pintle_sdk::document::Document;
use pintle_sdk::selector::Selector;
use pintle_sdk::time::Timestamp;
use pintle_sdk::{Mutation, Refusal};

use super::owner::Owner;
use super::types::ReplicaSetStatus;
use super::{Brief, Failure};
use crate::{conditions, number, pods, status};

#[doc(alias = "ReplicaSetReplicaFailure")]
const REPLICA_FAILURE: &str = "ReplicaFailure";

/// Computes the new status.
#[doc(alias = "calculateStatus")]
pub(crate) fn calculate<O: Owner>(
    owner: &O,
    active: &[Brief<'_>],
    terminating: Option<usize>,
    failure: Option<&Failure>,
    now: Timestamp,
) -> ReplicaSetStatus {
    let spec = owner.spec();
    let template_labels = Selector::from_map(&spec.template.metadata.labels);
    let to_i32 = |n: usize| number::narrow(number::count(n));
    let count = |is: &dyn Fn(&Brief<'_>) -> bool| to_i32(active.iter().filter(|pod| is(pod)).count());
    let mut conditions = owner.status().conditions.clone();
    let failure = match failure {
        Some(Failure::Create(message)) => Some(("FailedCreate", message)),
        Some(Failure::Delete(message)) => Some(("FailedDelete", message)),
        Some(Failure::NamespaceTerminating) | None => None,
    };
    match failure {
        None => conditions::remove(&mut conditions, REPLICA_FAILURE),
        // The first failure stays until there is none, whatever later ones are.
        Some(_) if conditions::find(&conditions, REPLICA_FAILURE).is_some() => {}
        Some((reason, message)) => conditions.push(Condition {
            type_: REPLICA_FAILURE.into(),
            status: "True".into(),
            last_transition_time: Some(now.truncate()),
            reason: reason.into(),
            message: message.clone(),
            ..Condition::default()
        }),
    }
    ReplicaSetStatus {
        replicas: to_i32(active.len()),
        fully_labeled_replicas: count(&|pod| template_labels.matches(pod.labels())),
        ready_replicas: count(&|pod| pods::is_ready(pod)),
        available_replicas: count(&|pod| pods::is_available(pod, spec.min_ready_seconds, now)),
        terminating_replicas: terminating.map(to_i32),
        observed_generation: owner.generation(),
        conditions,
    }
}

const FIELDS: [&str; 7] = [
    "replicas",
    "fullyLabeledReplicas",
    "readyReplicas",
    "availableReplicas",
    "terminatingReplicas",
    "observedGeneration",
    "conditions",
];

/// The status update, if anything differs. Zero and `None` are written as absent fields, as upstream does.
#[doc(alias = "updateReplicaSetStatus")]
pub(crate) fn update<O: Owner>(owner: &O, document: Document, new: &ReplicaSetStatus) -> Option<Mutation> {
    let is_changed = owner.status() != new;
    is_changed.then(|| status::update::<O>(document, &FIELDS, new).tolerate([Refusal::NotFound]))
}
