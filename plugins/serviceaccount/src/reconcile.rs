//! The ServiceAccounts of one namespace.

use pintle_sdk::{Error, Key, Lister, Mutation, Outcome, Refusal, Resource, Step};
use serde_json::json;

use crate::types::{Namespace, ServiceAccount};

/// Upstream's default, which only code can change.
#[doc(alias = "DefaultServiceAccountsControllerOptions")]
const NAMES: [&str; 1] = ["default"];

/// Computes the changes for one namespace.
///
/// # Errors
/// If an object does not fit its type.
#[doc(alias = "syncNamespace")]
pub fn reconcile(key: &Key, lister: &impl Lister) -> Result<Outcome, Error> {
    let Some(namespace) = lister.get::<Namespace>("", &key.name)? else { return Ok(Outcome::new()) };
    if namespace.status.phase != "Active" {
        return Ok(Outcome::new());
    }
    let mut missing = Vec::new();
    for name in NAMES {
        if lister.get::<ServiceAccount>(&key.name, name)?.is_none() {
            let object = json!({"metadata": {"name": name, "namespace": key.name}});
            let create = Mutation::create(&ServiceAccount::KIND, &key.name, object);
            // The namespace's deletion may have begun, and not be in the cache yet.
            missing.push(create.tolerate([Refusal::AlreadyExists, Refusal::NamespaceTerminating]));
        }
    }
    Ok(Outcome::new().step(Step::parallel(missing)))
}
