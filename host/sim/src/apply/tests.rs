use serde_json::{Value, json};

use super::*;
use crate::defaults::apply_defaults;
use crate::schema::lookup;

const EARLY: &str = "2026-01-01T00:00:00Z";
const LATE: &str = "2026-01-02T00:00:00Z";

fn schema() -> Option<TypeRef> {
    lookup("apps", "v1", "Deployment")
}

fn config(spec: Value) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "namespace": "n"}, "spec": spec})
}

fn apply_as(live: Option<&Value>, config: &Value, manager: &str, force: bool, now: &str) -> Result<Value, ApplyError> {
    let mut object = apply(schema(), live, config, manager, force, None, now)?;
    apply_defaults("apps", "v1", "Deployment", &mut object);
    Ok(object)
}

fn containers(list: Value) -> Value {
    json!({"template": {"spec": {"containers": list}}})
}

fn fields<'a>(object: &'a Value, manager: &str) -> &'a Value {
    let entries = object["metadata"]["managedFields"].as_array().unwrap();
    entries.iter().find(|entry| entry["manager"] == manager).map_or(&Value::Null, |entry| &entry["fieldsV1"])
}

#[test]
fn an_update_takes_the_fields_that_it_changes() {
    let mut object = config(
        json!({"replicas": 1, "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "a", "image": "1"}]}}}),
    );
    apply_defaults("apps", "v1", "Deployment", &mut object);
    track_update(schema(), None, &mut object, "kubectl-create", None, EARLY);
    let created = fields(&object, "kubectl-create");
    assert_eq!(created["f:spec"]["f:replicas"], json!({}));
    assert_eq!(created["f:spec"]["f:strategy"]["f:rollingUpdate"]["."], json!({}));
    assert_eq!(created["f:spec"]["f:template"]["f:metadata"], json!({"f:labels": {".": {}, "f:a": {}}}));
    assert_eq!(created.get("f:status"), None);
    let old = object.clone();
    let mut scaled = object;
    scaled["spec"]["replicas"] = json!(4);
    track_update(schema(), Some(&old), &mut scaled, "scaler", Some("scale"), LATE);
    assert_eq!(*fields(&scaled, "scaler"), json!({"f:spec": {"f:replicas": {}}}));
    assert_eq!(fields(&scaled, "kubectl-create")["f:spec"].get("f:replicas"), None);
    let error = apply_as(Some(&scaled), &config(json!({"replicas": 2})), "me", false, LATE).unwrap_err();
    assert_eq!(
        error.to_string(),
        "Apply failed with 1 conflict: conflict with \"scaler\" with subresource \"scale\" using apps/v1: .spec.replicas"
    );
}

#[test]
fn objects_without_a_record_get_one_at_the_first_apply() {
    let live = config(json!({"replicas": 2, "paused": true}));
    let error = apply_as(Some(&live), &config(json!({"replicas": 3})), "me", false, LATE).unwrap_err();
    assert!(error.to_string().contains("conflict with \"before-first-apply\" using apps/v1"), "{error}");
    let object = apply_as(Some(&live), &config(json!({"replicas": 3})), "me", true, LATE).unwrap();
    assert_eq!(fields(&object, "before-first-apply")["f:spec"]["f:paused"], json!({}));
}

#[test]
fn sets_and_lists_keep_what_others_added_and_atomic_values_are_replaced() {
    let mut wanted = config(json!({"selector": {"matchLabels": {"a": "1", "b": "2"}}}));
    wanted["metadata"]["finalizers"] = json!(["mine"]);
    let mut object = apply_as(None, &wanted, "me", false, EARLY).unwrap();
    let before = object.clone();
    object["metadata"]["finalizers"] = json!(["theirs", "mine"]);
    track_update(schema(), Some(&before), &mut object, "other", None, EARLY);
    wanted["metadata"]["finalizers"] = json!(["also"]);
    wanted["spec"]["selector"] = json!({"matchLabels": {"c": "3"}});
    let object = apply_as(Some(&object), &wanted, "me", false, LATE).unwrap();
    let mut finalizers: Vec<_> = object["metadata"]["finalizers"].as_array().unwrap().clone();
    finalizers.sort_by_key(Value::to_string);
    assert_eq!(finalizers, ["also", "theirs"]);
    assert_eq!(object["spec"]["selector"], json!({"matchLabels": {"c": "3"}}));
}

#[test]
fn managed_fields_and_doubled_keys_are_refused() {
    let mut wanted = config(json!({}));
    wanted["metadata"]["managedFields"] = json!([]);
    assert_eq!(
        apply_as(None, &wanted, "me", false, EARLY),
        Err(ApplyError::BadRequest("metadata.managedFields must be nil".to_owned()))
    );
    let doubled = config(containers(json!([{"name": "a"}, {"name": "a"}])));
    let error = apply_as(None, &doubled, "me", false, EARLY).unwrap_err().to_string();
    assert_eq!(
        error,
        "the configuration does not fit its kind: .spec.template.spec.containers: duplicate entries for key [name=\"a\"]"
    );
}
