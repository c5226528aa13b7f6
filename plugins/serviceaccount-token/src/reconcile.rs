//! The changes for one Secret.

use pintle_sdk::{Error, Key, Lister, Mutation, Outcome, Refusal, Resource, Step};
use plugin_lib::batch::SOON;
use plugin_lib::state::Record;

use crate::populate::populate;
use crate::references::{Owner, remove_reference};
use crate::types::{Secret, ServiceAccount};

/// Computes the changes for one Secret.
///
/// # Errors
/// If an object does not fit its type. [`Error::Needs`] if an object must be read first.
#[doc(alias = "syncSecret")]
pub fn reconcile(key: &Key, lister: &impl Lister) -> Result<Outcome, Error> {
    let owner = Record::<Owner>::read(lister, key.object().state_name("owner"));
    let secret = lister.get::<Secret>(&key.namespace, &key.name)?;
    let is_gone = |owner: &&Owner| secret.as_ref().is_none_or(|secret| secret.metadata.uid != owner.secret_uid);
    if let Some(owner) = owner.get().filter(is_gone)
        && let Some(update) = remove_reference(owner, key, lister)?
    {
        // The next run finds no reference, and removes the owner from the state.
        return Ok(Outcome::new().step(Step::sequential([update])).requeue_after(SOON));
    }
    match secret.as_ref().and_then(|secret| Some((secret, Owner::of(secret)?))) {
        None => Ok(owner.forget(Outcome::new())),
        Some((secret, new)) => {
            // The owner is stored even if the Secret cannot be filled.
            let outcome = sync(secret, lister).unwrap_or_else(|error| Outcome::new().fail(error));
            Ok(owner.keep(outcome, &new))
        }
    }
}

fn sync(secret: &Secret, lister: &impl Lister) -> Result<Outcome, Error> {
    let write = match service_account(secret, lister)? {
        Some(account) => populate(secret, &account, lister)?,
        None => {
            let metadata = &secret.metadata;
            let delete = Mutation::delete(&Secret::KIND, &metadata.namespace, &metadata.name).uid(&metadata.uid);
            Some(delete.tolerate([Refusal::NotFound, Refusal::Conflict]))
        }
    };
    Ok(Outcome::new().step(Step::sequential(write)))
}

/// The ServiceAccount of a token; `None` if the API server has none either.
#[doc(alias = "getServiceAccount")]
fn service_account(secret: &Secret, lister: &impl Lister) -> Result<Option<ServiceAccount>, Error> {
    let metadata = &secret.metadata;
    let name = metadata.annotations.service_account_name.as_deref().unwrap_or_default();
    let uid = metadata.annotations.service_account_uid.as_deref().unwrap_or_default();
    let is_its = |account: &ServiceAccount| uid.is_empty() || account.metadata.uid == uid;
    match lister.get(&metadata.namespace, name)?.filter(is_its) {
        Some(account) => Ok(Some(account)),
        None => Ok(lister.live(&metadata.namespace, name)?.filter(is_its)),
    }
}
