//! What Go's JSON decoder says of a body that it cannot take.
//!
//! *Flow*: the server hands over bytes or a parsed object; out comes the decoder's sentence, or nothing when it decodes.
//!
//! *Not here*: what the server makes of the sentence (a 400, a 422).
//!
//! *Source*: `encoding/json` of Go, which the API server's messages quote, and its copy in `sigs.k8s.io/json`.

mod convert;
mod print;
mod syntax;
mod types;

use serde_json::Value;

pub use convert::conversion_error;
pub use print::{go_syntax, go_value};
pub use syntax::syntax_error;
pub use types::type_error;

/// What the decoder calls a value in `cannot unmarshal X`.
pub fn name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// The sentence for bytes that are no JSON or whose outermost value is no object; `wanted` is Go's type of the place.
pub fn object_error(bytes: &[u8], wanted: &str) -> Option<String> {
    if let Some(error) = syntax_error(bytes) {
        return Some(error);
    }
    match serde_json::from_slice::<Value>(bytes) {
        Ok(Value::Object(_) | Value::Null) => None,
        Ok(other) => Some(format!("json: cannot unmarshal {} into Go value of type {wanted}", name(&other))),
        // Only numbers beyond every range are left.
        Err(error) => Some(error.to_string()),
    }
}
