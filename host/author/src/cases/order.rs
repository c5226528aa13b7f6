//! The order of an outcome's members.
//!
//! The member order differs between languages, and does not matter. So the seen outcome is ordered like the expected
//! one: a diff then shows only differences, and an update leaves the rest of the file unchanged.

use serde_json::{Map, Value};

/// `seen`, with its members in the order of `model`; additional members follow in their own order.
pub(super) fn like(model: &Value, seen: Value) -> Value {
    match (model, seen) {
        (Value::Object(model), Value::Object(mut seen)) => {
            let known =
                model.iter().filter_map(|(name, value)| Some((name.clone(), like(value, seen.shift_remove(name)?))));
            let mut ordered: Map<String, Value> = known.collect();
            ordered.append(&mut seen);
            Value::Object(ordered)
        }
        (Value::Array(model), Value::Array(seen)) => {
            let models = model.iter().chain(std::iter::repeat(&Value::Null));
            Value::Array(seen.into_iter().zip(models).map(|(seen, model)| like(model, seen)).collect())
        }
        (_, seen) => seen,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn members_come_in_the_order_of_the_model() {
        let model = json!({"b": {"y": 1, "x": 2}, "gone": 0, "a": [{"d": 1, "c": 2}]});
        let seen = json!({"a": [{"c": 3, "d": 4}, {"c": 5}], "new": 6, "b": {"x": 7, "y": 8}});
        let ordered = like(&model, seen.clone());
        assert_eq!(ordered, seen);
        assert_eq!(ordered.to_string(), r#"{"b":{"y":8,"x":7},"a":[{"d":4,"c":3},{"c":5}],"new":6}"#);
    }

    #[test]
    fn what_has_no_model_keeps_its_order() {
        let seen = json!({"b": [1, {"z": 1, "a": 2}], "a": 1});
        for model in [json!(null), json!([]), json!({"b": {}})] {
            assert_eq!(like(&model, seen.clone()).to_string(), seen.to_string());
        }
    }
}
