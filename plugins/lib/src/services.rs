//! Functions on Services and Pods for the controllers of endpoints.
//!
//! *Source*: `k8s.io/endpointslice` (`utils.go`, `util/controller_utils.go`), and `pkg/apis/core/v1/helper` of
//! Kubernetes.

use std::net::{IpAddr, Ipv4Addr};

use pintle_sdk::int_or_percent::IntOrPercent;
use serde::Deserialize;

use crate::pods;

pintle_sdk::types!("v1/Pod": [
    "metadata.deletionTimestamp",
    "spec.containers.ports.containerPort",
    "spec.containers.ports.name",
    "spec.containers.ports.protocol",
    "spec.hostname",
    "spec.initContainers.ports.containerPort",
    "spec.initContainers.ports.name",
    "spec.initContainers.ports.protocol",
    "spec.initContainers.restartPolicy",
    "spec.nodeName",
    "spec.subdomain",
    "status.conditions.lastTransitionTime",
    "status.conditions.status",
    "status.conditions.type",
    "status.phase",
    "status.podIP",
    "status.podIPs.ip",
]);

/// The label of slices and Endpoints of a Service without a cluster IP.
#[doc(alias = "IsHeadlessService")]
pub const HEADLESS: &str = "service.kubernetes.io/headless";

/// A port of a Service.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[allow(missing_docs, reason = "Kubernetes' own fields")]
pub struct ServicePort {
    pub name: String,
    pub protocol: String,
    pub app_protocol: Option<String>,
    pub target_port: IntOrPercent,
}

/// Whether a Service has a cluster IP.
#[doc(alias = "IsServiceIPSet")]
#[must_use]
pub fn has_cluster_ip(cluster_ip: &str) -> bool {
    !matches!(cluster_ip, "" | "None")
}

/// Whether a Pod is an endpoint. `include_terminating`: also while it is being deleted.
#[doc(alias = "ShouldPodBeInEndpoints")]
#[must_use]
pub fn is_endpoint(pod: &Pod, include_terminating: bool) -> bool {
    let has_address = !pod.status.pod_ip.is_empty() || !pod.status.pod_ips.is_empty();
    !pods::is_terminal(pod) && has_address && (include_terminating || !pod.metadata.is_deleting())
}

/// The host name of a Pod in the domain of this Service; `None` if it has none.
#[doc(alias = "ShouldSetHostname")]
#[must_use]
pub fn hostname<'a>(pod: &'a Pod, service: &str) -> Option<&'a str> {
    Some(&*pod.spec.hostname).filter(|hostname| !hostname.is_empty() && pod.spec.subdomain == service)
}

/// The target of a Service's port in a Pod; `None` if none of its containers has a port of this name.
#[must_use]
pub fn find_port(pod: &Pod, port: &ServicePort) -> Option<i32> {
    let name = match &port.target_port {
        IntOrPercent::Int(number) => return Some(*number),
        IntOrPercent::Text(name) => name,
    };
    let is_sidecar = |container: &&PodSpecInitContainers| container.restart_policy.as_deref() == Some("Always");
    let sidecars = pod.spec.init_containers.iter().filter(is_sidecar).flat_map(|container| &container.ports);
    let mut ports = pod.spec.containers.iter().flat_map(|container| &container.ports).chain(sidecars);
    ports.find(|one| one.name == *name && one.protocol == port.protocol).map(|one| one.container_port)
}

/// Parses an address. Leading zeros of IPv4 are ignored, and an IPv4-mapped IPv6 address becomes an IPv4 address.
#[doc(alias = "ParseIPSloppy")]
#[must_use]
pub fn parse_ip(text: &str) -> Option<IpAddr> {
    let without_zeros = |part: &str| match part.trim_start_matches('0') {
        "" if !part.is_empty() => "0".to_owned(),
        digits => digits.to_owned(),
    };
    let sloppy = || text.split('.').map(without_zeros).collect::<Vec<_>>().join(".").parse::<Ipv4Addr>().ok();
    let address: Option<IpAddr> = text.parse().ok().or_else(|| sloppy().map(IpAddr::V4));
    address.map(|address| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_written_as_upstream_does() {
        for (text, expected) in [
            ("10.1.2.3", Some("10.1.2.3")),
            ("010.001.002.000", Some("10.1.2.0")),
            ("2001:DB8:0:0::0001", Some("2001:db8::1")),
            ("::ffff:10.0.0.1", Some("10.0.0.1")),
            ("10.0.0", None),
            ("10.0.0.", None),
            ("10.0.0.256", None),
            ("foobar", None),
            ("", None),
        ] {
            assert_eq!(parse_ip(text).map(|address| address.to_string()).as_deref(), expected, "{text}");
        }
    }

    /// As `TestFindPort` of endpointslice.
    #[test]
    fn a_port_is_found_by_its_name_and_protocol() {
        let pod: Pod = serde_json::from_str(
            r#"{"spec": {
                "containers": [
                    {"ports": [{"name": "p", "containerPort": 11, "protocol": "UDP"}, {"name": "q", "containerPort": 13, "protocol": "TCP"}]},
                    {"ports": [{"name": "p", "containerPort": 22, "protocol": "TCP"}]}],
                "initContainers": [
                    {"ports": [{"name": "init", "containerPort": 44, "protocol": "TCP"}]},
                    {"restartPolicy": "Always", "ports": [{"name": "side", "containerPort": 55, "protocol": "TCP"}]}]}}"#,
        )
        .unwrap();
        let find = |target: &str| {
            let port = serde_json::from_str(&format!(r#"{{"protocol": "TCP", "targetPort": {target}}}"#)).unwrap();
            find_port(&pod, &port)
        };
        let found = [r#""p""#, r#""q""#, "99", r#""init""#, r#""side""#, r#""none""#].map(find);
        assert_eq!(found, [Some(22), Some(13), Some(99), None, Some(55), None]);
    }
}
