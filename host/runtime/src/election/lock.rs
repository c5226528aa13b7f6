//! Requests for one Lease.

use std::fmt;
use std::sync::Arc;

use pintle_core::object::id::{Kind, ObjectKey};
use pintle_core::policy::election::Lease;
use pintle_core::ports::api::{ApiError, ApiReader, ApiResource, ApiWriter, WatchStream, WriteVerb, Written};

use super::object::{self, OneObject};

/// Reads a Lease; `None` if it does not exist.
///
/// # Errors
/// If the request fails; a retry may help, depending on the error.
pub async fn read_lease(reader: &dyn ApiReader, lease: &ObjectKey) -> Result<Option<Lease>, ApiError> {
    parse(lease, object::read(reader, &resource(), lease).await?)
}

fn parse(key: &ObjectKey, text: Option<Box<str>>) -> Result<Option<Lease>, ApiError> {
    let parsed = text.map(|text| Lease::parse(&text)).transpose();
    parsed.map_err(|why| ApiError::transport(format!("the Lease {key} does not parse: {why}")))
}

fn resource() -> ApiResource {
    object::resource(Kind::new("coordination.k8s.io", "v1", "Lease"), "leases")
}

/// Access to one Lease of the API server.
pub(super) struct Lock(OneObject);

impl Lock {
    pub(super) fn new(reader: Arc<dyn ApiReader>, writer: Arc<dyn ApiWriter>, namespace: &str, name: &str) -> Self {
        Self(OneObject::new(reader, writer, resource(), ObjectKey::new(namespace, name)))
    }

    pub(super) fn kind(&self) -> Kind {
        self.0.kind()
    }

    pub(super) fn object(&self) -> ObjectKey {
        self.0.key().clone()
    }

    /// Reads it; `None` if it does not exist.
    pub(super) async fn read(&self) -> Result<Option<Lease>, ApiError> {
        parse(self.0.key(), self.0.read().await?)
    }

    /// Creates or updates it.
    ///
    /// # Cancel safety
    /// If dropped, the write may or may not happen.
    pub(super) async fn write(&self, verb: WriteVerb) -> Result<Written, ApiError> {
        self.0.write(verb).await
    }

    /// Watches it, starting after this state.
    pub(super) async fn watch(&self, seen: Option<&Lease>) -> Result<WatchStream, ApiError> {
        self.0.watch(seen.map(Lease::version).unwrap_or_default()).await
    }
}

impl fmt::Display for Lock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
