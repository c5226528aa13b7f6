//! The ServiceAccount of one namespace.

use pintle_sdk::{Error, Key, Lister, Mutation, Outcome, Refusal, Resource, Step};
use serde_json::json;

use crate::types::{Namespace, ServiceAccount};

const NAME: &str = "{{name}}";

/// Computes the changes for one namespace.
///
/// # Errors
/// If an object does not fit its type.
pub fn reconcile(key: &Key, lister: &impl Lister) -> Result<Outcome, Error> {
    let Some(namespace) = lister.get::<Namespace>("", &key.name)? else { return Ok(Outcome::new()) };
    if namespace.metadata.is_deleting() || lister.get::<ServiceAccount>(&key.name, NAME)?.is_some() {
        return Ok(Outcome::new());
    }
    let account = json!({"metadata": {"name": NAME, "namespace": key.name}});
    // The cache may not show yet that the namespace is being deleted.
    let create = Mutation::create(&ServiceAccount::KIND, &key.name, account)
        .tolerate([Refusal::AlreadyExists, Refusal::NamespaceTerminating]);
    Ok(Outcome::new().step(Step::sequential([create])))
}
