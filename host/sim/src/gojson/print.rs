//! Values of untyped Go maps as `fmt` prints them.

use serde_json::{Map, Value};

fn sorted(map: &Map<String, Value>) -> Vec<(&String, &Value)> {
    let mut entries: Vec<_> = map.iter().collect();
    entries.sort_by(|left, right| left.0.cmp(right.0));
    entries
}

/// `%v`: `map[a:1 b:[x y]]`.
pub fn go_value(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) => format!("[{}]", items.iter().map(go_value).collect::<Vec<_>>().join(" ")),
        Value::Object(map) => {
            let fields: Vec<String> =
                sorted(map).into_iter().map(|(name, value)| format!("{name}:{}", go_value(value))).collect();
            format!("map[{}]", fields.join(" "))
        }
        other => other.to_string(),
    }
}

/// `%#v`: `map[string]interface {}{"a":1, "b":[]interface {}{"x"}}`.
pub fn go_syntax(value: &Value) -> String {
    match value {
        Value::Null => "interface {}(nil)".to_owned(),
        Value::Array(items) => {
            format!("[]interface {{}}{{{}}}", items.iter().map(go_syntax).collect::<Vec<_>>().join(", "))
        }
        Value::Object(map) => {
            let fields: Vec<String> =
                sorted(map).into_iter().map(|(name, value)| format!("{name:?}:{}", go_syntax(value))).collect();
            format!("map[string]interface {{}}{{{}}}", fields.join(", "))
        }
        Value::String(text) => format!("{text:?}"),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn maps_are_printed_in_order_of_their_keys() {
        let value = json!({"b": {"c": ["x", 1, null]}, "a": true});
        assert_eq!(go_value(&value), "map[a:true b:map[c:[x 1 <nil>]]]");
        assert_eq!(
            go_syntax(&value),
            r#"map[string]interface {}{"a":true, "b":map[string]interface {}{"c":[]interface {}{"x", 1, interface {}(nil)}}}"#
        );
    }
}
