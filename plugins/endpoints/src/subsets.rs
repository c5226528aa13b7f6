//! The desired subsets of a Service.
//!
//! *Source*: `podToEndpointAddressForService`, `addEndpointSubset`, `endpointPortFromServicePort`.

use plugin_lib::pods;
use plugin_lib::services::{Pod, find_port, has_cluster_ip, hostname, is_endpoint, parse_ip};
use plugin_lib::subsets::{Address, Port, Subset, TargetRef, repack};

use crate::types::Service;

/// The subsets of these Pods, in canonical form.
pub(crate) fn subsets(service: &Service, pods: &[Pod]) -> Vec<Subset> {
    let spec = &service.spec;
    let publishes = spec.publish_not_ready_addresses;
    let mut subsets = Vec::new();
    for pod in pods.iter().filter(|pod| is_endpoint(pod, publishes)) {
        let Some(address) = address(service, pod) else { continue };
        let ports = ports(service, pod);
        // Only a headless Service may have no ports.
        if ports.is_empty() && !(spec.ports.is_empty() && spec.cluster_ip == "None") {
            continue;
        }
        let mut subset = Subset { ports, ..Subset::default() };
        if publishes || pods::is_ready(pod) {
            subset.addresses.push(address);
        } else {
            subset.not_ready_addresses.push(address);
        }
        subsets.push(subset);
    }
    repack(&subsets)
}

/// The address of a Pod in the first family of the Service; `None` if it has none.
#[doc(alias = "podToEndpointAddressForService")]
fn address(service: &Service, pod: &Pod) -> Option<Address> {
    let is_ipv6 = |text: &str| parse_ip(text).is_some_and(|address| address.is_ipv6());
    let spec = &service.spec;
    let wants_ipv6 = match spec.ip_families.first() {
        Some(family) => family == "IPv6",
        None if has_cluster_ip(&spec.cluster_ip) => is_ipv6(&spec.cluster_ip),
        None => is_ipv6(&pod.status.pod_ip),
    };
    let mut addresses = pod.status.pod_ips.iter().filter_map(|address| parse_ip(&address.ip));
    let ip = addresses.find(|address| address.is_ipv6() == wants_ipv6)?;
    let metadata = &pod.metadata;
    Some(Address {
        hostname: hostname(pod, &service.metadata.name).unwrap_or_default().to_owned(),
        ip: ip.to_string(),
        node_name: Some(pod.spec.node_name.clone()),
        target_ref: Some(TargetRef {
            kind: "Pod".to_owned(),
            namespace: metadata.namespace.clone(),
            name: metadata.name.clone(),
            uid: metadata.uid.clone(),
            ..TargetRef::default()
        }),
    })
}

/// A port of the Service that the Pod does not have is left out.
fn ports(service: &Service, pod: &Pod) -> Vec<Port> {
    let ports = service.spec.ports.iter().filter_map(|port| Some((port, find_port(pod, port)?)));
    let ports = ports.map(|(port, number)| Port {
        name: port.name.clone(),
        port: number,
        protocol: port.protocol.clone(),
        app_protocol: port.app_protocol.clone(),
    });
    ports.collect()
}
