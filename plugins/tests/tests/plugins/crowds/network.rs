//! IP address ranges, bootstrap tokens, and endpoints of Services.

use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use pintle_sdk::Kind;
use pintle_sdk::testing::Cluster;
use serde_json::json;

use super::*;
use crate::{bootstrap_signer, endpoints, endpointslice, endpointslice_mirroring, service_cidr, token_cleaner};

/// A range that is being deleted, and smaller ones with an address each.
pub(super) fn ranges(size: Size) {
    const ADDRESS: Kind = Kind::new("networking.k8s.io", "v1", "IPAddress");
    let n = size.n();
    let mut cluster = Cluster::new(1);
    let mut large = global("networking.k8s.io/v1", "ServiceCIDR", "large", 0, LONGEST);
    large = protected(&cluster, large, "networking.k8s.io/service-cidr-finalizer", n);
    large["spec"] = json!({"cidrs": ["10.0.0.0/8", "fd00::/64"]});
    cluster.insert(large.clone());
    let address_of = |i: usize| format!("10.{}.{}.9", i / 256, i % 256);
    let insert_range = |cluster: &mut Cluster, i: usize| {
        let mut range = global("networking.k8s.io/v1", "ServiceCIDR", "small", i, LONGEST);
        range["spec"] = json!({"cidrs": [format!("10.{}.{}.0/24", i / 256, i % 256)]});
        cluster.insert(range);
    };
    for i in 0..n {
        let labels = json!({
            "ipaddress.kubernetes.io/ip-family": "IPv4", "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
        });
        let metadata = json!({"name": address_of(i), "uid": uid("address", i), "labels": labels});
        cluster.insert(json!({"apiVersion": "networking.k8s.io/v1", "kind": "IPAddress", "metadata": metadata}));
        if i > 0 {
            insert_range(&mut cluster, i);
        }
    }
    let plugin = size.limit(service_cidr::plugin());
    let keys = [key(&plugin, "", &large)];
    cluster.advance(Duration::from_secs(10));
    settle(&mut cluster, &plugin, &keys, nobody);
    assert_eq!(now(&cluster, &large)["status"]["conditions"][0]["reason"], "Terminating");
    assert_eq!((n_finalizers(&cluster, &large), cluster.list(&ADDRESS).count()), (Some(n + 1), n));
    insert_range(&mut cluster, 0);
    settle(&mut cluster, &plugin, &keys, nobody);
    assert_eq!(n_finalizers(&cluster, &large), Some(n));
}

const SECRET: Kind = Kind::new("", "v1", "Secret");

/// An expired token, or one that allows signing. Its id is the number in base 36.
fn token(number: usize, has_expired: bool) -> Value {
    let id: String = (0..6)
        .rev()
        .map(|place| char::from_digit((number / 36_usize.pow(place) % 36) as u32, 36).unwrap_or('0'))
        .collect();
    let text = |text: &str| BASE64_STANDARD.encode(text);
    let mut data =
        json!({"token-id": text(&id), "token-secret": text(&"s".repeat(16)), "usage-bootstrap-signing": text("true")});
    if has_expired {
        data["expiration"] = json!(text("2000-01-01T00:00:00Z"));
    }
    let metadata =
        json!({"name": format!("bootstrap-token-{id}"), "namespace": "kube-system", "uid": uid("token", number)});
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "bootstrap.kubernetes.io/token", "data": data})
}

/// A token for each signature that a ConfigMap has room for.
pub(super) fn signatures(size: Size) {
    let n = size.n();
    let mut cluster = Cluster::new(1);
    let config_map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cluster-info", "namespace": "kube-public", "uid": "c"},
        "data": {"kubeconfig": "k".repeat(LONGEST)}});
    cluster.insert(config_map.clone());
    (0..n).for_each(|i| cluster.insert(token(i, false)));
    let plugin = size.limit(bootstrap_signer::plugin());
    let keys = [plugin.key(&Kind::new("pintle", "v1", "Tick"), "", "bootstrap_signer_queue")];
    settle(&mut cluster, &plugin, &keys, nobody);
    assert_eq!(now(&cluster, &config_map)["data"].as_object().map(|data| data.len()), Some(n + 1));
}

/// Expired tokens.
pub(super) fn tokens(size: Size) {
    let mut cluster = Cluster::new(1);
    let tokens: Vec<Value> = (0..size.n()).map(|i| token(i, true)).collect();
    tokens.iter().for_each(|token| cluster.insert(token.clone()));
    let plugin = size.limit(token_cleaner::plugin());
    let keys: Vec<Key> = tokens.iter().map(|token| key(&plugin, "", token)).collect();
    settle(&mut cluster, &plugin, &keys, nobody);
    assert_eq!(cluster.list(&SECRET).count(), 0);
}

