//! Deletion of a WebApp: its claims are deleted first, then its finalizer is removed. The garbage collector deletes its
//! children.

use std::time::Duration;

use pintle_sdk::{Error, Lister, Mutation, Outcome, Resource, Step, has_finalizer, remove_finalizer};

use crate::claim;
use crate::types::{ExternalName, FINALIZER, WebApp};
use crate::with_event;

/// Computes the remaining cleanup of a WebApp that is being deleted.
pub fn clean_up(app: &WebApp, claims: &[ExternalName], lister: &impl Lister) -> Result<Outcome, Error> {
    if !has_finalizer(&app.metadata, FINALIZER) {
        return Ok(Outcome::new());
    }
    if !claims.is_empty() {
        let releases: Vec<Mutation> = claims
            .iter()
            .filter(|claim| !claim.metadata.is_deleting())
            .map(|claim| with_event(app, claim::release(claim)))
            .collect();
        return Ok(Outcome::new().step(Step::parallel(releases)));
    }
    // After the finalizer is removed, no object refers to the claim, so the cache is not enough.
    let host = app.spec.host();
    if !host.is_empty()
        && let Some(claim) = lister.live::<ExternalName>("", host)?
        && claim.spec.uid == app.metadata.uid
    {
        let message = format!("the cache does not show {} {host} yet", ExternalName::KIND);
        return Err(Error::retry_after(message, Duration::from_secs(1)));
    }
    let removal = remove_finalizer(&WebApp::KIND, &app.metadata, FINALIZER);
    Ok(Outcome::new().step(Step::sequential([removal])))
}
