//! Live reads and other requests: the host answers them, and calls `reconcile` again.

use std::time::Duration;

use crate::outcome::Body;
use crate::types::{Kind, ObjectKey};

/// Most needs of one outcome.
pub(crate) const MAX_NEEDS: usize = 256;

/// A request that the cache cannot answer. See [`Lister::live`](crate::Lister::live) for the short form.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Need {
    /// One object. Answer: the object.
    LiveObject {
        /// Its kind.
        kind: Kind,
        /// Its name.
        object: ObjectKey,
        /// A subresource that can be read, for example `scale`.
        subresource: Option<String>,
    },
    /// A list. Answer: a JSON array of objects.
    LiveList {
        /// Kind of the objects.
        kind: Kind,
        /// Empty for all namespaces.
        namespace: String,
        /// In the syntax of kubectl.
        label_selector: Option<String>,
        /// In the syntax of kubectl, for example `spec.nodeName=n1`.
        field_selector: Option<String>,
        /// How much of each object.
        detail: LiveDetail,
        /// At most this many objects.
        limit: u32,
    },
    /// GET of a path of the API server. Answer: the body.
    RawPath(String),
    /// Refreshes the discovery: [`Lister::resources`](crate::Lister::resources) then has the result. Answer: a JSON
    /// array of the group versions that failed; their last known resources are still listed.
    Discovery,
    /// A review by the API server. Answer: the review with its status. See [`Lister::review`](crate::Lister::review)
    /// for the short form.
    Review {
        /// Kind of the review, for example `authorization.k8s.io/v1/SubjectAccessReview`.
        kind: Kind,
        /// Empty for cluster-scoped kinds.
        namespace: String,
        /// The review, as JSON.
        object: String,
    },
    /// Signs a JSON Web Token. Answer: the token. See [`Need::sign_jwt`].
    SignJwt {
        /// A setting of type `key`.
        key: String,
        /// A JSON object.
        claims: String,
    },
    /// Signs a certificate. Answer: the certificate in PEM.
    SignCertificate(CertificateRequest),
    /// Calls an operation of an endpoint that the operator has bound. Answer: the response body, JSON.
    Call {
        /// Name in the manifest.
        endpoint: String,
        /// One of its operations.
        operation: String,
        /// JSON.
        body: String,
        /// Timeout, at most 30 s, which is the default.
        timeout: Option<Duration>,
    },
}

/// A certificate to sign, never that of an authority.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct CertificateRequest {
    /// A setting of type `authority`.
    pub authority: String,
    /// In PEM: one `CERTIFICATE REQUEST`. It provides subject and subject alternative names.
    pub request: String,
    /// Names of usages, as in `certificates.k8s.io`, for example `client auth`.
    pub usages: Vec<String>,
    /// RFC 3339.
    pub not_before: String,
    /// RFC 3339; the host limits it to the end of the authority's certificate.
    pub not_after: String,
}

/// The parts of each object in the answer to a [`Need::LiveList`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum LiveDetail {
    /// `apiVersion`, `kind` and `metadata`, without `managedFields`.
    #[default]
    Metadata,
    /// The fields that the watch of the kind declares; only for kinds that the manifest watches.
    Projection,
    /// Everything except `managedFields`.
    Whole,
}

impl Need {
    /// One object.
    pub fn live_object(kind: &Kind, namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self::LiveObject { kind: kind.clone(), object: ObjectKey::new(namespace, name), subresource: None }
    }

    /// The metadata of at most `limit` objects of a namespace, or of all namespaces if that is empty.
    pub fn live_list(kind: &Kind, namespace: impl Into<String>, limit: u32) -> Self {
        Self::LiveList {
            kind: kind.clone(),
            namespace: namespace.into(),
            label_selector: None,
            field_selector: None,
            detail: LiveDetail::Metadata,
            limit,
        }
    }

    /// A review by the API server; `review` is the object with its spec.
    pub fn review(kind: &Kind, namespace: impl Into<String>, review: impl Body) -> Self {
        Self::Review { kind: kind.clone(), namespace: namespace.into(), object: review.into_json() }
    }

    /// A token with these claims, signed by the key in the setting `key`.
    pub fn sign_jwt(key: impl Into<String>, claims: impl Body) -> Self {
        Self::SignJwt { key: key.into(), claims: claims.into_json() }
    }

    /// One operation of an endpoint.
    pub fn call(endpoint: impl Into<String>, operation: impl Into<String>, body: impl Body) -> Self {
        let (endpoint, operation, body) = (endpoint.into(), operation.into(), body.into_json());
        Self::Call { endpoint, operation, body, timeout: None }
    }

    /// A certificate, signed by an authority in a setting.
    pub fn sign_certificate(request: CertificateRequest) -> Self {
        Self::SignCertificate(request)
    }

    /// Timeout, at most 30 s. No effect on other needs than calls.
    #[must_use]
    pub fn timeout(mut self, after: Duration) -> Self {
        if let Self::Call { timeout, .. } = &mut self {
            *timeout = Some(after);
        }
        self
    }

    /// A subresource instead of the object. No effect on other needs than [`LiveObject`](Self::LiveObject).
    #[must_use]
    pub fn subresource(mut self, name: impl Into<String>) -> Self {
        if let Self::LiveObject { subresource, .. } = &mut self {
            *subresource = Some(name.into());
        }
        self
    }

    /// Only objects that this label selector matches. Lists only.
    #[must_use]
    pub fn labels(mut self, selector: impl ToString) -> Self {
        if let Self::LiveList { label_selector, .. } = &mut self {
            *label_selector = Some(selector.to_string());
        }
        self
    }

    /// Only objects that this field selector matches. Lists only.
    #[must_use]
    pub fn fields(mut self, selector: impl Into<String>) -> Self {
        if let Self::LiveList { field_selector, .. } = &mut self {
            *field_selector = Some(selector.into());
        }
        self
    }

    /// The parts of each object. Lists only.
    #[must_use]
    pub fn detail(mut self, how_much: LiveDetail) -> Self {
        if let Self::LiveList { detail, .. } = &mut self {
            *detail = how_much;
        }
        self
    }
}
