//! The claim of the host: an ExternalName of that name. Whoever has it may have an Ingress for the host.

use pintle_sdk::{Error, Lister, Mutation, Resource};
use serde_json::json;

use crate::types::{ExternalName, WebApp};

/// What is to be done about claims.
#[derive(Default)]
pub struct Plan {
    /// Releases in the order of their names, then the new claim.
    pub mutations: Vec<Mutation>,
    /// Whether the cache shows that the host is ours.
    pub is_held: bool,
    /// Whose the host is, if it is somebody else's.
    pub conflict: Option<String>,
    /// The claim, if it is ours and being deleted.
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

/// Gives a name back.
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
