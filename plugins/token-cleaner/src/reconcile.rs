//! The expiration of one bootstrap token.

use pintle_sdk::{Error, Key, Lister, Mutation, Outcome, Refusal, Resource, Step};
use plugin_lib::bootstrap_token::{Expiration, expiration};

use crate::types::Secret;

/// Computes the changes for one bootstrap token.
///
/// # Errors
/// If the Secret does not fit its type.
#[doc(alias = "evalSecret")]
pub fn reconcile(key: &Key, lister: &impl Lister) -> Result<Outcome, Error> {
    let Some(secret) = lister.get::<Secret>(&key.namespace, &key.name)? else { return Ok(Outcome::new()) };
    let now = lister.now()?;
    Ok(match expiration(secret.data.expiration.as_deref(), now) {
        Expiration::Never => Outcome::new(),
        Expiration::At(time) => Outcome::new().requeue_at(time, now),
        Expiration::Expired => {
            let delete = Mutation::delete(&Secret::KIND, &key.namespace, &key.name).uid(secret.metadata.uid);
            // Another Secret with this name is another token.
            Outcome::new().step(Step::sequential([delete.tolerate([Refusal::NotFound, Refusal::Conflict])]))
        }
    })
}
