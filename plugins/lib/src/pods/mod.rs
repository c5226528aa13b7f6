//! Pods of an owner: states, ranks, and writes.
//!
//! | question | function |
//! | --- | --- |
//! | in which state are they? | those of [`pintle_sdk::pods`]; cheap for many Pods: [`Brief`] |
//! | which ones go first? | [`rank()`] |
//! | when does one become available? | [`next_availability`] |
//! | how are they written? | [`create`], [`delete`], [`metadata_from_template`], [`name_prefix`] |
//! | what does the API server add? | [`complete_template`] |
//!
//! *Source*: Kubernetes' `pkg/controller/controller_utils.go`.

mod brief;
mod control;
mod defaults;
mod rank;

pub use brief::Brief;
pub use control::{create, delete, name_prefix};
pub use defaults::complete_template;
pub use pintle_sdk::pods::*;
pub use rank::{HasRank, rank};

use std::time::Duration;

use pintle_sdk::Kind;
use pintle_sdk::api::core::PodTemplateSpec;
use pintle_sdk::api::meta::{Metadata, ObjectMeta, OwnerReference};
use pintle_sdk::time::Timestamp;

/// The metadata of a Pod created from the template of its owner, a `kind`.
#[doc(alias = "GetPodFromTemplate")]
#[doc(alias = "getPodsLabelSet")]
#[doc(alias = "getPodsAnnotationSet")]
#[doc(alias = "getPodsFinalizers")]
pub fn metadata_from_template(kind: &Kind, owner: &impl Metadata, template: &PodTemplateSpec) -> ObjectMeta {
    ObjectMeta {
        generate_name: name_prefix(owner.name()),
        labels: template.metadata.labels.clone(),
        annotations: template.metadata.annotations.clone(),
        finalizers: template.metadata.finalizers.clone(),
        owner_references: vec![OwnerReference::controller(kind, owner)],
        ..ObjectMeta::default()
    }
}

/// Delay until one of these Pods may become available, if some are ready and not available; `None` if time alone makes
/// no Pod available.
#[doc(alias = "FindMinNextPodAvailabilityCheck")]
pub fn next_availability<'a, P: HasReadiness + 'a>(
    pods: impl IntoIterator<Item = &'a P>,
    min_ready_seconds: i32,
    now: Timestamp,
) -> Option<Duration> {
    let min_ready = u64::try_from(min_ready_seconds).ok().filter(|seconds| *seconds > 0)?;
    let next = pods.into_iter().filter_map(|pod| until_available(pod, min_ready_seconds, now)).min();
    Some(next.unwrap_or(Duration::from_secs(min_ready)))
}
