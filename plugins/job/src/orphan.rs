//! Pods with a finalizer that no Job removes: their Job is deleted or finished, or they have no controller.
//!
//! *Source*: job_controller.go.

use pintle_sdk::{Error, Key, Lister, Outcome, Query, Resource, Step};

use crate::claim::let_go;
use crate::metrics;
use crate::types::{Job, Pod, is_job};

/// The queue of these Pods.
pub(crate) const QUEUE: &str = "job_orphan_pod";

/// Removes the finalizer of an orphan Pod.
///
/// # Errors
/// If an object does not fit its type.
#[doc(alias = "syncOrphanPod", alias = "handleSingleOrphanPod")]
pub(crate) fn reconcile(key: &Key, lister: &impl Lister) -> Result<Outcome, Error> {
    let outcome = Outcome::new();
    if key.kind != Pod::KIND {
        // A Job can own another Job.
        return Ok(outcome);
    }
    let Some(pod) = lister.get::<Pod>(&key.namespace, &key.name)?.filter(Pod::is_tracked) else { return Ok(outcome) };
    if let Some(controller) = pod.metadata.controller() {
        if !is_job(controller) {
            return Ok(outcome);
        }
        let job = lister.get::<Job>(&key.namespace, &controller.name)?;
        let job = job.filter(|job| job.metadata.uid == controller.uid);
        if job.is_some_and(|job| job.other_manager().is_some() || !job.is_finished()) {
            return Ok(outcome);
        }
    }
    let outcome = outcome.step(Step::sequential([let_go(&pod)]));
    Ok(metrics::terminated_orphan(outcome, &pod))
}

/// Enqueues the Pods of a finished Job that still have the finalizer.
///
/// # Errors
/// If a Pod does not fit its type.
#[doc(alias = "enqueueLabelSelector", alias = "syncOrphanPodsBySelector")]
pub(crate) fn wake_those_of(job: &Job, lister: &impl Lister, mut outcome: Outcome) -> Result<Outcome, Error> {
    let query = Query::namespace(&job.metadata.namespace).controlled_by(&job.metadata.uid);
    for pod in lister.list::<Pod>(&query)?.into_iter().filter(Pod::is_tracked) {
        outcome = outcome.wake(Key::new(QUEUE, Pod::KIND, pod.metadata.namespace, pod.metadata.name));
    }
    Ok(outcome)
}
