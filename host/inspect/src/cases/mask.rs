//! Masks the parts of an input that are shown only on request: values of Secrets, and tokens.
//!
//! *Not here*: other data that may be secret: a plugin's state, its log, fields of other kinds.

use pintle_core::text::without_tokens;
use serde_json::Value;

/// Replacement of a text.
const TEXT: &str = "********";
/// The same in base64, as expected in `data`.
const BASE64: &str = "KioqKioqKio=";
/// The copy of an object kept by `kubectl apply`, including its values.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Masks a text; returns the number of masked values.
pub(super) fn text(value: &mut Value) -> usize {
    put(value, TEXT)
}

/// Masks the content of Secrets anywhere in a document; returns the number of masked values.
pub(super) fn secrets(document: &mut Value) -> usize {
    let is = |document: &Value, kind: &str| document["kind"] == kind && document["apiVersion"] == "v1";
    if is(document, "Secret") {
        return secret(document);
    }
    let is_list = is(document, "SecretList");
    match document {
        // List items have no kind.
        Value::Object(fields) if is_list => {
            let items = fields.get_mut("items").and_then(Value::as_array_mut);
            items.into_iter().flatten().map(secret).sum()
        }
        Value::Object(fields) => fields.values_mut().map(secrets).sum(),
        Value::Array(elements) => elements.iter_mut().map(secrets).sum(),
        _ => 0,
    }
}

fn secret(secret: &mut Value) -> usize {
    let mut n_masked = 0;
    for (field, mask) in [("data", BASE64), ("stringData", TEXT)] {
        let values = secret.get_mut(field).and_then(Value::as_object_mut);
        n_masked +=
            values.into_iter().flat_map(|values| values.values_mut()).map(|value| put(value, mask)).sum::<usize>();
    }
    let applied = secret.pointer_mut("/metadata/annotations").and_then(|annotations| annotations.get_mut(LAST_APPLIED));
    n_masked + applied.map_or(0, text)
}

/// Masks tokens anywhere in a document; returns the number of masked texts. A review without its token still identifies
/// the same review.
pub(super) fn tokens(document: &mut Value) -> usize {
    let reviewed = match document["kind"].as_str() {
        Some("authentication.k8s.io/v1/TokenReview") => document["spec"].as_object_mut(),
        _ => None,
    };
    let n_reviewed = reviewed.and_then(|spec| spec.remove("token")).map_or(0, |_| 1);
    n_reviewed
        + match document {
            Value::Object(fields) => fields.values_mut().map(tokens).sum(),
            Value::Array(elements) => elements.iter_mut().map(tokens).sum(),
            Value::String(text) => {
                let masked = without_tokens(text);
                let is_masked = masked != *text;
                if is_masked {
                    *text = masked.into_owned();
                }
                usize::from(is_masked)
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        }
}

fn put(value: &mut Value, mask: &str) -> usize {
    *value = mask.into();
    1
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_of_secrets_are_masked_wherever_they_stand() {
        let secret = |value: &str, text: &str| {
            json!({
                "apiVersion": "v1", "kind": "Secret",
                "metadata": {"name": "s", "annotations": {LAST_APPLIED: text, "a": "b"}},
                "type": "Opaque", "data": {"password": value, "user": value}, "stringData": {"x": text},
            })
        };
        let mut item = secret("c2VjcmV0", "secret");
        item.as_object_mut().unwrap().retain(|name, _| name != "kind" && name != "apiVersion");
        let mut masked_item = secret(BASE64, TEXT);
        masked_item.as_object_mut().unwrap().retain(|name, _| name != "kind" && name != "apiVersion");
        let mut document = json!({
            "objects": [secret("c2VjcmV0", "secret"), {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"}}],
            "list": {"apiVersion": "v1", "kind": "SecretList", "items": [item]},
            "other": {"apiVersion": "example.com/v1", "kind": "Secret", "data": {"a": "b"}},
        });
        assert_eq!(secrets(&mut document), 8);
        let expected = json!({
            "objects": [secret(BASE64, TEXT), {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"}}],
            "list": {"apiVersion": "v1", "kind": "SecretList", "items": [masked_item]},
            "other": {"apiVersion": "example.com/v1", "kind": "Secret", "data": {"a": "b"}},
        });
        assert_eq!(document, expected);
    }

    #[test]
    fn a_secret_without_values_has_nothing_to_mask() {
        let mut document = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": null});
        let before = document.clone();
        assert_eq!(secrets(&mut document), 0);
        assert_eq!(document, before);
    }
}
