//! Status updates.

use pintle_sdk::api::meta::Raw;
use pintle_sdk::document::Document;
use pintle_sdk::{Mutation, Resource, json};
use serde::Serialize;

/// The update that sets these status fields of an object, a `T`, to those of `new`; fields that `new` lacks become
/// absent. Other fields, such as those of a newer API server, stay.
///
/// A conflict is a failure: it need not come from a newer object, whose arrival would run the key again.
pub fn update<T: Resource>(mut object: Document, fields: &[&str], new: &impl Serialize) -> Mutation {
    let mut status = object.get::<Document>(&["status"]).unwrap_or_default();
    let new = Document::parse(&json(new)).unwrap_or_default();
    for field in fields {
        match new.get::<Raw>(&[field]) {
            Some(value) => status.set(&[field], &value),
            None => status.remove(&[field]),
        }
    }
    object.set(&["status"], &status);
    Mutation::update_status(&T::KIND, object)
}

/// The update that replaces the status of an object, a `T`. For kinds whose status only this controller writes.
pub fn replace<T: Resource>(mut object: Document, new: &impl Serialize) -> Mutation {
    object.set(&["status"], new);
    Mutation::update_status(&T::KIND, object)
}

#[cfg(test)]
mod tests {
    use pintle_sdk::Action;
    use serde_json::json;

    use super::*;

    pintle_sdk::types!("apps/v1/ReplicaSet": []);

    fn written(mutation: Mutation) -> String {
        match mutation.action {
            Action::Update { object, subresource, .. } if subresource.as_deref() == Some("status") => object,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_fields_of_others_stay() {
        let object = Document::parse(r#"{"spec":{},"status":{"b":1,"c":2,"theirs":3}}"#).unwrap();
        let new = json!({"a": 5, "b": 6, "not a field": 7});
        let updated = written(update::<ReplicaSet>(object.clone(), &["a", "b", "c"], &new));
        assert_eq!(updated, r#"{"spec":{},"status":{"b":6,"theirs":3,"a":5}}"#);
        assert_eq!(written(replace::<ReplicaSet>(object, &json!({"a": 5}))), r#"{"spec":{},"status":{"a":5}}"#);
    }
}
