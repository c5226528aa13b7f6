//! The approval of one request.

use pintle_sdk::document::Document;
use pintle_sdk::{Error, Key, Kind, Lister, Mutation, Outcome, Resource, Step};
use plugin_lib::certificates::{Request, decode};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::types::CertificateSigningRequest;

const REVIEW: Kind = Kind::new("authorization.k8s.io", "v1", "SubjectAccessReview");

/// The signer of client certificates of kubelets.
const SIGNER: &str = "kubernetes.io/kube-apiserver-client-kubelet";

/// Recognizes requests for which a permission is sufficient.
#[doc(alias = "csrRecognizer")]
struct Recognizer {
    recognizes: fn(&CertificateSigningRequest, &Request) -> bool,
    /// The subresource of the permission.
    permission: &'static str,
    /// Part of the API: upstream's text.
    message: &'static str,
}

/// The recognizers, in order.
#[doc(alias = "recognizers")]
const RECOGNIZERS: [Recognizer; 2] = [
    Recognizer {
        recognizes: is_self_node_client,
        permission: "selfnodeclient",
        message: "Auto approving self kubelet client certificate after SubjectAccessReview.",
    },
    Recognizer {
        recognizes: is_node_client,
        permission: "nodeclient",
        message: "Auto approving kubelet client certificate after SubjectAccessReview.",
    },
];

/// Computes the approval of one request.
///
/// # Errors
/// If the request cannot be parsed, or is recognized but the user lacks the permission. [`Error::Needs`] if a review
/// must be requested first.
#[doc(alias = "handle")]
pub fn reconcile(key: &Key, lister: &impl Lister) -> Result<Outcome, Error> {
    let Some((csr, document)) = lister.get_document::<CertificateSigningRequest>("", &key.name)? else {
        return Ok(Outcome::new());
    };
    let is_decided = csr.status.conditions.iter().any(|condition| ["Approved", "Denied"].contains(&&*condition.type_));
    if !csr.status.certificate.is_empty() || is_decided {
        return Ok(Outcome::new());
    }
    let name = &csr.metadata.name;
    let request = Request::parse(&decode(&csr.spec.request).unwrap_or_default())
        .map_err(|why| Error::retry(format!("unable to parse csr {name:?}: {why}")))?;
    let mut tried = Vec::new();
    for Recognizer { recognizes, permission, message } in &RECOGNIZERS {
        if !recognizes(&csr, &request) {
            continue;
        }
        if is_authorized(&csr, permission, lister)? {
            return Ok(Outcome::new().step(Step::sequential([approve(document, message)])));
        }
        tried.push(*permission);
    }
    match tried.is_empty() {
        true => Ok(Outcome::new()),
        false => Err(Error::retry(format!(
            "recognized csr {name:?} as [{}] but subject access review was not approved",
            tried.join(" ")
        ))),
    }
}

#[doc(alias = "isNodeClientCert")]
fn is_node_client(csr: &CertificateSigningRequest, request: &Request) -> bool {
    csr.spec.signer_name == SIGNER && request.validate_kubelet_client(&csr.spec.usages).is_ok()
}

#[doc(alias = "isSelfNodeClientCert")]
fn is_self_node_client(csr: &CertificateSigningRequest, request: &Request) -> bool {
    csr.spec.username == request.common_name && is_node_client(csr, request)
}

/// Whether the requesting user has the permission.
#[doc(alias = "authorize")]
fn is_authorized(csr: &CertificateSigningRequest, permission: &str, lister: &impl Lister) -> Result<bool, Error> {
    #[derive(Deserialize)]
    struct Verdict {
        #[serde(default)]
        allowed: bool,
    }
    let spec = &csr.spec;
    let review = json!({"spec": {
        "resourceAttributes": {
            "group": "certificates.k8s.io", "version": "*", "resource": "certificatesigningrequests",
            "subresource": permission, "verb": "create",
        },
        "user": spec.username, "groups": spec.groups, "extra": spec.extra, "uid": spec.uid,
    }});
    lister.review::<Verdict>(&REVIEW, "", review).map(|verdict| verdict.allowed)
}

/// The update that adds the condition. The API server fills in its times.
#[doc(alias = "appendApprovalCondition")]
fn approve(mut document: Document, message: &str) -> Mutation {
    let mut conditions: Vec<Value> = document.get(&["status", "conditions"]).unwrap_or_default();
    conditions.push(json!({"type": "Approved", "status": "True", "reason": "AutoApproved", "message": message}));
    document.set(&["status", "conditions"], &conditions);
    Mutation::update(&CertificateSigningRequest::KIND, document).subresource("approval")
}
