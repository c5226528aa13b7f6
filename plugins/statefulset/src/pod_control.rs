//! Creates replicas and restores their labels and volumes.

use pintle_sdk::api::meta::OwnerReference;
use pintle_sdk::{Error, Mutation, PatchType, Resource as _};
use plugin_lib::{history, pods};
use serde_json::{Map, Value, json};

use crate::events::Verb;
use crate::identity::{POD_INDEX_LABEL, POD_NAME_LABEL, claim_name, has_identity, has_storage, pod_name};
use crate::set::Set;
use crate::types::{Pod, StatefulSet};

/// The create of a replica from a revision's template, without events.
///
/// # Errors
/// Terminal, if the template is not a Pod template.
pub(crate) fn create(set: &Set, template: &Value, revision: &str, ordinal: i64) -> Result<Mutation, Error> {
    let name = pod_name(set.name(), ordinal);
    let metadata = template.get("metadata").filter(|value| !value.is_null());
    let part = |field: &str| metadata.and_then(|metadata| metadata.get(field)).filter(|value| !value.is_null());
    let not_a_template = || Error::terminal(format!("revision {revision} is not a template of Pods"));
    let mut labels = match part("labels") {
        Some(Value::Object(labels)) => labels.clone(),
        Some(_) => return Err(not_a_template()),
        None => Map::new(),
    };
    labels.insert(POD_NAME_LABEL.into(), json!(name));
    labels.insert(POD_INDEX_LABEL.into(), json!(ordinal.to_string()));
    labels.insert(history::POD_LABEL.into(), json!(revision));
    let mut spec = match template.get("spec") {
        Some(Value::Object(spec)) => spec.clone(),
        Some(Value::Null) | None => Map::new(),
        Some(_) => return Err(not_a_template()),
    };
    spec.insert("hostname".into(), json!(name));
    match set.object.spec.service_name.as_str() {
        "" => drop(spec.shift_remove("subdomain")),
        service => drop(spec.insert("subdomain".into(), json!(service))),
    }
    let mut volumes: Vec<Value> = set.claims.iter().map(|claim| volume(set, &claim.name, ordinal)).collect();
    if let Some(Value::Array(own)) = spec.get("volumes") {
        let is_claim = |own: &Value| set.claims.iter().any(|claim| own["name"] == *claim.name);
        volumes.extend(own.iter().filter(|own| !is_claim(own)).cloned());
    }
    if !volumes.is_empty() {
        spec.insert("volumes".into(), volumes.into());
    }
    let owner = OwnerReference::controller(&StatefulSet::KIND, &set.object.metadata);
    // The prefix is not used to generate a name, but the API server stores it.
    let prefix = pods::name_prefix(set.name());
    let mut pod = json!({
        "metadata": {
            "name": name, "generateName": prefix, "namespace": set.namespace(), "labels": labels, "ownerReferences": [owner],
        },
        "spec": spec,
    });
    for field in ["annotations", "finalizers"] {
        if let Some(value) = part(field) {
            pod["metadata"][field] = value.clone();
        }
    }
    Ok(Mutation::create(&Pod::KIND, set.namespace(), pod))
}

fn volume(set: &Set, template: &str, ordinal: i64) -> Value {
    json!({"name": template, "persistentVolumeClaim": {"claimName": claim_name(template, set.name(), ordinal)}})
}

/// The delete of a Pod.
pub(crate) fn delete(set: &Set, pod: &Pod) -> Mutation {
    let meta = &pod.metadata;
    let delete = Mutation::delete(&Pod::KIND, &meta.namespace, &meta.name).uid(&meta.uid);
    set.with_events(delete, Verb::Delete, &meta.name)
}

/// The patch that restores a replica's labels and volumes; `None` if they are correct.
///
/// The API server rejects changes to a Pod's volumes. The patch is sent nevertheless, because the error is shown to the
/// user.
pub(crate) fn restore(set: &Set, pod: &Pod, ordinal: i64) -> Option<Mutation> {
    let meta = &pod.metadata;
    let is_stored = has_storage(set, pod, ordinal);
    if has_identity(pod) && is_stored {
        return None;
    }
    let labels = json!({POD_NAME_LABEL: meta.name, POD_INDEX_LABEL: ordinal.to_string()});
    let mut body = json!({"metadata": {"labels": labels}});
    if !is_stored {
        let replace = |name: &String| {
            let mut volume = volume(set, name, ordinal);
            volume["$retainKeys"] = json!(["name", "persistentVolumeClaim"]);
            volume
        };
        let claims: Vec<&String> = set.claims.iter().map(|claim| &claim.name).collect();
        let others = pod.spec.volumes.iter().map(|volume| &volume.name).filter(|name| !claims.contains(name));
        let order: Vec<Value> = claims.iter().copied().chain(others).map(|name| json!({"name": name})).collect();
        let volumes: Vec<Value> = claims.iter().copied().map(replace).collect();
        body["spec"] = json!({"$setElementOrder/volumes": order, "volumes": volumes});
    }
    let patch = Mutation::patch(&Pod::KIND, meta.key(), PatchType::StrategicMerge, body).uid(&meta.uid);
    Some(set.with_events(patch, Verb::Update, &meta.name))
}
