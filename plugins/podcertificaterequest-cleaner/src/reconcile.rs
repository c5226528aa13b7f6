//! One pass over all requests.

use std::time::Duration;

use pintle_sdk::{Error, Key, Lister, Mutation, Outcome, Query, Refusal, Resource, Step};

use crate::types::PodCertificateRequest;

/// Age at which requests are deleted. All of them are signed or abandoned earlier.
#[doc(alias = "threshold")]
const LONGEST: Duration = Duration::from_secs(15 * 60);

/// Computes the deletions of old requests.
///
/// # Errors
/// If a request does not fit its type.
#[doc(alias = "worker")]
#[doc(alias = "handle")]
pub fn reconcile(_: &Key, lister: &impl Lister) -> Result<Outcome, Error> {
    let now = lister.now()?;
    let mut old = lister.list::<PodCertificateRequest>(&Query::all())?;
    old.retain(|request| request.metadata.creation_timestamp.is_none_or(|created| created.plus(LONGEST) <= now));
    let deletes = old.iter().map(|request| {
        let metadata = &request.metadata;
        Mutation::delete(&PodCertificateRequest::KIND, &metadata.namespace, &metadata.name)
            .uid(&metadata.uid)
            .tolerate([Refusal::NotFound])
    });
    Ok(Outcome::new().step(Step::parallel(deletes)))
}
