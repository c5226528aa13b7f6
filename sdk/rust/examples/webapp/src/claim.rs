//! The claim of the host: an ExternalName with this name. Its owner may have an Ingress for the host.

use pintle_sdk::{Error, Lister, Mutation, Resource};
use serde_json::json;

use crate::types::{ExternalName, WebApp};

/// Changes of the claims.
#[derive(Default)]
pub struct Plan {
    /// Releases sorted by name, then the new claim.
    pub mutations: Vec<Mutation>,
    /// Whether the cache shows that this WebApp holds the host.
    pub is_held: bool,
    /// The owner of the host, if it is another one.
    pub conflict: Option<String>,
    /// This WebApp's claim, if it is being deleted.
    pub waiting: Option<String>,
}

/// Compares the claims of a WebApp with its host.
pub fn plan(app: &WebApp, claims: &[ExternalName], lister: &impl Lister) -> Result<Plan, Error> {
    let host = app.spec.host();
    let mut plan = Plan::default();
    for claim in claims {
        if claim.metadata.name != host && !claim.metadata.is_deleting() {
            plan.mutations.push(release(claim));
        }
    }
    if host.is_empty() {
        return Ok(plan);
    }
    match lister.get::<ExternalName>("", host)? {
        None => plan.mutations.push(claim(app, host)),
        Some(claim) if claim.spec.uid != app.metadata.uid => {
            plan.conflict = Some(format!("{} {host} is claimed by {}", ExternalName::KIND, claim.spec.webapp));
        }
        Some(claim) if claim.metadata.is_deleting() => {
            plan.waiting = Some(format!("{} {host}", ExternalName::KIND));
        }
        Some(_) => plan.is_held = true,
    }
    Ok(plan)
}

/// Releases a name.
pub fn release(claim: &ExternalName) -> Mutation {
    Mutation::delete(&ExternalName::KIND, "", &claim.metadata.name).uid(&claim.metadata.uid)
}

fn claim(app: &WebApp, host: &str) -> Mutation {
    let object = json!({
        "apiVersion": "example.com/v1",
        "kind": "ExternalName",
        "metadata": {"name": host},
        "spec": {
            "webapp": format!("{}/{}", app.metadata.namespace, app.metadata.name),
            "uid": app.metadata.uid,
        },
    });
    Mutation::create(&ExternalName::KIND, "", object)
}
