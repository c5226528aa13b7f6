//! Orphaning: the object goes, its dependents stay without it.

use pintle_sdk::{Action, Error, Lister, Mutation, Outcome, Refusal, Step};

use crate::object::{MOST_REMOVED, ORPHAN, Object};

/// How many dependents are released in one run; the key comes back for the rest.
const MOST_AT_ONCE: usize = 500;

/// Most bytes of the patches of one run, half of what an outcome may have by default.
const MOST_BYTES: usize = 4 << 20;

/// Removes the references of the dependents, then the finalizer. The second waits for the first: a dependent that still
/// named the owner once it is gone would be deleted.
pub(crate) fn release(object: &Object, lister: &impl Lister) -> Result<Outcome, Error> {
    let uid = &object.metadata.uid;
    let mut releases = Vec::new();
    let (mut n_bytes, mut is_last) = (0, true);
    for dependent in object.dependents(lister) {
        let dependent = dependent?;
        if releases.len() == MOST_AT_ONCE || n_bytes > MOST_BYTES {
            is_last = false;
            break;
        }
        let n_references = dependent.metadata.owner_references.iter().filter(|owner| owner.uid == *uid).count();
        is_last &= n_references <= MOST_REMOVED;
        let release = dependent.remove_owners(|_, owner| owner.uid == *uid).tolerate([Refusal::NotFound]);
        n_bytes += size(&release);
        releases.push(release);
    }
    let mut outcome = Outcome::new();
    if !releases.is_empty() {
        outcome.push(Step::parallel(releases));
    }
    if is_last {
        outcome.push(Step::sequential([object.remove_finalizer(ORPHAN).tolerate([Refusal::NotFound])]));
    }
    Ok(outcome)
}

fn size(mutation: &Mutation) -> usize {
    match &mutation.action {
        Action::Patch { body, .. } => body.len(),
        _ => 0,
    }
}
