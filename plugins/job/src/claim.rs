//! Claims the Job's Pods, by controller reference and selector. The patches that set or remove the controller of a Pod
//! also set or remove its finalizer, so that no Pod of the Job stays uncounted.
//!
//! *Source*: job_controller.go.

use pintle_sdk::api::meta::OwnerReference;
use pintle_sdk::selector::Selector;
use pintle_sdk::{Error, Lister, Mutation, PatchType, Query, Refusal, Resource};
use plugin_lib::controller_ref::{Relation, recheck, relation};
use serde_json::json;

use crate::types::{Job, Pod, TRACKING};

/// The Pods of a Job, or the writes that must come first.
pub(crate) enum Claimed {
    /// Its Pods.
    Pods(Vec<Pod>),
    /// Pods to adopt and release.
    Writes(Vec<Mutation>),
}

/// Claims the Job's Pods.
///
/// # Errors
/// If its selector is invalid, or it cannot adopt now. [`Error::Needs`] before the first adoption.
#[doc(alias = "getPodsForJob", alias = "ClaimPods")]
pub(crate) fn claim(job: &Job, lister: &impl Lister) -> Result<Claimed, Error> {
    let selector = Selector::from_label_selector(job.spec.selector.as_ref())?;
    let query = Query::namespace(&job.metadata.namespace).controlled_by_or_orphans(&job.metadata.uid);
    let (mut owned, mut writes, mut may_adopt) = (Vec::new(), Vec::new(), false);
    for pod in lister.list::<Pod>(&query)? {
        match relation(&job.metadata, &selector, &pod.metadata) {
            Relation::Owned => owned.push(pod),
            Relation::Release => writes.push(release(job, &pod)),
            Relation::Adopt => {
                if !may_adopt {
                    recheck::<Job>(lister, &job.metadata)?;
                    may_adopt = true;
                }
                writes.push(adopt(job, &pod));
            }
            Relation::None => {}
        }
    }
    Ok(if writes.is_empty() { Claimed::Pods(owned) } else { Claimed::Writes(writes) })
}

#[doc(alias = "AdoptPod")]
fn adopt(job: &Job, pod: &Pod) -> Mutation {
    let owner = OwnerReference::controller(&Job::KIND, &job.metadata);
    let body = json!({"metadata": {"ownerReferences": [owner], "finalizers": [TRACKING]}});
    patch(pod, body).tolerate([Refusal::NotFound])
}

#[doc(alias = "ReleasePod")]
fn release(job: &Job, pod: &Pod) -> Mutation {
    let owner = json!({"$patch": "delete", "uid": job.metadata.uid});
    let body = json!({"metadata": {"ownerReferences": [owner], "$deleteFromPrimitiveList/finalizers": [TRACKING]}});
    // Invalid: the Pod no longer has the owner reference.
    patch(pod, body).tolerate([Refusal::NotFound, Refusal::Invalid])
}

/// Removes the finalizer.
#[doc(alias = "removeTrackingFinalizerPatch")]
pub(crate) fn let_go(pod: &Pod) -> Mutation {
    let body = json!({"metadata": {"$deleteFromPrimitiveList/finalizers": [TRACKING]}});
    patch(pod, body).tolerate([Refusal::NotFound])
}

fn patch(pod: &Pod, body: serde_json::Value) -> Mutation {
    Mutation::patch(&Pod::KIND, pod.metadata.key(), PatchType::StrategicMerge, body).uid(&pod.metadata.uid)
}
