//! Foreground deletion: the object is deleted after the dependents that block it.

use pintle_sdk::{Error, Key, Lister, Outcome, Refusal, Step};

use crate::types::{FOREGROUND, Object};

/// Removes the finalizer once no dependent blocks. Until then it enqueues the first one that does, unless that is being
/// deleted: if it came after the object began to wait, no rule has enqueued it. Its end enqueues this key again, so the
/// others can wait; upstream enqueues all that block.
#[doc(alias = "processDeletingDependentsItem", alias = "blockingDependents")]
pub(crate) fn finish(object: &Object, key: &Key, lister: &impl Lister) -> Result<Outcome, Error> {
    let blocks = |dependent: &Object| {
        let mut owners = dependent.metadata.owner_references.iter();
        owners.any(|owner| owner.uid == object.metadata.uid && owner.block_owner_deletion == Some(true))
    };
    for dependent in object.dependents(lister) {
        let dependent = dependent?;
        if !blocks(&dependent) {
            continue;
        }
        let outcome = Outcome::new();
        let meta = &dependent.metadata;
        return Ok(match dependent.is_deleting() {
            true => outcome,
            false => outcome.wake(Key::new(&key.queue, dependent.kind(), &meta.namespace, &meta.name)),
        });
    }
    let remove = object.remove_finalizer(FOREGROUND).tolerate([Refusal::NotFound]);
    Ok(Outcome::new().step(Step::sequential([remove])))
}
