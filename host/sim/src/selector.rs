//! Label selectors inside objects.
//!
//! *Not here*: selectors in queries (`server::selector`); which labels a selector selects (`pintle_core::object::selector`).

use pintle_core::object::selector::{Selector, SelectorForm};
use serde_json::Value;

use crate::names;

/// Whether a `LabelSelector` selects these labels: an absent or malformed one selects nothing, an empty one everything.
pub(crate) fn selects(selector: &Value, labels: &Value) -> bool {
    let selector = Selector::from_json(&selector.to_string(), SelectorForm::LabelSelector).ok().flatten();
    selector.is_some_and(|selector| selector.matches(|key| labels[key].as_str()))
}

/// Whether a `LabelSelector` exists and is invalid.
pub(crate) fn is_malformed(selector: &Value) -> bool {
    let wrong_value = |value: &Value| value.as_str().is_none_or(|value| names::label_value(value).is_some());
    let labels = selector["matchLabels"].as_object().into_iter().flatten();
    let mut labels = labels.map(|(key, value)| names::label_key(key).is_some() || wrong_value(value));
    let mut expressions = selector["matchExpressions"].as_array().into_iter().flatten();
    labels.any(|wrong| wrong)
        || expressions
            .any(|expression| expression["values"].as_array().is_some_and(|values| values.iter().any(wrong_value)))
        || Selector::from_json(&selector.to_string(), SelectorForm::LabelSelector).is_err()
}

/// A `LabelSelector` or a plain map in kubectl's text form, in the order of its keys.
pub(crate) fn text(selector: &Value) -> String {
    let labels = selector.get("matchLabels").unwrap_or(selector);
    let labels = labels.as_object().into_iter().flatten();
    let mut terms: Vec<(&str, String)> =
        labels.filter_map(|(key, value)| Some((key.as_str(), format!("{key}={}", value.as_str()?)))).collect();
    for expression in selector["matchExpressions"].as_array().into_iter().flatten() {
        let key = expression["key"].as_str().unwrap_or_default();
        let mut values: Vec<&str> =
            expression["values"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        values.sort_unstable();
        let values = values.join(",");
        let text = match expression["operator"].as_str() {
            Some("In") => format!("{key} in ({values})"),
            Some("NotIn") => format!("{key} notin ({values})"),
            Some("DoesNotExist") => format!("!{key}"),
            _ => key.to_owned(),
        };
        terms.push((key, text));
    }
    terms.sort();
    terms.into_iter().map(|(_, text)| text).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_selector_is_written_in_the_order_of_its_keys() {
        let expression = json!({"key": "ab", "operator": "In", "values": ["y", "x"]});
        let selector = json!({"matchLabels": {"b": "2", "a": "1"}, "matchExpressions": [expression]});
        assert_eq!(text(&selector), "a=1,ab in (x,y),b=2");
        assert_eq!(text(&json!({"app": "web"})), "app=web");
        assert_eq!(text(&Value::Null), "");
    }

    #[test]
    fn an_absent_selector_selects_nothing_and_an_empty_one_everything() {
        let labels = json!({"a": "1"});
        assert!(!selects(&Value::Null, &labels));
        assert!(selects(&json!({}), &labels));
        assert!(selects(&json!({"matchLabels": {"a": "1"}}), &labels));
        assert!(!selects(&json!({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["1"]}]}), &labels));
        assert!(!selects(&json!({"matchExpressions": [{"key": "a", "operator": "Like"}]}), &labels));
    }
}
