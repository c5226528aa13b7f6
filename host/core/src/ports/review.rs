//! Port to the API server's reviews, between `pintle-serve` and `pintle-kube`: authenticates tokens and authorizes
//! users.

use futures::future::BoxFuture;

use crate::ports::api::ApiError;

/// A kind of review.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReviewKind {
    /// `authentication.k8s.io/v1/TokenReview`.
    Token,
    /// `authorization.k8s.io/v1/SubjectAccessReview`.
    Access,
}

impl ReviewKind {
    /// Name of the kind.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Token => "TokenReview",
            Self::Access => "SubjectAccessReview",
        }
    }

    /// API version of the kind.
    pub fn api_version(self) -> &'static str {
        match self {
            Self::Token => "authentication.k8s.io/v1",
            Self::Access => "authorization.k8s.io/v1",
        }
    }

    /// Path of its collection.
    pub fn path(self) -> &'static str {
        match self {
            Self::Token => "/apis/authentication.k8s.io/v1/tokenreviews",
            Self::Access => "/apis/authorization.k8s.io/v1/subjectaccessreviews",
        }
    }
}

/// Sends reviews to the API server.
pub trait Reviewer: Send + Sync {
    /// Creates a review with the JSON text `body`, and returns the whole answer. It is sent once.
    ///
    /// # Cancel safety
    /// Safe: a review changes nothing.
    fn review(&self, kind: ReviewKind, body: String) -> BoxFuture<'_, Result<Box<str>, ApiError>>;

    /// The `data` of the ConfigMap in which the API server publishes how it authenticates clients
    /// (`kube-system/extension-apiserver-authentication`), as JSON text.
    ///
    /// # Cancel safety
    /// Safe.
    fn authentication_config(&self) -> BoxFuture<'_, Result<Box<str>, ApiError>>;
}
