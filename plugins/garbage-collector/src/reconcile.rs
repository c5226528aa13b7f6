//! Dispatches an object by its state.

use pintle_sdk::{Error, Key, Lister, Outcome};

use crate::types::{FOREGROUND, ORPHAN, Object};
use crate::{collect, foreground, kinds, orphan};

/// Deletes the object, its finalizer, or nothing.
///
/// # Errors
/// If an owner's kind is unknown to the API server (it may appear later), or a live read fails.
#[doc(alias = "processTransitions")]
pub fn reconcile(key: &Key, lister: &impl Lister) -> Result<Outcome, Error> {
    let Some(object) = Object::get(key, lister)? else {
        // Its dependents were enqueued when it was deleted.
        return Ok(Outcome::new());
    };
    match (object.is_deleting(), object.has_finalizer(ORPHAN), object.has_finalizer(FOREGROUND)) {
        // Comes first, because orphans must not be deleted with the object.
        (true, true, _) => orphan::release(&object, lister),
        (true, false, true) => foreground::finish(&object, key, lister),
        // A deletion cannot be undone. A CustomResourceDefinition's covers all its objects, so its kind is recorded.
        (true, false, false) => Ok(kinds::note(&object, lister)),
        (false, ..) => collect::collect(&object, lister),
    }
}
