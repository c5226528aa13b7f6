//! Foreground deletion: the object is deleted after the dependents that block it.

use pintle_sdk::{Error, Lister, Outcome, Refusal, Step};

use crate::types::{FOREGROUND, Object};

/// Removes the finalizer once no dependent blocks. Until then it does nothing: the dependents are separate keys, and
/// each deletion enqueues this key.
#[doc(alias = "processDeletingDependentsItem", alias = "blockingDependents")]
pub(crate) fn finish(object: &Object, lister: &impl Lister) -> Result<Outcome, Error> {
    let blocks = |dependent: Object| {
        let mut owners = dependent.metadata.owner_references.iter();
        owners.any(|owner| owner.uid == object.metadata.uid && owner.block_owner_deletion == Some(true))
    };
    for dependent in object.dependents(lister) {
        if blocks(dependent?) {
            return Ok(Outcome::new());
        }
    }
    let remove = object.remove_finalizer(FOREGROUND).tolerate([Refusal::NotFound]);
    Ok(Outcome::new().step(Step::sequential([remove])))
}
