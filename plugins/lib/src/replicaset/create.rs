//! Creates Pods from a template.

use pintle_sdk::api::meta::{ObjectMeta, Raw};
use pintle_sdk::{Error, Step, json};
use serde::Serialize;

use super::BURST;
use super::owner::Owner;
use crate::batch::Batch;
use crate::pods;

#[derive(Serialize)]
struct NewPod<'a> {
    metadata: ObjectMeta,
    spec: &'a Raw,
}

/// A step that creates this many Pods of the owner, up to the limit of one run.
#[doc(alias = "createPods")]
pub(crate) fn step<O: Owner>(owner: &O, number: usize) -> Result<Step, Error> {
    let meta = owner.metadata();
    let template = owner.spec().template;
    if template.metadata.labels.is_empty() {
        return Err(Error::retry("unable to create pods, no labels"));
    }
    let metadata = pods::metadata_from_template(&O::KIND, meta, template);
    let create = pods::create(&O::KIND, meta, json(&NewPod { metadata, spec: &template.spec }));
    Ok(Step::slow_start(Batch::of(BURST, std::iter::repeat_n(create, number)).mutations))
}
