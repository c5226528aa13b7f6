//! The desired endpoints of a Service.
//!
//! *Source*: `podToEndpoint`, `getEndpointPorts`, `getEndpointAddresses`, `getAddressTypesForService`.

use std::collections::BTreeMap;
use std::net::IpAddr;

use pintle_sdk::{Error, Lister};
use plugin_lib::pods;
use plugin_lib::services::{Pod, ServicePort, find_port, has_cluster_ip, hostname, is_endpoint, parse_ip};
use plugin_lib::slices::{
    Conditions, Endpoint, EndpointSet, IPV4, IPV6, Port, PortKey, TargetRef, port_key, sort_ports,
};

use crate::types::{Node, Service};

/// The endpoints of a Service with addresses of one type.
#[derive(Debug, Default)]
pub(crate) struct Desired {
    pub(crate) by_ports: BTreeMap<PortKey, (Vec<Port>, EndpointSet)>,
    /// Errors about Pods that are left out, because their Nodes are not in the cache.
    pub(crate) missing: Vec<String>,
}

/// Zones of Nodes, each of which is read once.
pub(crate) struct Zones<'a, L> {
    lister: &'a L,
    /// Empty: the Node has no zone. `None`: the Node does not exist.
    known: BTreeMap<String, Option<String>>,
}

impl<'a, L: Lister> Zones<'a, L> {
    pub(crate) fn new(lister: &'a L) -> Self {
        Self { lister, known: BTreeMap::new() }
    }

    fn of(&mut self, node: &str) -> Result<Option<String>, Error> {
        if let Some(zone) = self.known.get(node) {
            return Ok(zone.clone());
        }
        let found = self.lister.get::<Node>("", node)?;
        let zone = found.map(|node| node.metadata.labels.zone.unwrap_or_default());
        self.known.insert(node.to_owned(), zone.clone());
        Ok(zone)
    }
}

/// The endpoints of these Pods.
///
/// # Errors
/// If a Node does not fit its type.
pub(crate) fn desired(
    service: &Service,
    pods: &[Pod],
    address_type: &str,
    zones: &mut Zones<'_, impl Lister>,
) -> Result<Desired, Error> {
    let mut desired = Desired::default();
    for pod in pods.iter().filter(|pod| is_endpoint(pod, true)) {
        let mut ports = ports(service, pod);
        sort_ports(&mut ports);
        let (_, set) = desired.by_ports.entry(port_key(&ports)).or_insert_with(|| (ports, EndpointSet::default()));
        let node = &pod.spec.node_name;
        let zone = zones.of(node)?;
        // A published address does not depend on the state of the Pod.
        if zone.is_none() && !service.spec.publish_not_ready_addresses {
            let (namespace, name) = (&service.metadata.namespace, &service.metadata.name);
            let pod = &pod.metadata.name;
            desired.missing.push(format!("skipping Pod {pod} for Service {namespace}/{name}: Node {node} Not Found"));
            continue;
        }
        let endpoint = endpoint(service, pod, zone, address_type);
        if !endpoint.addresses.is_empty() {
            set.insert(endpoint);
        }
    }
    Ok(desired)
}

#[doc(alias = "podToEndpoint")]
fn endpoint(service: &Service, pod: &Pod, zone: Option<String>, address_type: &str) -> Endpoint {
    let serving = pods::is_ready(pod);
    let terminating = pod.metadata.is_deleting();
    // A Pod that is being deleted is not ready, whatever its condition.
    let ready = service.spec.publish_not_ready_addresses || (serving && !terminating);
    let metadata = &pod.metadata;
    Endpoint {
        addresses: addresses(pod, address_type),
        conditions: Conditions { ready: Some(ready), serving: Some(serving), terminating: Some(terminating) },
        hostname: hostname(pod, &service.metadata.name).map(str::to_owned),
        node_name: Some(pod.spec.node_name.clone()).filter(|node| !node.is_empty()),
        target_ref: Some(TargetRef {
            kind: "Pod".to_owned(),
            namespace: metadata.namespace.clone(),
            name: metadata.name.clone(),
            uid: metadata.uid.clone(),
            ..TargetRef::default()
        }),
        zone: zone.filter(|zone| !zone.is_empty()),
        ..Endpoint::default()
    }
}

#[doc(alias = "getEndpointAddresses")]
fn addresses(pod: &Pod, address_type: &str) -> Vec<String> {
    let addresses = pod.status.pod_ips.iter().filter_map(|address| parse_ip(&address.ip));
    let mut addresses: Vec<String> =
        addresses.filter(|address| type_of(address) == address_type).map(|address| address.to_string()).collect();
    addresses.sort_unstable();
    addresses
}

/// A port of the Service that the Pod does not have is left out.
#[doc(alias = "getEndpointPorts")]
fn ports(service: &Service, pod: &Pod) -> Vec<Port> {
    let port = |port: &ServicePort| {
        let number = find_port(pod, port)?;
        Some(Port {
            name: Some(port.name.clone()),
            port: Some(number),
            protocol: Some(port.protocol.clone()),
            app_protocol: port.app_protocol.clone(),
        })
    };
    service.spec.ports.iter().filter_map(port).collect()
}

fn type_of(address: &IpAddr) -> &'static str {
    if address.is_ipv4() { IPV4 } else { IPV6 }
}

/// The address types of a Service. Without families, which an old API server does not set, a headless Service has both.
#[doc(alias = "getAddressTypesForService")]
pub(crate) fn address_types(service: &Service) -> Vec<&'static str> {
    let families = &service.spec.ip_families;
    let mut types: Vec<_> =
        [IPV4, IPV6].into_iter().filter(|one| families.iter().any(|family| family == one)).collect();
    // The first family of the Service comes first.
    if families.first().is_some_and(|family| family == IPV6) {
        types.reverse();
    }
    if !types.is_empty() {
        return types;
    }
    let cluster_ip = &service.spec.cluster_ip;
    if has_cluster_ip(cluster_ip) {
        return vec![parse_ip(cluster_ip).map_or(IPV4, |address| type_of(&address))];
    }
    vec![IPV4, IPV6]
}
