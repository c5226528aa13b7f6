//! The shape of the EndpointSlice controller: endpoints stay in the slices in which they are, new ones fill what has room, and nothing
//! is balanced again. Zones are those of the Nodes; a change of a Node wakes the Services with hints, and no others.

use std::collections::{BTreeMap, BTreeSet};

use pintle_sdk::api::meta::{ObjectMeta, OwnerReference};
use pintle_sdk::{Error, Key, Lister, Mutation, Outcome, Query, Resource, Step, resource};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pintle_sdk::types!("manifest.yaml", "discovery.k8s.io/v1/EndpointSlice" = _);

const SERVICE_NAME: &str = "kubernetes.io/service-name";

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Slice {
    metadata: ObjectMeta,
    endpoints: Vec<Endpoint>,
}

resource!(Slice, "discovery.k8s.io", "v1", "EndpointSlice");

#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
struct Endpoint {
    addresses: Vec<String>,
    conditions: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    hints: Option<Value>,
    node_name: String,
    zone: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Settings {
    max_endpoints_per_slice: usize,
}

pub fn reconcile(key: &Key, lister: &impl Lister) -> Result<Outcome, Error> {
    if key.queue == "topology" { nodes_changed(lister) } else { service(key, lister) }
}

fn nodes_changed(lister: &impl Lister) -> Result<Outcome, Error> {
    let services: Vec<Service> = lister.list(&Query::all())?;
    let hinted = services.iter().filter(|service| has_hints(service));
    let key = |service: &Service| {
        Key::new("endpoint_slice", Service::KIND, &service.metadata.namespace, &service.metadata.name)
    };
    Ok(hinted.map(key).fold(Outcome::new(), Outcome::wake))
}

fn service(key: &Key, lister: &impl Lister) -> Result<Outcome, Error> {
    // Its slices go by their owner references, and its part of the metric with this outcome.
    let Some(service) = lister.get::<Service>(&key.namespace, &key.name)? else { return Ok(Outcome::new()) };
    let settings: Settings = lister.config()?;
    let selector: Vec<String> = service.spec.selector.iter().map(|(name, value)| format!("{name}={value}")).collect();
    if selector.is_empty() {
        return Ok(Outcome::new());
    }
    let pods: Vec<Pod> = lister.list(&Query::namespace(&key.namespace).labels(selector.join(",")))?;
    let zones: BTreeMap<String, String> = lister.list::<Node>(&Query::all())?.into_iter().map(named_zone).collect();
    let mut wanted = BTreeMap::new();
    for pod in pods.iter().filter(|pod| !pod.status.pod_ip.is_empty()) {
        let Some(zone) = zones.get(&pod.spec.node_name) else { continue };
        let is_ready = pod.status.conditions.iter().any(|one| one.type_ == "Ready" && one.status == "True");
        let endpoint = Endpoint {
            addresses: vec![pod.status.pod_ip.clone()],
            conditions: json!({"ready": is_ready}),
            hints: None,
            node_name: pod.spec.node_name.clone(),
            zone: zone.clone(),
        };
        wanted.insert(pod.status.pod_ip.clone(), endpoint);
    }
    let n_wanted = wanted.len();
    let all: BTreeSet<String> = wanted.values().map(|endpoint| endpoint.zone.clone()).collect();
    // An endpoint without a zone, a single zone, or a zone without an endpoint of its own turns the hints off.
    if has_hints(&service) && all.len() >= 2 && !all.contains("") && all.len() == distinct(&zones) {
        for endpoint in wanted.values_mut() {
            endpoint.hints = Some(json!({"forZones": [{"name": endpoint.zone}]}));
        }
    }

    let slices =
        lister.list_json(&Slice::KIND, &Query::namespace(&key.namespace).controlled_by(&service.metadata.uid).whole());
    let (mut kept, mut writes) = (Vec::new(), Vec::new());
    for text in &slices {
        let slice: Slice = pintle_sdk::decode(&Slice::KIND, text)?;
        let stay = slice.endpoints.iter().filter_map(|old| wanted.remove(old.addresses.first()?));
        kept.push((stay.collect::<Vec<Endpoint>>(), slice));
    }
    let mut new = wanted.into_values();
    // Those that change anyway, the fullest first, then the others.
    kept.sort_by_key(|(endpoints, slice)| (*endpoints == slice.endpoints, usize::MAX - endpoints.len()));
    for (endpoints, slice) in &mut kept {
        let room = settings.max_endpoints_per_slice.saturating_sub(endpoints.len());
        endpoints.extend(new.by_ref().take(room));
        if endpoints.is_empty() {
            let name = &slice.metadata.name;
            writes.push(Mutation::delete(&Slice::KIND, &key.namespace, name).uid(&slice.metadata.uid));
        } else if *endpoints != slice.endpoints {
            let mut metadata = meta(&service);
            metadata["name"] = json!(slice.metadata.name);
            metadata["namespace"] = json!(key.namespace);
            metadata["resourceVersion"] = json!(slice.metadata.resource_version);
            writes.push(Mutation::update(&Slice::KIND, body(metadata, endpoints)));
        }
    }
    let rest: Vec<Endpoint> = new.collect();
    for endpoints in rest.chunks(settings.max_endpoints_per_slice) {
        writes.push(Mutation::create(&Slice::KIND, &key.namespace, body(meta(&service), endpoints)));
    }
    let observed = Outcome::new().observe("endpoint_slice_controller_endpoints_desired", Vec::new(), n_wanted as f64);
    Ok(observed.step(Step::sequential(writes)))
}

fn has_hints(service: &Service) -> bool {
    service.metadata.annotations.topology_mode.as_deref() == Some("Auto")
}

fn named_zone(node: Node) -> (String, String) {
    let zone = node.metadata.labels.get("topology.kubernetes.io/zone").cloned().unwrap_or_default();
    (node.metadata.name, zone)
}

fn distinct(zones: &BTreeMap<String, String>) -> usize {
    zones.values().collect::<BTreeSet<_>>().len()
}

fn meta(service: &Service) -> Value {
    json!({
        "generateName": format!("{}-", service.metadata.name),
        "labels": {SERVICE_NAME: service.metadata.name},
        "ownerReferences": [OwnerReference::controller(&Service::KIND, &service.metadata)],
    })
}

fn body(metadata: Value, endpoints: &[Endpoint]) -> Value {
    json!({"metadata": metadata, "addressType": "IPv4", "endpoints": endpoints, "ports": []})
}

pintle_sdk::export!(reconcile);
