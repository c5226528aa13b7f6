//! Writes that can give rights that the writer does not have.
//!
//! Before each of them, the API server authorizes an additional verb for the account that sends the write. That account
//! may be the host's, which has the rights of all plugins; so the host checks the verb for the plugin as well.
//!
//! Source: `pkg/registry/rbac`, `plugin/pkg/admission/certificates` and `pkg/registry/certificates` of kube-apiserver.

use super::{Access, INTO_PODS};

/// API group of roles and bindings.
pub const RBAC: &str = "rbac.authorization.k8s.io";
/// API group of certificate requests and their signers.
pub const CERTIFICATES: &str = "certificates.k8s.io";

/// The verb that a write requires in addition to its own.
pub fn special_verb(access: &Access<'_>) -> Option<&'static str> {
    if !matches!(access.verb, "create" | "update" | "patch") {
        return None;
    }
    match (&*access.kind.group, &*access.kind.name, access.subresource) {
        (RBAC, "Role" | "ClusterRole", _) => Some("escalate"),
        (RBAC, "RoleBinding" | "ClusterRoleBinding", _) => Some("bind"),
        (CERTIFICATES, "CertificateSigningRequest", Some("approval")) => Some("approve"),
        (CERTIFICATES, "CertificateSigningRequest" | "PodCertificateRequest", Some("status")) => Some("sign"),
        (CERTIFICATES, "ClusterTrustBundle", _) => Some("attest"),
        _ => None,
    }
}

/// Whether a grant must list the subresource, because `*` does not include it: it gives a credential, or leads into a
/// Pod.
pub fn must_be_listed(subresource: &str) -> bool {
    subresource == "token" || INTO_PODS.contains(&subresource)
}
