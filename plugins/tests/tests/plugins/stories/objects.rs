//! Helpers for objects in stories.

use serde_json::Value;

/// Name of an object.
pub(crate) fn name_of(object: &Value) -> String {
    object["metadata"]["name"].as_str().expect("objects have names").to_owned()
}

/// Whether an object is being deleted.
pub(crate) fn is_deleting(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}
