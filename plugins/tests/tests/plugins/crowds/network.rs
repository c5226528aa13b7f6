//! Ranges of addresses.

use std::time::Duration;

use pintle_sdk::Kind;
use pintle_sdk::testing::Cluster;
use serde_json::json;

use super::*;
use crate::service_cidr;

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
