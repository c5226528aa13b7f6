//! Status updates.

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::api::meta::Metadata;
use crate::error::Error;
use crate::outcome::{Mutation, PatchType};
use crate::types::Kind;

/// A patch that sets the object's status to `wanted`, or `None` if it already is. `current` is the status that was read
/// with `object`; members that are only in `current` are removed. `null` and absent are equal.
///
/// The API server rejects the patch with a conflict if the object has changed since it was read; the run is then
/// repeated. To report failures too, put it into a last step with [`always`](crate::Step::always).
///
/// ```
/// # use pintle_sdk::{Kind, api::meta::ObjectMeta, patch_status};
/// # use serde_json::json;
/// # const WIDGET: Kind = Kind::new("example.com", "v1", "Widget");
/// # let object = ObjectMeta::default();
/// assert_eq!(patch_status(&WIDGET, &object, &json!({"size": 3}), &json!({"size": 3}))?, None);
/// # Ok::<(), pintle_sdk::Error>(())
/// ```
///
/// # Errors
/// Terminal: one of them is a map with keys that are not strings.
pub fn patch_status<C: Serialize + ?Sized, S: Serialize + ?Sized>(
    kind: &Kind,
    object: &impl Metadata,
    current: &C,
    wanted: &S,
) -> Result<Option<Mutation>, Error> {
    let tree = |error| Error::terminal(format!("status: {error}"));
    let current = without_nulls(serde_json::to_value(current).map_err(tree)?);
    let wanted = without_nulls(serde_json::to_value(wanted).map_err(tree)?);
    if current == wanted {
        return Ok(None);
    }
    let body = json!({"status": replacing(&current, &wanted)});
    let patch = Mutation::patch(kind, object.key(), PatchType::Merge, body)
        .subresource("status")
        .resource_version(object.resource_version());
    Ok(Some(patch))
}

fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(members) => members
            .into_iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(name, value)| (name, without_nulls(value)))
            .collect::<Map<_, _>>()
            .into(),
        Value::Array(items) => items.into_iter().map(without_nulls).collect(),
        scalar => scalar,
    }
}

/// `wanted` in full, with `null` for removed members: a merge patch leaves absent members alone.
fn replacing(current: &Value, wanted: &Value) -> Value {
    let (Value::Object(current), Value::Object(wanted)) = (current, wanted) else {
        return wanted.clone();
    };
    let mut patch = Map::new();
    for (name, value) in wanted {
        patch.insert(name.clone(), replacing(current.get(name).unwrap_or(&Value::Null), value));
    }
    for name in current.keys().filter(|name| !wanted.contains_key(*name)) {
        patch.insert(name.clone(), Value::Null);
    }
    patch.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::meta::ObjectMeta;
    use crate::outcome::{Action, Preconditions};

    const KIND: Kind = Kind::new("example.com", "v1", "Widget");

    fn body(current: Value, wanted: Value) -> Option<Value> {
        let object = ObjectMeta { name: "w".into(), resource_version: "7".into(), ..ObjectMeta::default() };
        let patch = patch_status(&KIND, &object, &current, &wanted).unwrap()?;
        let Action::Patch { subresource, patch_type, body, preconditions, .. } = patch.action else {
            panic!("no patch")
        };
        assert_eq!((subresource.as_deref(), patch_type), (Some("status"), PatchType::Merge));
        assert_eq!(preconditions, Preconditions { uid: None, resource_version: Some("7".into()) });
        Some(serde_json::from_str(&body).unwrap())
    }

    #[test]
    fn an_equal_status_is_not_written() {
        assert_eq!(body(json!({"a": [1], "b": {"c": null}}), json!({"b": {}, "a": [1]})), None);
        // Lists are ordered, and their nulls count.
        assert!(body(json!([1, 2]), json!([2, 1])).is_some());
        assert!(body(json!([null]), json!([])).is_some());
    }

    #[test]
    fn what_is_no_longer_wanted_is_removed() {
        assert_eq!(
            body(json!({"a": 1, "b": {"c": 1, "d": 2}, "e": {"f": 1}}), json!({"a": 1, "b": {"c": 2}, "g": [{}]})),
            Some(json!({"status": {"a": 1, "b": {"c": 2, "d": null}, "e": null, "g": [{}]}}))
        );
        assert_eq!(body(Value::Null, json!({"a": 1})), Some(json!({"status": {"a": 1}})));
    }
}
