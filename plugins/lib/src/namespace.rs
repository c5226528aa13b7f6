//! The namespace of an object.

use pintle_sdk::{Error, Lister};

pintle_sdk::types!("v1/Namespace": ["status.phase"]);

/// Whether a namespace is being deleted, according to the cache: the API server would reject creates in it.
///
/// # Errors
/// If it does not fit its type.
pub fn is_terminating(lister: &impl Lister, name: &str) -> Result<bool, Error> {
    Ok(lister.get::<Namespace>("", name)?.is_some_and(|namespace| namespace.status.phase == "Terminating"))
}
