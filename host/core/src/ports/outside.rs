//! Keys, certificate authorities and endpoints outside of the API server that the operator has bound for plugins.
//!
//! Invariants:
//! 1. A plugin cannot use anything that is not bound: the lookup returns `None`, and the need is denied.
//! 2. Keys and credentials never leave an implementation; answers are tokens, certificates and bodies.
//!
//! The decisions (`policy::outside`) are separate.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};

use crate::contract::outcome::{CertificateRequest, NeedError};

/// The answer to a need, or its refusal.
pub type OutsideAnswer = Result<String, NeedError>;

/// Bindings by plugin name and the name that the manifest declares. Nothing is bound by default.
pub trait Outside: Send + Sync {
    /// The key of a setting of type `key`.
    fn key(&self, _plugin: &str, _setting: &str) -> Option<Arc<dyn SigningKey>> {
        None
    }

    /// The authority of a setting of type `authority`.
    fn authority(&self, _plugin: &str, _setting: &str) -> Option<Arc<dyn Authority>> {
        None
    }

    /// An endpoint.
    fn endpoint(&self, _plugin: &str, _endpoint: &str) -> Option<Arc<dyn Endpoint>> {
        None
    }

    /// The bindings of a plugin, for humans: never their contents.
    fn bound(&self, _plugin: &str) -> Vec<Bound> {
        Vec::new()
    }
}

/// Signs JSON Web Tokens.
pub trait SigningKey: Send + Sync {
    /// Returns a compact JWS of these claims, which are a JSON object.
    ///
    /// # Cancel safety
    /// Safe: a signature that is not delivered has no effect.
    fn sign(&self, claims: String) -> BoxFuture<'static, OutsideAnswer>;
}

/// Signs certificates.
pub trait Authority: Send + Sync {
    /// Returns the certificate in PEM.
    ///
    /// # Cancel safety
    /// Safe: a certificate that is not delivered has no effect.
    fn sign(&self, request: CertificateRequest) -> BoxFuture<'static, OutsideAnswer>;
}

/// An endpoint to send operations to.
pub trait Endpoint: Send + Sync {
    /// Sends the operation once, and returns a JSON answer. It ends within the timeout.
    ///
    /// # Cancel safety
    /// If the future is dropped, the operation may or may not have taken place.
    fn call<'a>(&'a self, operation: &'a str, body: &'a str, timeout: Duration) -> BoxFuture<'a, OutsideAnswer>;
}

/// A binding, for humans.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Bound {
    /// `key`, `authority` or `endpoint`.
    pub kind: String,
    /// The name that the manifest declares.
    pub name: String,
    /// The files, or the URL.
    pub place: String,
}

/// No bindings.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nothing;

impl Outside for Nothing {}
