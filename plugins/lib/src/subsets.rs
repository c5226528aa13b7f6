//! Subsets of Endpoints in their canonical form: each address is in a subset once, ports with the same addresses are in
//! one subset, and all lists have upstream's order.
//!
//! *Source*: Kubernetes' `pkg/api/v1/endpoints/util.go`. One difference: there, equal ports of two subsets stay
//! separate if they have an application protocol.

use std::collections::BTreeMap;

use crate::go_hash::{fnv128a, pointer};

pintle_sdk::types!("v1/Endpoints": ["metadata.annotations", "metadata.deletionTimestamp", "metadata.labels", "subsets"]);

/// Addresses, and the ports of all of them.
pub type Subset = EndpointsSubsets;
/// An address.
pub type Address = EndpointsSubsetsAddresses;
/// The object with the address.
pub type TargetRef = EndpointsSubsetsAddressesTargetRef;
/// A port.
pub type Port = EndpointsSubsetsPorts;

/// Addresses are equal if their IP and the uid of the target are. The order is upstream's.
type AddressKey = (String, String);

/// All fields of a port.
type PortKey = (String, i32, String, Option<String>);

/// The canonical form. An address that is both ready and not ready is not ready.
#[doc(alias = "RepackSubsets")]
#[must_use]
pub fn repack(subsets: &[Subset]) -> Vec<Subset> {
    // The first occurrence of each address.
    let mut addresses: BTreeMap<AddressKey, &Address> = BTreeMap::new();
    // `None`: without ports.
    let mut by_port: BTreeMap<Option<PortKey>, BTreeMap<AddressKey, bool>> = BTreeMap::new();
    for subset in subsets {
        let mut ports: Vec<Option<PortKey>> = subset.ports.iter().map(|port| Some(port_key(port))).collect();
        if ports.is_empty() {
            ports.push(None);
        }
        for port in ports {
            let states = by_port.entry(port).or_default();
            let ready = subset.addresses.iter().map(|address| (address, true));
            let not_ready = subset.not_ready_addresses.iter().map(|address| (address, false));
            for (address, is_ready) in ready.chain(not_ready) {
                let key = address_key(address);
                addresses.entry(key.clone()).or_insert(address);
                let state = states.entry(key).or_insert(is_ready);
                *state &= is_ready;
            }
        }
    }
    let mut by_addresses: BTreeMap<BTreeMap<AddressKey, bool>, Vec<Port>> = BTreeMap::new();
    for (port, states) in by_port {
        let ports = by_addresses.entry(states).or_default();
        ports.extend(port.map(|(name, port, protocol, app_protocol)| Port { name, port, protocol, app_protocol }));
    }
    let mut repacked: Vec<Subset> = Vec::with_capacity(by_addresses.len());
    for (states, mut ports) in by_addresses {
        let of = |is_ready: bool| {
            let keys = states.iter().filter(|(_, state)| **state == is_ready);
            keys.filter_map(|(key, _)| addresses.get(key)).map(|address| (*address).clone()).collect()
        };
        ports.sort_by_cached_key(|port| fnv128a(&format!("(v1.EndpointPort){}", dump_port(port))));
        repacked.push(Subset { addresses: of(true), not_ready_addresses: of(false), ports });
    }
    repacked.sort_by_cached_key(|subset| fnv128a(&dump(subset)));
    repacked
}

fn address_key(address: &Address) -> AddressKey {
    let uid = address.target_ref.as_ref().map_or("", |target| target.uid.as_str());
    (address.ip.clone(), uid.to_owned())
}

fn port_key(port: &Port) -> PortKey {
    (port.name.clone(), port.port, port.protocol.clone(), port.app_protocol.clone())
}

/// The text of a subset that upstream hashes.
fn dump(subset: &Subset) -> String {
    let Subset { addresses, not_ready_addresses, ports } = subset;
    format!(
        "(v1.EndpointSubset){{Addresses:([]v1.EndpointAddress){} NotReadyAddresses:([]v1.EndpointAddress){} \
         Ports:([]v1.EndpointPort){}}}",
        list(addresses, dump_address),
        list(not_ready_addresses, dump_address),
        list(ports, dump_port)
    )
}

fn list<T>(items: &[T], dump: impl Fn(&T) -> String) -> String {
    match items {
        [] => "<nil>".to_owned(),
        items => format!("[{}]", items.iter().map(dump).collect::<Vec<_>>().join(" ")),
    }
}

