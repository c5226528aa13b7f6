//! Keys and order of the ports of slices.

use super::Port;
use crate::go_hash::{fnv128a, pointer};

/// A set of ports: name, number, protocol, application protocol. Absent and empty differ.
#[doc(alias = "PortMapKey")]
pub type PortKey = Vec<(Option<String>, Option<i32>, Option<String>, Option<String>)>;

/// The key of ports.
#[doc(alias = "NewPortMapKey")]
#[must_use]
pub fn port_key(ports: &[Port]) -> PortKey {
    let key = |port: &Port| (port.name.clone(), port.port, port.protocol.clone(), port.app_protocol.clone());
    let mut keys: PortKey = ports.iter().map(key).collect();
    keys.sort_unstable();
    keys
}

/// Sorts the ports of a new slice in upstream's order.
#[doc(alias = "portsInOrder")]
pub fn sort_ports(ports: &mut [Port]) {
    ports.sort_by_cached_key(|port| {
        let Port { name, protocol, port, app_protocol } = port;
        fnv128a(&format!(
            "(v1.EndpointPort){{Name:{} Protocol:{} Port:{} AppProtocol:{}}}",
            pointer("string", name.as_ref()),
            pointer("v1.Protocol", protocol.as_ref()),
            pointer("int32", port.as_ref()),
            pointer("string", app_protocol.as_ref()),
        ))
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_in_the_order_of_their_hashes() {
        let port = |name: &str, number: i32, protocol: &str, app_protocol: Option<&str>| Port {
            name: Some(name.to_owned()),
            port: Some(number),
            protocol: Some(protocol.to_owned()),
            app_protocol: app_protocol.map(str::to_owned),
        };
        let mut ports = [
            port("web", 8080, "TCP", Some("kubernetes.io/h2c")),
            port("admin", 8081, "TCP", None),
            port("dns", 53, "UDP", None),
        ];
        sort_ports(&mut ports);
        // By deepHashObjectToString of k8s.io/endpointslice v0.37.2: 1caf21..., 5a8d51..., f71798...
        assert_eq!(ports.map(|port| port.name.unwrap_or_default()), ["dns", "admin", "web"]);
    }
}
