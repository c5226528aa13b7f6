//! Addresses and node ports of Services.
//!
//! *Invariant*: no two existing Services share an address; two that are created concurrently may, which nothing here
//! depends on.
//! *Not here*: IPAddress and ServiceCIDR objects, IPv6.
//! *Source*: upstream's service REST storage.

use std::collections::HashSet;
use std::net::Ipv4Addr;

use serde_json::{Value, json};

use super::Api;
use super::status::ApiError;

/// First address of 10.0.0.0/16, upstream's default service range; the one after it is the API server's.
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
