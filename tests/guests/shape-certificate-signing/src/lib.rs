//! The shape of the CSR signing controller: the host signs, by a key that the guest does not see; what it refuses for good becomes a
//! condition of the request.

use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use pintle_sdk::api::meta::{Condition, ObjectMeta};
use pintle_sdk::conditions::is_true;
use pintle_sdk::{CertificateRequest, Error, Key, Lister, Mutation, Need, Outcome, Resource, Step, resource};
use serde::Deserialize;
use serde_json::json;

const SIGNER: &str = "kubernetes.io/kube-apiserver-client";

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Request {
    #[allow(dead_code, reason = "resource! needs it")]
    metadata: ObjectMeta,
    spec: Spec,
    status: Status,
}

resource!(Request, "certificates.k8s.io", "v1", "CertificateSigningRequest");

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    /// PEM in base64.
    request: String,
    signer_name: String,
    expiration_seconds: Option<u64>,
    usages: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Status {
    certificate: String,
    conditions: Vec<Condition>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Settings {
    duration_seconds: u64,
}

pub fn reconcile(key: &Key, lister: &impl Lister) -> Result<Outcome, Error> {
    let Some((request, mut document)) = lister.get_document::<Request>("", &key.name)? else {
        return Ok(Outcome::new());
    };
    let conditions = &request.status.conditions;
    let is_done =
        !request.status.certificate.is_empty() || is_true(conditions, "Denied") || is_true(conditions, "Failed");
    if is_done || request.spec.signer_name != SIGNER || !is_true(conditions, "Approved") {
        return Ok(Outcome::new());
    }
    // What is not base64 is no request, which the host refuses.
    let pem = BASE64_STANDARD.decode(&request.spec.request).ok().and_then(|pem| String::from_utf8(pem).ok());
    let settings: Settings = lister.config()?;
    let now = lister.now()?;
    let most =
        request.spec.expiration_seconds.unwrap_or(settings.duration_seconds).clamp(600, settings.duration_seconds);
    let need = Need::sign_certificate(CertificateRequest {
        authority: "authority".into(),
        request: pem.unwrap_or_default(),
        usages: request.spec.usages.clone(),
        // Clocks differ.
        not_before: now.minus(Duration::from_secs(300)).to_string(),
        not_after: now.plus(Duration::from_secs(most)).to_string(),
    });
    match lister.ask(need)? {
        Ok(certificate) => document.set(&["status", "certificate"], &BASE64_STANDARD.encode(certificate)),
        // The request itself is wrong: no later try helps.
        Err(error) if error.reason == "Invalid" => {
            let failed = json!({
                "type": "Failed", "status": "True", "reason": "SignerValidationFailure", "message": error.message,
                "lastUpdateTime": now, "lastTransitionTime": now,
            });
            let mut all: Vec<serde_json::Value> = document.get(&["status", "conditions"]).unwrap_or_default();
            all.push(failed);
            document.set(&["status", "conditions"], &all);
        }
        Err(error) => return Err(Error::retry(format!("sign: {}: {}", error.reason, error.message))),
    }
    Ok(Outcome::new().step(Step::sequential([Mutation::update_status(&Request::KIND, document)])))
}

pintle_sdk::export!(reconcile);
