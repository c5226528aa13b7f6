//! Making Pods from a template.

use pintle_sdk::api::meta::{Metadata as _, ObjectMeta, OwnerReference, Raw};
use pintle_sdk::{Error, Event, Mutation, Resource, Step, json};
use serde::Serialize;

use crate::Pod;
use crate::owner::Owner;

#[derive(Serialize)]
struct NewPod<'a> {
    metadata: ObjectMeta,
    spec: &'a Raw,
}

/// Longest name of an object, in bytes.
const LONGEST_NAME: usize = 253;

/// What the names of Pods begin with: the dash is left out where it would make the prefix too long to be a name.
fn prefix(owner: &str) -> String {
    if owner.len() < LONGEST_NAME { format!("{owner}-") } else { owner.to_owned() }
}

/// Most bytes of the Pods that one run creates: half of what an outcome may have by default. A template that is larger than this
/// divided by [`BURST`](crate::BURST) takes several runs, each as soon as the cache shows the Pods of the one before.
const MAX_BYTES: usize = 4 << 20;

/// Bytes of a create besides the Pod's text: the names and uids in its events.
fn around(namespace: &str, name: &str) -> usize {
    2 * (namespace.len() + name.len()) + 512
}

/// How many of these creates one run carries out: at least one, so that each run gets on.
fn affordable(number: usize, bytes: usize) -> usize {
    number.min((MAX_BYTES / bytes.max(1)).max(1))
}

/// A step that creates this many Pods of the owner, or as many of them as one run can.
pub(crate) fn step<O: Owner>(owner: &O, number: usize) -> Result<Step, Error> {
    let meta = owner.metadata();
    let template = owner.spec().template;
    if template.metadata.labels.is_empty() {
        return Err(Error::retry("unable to create pods, no labels"));
    }
    let pod = NewPod {
        metadata: ObjectMeta {
            generate_name: prefix(meta.name()),
            labels: template.metadata.labels.clone(),
            annotations: template.metadata.annotations.clone(),
            finalizers: template.metadata.finalizers.clone(),
            owner_references: vec![OwnerReference::controller(&O::KIND, meta)],
            ..ObjectMeta::default()
        },
        spec: &template.spec,
    };
    let pod = json(&pod);
    let number = affordable(number, pod.len() + around(meta.namespace(), meta.name()));
    let create = Mutation::create(&Pod::KIND, meta.namespace(), pod)
        .on_success(Event::normal(&O::KIND, meta, "SuccessfulCreate", "Created pod: {name}"))
        .on_failure(Event::warning(&O::KIND, meta, "FailedCreate", "Error creating: {error}"));
    Ok(Step::slow_start(std::iter::repeat_n(create, number)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_pods_are_created_in_several_runs() {
        assert_eq!(affordable(500, 2_000), 500);
        assert_eq!(affordable(500, 8_388), 500);
        assert_eq!(affordable(500, 8_389), 499);
        assert_eq!(affordable(500, 1 << 20), 4);
        assert_eq!(affordable(500, 5 << 20), 1);
        assert_eq!(affordable(3, 1 << 20), 3);
    }

    #[test]
    fn the_prefix_of_names_is_a_name_itself() {
        assert_eq!(prefix("web"), "web-");
        assert_eq!(prefix(&"w".repeat(252)).len(), 253);
        assert_eq!(prefix(&"w".repeat(253)), "w".repeat(253));
    }
}
