//! Rolls a Deployment with the annotation `config-reloader.example.com/auto: "true"` when a ConfigMap that its Pods
//! refer to changes.
//!
//! A hash of the ConfigMaps' content is set as an annotation of the Pods, so that the Deployment's own strategy rolls
//! them. A Deployment without the hash rolls once after the annotation is added.

mod references;

use std::collections::BTreeMap;

use pintle_sdk::{Error, Event, Key, Lister, Mutation, Outcome, PatchType, Resource, Step, hash};
use serde_json::{Value, json};

use references::config_maps;

pintle_sdk::types!("manifest.yaml");

const HASH: &str = "config-reloader.example.com/hash";

/// Computes whether one Deployment must roll.
///
/// # Errors
/// If an object does not fit its type.
pub fn reconcile(key: &Key, lister: &impl Lister) -> Result<Outcome, Error> {
    let Some(deployment) = lister.get::<Deployment>(&key.namespace, &key.name)? else { return Ok(Outcome::new()) };
    let Deployment { metadata, spec: DeploymentSpec { template } } = &deployment;
    if metadata.is_deleting() || metadata.annotations.auto.as_deref() != Some("true") {
        return Ok(Outcome::new());
    }
    let Some(contents) = contents(&template.spec, &key.namespace, lister)? else { return Ok(Outcome::new()) };
    let wanted = hash(&contents)?;
    if template.metadata.annotations.hash.as_ref() == Some(&wanted) {
        return Ok(Outcome::new());
    }
    let names = contents.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
    let rolled = Event::normal(&Deployment::KIND, metadata, "Reloaded", format!("rolls for ConfigMaps {names}"));
    let body = json!({"spec": {"template": {"metadata": {"annotations": {HASH: wanted}}}}});
    let patch = Mutation::patch(&Deployment::KIND, metadata.key(), PatchType::Merge, body)
        .uid(&metadata.uid)
        .resource_version(&metadata.resource_version)
        .on_success(rolled);
    Ok(Outcome::new().step(Step::sequential([patch])))
}

/// The contents of the ConfigMaps that the Pods refer to, by name. `None` if there are no references, or while one of
/// them is missing: its Pods could not start, and a ConfigMap that is replaced by deleting and creating it is missing
/// for a moment.
fn contents(
    pods: &DeploymentSpecTemplateSpec,
    namespace: &str,
    lister: &impl Lister,
) -> Result<Option<BTreeMap<String, Value>>, Error> {
    let mut contents = BTreeMap::new();
    for (name, is_optional) in config_maps(pods) {
        match lister.get::<ConfigMap>(namespace, name)? {
            Some(ConfigMap { data, binary_data, .. }) => {
                contents.insert(name.to_owned(), json!({"data": data, "binaryData": binary_data}));
            }
            None if is_optional => {}
            None => return Ok(None),
        }
    }
    Ok((!contents.is_empty()).then_some(contents))
}

pintle_sdk::export!(reconcile);
