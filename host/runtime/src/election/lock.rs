//! Requests for one Lease.

use std::fmt;
use std::sync::Arc;

use pintle_core::object::id::{Kind, ObjectKey};
use pintle_core::policy::election::Lease;
use pintle_core::ports::api::{
    ApiError, ApiErrorClass, ApiReader, ApiResource, ApiWriter, Detail, ListWatchTarget, WatchStart, WatchStream,
    WriteRequest, WriteVerb, Written,
};

/// Reads a Lease; `None` if there is none.
///
/// # Errors
/// Those of the request. A retry helps if it helps for them.
pub async fn read_lease(reader: &dyn ApiReader, lease: &ObjectKey) -> Result<Option<Lease>, ApiError> {
    match reader.get(&resource(), lease).await {
        Ok(text) => Lease::parse(&text)
            .map(Some)
            .map_err(|why| ApiError::transport(format!("the Lease {lease} does not parse: {why}"))),
        Err(error) if error.class == ApiErrorClass::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn resource() -> ApiResource {
    ApiResource {
        kind: Kind::new("coordination.k8s.io", "v1", "Lease"),
        plural: "leases".to_owned(),
        namespaced: true,
        verbs: Vec::new(),
        subresources: Vec::new(),
        preferred: true,
    }
}

/// A Lease of the API server, by its name.
pub(super) struct Lock {
    reader: Arc<dyn ApiReader>,
    writer: Arc<dyn ApiWriter>,
    resource: Arc<ApiResource>,
    namespace: String,
    name: String,
}

impl Lock {
    pub(super) fn new(reader: Arc<dyn ApiReader>, writer: Arc<dyn ApiWriter>, namespace: &str, name: &str) -> Self {
        let (namespace, name) = (namespace.to_owned(), name.to_owned());
        Self { reader, writer, resource: Arc::new(resource()), namespace, name }
    }

    pub(super) fn kind(&self) -> Kind {
        self.resource.kind.clone()
    }

    pub(super) fn object(&self) -> ObjectKey {
        ObjectKey::new(&self.namespace, &self.name)
    }

    /// Reads it; `None` if there is none.
    pub(super) async fn read(&self) -> Result<Option<Lease>, ApiError> {
        read_lease(&*self.reader, &self.object()).await
    }

    /// Creates or updates it.
    ///
    /// # Cancel safety
    /// If dropped, the write may or may not happen.
    pub(super) async fn write(&self, verb: WriteVerb) -> Result<Written, ApiError> {
        let name = match verb {
            WriteVerb::Create { .. } => String::new(),
            _ => self.name.clone(),
        };
        let (resource, namespace) = (self.resource.clone(), self.namespace.clone());
        self.writer.write(&WriteRequest { resource, namespace, name, subresource: None, verb }).await
    }

    /// Watches it from this state on.
    pub(super) async fn watch(&self, seen: Option<&Lease>) -> Result<WatchStream, ApiError> {
        // Version 0: any state that the API server has.
        let version = seen.map(Lease::version).filter(|version| !version.is_empty()).unwrap_or("0");
        let target = ListWatchTarget {
            kind: self.kind(),
            plural: self.resource.plural.clone(),
            namespace: Some(self.namespace.clone()),
            label_selector: None,
            field_selector: Some(format!("metadata.name={}", self.name)),
            detail: Detail::Full,
        };
        self.reader.watch(&target, WatchStart::After(version.to_owned())).await
    }
}

impl fmt::Display for Lock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}
