//! Requests and replies: bodies, media types and content negotiation.
//!
//! *Not here*: the content of a reply (`read`, `write`, `watch`).

use std::io;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use http::{HeaderMap, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use serde_json::Value;

use super::status::ApiError;
use crate::schema::type_name;

/// Largest body of a request, in bytes, as kube-apiserver's default.
pub(crate) const MAX_BODY_BYTES: usize = 3 * 1024 * 1024;

/// Media type of Kubernetes' protobuf encoding.
pub(crate) const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// The body of a response; an error in the middle breaks the connection.
pub(crate) type Body = UnsyncBoxBody<Bytes, io::Error>;

/// The representation of objects that a client requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Unchanged.
    Native,
    /// Rows for humans.
    Table,
    /// Only metadata of an object.
    Partial,
    /// Only metadata of each object of a list.
    PartialList,
    /// Aggregated discovery of that version of its format.
    Discovery(&'static str),
}

/// The text format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// JSON.
    Json,
    /// JSON with line breaks, for browsers and curl.
    Pretty,
    /// YAML.
    Yaml,
}

/// Result of the `Accept` header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Accept {
    pub(crate) shape: Shape,
    pub(crate) format: Format,
}

impl Accept {
    /// The first alternative that the server can serve.
    ///
    /// # Errors
    /// 406 when there is none.
    pub(crate) fn parse(headers: &HeaderMap, pretty: bool) -> Result<Self, ApiError> {
        let json = if pretty { Format::Pretty } else { Format::Json };
        let text = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok()).collect::<Vec<_>>().join(",");
        if text.trim().is_empty() {
            return Ok(Self { shape: Shape::Native, format: json });
        }
        text.split(',').find_map(|range| Self::one(range, json)).ok_or_else(ApiError::not_acceptable)
    }

    fn one(range: &str, json: Format) -> Option<Self> {
        let mut parts = range.split(';').map(str::trim);
        let format = match parts.next()? {
            "application/json" | "*/*" | "application/*" => json,
            "application/yaml" => Format::Yaml,
            _ => return None,
        };
        let (mut kind, mut version) = ("", "");
        for part in parts {
            match part.split_once('=') {
                Some(("as", value)) => kind = value,
                Some(("v", value)) => version = value,
                _ => {}
            }
        }
        let shape = match (kind, version) {
            ("", _) => Shape::Native,
            ("Table", "v1") => Shape::Table,
            ("PartialObjectMetadata", "v1") => Shape::Partial,
            ("PartialObjectMetadataList", "v1") => Shape::PartialList,
            ("APIGroupDiscoveryList", "v2") => Shape::Discovery("v2"),
            ("APIGroupDiscoveryList", "v2beta1") => Shape::Discovery("v2beta1"),
            _ => return None,
        };
        Some(Self { shape, format })
    }
}

/// A reply before it becomes a response.
pub(crate) struct Reply {
    pub(crate) code: u16,
    pub(crate) content_type: &'static str,
    pub(crate) body: Body,
    pub(crate) retry_after_seconds: Option<u32>,
    pub(crate) warnings: Vec<String>,
}

impl Reply {
    pub(crate) fn bytes(code: u16, content_type: &'static str, bytes: Bytes) -> Self {
        let body = Full::new(bytes).map_err(|never| match never {}).boxed_unsync();
        Self { code, content_type, body, retry_after_seconds: None, warnings: Vec::new() }
    }

    pub(crate) fn text(code: u16, text: impl Into<Bytes>) -> Self {
        Self::bytes(code, "text/plain; charset=utf-8", text.into())
    }

    pub(crate) fn json(code: u16, format: Format, value: &Value) -> Self {
        match format {
            Format::Json => Self::bytes(code, "application/json", value.to_string().into()),
            Format::Pretty => Self::bytes(code, "application/json", format!("{value:#}\n").into()),
            Format::Yaml => match serde_norway::to_string(value) {
                Ok(text) => Self::bytes(code, "application/yaml", text.into()),
                Err(error) => Self::text(500, error.to_string()),
            },
        }
    }

    /// Serialized JSON in the requested format.
    pub(crate) fn serialized(code: u16, format: Format, bytes: &Bytes) -> Self {
        match format {
            Format::Json => Self::bytes(code, "application/json", bytes.clone()),
            Format::Pretty | Format::Yaml => {
                Self::json(code, format, &serde_json::from_slice(bytes).unwrap_or(Value::Null))
            }
        }
    }

    pub(crate) fn error(error: &ApiError, format: Format) -> Self {
        let mut reply = Self::json(error.code, format, &error.status());
        reply.retry_after_seconds = error.retry_after_seconds;
        reply
    }

    pub(crate) fn into_response(self) -> Response<Body> {
        let mut response = Response::new(self.body);
        *response.status_mut() =
            http::StatusCode::from_u16(self.code).unwrap_or(http::StatusCode::INTERNAL_SERVER_ERROR);
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(self.content_type));
        if let Some(seconds) = self.retry_after_seconds {
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        for warning in &self.warnings {
            let text = format!("299 - \"{}\"", warning.replace('\\', "\\\\").replace('"', "\\\""));
            if let Ok(value) = HeaderValue::from_str(&text) {
                headers.append(http::header::WARNING, value);
            }
        }
        response
    }
}

/// Parses the body of a write, an object in JSON, YAML or protobuf.
///
/// # Errors
/// 400 when it is not an object, 415 in another format.
pub(crate) fn parse_body(headers: &HeaderMap, body: &Bytes) -> Result<Value, ApiError> {
    let bad = |error: String| ApiError::bad_request(format!("the body cannot be read: {error}"));
    let value = match media_type(headers).as_str() {
        "" | "application/json" => serde_json::from_slice(body).map_err(|error| bad(error.to_string()))?,
        "application/yaml" => serde_norway::from_slice(body).map_err(|error| bad(error.to_string()))?,
        PROTOBUF => crate::protobuf::decode(body).map_err(|error| bad(error.to_string()))?,
        _ => {
            return Err(ApiError::unsupported_media_type(
                "application/json, application/yaml, application/vnd.kubernetes.protobuf",
            ));
        }
    };
    match value {
        // As Go decodes it.
        Value::Null => Ok(Value::Object(serde_json::Map::new())),
        Value::Object(_) => Ok(value),
        other => Err(bad(format!("expected object, found {}", type_name(&other)))),
    }
}

/// The media type of the body without its parameters.
pub(crate) fn media_type(headers: &HeaderMap) -> String {
    let text = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
    text.split(';').next().unwrap_or("").trim().to_ascii_lowercase()
}
