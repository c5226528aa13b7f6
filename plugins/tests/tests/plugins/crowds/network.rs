//! IP address ranges, and bootstrap tokens.

use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use pintle_sdk::Kind;
use pintle_sdk::testing::Cluster;
use serde_json::json;

use super::*;
use crate::{bootstrap_signer, service_cidr, token_cleaner};

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
