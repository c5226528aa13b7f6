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
