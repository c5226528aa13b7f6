//! One pass over all requests.

use std::time::Duration;

use pintle_sdk::time::Timestamp;
use pintle_sdk::{Error, Key, Lister, Mutation, Outcome, Query, Refusal, Resource, Step};
use plugin_lib::certificates::{decode, not_after};

use crate::types::CertificateSigningRequest;

const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);

/// Computes the deletions of old requests.
///
/// # Errors
/// If a request does not fit its type.
#[doc(alias = "worker")]
pub fn reconcile(_: &Key, lister: &impl Lister) -> Result<Outcome, Error> {
    let now = lister.now()?;
    let mut old = lister.list::<CertificateSigningRequest>(&Query::all())?;
    old.retain(|csr| is_old(csr, now));
    let deletes = old.iter().map(|csr| {
        Mutation::delete(&CertificateSigningRequest::KIND, "", &csr.metadata.name)
            .uid(&csr.metadata.uid)
            .tolerate([Refusal::NotFound, Refusal::Conflict])
    });
    Ok(Outcome::new().step(Step::parallel(deletes)))
}

#[doc(alias = "handle")]
#[doc(alias = "isIssuedPastDeadline")]
#[doc(alias = "isDeniedPastDeadline")]
#[doc(alias = "isFailedPastDeadline")]
#[doc(alias = "isPendingPastDeadline")]
#[doc(alias = "isIssuedExpired")]
#[doc(alias = "isApprovedUnissuedPastDeadline")]
fn is_old(csr: &CertificateSigningRequest, now: Timestamp) -> bool {
    let conditions = &csr.status.conditions;
    if conditions.is_empty() {
        return is_older(csr.metadata.creation_timestamp, DAY, now);
    }
    let is_issued = !csr.status.certificate.is_empty();
    conditions.iter().any(|condition| match condition.type_.as_str() {
        "Approved" if is_issued => is_older(condition.last_update_time, HOUR, now) || is_expired(csr, now),
        "Approved" => is_older(condition.last_update_time, DAY, now),
        "Denied" | "Failed" => is_older(condition.last_update_time, HOUR, now),
        _ => false,
    })
}

/// A missing time is never old.
#[doc(alias = "isOlderThan")]
fn is_older(time: Option<Timestamp>, age: Duration, now: Timestamp) -> bool {
    time.is_some_and(|time| time.plus(age) < now)
}

/// A certificate that cannot be parsed has not expired.
#[doc(alias = "isExpired")]
fn is_expired(csr: &CertificateSigningRequest, now: Timestamp) -> bool {
    decode(&csr.status.certificate).and_then(|pem| not_after(&pem)).is_some_and(|end| end < now)
}
