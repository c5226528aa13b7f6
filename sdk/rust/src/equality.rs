//! Semantic equality of objects.

use serde_json::Value;

/// Whether two trees are equal for Kubernetes: `null` and `[]` equal an absent field, and the order of fields does not
/// matter.
///
/// Both sides must come from the API server, as everything from a lister does. It omits a zero value wherever that
/// means the same as an absent field; so a `0`, `false` or `{}` differs from an absent field (`runAsUser: 0`,
/// `emptyDir: {}`).
#[doc(alias = "Semantic.DeepEqual")]
pub fn semantic(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => {
            a.iter().all(|(name, value)| semantic(value, b.get(name).unwrap_or(&Value::Null)))
                && b.iter().all(|(name, value)| a.contains_key(name) || is_absent(value))
        }
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| semantic(a, b)),
        _ => a == b || (is_absent(a) && is_absent(b)),
    }
}

fn is_absent(value: &Value) -> bool {
    value.is_null() || value.as_array().is_some_and(Vec::is_empty)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn null_and_empty_lists_equal_absence_and_zero_does_not() {
        let a = json!({"spec": {"a": 1, "list": []}, "creationTimestamp": null});
        let b = json!({"spec": {"b": null, "a": 1}});
        assert!(semantic(&a, &b) && semantic(&b, &a));
        for other in [
            json!({"spec": {"a": 2}}),
            json!({"spec": {"a": 1, "list": [1]}}),
            json!({"spec": {"a": 1, "runAsUser": 0}}),
            json!({"spec": {"a": 1, "emptyDir": {}}}),
            json!({}),
        ] {
            assert!(!semantic(&a, &other) && !semantic(&other, &a), "{other}");
        }
    }

    #[test]
    fn the_order_of_lists_matters_and_that_of_fields_does_not() {
        assert!(!semantic(&json!([1, 2]), &json!([2, 1])));
        assert!(semantic(&json!({"a": 1, "b": 2}), &json!({"b": 2, "a": 1})));
    }
}
