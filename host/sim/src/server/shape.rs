//! Objects and lists in the representation, version and format that a client requested.

use bytes::{BufMut as _, Bytes, BytesMut};
use serde_json::{Map, Value, json};

use super::objects::metadata_mut;
use super::reply::{Format, Reply, Shape};
use super::status::ApiError;
use super::{Api, Call};
use crate::discovery::{Resource, convert};
use crate::schema::{self, TypeRef};
use crate::store::Version;

/// The structure of objects of a resource, none for kinds without one.
pub(crate) fn schema_of(resource: &Resource) -> Option<TypeRef> {
    match &resource.crd {
        Some(crd) => Some(crd.schema.clone()),
        None => schema::lookup(&resource.group, &resource.version, &resource.kind),
    }
}

/// The metadata of a list.
pub(crate) struct ListMeta {
    pub(crate) rv: u64,
    pub(crate) next: Option<String>,
    pub(crate) remaining: Option<usize>,
}

impl ListMeta {
    fn value(&self) -> Value {
        let mut fields = Map::new();
        fields.insert("resourceVersion".into(), json!(self.rv.to_string()));
        if let Some(next) = &self.next {
            fields.insert("continue".into(), json!(next));
        }
        if let Some(remaining) = self.remaining {
            fields.insert("remainingItemCount".into(), json!(remaining));
        }
        Value::Object(fields)
    }
}

/// A stored object in the client's version.
pub(crate) fn in_version(resource: &Resource, stored: &Version) -> Value {
    let mut value = stored.value();
    to_version(resource, &mut value);
    value
}

/// Turns an object of the storage version into the version of `resource`.
pub(crate) fn to_version(resource: &Resource, value: &mut Value) {
    convert::from_storage(resource, value);
    // Defaults are those of the storage version only, as upstream.
    if resource.crd.is_some()
        && !resource.is_storage_version()
        && let Some(schema) = schema_of(resource)
    {
        schema::prune(&schema, value);
    }
}

/// Converts an object of the version of `resource` into the storage version, with its defaults.
pub(crate) fn to_stored(resource: &Resource, value: &mut Value) {
    convert::to_storage(resource, value);
    if let Some(open_api) = resource.crd.as_ref().and_then(|crd| crd.stored_open_api.as_ref())
        && !resource.is_storage_version()
    {
        crate::discovery::crd::apply_structural_defaults(open_api, value);
    }
}

/// One object on the wire.
pub(crate) fn object_bytes(resource: &Resource, shape: Shape, stored: &Version) -> Bytes {
    match shape {
        Shape::Partial | Shape::PartialList => stored.partial(),
        _ if resource.is_storage_version() => stored.bytes.clone(),
        _ => in_version(resource, stored).to_string().into(),
    }
}

impl Api {
    /// Answers with one stored object.
    pub(crate) fn reply_object(&self, call: &Call, code: u16, stored: &Version) -> Reply {
        match call.accept.shape {
            Shape::Table => {
                let value = in_version(&call.resource, stored);
                let mut table = self.table(&call.resource, &[&value], call.query.get("includeObject"));
                metadata_mut(&mut table).insert("resourceVersion".into(), json!(stored.rv.to_string()));
                Reply::json(code, call.accept.format, &table)
            }
            Shape::PartialList => Reply::error(&wrong_shape(&call.resource, false), call.accept.format),
            shape => Reply::serialized(code, call.accept.format, &object_bytes(&call.resource, shape, stored)),
        }
    }

    /// Replies with an object that is not stored: the result of a dry run, a scale, a review.
    pub(crate) fn reply_value(&self, call: &Call, code: u16, value: &Value) -> Reply {
        match call.accept.shape {
            Shape::Partial => Reply::json(code, call.accept.format, &crate::store::partial_object(value)),
            Shape::PartialList => Reply::error(&wrong_shape(&call.resource, false), call.accept.format),
            Shape::Table if value["kind"] == call.resource.kind => Reply::json(
                code,
                call.accept.format,
                &self.table(&call.resource, &[value], call.query.get("includeObject")),
            ),
            _ => Reply::json(code, call.accept.format, value),
        }
    }

    /// Answers with a list.
    pub(crate) fn reply_list(
        &self,
        call: &Call,
        meta: &ListMeta,
        items: &[std::sync::Arc<Version>],
    ) -> Result<Reply, ApiError> {
        let resource = &call.resource;
        match call.accept.shape {
            Shape::Table => {
                let values: Vec<Value> = items.iter().map(|item| in_version(resource, item)).collect();
                let mut table =
                    self.table(resource, &values.iter().collect::<Vec<_>>(), call.query.get("includeObject"));
                table["metadata"] = meta.value();
                Ok(Reply::json(200, call.accept.format, &table))
            }
            Shape::Partial => Err(wrong_shape(resource, true)),
            shape => {
                let (kind, api_version) = match shape {
                    Shape::PartialList => ("PartialObjectMetadataList", "meta.k8s.io/v1".to_owned()),
                    _ => (resource.list_kind.as_str(), resource.api_version()),
                };
                // Items of built-in lists do not repeat their type; those of custom kinds do.
                let prefix = match shape {
                    Shape::PartialList => String::new(),
                    _ if resource.crd.is_some() => String::new(),
                    _ => type_prefix(resource),
                };
                let mut list_meta = meta.value();
                // Lists of custom kinds show it even if empty.
                if resource.crd.is_some() && shape != Shape::PartialList && meta.next.is_none() {
                    list_meta["continue"] = json!("");
                }
                let mut out = BytesMut::new();
                out.put(
                    format!(
                        "{{\"kind\":{},\"apiVersion\":{},\"metadata\":{},\"items\":[",
                        json!(kind),
                        json!(api_version),
                        list_meta
                    )
                    .as_bytes(),
                );
                for (n, item) in items.iter().enumerate() {
                    if n > 0 {
                        out.put_u8(b',');
                    }
                    let bytes = object_bytes(resource, shape, item);
                    match bytes.strip_prefix(prefix.as_bytes()) {
                        Some(rest) if !prefix.is_empty() => {
                            out.put_u8(b'{');
                            out.put(rest);
                        }
                        _ => out.put(bytes.as_ref()),
                    }
                }
                out.put(&b"]}\n"[..]);
                let bytes = out.freeze();
                Ok(match call.accept.format {
                    Format::Json => Reply::bytes(200, "application/json", bytes),
                    format => Reply::serialized(200, format, &bytes),
                })
            }
        }
    }
}

/// The error for a metadata request of one object on a list, or the other way round. It contains Go's internal type.
fn wrong_shape(resource: &Resource, is_list: bool) -> ApiError {
    let (package, kind) = match (&resource.crd, &*resource.group) {
        (Some(_), _) => ("unstructured", "Unstructured"),
        (None, "" | "events.k8s.io") => ("core", &*resource.kind),
        (None, group) => (group.split('.').next().unwrap_or(group), &*resource.kind),
    };
    let (wanted, found, list) = [("List", "not a list", ""), ("", "a list", "List")][usize::from(is_list)];
    let message = format!(
        "you requested PartialObjectMetadata{wanted}, but the requested object is {found} (*{package}.{kind}{list})"
    );
    ApiError::new(406, "NotAcceptable", message)
}

/// Prefix of the serialized objects of a resource, up to the first field after their type.
fn type_prefix(resource: &Resource) -> String {
    format!("{{\"apiVersion\":{},\"kind\":{},", json!(resource.api_version()), json!(resource.kind))
}
