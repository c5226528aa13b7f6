//! Keeps a ConfigMap with its ports beside each Service.

use pintle_sdk::api::meta::ObjectMeta;
use pintle_sdk::{Children, Error, Key, Kind, Lister, Outcome, Resource, Step, log, resource};
use serde::Deserialize;
use serde_json::{Map, Value, json};

const CONFIG_MAP: Kind = Kind::new("", "v1", "ConfigMap");

/// What the manifest keeps of a Service.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Service {
    metadata: ObjectMeta,
    spec: ServiceSpec,
}

resource!(Service, "", "v1", "Service");

#[derive(Default, Deserialize)]
#[serde(default)]
struct ServiceSpec {
    ports: Vec<Port>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Port {
    name: Option<String>,
    port: i64,
}

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
    for Port { name, port } in &service.spec.ports {
        data.insert(name.clone().unwrap_or_else(|| port.to_string()), Value::from(port.to_string()));
    }
    let plan = Children::new(&Service::KIND, &service.metadata, "{{name}}")
        .own(CONFIG_MAP)
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
