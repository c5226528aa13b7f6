//! Requests for one object of the API server.

use std::fmt;
use std::sync::Arc;

use pintle_core::object::id::{Kind, ObjectKey};
use pintle_core::ports::api::{
    ApiError, ApiErrorClass, ApiReader, ApiResource, ApiWriter, Detail, ListWatchTarget, WatchStart, WatchStream,
    WriteRequest, WriteVerb, Written,
};

/// Access to a namespaced object by name.
pub(super) struct OneObject {
    reader: Arc<dyn ApiReader>,
    writer: Arc<dyn ApiWriter>,
    resource: Arc<ApiResource>,
    key: ObjectKey,
}

/// A namespaced resource.
pub(super) fn resource(kind: Kind, plural: &str) -> ApiResource {
    let plural = plural.to_owned();
    ApiResource { kind, plural, namespaced: true, verbs: Vec::new(), subresources: Vec::new(), preferred: true }
}

/// Reads an object; `None` if it does not exist.
///
/// # Errors
/// If the request fails; a retry may help, depending on the error.
pub(super) async fn read(
    reader: &dyn ApiReader,
    resource: &ApiResource,
    key: &ObjectKey,
) -> Result<Option<Box<str>>, ApiError> {
    match reader.get(resource, key, None).await {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.class == ApiErrorClass::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

impl OneObject {
    pub(super) fn new(
        reader: Arc<dyn ApiReader>,
        writer: Arc<dyn ApiWriter>,
        resource: ApiResource,
        key: ObjectKey,
    ) -> Self {
        Self { reader, writer, resource: Arc::new(resource), key }
    }

    pub(super) fn kind(&self) -> Kind {
        self.resource.kind.clone()
    }

    pub(super) fn key(&self) -> &ObjectKey {
        &self.key
    }

    /// Reads it; `None` if it does not exist.
    pub(super) async fn read(&self) -> Result<Option<Box<str>>, ApiError> {
        read(&*self.reader, &self.resource, &self.key).await
    }

    /// Creates, updates or deletes it.
    ///
    /// # Cancel safety
    /// If dropped, the write may or may not happen.
    pub(super) async fn write(&self, verb: WriteVerb) -> Result<Written, ApiError> {
        let name = match verb {
            WriteVerb::Create { .. } => String::new(),
            _ => self.key.name.to_string(),
        };
        let (resource, namespace) = (self.resource.clone(), self.key.namespace.to_string());
        self.writer.write(&WriteRequest { resource, namespace, name, subresource: None, verb }).await
    }

    /// Watches it after this version; if empty, from any state that the API server has.
    pub(super) async fn watch(&self, version: &str) -> Result<WatchStream, ApiError> {
        let target = ListWatchTarget {
            kind: self.kind(),
            plural: self.resource.plural.clone(),
            namespace: Some(self.key.namespace.to_string()),
            label_selector: None,
            field_selector: Some(format!("metadata.name={}", self.key.name)),
            detail: Detail::Full,
        };
        let version = if version.is_empty() { "0" } else { version };
        self.reader.watch(&target, WatchStart::After(version.to_owned())).await
    }
}

impl fmt::Display for OneObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.key.namespace, self.key.name)
    }
}
