//! Orphaning: the object is deleted, its dependents stay.

use pintle_sdk::{Error, Lister, Outcome, Refusal, Step};
use plugin_lib::batch::Batch;

use crate::types::{MOST_REMOVED, ORPHAN, Object};

/// Removes the references of the dependents, then the finalizer. This order matters: a dependent that still refers to
/// the deleted owner would be deleted.
#[doc(alias = "attemptToOrphanWorker", alias = "orphanDependents")]
pub(crate) fn release(object: &Object, lister: &impl Lister) -> Result<Outcome, Error> {
    let uid = &object.metadata.uid;
    let mut releases = Batch::default();
    let mut is_last = true;
    // One by one: all of them may exceed the memory of a run.
    for dependent in object.dependents(lister) {
        let dependent = dependent?;
        let n_references = dependent.metadata.owner_references.iter().filter(|owner| owner.uid == *uid).count();
        let release = dependent.remove_owners(|_, owner| owner.uid == *uid).tolerate([Refusal::NotFound]);
        is_last &= n_references <= MOST_REMOVED;
        if !releases.add(release) {
            is_last = false;
            break;
        }
    }
    let mut outcome = Outcome::new().step(Step::parallel(releases.mutations));
    if is_last {
        outcome.push(Step::sequential([object.remove_finalizer(ORPHAN).tolerate([Refusal::NotFound])]));
    }
    Ok(outcome)
}
