//! Ensures that every namespace has a ServiceAccount `{{name}}`.

use pintle_sdk::{Error, Key, Lister, Mutation, Outcome, Refusal, Resource, Step};
use serde_json::json;

pintle_sdk::types!("manifest.yaml");

const NAME: &str = "{{name}}";

/// Creates the ServiceAccount of a namespace if it is missing.
///
/// # Errors
/// If an object does not fit its type.
pub fn reconcile(key: &Key, lister: &impl Lister) -> Result<Outcome, Error> {
    let Some(namespace) = lister.get::<Namespace>("", &key.name)? else { return Ok(Outcome::new()) };
    if namespace.metadata.is_deleting() || lister.get::<ServiceAccount>(&key.name, NAME)?.is_some() {
        return Ok(Outcome::new());
    }
    let account = json!({"metadata": {"name": NAME, "namespace": key.name}});
    // The cache may not know yet that the namespace is being deleted.
    let create = Mutation::create(&ServiceAccount::KIND, &key.name, account)
        .tolerate([Refusal::AlreadyExists, Refusal::NamespaceTerminating]);
    Ok(Outcome::new().step(Step::sequential([create])))
}

pintle_sdk::export!(reconcile);