const SLICE: Kind = Kind::new("discovery.k8s.io", "v1", "EndpointSlice");

/// A Service that selects all Pods.
fn service() -> Value {
    let mut service = object("v1", "Service", "service", 0, LABEL);
    service["metadata"]["creationTimestamp"] = json!("2026-01-01T00:00:00Z");
    let ports = json!([{"name": "p".repeat(LABEL), "port": 80, "protocol": "TCP", "targetPort": 8080}]);
    service["spec"] = json!({"clusterIP": "10.96.0.1", "ipFamilies": ["IPv6"], "selector": labels(), "ports": ports, "type": "ClusterIP"});
    service
}

/// A ready Pod with an address.
fn endpoint(number: usize) -> Value {
    let mut pod = pod(number);
    let address = format!("fd00::{number:x}");
    pod["status"]["podIP"] = json!(address);
    pod["status"]["podIPs"] = json!([{"ip": address}]);
    pod["status"]["conditions"][0]["lastTransitionTime"] = json!("2026-01-01T00:00:00Z");
    pod
}

/// The number of endpoints of each slice. No endpoint is in two slices.
fn sizes(cluster: &Cluster) -> Vec<usize> {
    let slices: Vec<&Value> = cluster.list(&SLICE).collect();
    let addresses = slices.iter().flat_map(|slice| slice["endpoints"].as_array().into_iter().flatten());
    let mut all: Vec<String> = addresses.map(|endpoint| endpoint["addresses"].to_string()).collect();
    let n = all.len();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), n, "an endpoint is in two slices");
    let mut sizes: Vec<usize> = slices.iter().map(|slice| slice["endpoints"].as_array().map_or(0, Vec::len)).collect();
    sizes.sort_unstable();
    sizes
}

/// A Service with one slice for each Pod. Then its port changes.
pub(super) fn slices(size: Size) {
    let n = size.n();
    let mut cluster = Cluster::new(1);
    let service = service();
    cluster.insert(service.clone());
    for i in 0..n {
        cluster.insert(endpoint(i));
        cluster.insert(global("v1", "Node", "node", i, LONGEST));
    }
    let plugin = size.limit(endpointslice::plugin().config("maxEndpointsPerSlice", 1));
    let keys = [key(&plugin, "", &service)];
    settle(&mut cluster, &plugin, &keys, nobody);
    assert_eq!(sizes(&cluster), vec![1; n]);
    edit_all(
        &mut cluster,
        &Kind::new("", "v1", "Service"),
        |_| true,
        |service| {
            service["spec"]["ports"][0]["targetPort"] = json!(9090);
        },
    );
    settle(&mut cluster, &plugin, &keys, nobody);
    assert_eq!(sizes(&cluster), vec![1; n]);
    assert!(cluster.list(&SLICE).all(|slice| slice["ports"][0]["port"] == 9090));
}

/// Endpoints of many Pods, which contain only some addresses.
pub(super) fn endpoints(size: Size) {
    let n = size.beyond(5_000);
    let mut cluster = Cluster::new(1);
    let service = service();
    cluster.insert(service.clone());
    (0..n).for_each(|i| cluster.insert(endpoint(i)));
    let plugin = size.limit(endpoints::plugin());
    settle(&mut cluster, &plugin, &[key(&plugin, "", &service)], nobody);
    let written: Vec<&Value> = cluster.list(&Kind::new("", "v1", "Endpoints")).collect();
    assert_eq!(written.len(), 1);
    assert_eq!(written[0]["subsets"][0]["addresses"].as_array().map(Vec::len), Some(n.min(1_000)));
}

/// Endpoints with many subsets, each with one address and another port.
pub(super) fn mirrored(size: Size) {
    let n = size.n();
    let mut cluster = Cluster::new(1);
    let mut service = service();
    service["spec"] = json!({"clusterIP": "None", "ports": [{"port": 80}]});
    cluster.insert(service.clone());
    let mut endpoints = object("v1", "Endpoints", "service", 0, LABEL);
    let subset = |i: usize| json!({"addresses": [{"ip": format!("fd00::{i:x}")}], "ports": [{"port": i + 1, "protocol": "TCP"}]});
    endpoints["subsets"] = (0..n).map(subset).collect();
    cluster.insert(endpoints.clone());
    let plugin = size.limit(endpointslice_mirroring::plugin());
    let keys = [key(&plugin, "", &endpoints)];
    settle(&mut cluster, &plugin, &keys, nobody);
    assert_eq!(sizes(&cluster), vec![1; n]);
    cluster.remove(&Kind::new("", "v1", "Service"), &home(), &name("service", 0, LABEL));
    settle(&mut cluster, &plugin, &keys, nobody);
    assert_eq!(cluster.list(&SLICE).count(), 0);
}
