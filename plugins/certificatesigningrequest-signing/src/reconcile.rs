//! The certificate of one request.

use std::time::Duration;

use pintle_sdk::document::Document;
use pintle_sdk::{CertificateRequest, Error, Key, Lister, Mutation, Need, Outcome, Resource, Step};
use plugin_lib::certificates::{Request, decode, encode};
use serde_json::{Value, json};

use crate::authority::{Config, Signer};
use crate::policy::{duration, validity};
use crate::types::CertificateSigningRequest;

/// Computes the status of one request.
///
/// # Errors
/// If the request cannot be parsed or signed, or the authorities contradict each other. [`Error::Needs`] if the
/// signature must be requested first.
#[doc(alias = "handle")]
pub fn reconcile(key: &Key, lister: &impl Lister) -> Result<Outcome, Error> {
    let Some((csr, document)) = lister.get_document::<CertificateSigningRequest>("", &key.name)? else {
        return Ok(Outcome::new());
    };
    let signer = Signer::named(&csr.spec.signer_name).filter(|_| is_to_be_signed(&csr));
    let Some(signer) = signer else { return Ok(Outcome::new()) };
    let config: Config = lister.config()?;
    let Some(authority) = config.authority(signer)? else { return Ok(Outcome::new()) };
    let pem = decode(&csr.spec.request).unwrap_or_default();
    let request = Request::parse(&pem)
        .map_err(|why| Error::retry(format!("unable to parse csr {:?}: {why}", csr.metadata.name)))?;
    let update = match signer.validate(&request, &csr.spec.usages) {
        Err(why) => fail(document, &why, lister)?,
        Ok(()) => issue(document, &sign(&csr, &pem, authority, &config, lister)?),
    };
    Ok(Outcome::new().step(Step::sequential([update])))
}

/// Whether a request is approved, neither denied nor failed, and not signed yet.
#[doc(alias = "IsCertificateRequestApproved")]
#[doc(alias = "HasTrueCondition")]
fn is_to_be_signed(csr: &CertificateSigningRequest) -> bool {
    let conditions = &csr.status.conditions;
    let has = |kind: &str| conditions.iter().any(|condition| condition.type_ == kind);
    let has_failed = conditions
        .iter()
        .any(|condition| condition.type_ == "Failed" && (condition.status.is_empty() || condition.status == "True"));
    csr.status.certificate.is_empty() && has("Approved") && !has("Denied") && !has_failed
}

/// The certificate, in PEM.
fn sign(
    csr: &CertificateSigningRequest,
    pem: &[u8],
    authority: &str,
    config: &Config,
    lister: &impl Lister,
) -> Result<String, Error> {
    let longest = Duration::from_millis(config.duration);
    let (not_before, not_after) = validity(duration(csr.spec.expiration_seconds, longest), lister.now()?);
    let need = Need::sign_certificate(CertificateRequest {
        authority: authority.to_owned(),
        request: String::from_utf8_lossy(pem).into_owned(),
        usages: csr.spec.usages.clone(),
        not_before: not_before.to_string(),
        not_after: not_after.to_string(),
    });
    lister.ask(need)?.map_err(|error| {
        let message = format!("error auto signing csr: {}: {}", error.reason, error.message);
        // A retry does not help until the request changes.
        if ["Malformed", "TooLarge"].contains(&error.reason.as_str()) {
            Error::terminal(message)
        } else {
            Error::retry(message)
        }
    })
}

/// The update with the certificate.
fn issue(mut document: Document, certificate: &str) -> Mutation {
    document.set(&["status", "certificate"], &encode(certificate));
    Mutation::update_status(&CertificateSigningRequest::KIND, document)
}

/// The update with the condition that the signer does not allow the request. The API server sets the time of the
/// transition.
fn fail(mut document: Document, why: &str, lister: &impl Lister) -> Result<Mutation, Error> {
    let mut conditions: Vec<Value> = document.get(&["status", "conditions"]).unwrap_or_default();
    conditions.push(json!({
        "type": "Failed", "status": "True", "reason": "SignerValidationFailure", "message": why,
        "lastUpdateTime": lister.now()?,
    }));
    document.set(&["status", "conditions"], &conditions);
    Ok(Mutation::update_status(&CertificateSigningRequest::KIND, document))
}
