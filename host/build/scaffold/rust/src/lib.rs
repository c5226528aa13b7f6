//! Keeps a ConfigMap with its ports beside each Service.

use pintle_sdk::{Children, Error, Key, Lister, Outcome, Resource, Step, log};
use serde_json::{Map, Value, json};

// `Service` and `ConfigMap`, with the fields that the manifest declares.
pintle_sdk::types!("manifest.yaml");

/// Says what should change for one Service. It is pure: the same view gives the same outcome.
///
/// # Errors
/// If an object does not fit its type.
pub fn reconcile(key: &Key, lister: &impl Lister) -> Result<Outcome, Error> {
    let Some(service) = lister.get::<Service>(&key.namespace, &key.name)? else { return Ok(Outcome::new()) };
    if service.metadata.is_deleting() {
        return Ok(Outcome::new());
    }
    let mut data = Map::new();
    for ServiceSpecPorts { name, port, .. } in &service.spec.ports {
        let name = if name.is_empty() { port.to_string() } else { name.clone() };
        data.insert(name, Value::from(port.to_string()));
    }
    let plan = Children::new(&Service::KIND, &service.metadata, "{{name}}")
        .own(ConfigMap::KIND)
        .want(json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": format!("{}-ports", key.name)},
            "data": data,
        }))
        .plan(lister)?;
    for conflict in &plan.conflicts {
        log::warn(&conflict.to_string());
    }
    Ok(Outcome::new().step(Step::sequential(plan.mutations)))
}

pintle_sdk::export!(reconcile);
