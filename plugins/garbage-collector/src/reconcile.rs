//! What a run does with an object, by its state.

use pintle_sdk::{Error, Key, Lister, Outcome};

use crate::types::{FOREGROUND, ORPHAN, Object};
use crate::{collect, foreground, kinds, orphan};

/// Deletes the object, its finalizer, or nothing.
///
/// # Errors
/// If an owner's kind is not known to the API server (it may become so), or a live read fails.
pub fn reconcile(key: &Key, lister: &impl Lister) -> Result<Outcome, Error> {
    let Some(object) = Object::get(key, lister)? else {
        // Its dependents were enqueued when it went.
        return Ok(Outcome::new());
    };
    match (object.is_deleting(), object.has_finalizer(ORPHAN), object.has_finalizer(FOREGROUND)) {
        // First, for those who stay must not go with it.
        (true, true, _) => orphan::release(&object, lister),
        (true, false, true) => foreground::finish(&object, lister),
        // Being deleted is a one-way trip. For a definition of a kind, it is that of all its objects.
        (true, false, false) => Ok(kinds::note(&object, lister)),
        (false, ..) => collect::collect(&object, lister),
    }
}
