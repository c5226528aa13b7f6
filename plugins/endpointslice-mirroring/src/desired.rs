//! The desired endpoints of Endpoints.
//!
//! *Source*: `desiredCalc`, `addressToEndpoint`, `epPortsToEpsPorts`.

use std::collections::BTreeMap;

use plugin_lib::services::parse_ip;
use plugin_lib::slices::{
    Conditions, Endpoint, EndpointSet, IPV4, IPV6, Port, PortKey, TargetRef, port_key, sort_ports,
};
use plugin_lib::subsets::{self, Address, Endpoints, repack};

/// The key of a slice: its address type and its ports.
pub(crate) type SliceKey = (String, PortKey);

/// The desired content of slices.
#[derive(Debug, Default)]
pub(crate) struct Desired {
    /// Both address types of each set of ports, also those without endpoints.
    pub(crate) by_key: BTreeMap<SliceKey, (Vec<Port>, EndpointSet)>,
    /// Number of invalid addresses.
    pub(crate) n_invalid: usize,
    /// Number of addresses that are not copied, including invalid ones.
    pub(crate) n_skipped: usize,
}

impl Desired {
    /// At most `most` addresses of each subset count.
    pub(crate) fn of(endpoints: &Endpoints, most: usize) -> Self {
        let mut desired = Self::default();
        for subset in repack(&endpoints.subsets) {
            let mut ports: Vec<Port> = subset.ports.iter().map(port).collect();
            sort_ports(&mut ports);
            let key = |address_type: &str| (address_type.to_owned(), port_key(&ports));
            for address_type in [IPV4, IPV6] {
                let group = desired.by_key.entry(key(address_type));
                group.or_insert_with(|| (ports.clone(), EndpointSet::default()));
            }
            let ready = subset.addresses.iter().map(|address| (address, true));
            let not_ready = subset.not_ready_addresses.iter().map(|address| (address, false));
            let mut n_added = 0;
            for (address, is_ready) in ready.chain(not_ready) {
                if n_added >= most {
                    break;
                }
                let Some((address_type, endpoint)) = endpoint(address, is_ready) else {
                    desired.n_invalid += 1;
                    continue;
                };
                if let Some((_, endpoints)) = desired.by_key.get_mut(&key(address_type)) {
                    endpoints.insert(endpoint);
                }
                n_added += 1;
            }
            desired.n_skipped += subset.addresses.len() + subset.not_ready_addresses.len() - n_added;
        }
        desired
    }
}

/// The endpoint of an address, and the address type; `None` for an invalid address.
#[doc(alias = "addressToEndpoint")]
fn endpoint(address: &Address, is_ready: bool) -> Option<(&'static str, Endpoint)> {
    let ip = parse_ip(&address.ip)?;
    let endpoint = Endpoint {
        addresses: vec![ip.to_string()],
        conditions: Conditions { ready: Some(is_ready), ..Conditions::default() },
        hostname: Some(address.hostname.clone()).filter(|hostname| !hostname.is_empty()),
        node_name: address.node_name.clone(),
        target_ref: address.target_ref.clone().map(target),
        ..Endpoint::default()
    };
    Some((if ip.is_ipv4() { IPV4 } else { IPV6 }, endpoint))
}

fn target(target: subsets::TargetRef) -> TargetRef {
    let subsets::TargetRef { api_version, field_path, kind, name, namespace, resource_version, uid } = target;
    TargetRef { api_version, field_path, kind, name, namespace, resource_version, uid }
}

#[doc(alias = "epPortsToEpsPorts")]
fn port(port: &subsets::Port) -> Port {
    Port {
        name: Some(port.name.clone()),
        port: Some(port.port),
        protocol: Some(port.protocol.clone()),
        app_protocol: port.app_protocol.clone(),
    }
}
