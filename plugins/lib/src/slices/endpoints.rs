//! Endpoints, and their keys.

use std::collections::{BTreeMap, VecDeque};

use super::{Endpoint, Slice, TargetRef};

/// The identity of an endpoint. Changes of its other fields do not move it to another slice.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[doc(alias = "endpointHash")]
pub struct EndpointKey {
    /// In order.
    addresses: Vec<String>,
    hostname: String,
    namespace: String,
    name: String,
}

impl EndpointKey {
    /// The key of an endpoint.
    #[doc(alias = "hashEndpoint")]
    #[must_use]
    pub fn of(endpoint: &Endpoint) -> Self {
        let mut addresses = endpoint.addresses.clone();
        addresses.sort_unstable();
        let target = endpoint.target_ref.clone().unwrap_or_default();
        let hostname = endpoint.hostname.clone().unwrap_or_default();
        Self { addresses, hostname, namespace: target.namespace, name: target.name }
    }
}

/// Endpoints with unique keys, in the order of their keys.
#[derive(Clone, Debug, Default)]
pub struct EndpointSet {
    all: BTreeMap<EndpointKey, Endpoint>,
    /// The keys that `pop` returns first. Some may not be in the set.
    first: VecDeque<EndpointKey>,
}

impl EndpointSet {
    /// Adds an endpoint; replaces one with the same key.
    pub fn insert(&mut self, endpoint: Endpoint) {
        self.all.insert(EndpointKey::of(&endpoint), endpoint);
    }

    /// The endpoint with the key of another one.
    #[must_use]
    pub fn get(&self, endpoint: &Endpoint) -> Option<&Endpoint> {
        self.all.get(&EndpointKey::of(endpoint))
    }

    /// Removes and returns the endpoint with the key of another one.
    pub fn take(&mut self, endpoint: &Endpoint) -> Option<Endpoint> {
        self.all.remove(&EndpointKey::of(endpoint))
    }

    /// Puts the endpoints of these slices first, in their order, so that endpoints of one slice stay together.
    pub fn prefer(&mut self, slices: &[Slice]) {
        self.first = slices.iter().flat_map(|slice| &slice.object.endpoints).map(EndpointKey::of).collect();
    }

    /// Removes and returns the first endpoint.
    #[doc(alias = "PopAny")]
    pub fn pop(&mut self) -> Option<Endpoint> {
        while let Some(key) = self.first.pop_front() {
            if let Some(endpoint) = self.all.remove(&key) {
                return Some(endpoint);
            }
        }
        self.all.pop_first().map(|(_, endpoint)| endpoint)
    }

    /// The number of endpoints.
    #[must_use]
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether the set is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }
}

/// Whether two endpoints with the same key are equal in the fields whose changes are written. Hints are not compared.
#[doc(alias = "EndpointsEqualBeyondHash")]
#[must_use]
pub fn equal_beyond_key(a: &Endpoint, b: &Endpoint) -> bool {
    // A new version of a Pod does not change its endpoint.
    let target = |endpoint: &Endpoint| {
        let target = endpoint.target_ref.clone();
        target.map(|target| TargetRef { resource_version: String::new(), ..target })
    };
    a.node_name == b.node_name && a.zone == b.zone && a.conditions == b.conditions && target(a) == target(b)
}

/// Whether an endpoint is ready.
#[doc(alias = "EndpointReady")]
#[must_use]
pub fn is_ready(endpoint: &Endpoint) -> bool {
    endpoint.conditions.ready == Some(true)
}