fn dump_address(address: &Address) -> String {
    let Address { hostname, ip, node_name, target_ref } = address;
    let target = target_ref.as_ref().map(|target| {
        let TargetRef { api_version, field_path, kind, name, namespace, resource_version, uid } = target;
        format!(
            "{{Kind:(string){kind} Namespace:(string){namespace} Name:(string){name} UID:(types.UID){uid} \
             APIVersion:(string){api_version} ResourceVersion:(string){resource_version} FieldPath:(string){field_path}}}"
        )
    });
    format!(
        "{{IP:(string){ip} Hostname:(string){hostname} NodeName:{} TargetRef:{}}}",
        pointer("string", node_name.as_ref()),
        pointer("v1.ObjectReference", target.as_ref())
    )
}

fn dump_port(port: &Port) -> String {
    let Port { app_protocol, name, port, protocol } = port;
    let app_protocol = pointer("string", app_protocol.as_ref());
    format!("{{Name:(string){name} Port:(int32){port} Protocol:(v1.Protocol){protocol} AppProtocol:{app_protocol}}}")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn packed(subsets: Value) -> Value {
        let subsets: Vec<Subset> = serde_json::from_value(subsets).unwrap();
        let repacked = repack(&subsets);
        assert_eq!(repack(&repacked), repacked, "it is canonical");
        json!(repacked)
    }

    fn at(ip: &str) -> Value {
        json!({"ip": ip})
    }

    fn port(number: u16) -> Value {
        json!({"port": number})
    }

    /// As `TestPackSubsets` of util_test.go.
    #[test]
    fn subsets_are_packed_as_upstream_does() {
        let (a, b) = (at("1.2.3.4"), at("5.6.7.8"));
        for (name, subsets, expected) in [
            ("empty", json!([]), json!([])),
            ("no ports", json!([{"addresses": [a]}]), json!([{"addresses": [a]}])),
            ("no addresses", json!([{"ports": [port(1)]}]), json!([{"ports": [port(1)]}])),
            (
                "one address twice",
                json!([{"addresses": [a, a], "ports": [port(1)]}]),
                json!([{"addresses": [a], "ports": [port(1)]}]),
            ),
            (
                "not ready counts",
                json!([{"addresses": [a], "notReadyAddresses": [a], "ports": [port(1)]}]),
                json!([{"notReadyAddresses": [a], "ports": [port(1)]}]),
            ),
            (
                "the same ports",
                json!([{"addresses": [b], "ports": [port(1)]}, {"addresses": [a], "ports": [port(1)]}]),
                json!([{"addresses": [a, b], "ports": [port(1)]}]),
            ),
            (
                "addresses in order, and those of two targets",
                json!([{"addresses": [{"ip": "1.2.3.4", "targetRef": {"uid": "u"}}, a, b, at("10.0.0.1")], "ports": [port(1)]}]),
                json!([{
                    "addresses": [a, {"ip": "1.2.3.4", "targetRef": {"uid": "u"}}, at("10.0.0.1"), b], "ports": [port(1)],
                }]),
            ),
        ] {
            assert_eq!(packed(subsets), expected, "{name}");
        }
        let two = packed(json!([{"addresses": [a], "ports": [port(1)]}, {"addresses": [a], "ports": [port(2)]}]));
        assert_eq!((two.as_array().unwrap().len(), two[0]["ports"].as_array().unwrap().len()), (1, 2));
        let apart =
            packed(json!([{"addresses": [a], "ports": [port(1)]}, {"notReadyAddresses": [a], "ports": [port(2)]}]));
        assert_eq!(apart.as_array().unwrap().len(), 2, "ready for one port only");
    }

    #[test]
    fn hashes_are_of_the_texts_that_go_prints() {
        let subset: Subset = serde_json::from_value(json!({
            "addresses": [{"ip": "1.2.3.4", "nodeName": "n", "targetRef": {"kind": "Pod", "name": "p", "namespace": "ns", "uid": "u"}}],
            "ports": [{"name": "http", "port": 80, "protocol": "TCP"}],
        }))
        .unwrap();
        assert_eq!(
            dump(&subset),
            "(v1.EndpointSubset){Addresses:([]v1.EndpointAddress)[{IP:(string)1.2.3.4 Hostname:(string) NodeName:(*string)n \
             TargetRef:(*v1.ObjectReference){Kind:(string)Pod Namespace:(string)ns Name:(string)p UID:(types.UID)u \
             APIVersion:(string) ResourceVersion:(string) FieldPath:(string)}}] NotReadyAddresses:([]v1.EndpointAddress)<nil> \
             Ports:([]v1.EndpointPort)[{Name:(string)http Port:(int32)80 Protocol:(v1.Protocol)TCP AppProtocol:(*string)<nil>}]}"
        );
    }
}
