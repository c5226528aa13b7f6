//! Addresses and node ports of Services, and the IPAddresses of their addresses.
//!
//! *Invariant*: no two existing Services share an address; two that are created concurrently may, which nothing here
//! depends on.
//! *Not here*: ranges other than the first one, IPv6.
//! *Source*: upstream's service REST storage, and `ipallocator`, which creates the IPAddress before the Service.

use std::collections::{BTreeSet, HashSet};
use std::net::{IpAddr, Ipv4Addr};

use serde_json::{Value, json};

use super::delete::DeleteOptions;
use super::objects::meta;
use super::status::ApiError;
use super::{Api, Call};
use crate::store::WriteVerb;

/// The range of addresses: upstream's default has only 254.
pub(super) const RANGE: &str = "10.0.0.0/16";
/// First free address of the range, in which 10.0.0.1 is that of the API server.
const FIRST_ADDRESS: u32 = u32::from_be_bytes([10, 0, 0, 10]);
const LAST_ADDRESS: u32 = u32::from_be_bytes([10, 0, 255, 254]);
const NODE_PORTS: std::ops::RangeInclusive<u64> = 30000..=32767;

impl Api {
    /// Fills in missing addresses and ports of a new Service.
    pub(crate) fn allocate_service(&self, service: &mut Value) -> Result<(), ApiError> {
        let Some(spec) = service.get_mut("spec").filter(|spec| spec.is_object()) else { return Ok(()) };
        let kind = spec["type"].as_str().unwrap_or("ClusterIP").to_owned();
        if kind == "ExternalName" {
            return Ok(());
        }
        let (addresses, ports) = self.taken();
        if spec["clusterIP"].as_str().unwrap_or("").is_empty() {
            let free = (FIRST_ADDRESS..=LAST_ADDRESS)
                .map(|address| Ipv4Addr::from(address).to_string())
                .find(|address| !addresses.contains(address));
            let free = free.ok_or_else(|| ApiError::internal("failed to allocate a serviceIP: range is full"))?;
            spec["clusterIP"] = json!(free);
        }
        let address = spec["clusterIP"].clone();
        for (field, value) in [
            ("clusterIPs", json!([address])),
            ("ipFamilies", json!(["IPv4"])),
            ("ipFamilyPolicy", json!("SingleStack")),
        ] {
            if spec.get(field).is_none_or(Value::is_null) {
                spec[field] = value;
            }
        }
        if matches!(kind.as_str(), "NodePort" | "LoadBalancer") {
            let mut free = NODE_PORTS.filter(|port| !ports.contains(port));
            for port in spec["ports"].as_array_mut().into_iter().flatten() {
                if port["nodePort"].as_u64().unwrap_or(0) == 0 {
                    let next = free
                        .next()
                        .ok_or_else(|| ApiError::internal("failed to allocate a nodePort: range is full"))?;
                    port["nodePort"] = json!(next);
                }
            }
        }
        Ok(())
    }

    /// Creates the missing IPAddresses of a Service, and deletes those that it does not have, or no longer.
    pub(crate) fn sync_addresses(&self, service: &Value, is_removed: bool) -> Result<(), ApiError> {
        let Some(resource) = self.registry().by_plural("networking.k8s.io/v1", "ipaddresses").cloned() else {
            return Ok(());
        };
        let addresses = service["spec"]["clusterIPs"].as_array().into_iter().flatten().filter_map(Value::as_str);
        // A headless Service has `None`.
        let addresses: Vec<IpAddr> = addresses.filter(|_| !is_removed).filter_map(|text| text.parse().ok()).collect();
        let (namespace, name) = (meta(service, "namespace"), meta(service, "name"));
        let parent = json!({"resource": "services", "namespace": namespace, "name": name});
        let mut present: BTreeSet<String> = self.store.view(|view| {
            let of_service =
                view.range(&resource.storage, None).filter(|address| address.value["spec"]["parentRef"] == parent);
            of_service.map(|address| meta(&address.value, "name").to_owned()).collect()
        });
        for address in addresses {
            let name = address.to_string();
            if present.remove(&name) {
                continue;
            }
            let labels = json!({
                "ipaddress.kubernetes.io/ip-family": if address.is_ipv4() { "IPv4" } else { "IPv6" },
                "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
            });
            let object = json!({"metadata": {"name": name, "labels": labels}, "spec": {"parentRef": parent}});
            let call = Call::own(resource.clone(), None, None, None);
            self.create_object(&call, object, &mut Vec::new(), WriteVerb::Create)?;
        }
        for name in present {
            let call = Call::own(resource.clone(), None, Some(&name), None);
            self.delete_object(&call, &name, &DeleteOptions::default(), WriteVerb::Delete)?;
        }
        Ok(())
    }

    fn taken(&self) -> (HashSet<String>, HashSet<u64>) {
        let (mut addresses, mut ports) = (HashSet::new(), HashSet::new());
        self.store.view(|view| {
            for service in view.range("services", None) {
                let spec = &service.value["spec"];
                addresses.extend(spec["clusterIP"].as_str().map(str::to_owned));
                ports.extend(
                    spec["ports"].as_array().into_iter().flatten().filter_map(|port| port["nodePort"].as_u64()),
                );
            }
        });
        (addresses, ports)
    }
}
