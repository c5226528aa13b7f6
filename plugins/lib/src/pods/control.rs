//! Creates and deletes the Pods of an owner, with the events that report it.
//!
//! *Source*: `RealPodControl` of Kubernetes' `pkg/controller/controller_utils.go`.

use pintle_sdk::Kind;
use pintle_sdk::api::meta::Metadata;
use pintle_sdk::{Body, Event, Mutation, Refusal};

const POD: Kind = Kind::new("", "v1", "Pod");

/// Longest name of an object, in bytes.
const LONGEST_NAME: usize = 253;

/// Prefix of the generated names of an owner's Pods. The dash is left out if it would make the prefix too long for a
/// name.
#[doc(alias = "getPodsPrefix")]
#[must_use]
pub fn name_prefix(owner: &str) -> String {
    if owner.len() < LONGEST_NAME { format!("{owner}-") } else { owner.to_owned() }
}

/// Creates a Pod in the namespace of its owner, a `kind`, with an event on the owner.
#[doc(alias = "CreatePods")]
#[doc(alias = "createPods")]
pub fn create(kind: &Kind, owner: &impl Metadata, pod: impl Body) -> Mutation {
    Mutation::create(&POD, owner.namespace(), pod)
        .on_success(Event::normal(kind, owner, "SuccessfulCreate", "Created pod: {name}"))
        .on_failure(Event::warning(kind, owner, "FailedCreate", "Error creating: {error}"))
}

/// Deletes a Pod of an owner, a `kind`, with an event on the owner. A Pod that is already deleted is not an error.
#[doc(alias = "DeletePod")]
pub fn delete(kind: &Kind, owner: &impl Metadata, pod: &impl Metadata) -> Mutation {
    let name = pod.name();
    Mutation::delete(&POD, pod.namespace(), name)
        .uid(pod.uid())
        .tolerate([Refusal::NotFound])
        .on_success(Event::normal(kind, owner, "SuccessfulDelete", format!("Deleted pod: {name}")))
        .on_failure(Event::warning(kind, owner, "FailedDelete", "Error deleting: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_prefix_of_names_is_a_name_itself() {
        assert_eq!(name_prefix("web"), "web-");
        assert_eq!(name_prefix(&"w".repeat(252)).len(), 253);
        assert_eq!(name_prefix(&"w".repeat(253)), "w".repeat(253));
    }
}
