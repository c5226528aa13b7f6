//! Orphaning: the object goes, its dependents stay without it.

use pintle_sdk::{Error, Lister, Outcome, Refusal, Step};

use crate::object::{ORPHAN, Object};

/// How many dependents are released in one run; the key comes back for the rest.
const MOST_AT_ONCE: usize = 500;

/// Removes the references of the dependents, then the finalizer. The second waits for the first: a dependent that still
/// named the owner once it is gone would be deleted.
pub(crate) fn release(object: &Object, lister: &impl Lister) -> Result<Outcome, Error> {
    let dependents = object.dependents(lister)?;
    let releases = dependents.iter().take(MOST_AT_ONCE).map(|dependent| {
        dependent.remove_owners(|owner| owner.uid == object.metadata.uid).tolerate([Refusal::NotFound])
    });
    let mut outcome = Outcome::new();
    if !dependents.is_empty() {
        outcome.push(Step::parallel(releases));
    }
    if dependents.len() <= MOST_AT_ONCE {
        outcome.push(Step::sequential([object.remove_finalizer(ORPHAN).tolerate([Refusal::NotFound])]));
    }
    Ok(outcome)
}
