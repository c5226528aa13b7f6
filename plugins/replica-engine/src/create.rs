//! Making Pods from a template.

use pintle_sdk::api::core::Pod;
use pintle_sdk::api::meta::{ObjectMeta, OwnerReference, Raw};
use pintle_sdk::{Error, Event, Mutation, Resource, Step, json};
use serde::Serialize;

use crate::owner::Owner;

#[derive(Serialize)]
struct NewPod<'a> {
    metadata: ObjectMeta,
    spec: &'a Raw,
}

/// A step that creates this many Pods of the owner.
pub(crate) fn step<O: Owner>(owner: &O, number: usize) -> Result<Step, Error> {
    let meta = owner.metadata();
    let template = owner.spec().template;
    if template.metadata.labels.is_empty() {
        return Err(Error::retry("unable to create pods, no labels"));
    }
    let pod = NewPod {
        metadata: ObjectMeta {
            generate_name: format!("{}-", meta.name),
            labels: template.metadata.labels.clone(),
            annotations: template.metadata.annotations.clone(),
            finalizers: template.metadata.finalizers.clone(),
            owner_references: vec![OwnerReference::controller(&O::KIND, meta)],
            ..ObjectMeta::default()
        },
        spec: &template.spec,
    };
    let create = Mutation::create(&Pod::KIND, &meta.namespace, json(&pod))
        .on_success(Event::normal(&O::KIND, meta, "SuccessfulCreate", "Created pod: {name}"))
        .on_failure(Event::warning(&O::KIND, meta, "FailedCreate", "Error creating: {error}"));
    Ok(Step::slow_start(std::iter::repeat_n(create, number)))
}
