//! Reads that the cache cannot answer, and other questions: the host answers them, and calls `reconcile` again.

use std::time::Duration;

use crate::outcome::Body;
use crate::types::{Kind, ObjectKey};

/// Reads that the host takes from one outcome.
pub(crate) const MAX_NEEDS: usize = 256;

/// A read that the cache cannot answer. See [`Lister::live`](crate::Lister::live) for the short way.
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
    /// Discover the API server's resources now: [`Lister::resources`](crate::Lister::resources) shows them once it is answered.
    /// Answer: a JSON array of the group versions that did not answer; what was known of them is still shown.
    Discovery,
    /// A verdict of the API server. Answer: the review with its status. See [`Lister::review`](crate::Lister::review) for the short way.
    Review {
        /// Kind of the review, for example `authorization.k8s.io/v1/SubjectAccessReview`.
        kind: Kind,
        /// Empty for cluster-scoped kinds.
        namespace: String,
        /// The review, as JSON.
        object: String,
    },
    /// A JSON Web Token. Answer: the token. See [`Need::sign_jwt`].
    SignJwt {
        /// A setting of type `key`.
        key: String,
        /// A JSON object.
        claims: String,
    },
    /// A certificate. Answer: the certificate in PEM.
    SignCertificate(CertificateRequest),
    /// An operation of an endpoint that the operator has bound. Answer: the body of the response, JSON.
    Call {
        /// As the manifest declares it.
        endpoint: String,
        /// One of its operations.
        operation: String,
        /// JSON.
        body: String,
        /// How long to wait for the answer, at most 30 s, which is the default.
        timeout: Option<Duration>,
    },
}

/// A certificate to sign; it is never that of an authority.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct CertificateRequest {
    /// A setting of type `authority`.
    pub authority: String,
    /// In PEM: one `CERTIFICATE REQUEST`. Subject and subject alternative names are taken from it.
    pub request: String,
    /// Names of usages, as `certificates.k8s.io` has them, for example `client auth`.
    pub usages: Vec<String>,
    /// RFC 3339.
    pub not_before: String,
    /// RFC 3339; the host cuts it to the end of the authority's certificate.
    pub not_after: String,
}

/// How much of each object the answer to a [`Need::LiveList`] has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum LiveDetail {
    /// `apiVersion`, `kind` and `metadata`, without `managedFields`.
    #[default]
    Metadata,
    /// What the watch of the kind declares; only for kinds that the manifest watches.
    Projection,
    /// Everything but `managedFields`.
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

    /// A verdict of the API server; `review` is the object with its spec.
    pub fn review(kind: &Kind, namespace: impl Into<String>, review: impl Body) -> Self {
        Self::Review { kind: kind.clone(), namespace: namespace.into(), object: review.into_json() }
    }

    /// A token with these claims, signed by the key that is the setting `key`.
    pub fn sign_jwt(key: impl Into<String>, claims: impl Body) -> Self {
        Self::SignJwt { key: key.into(), claims: claims.into_json() }
    }

    /// One operation of an endpoint.
    pub fn call(endpoint: impl Into<String>, operation: impl Into<String>, body: impl Body) -> Self {
        let (endpoint, operation, body) = (endpoint.into(), operation.into(), body.into_json());
        Self::Call { endpoint, operation, body, timeout: None }
    }

    /// A certificate, signed by the authority that is a setting.
    pub fn sign_certificate(request: CertificateRequest) -> Self {
        Self::SignCertificate(request)
    }

    /// How long to wait for the answer, at most 30 s. No effect on other needs than calls.
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

    /// Only objects that this label selector matches. No effect on other needs than lists.
    #[must_use]
    pub fn labels(mut self, selector: impl ToString) -> Self {
        if let Self::LiveList { label_selector, .. } = &mut self {
            *label_selector = Some(selector.to_string());
        }
        self
    }

    /// Only objects that this field selector matches. No effect on other needs than lists.
    #[must_use]
    pub fn fields(mut self, selector: impl Into<String>) -> Self {
        if let Self::LiveList { field_selector, .. } = &mut self {
            *field_selector = Some(selector.into());
        }
        self
    }

    /// How much of each object. No effect on other needs than lists.
    #[must_use]
    pub fn detail(mut self, how_much: LiveDetail) -> Self {
        if let Self::LiveList { detail, .. } = &mut self {
            *detail = how_much;
        }
        self
    }
}
