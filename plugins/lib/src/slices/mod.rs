//! EndpointSlices of an owner: keys of endpoints and ports, the distribution of endpoints to slices, and writes.
//!
//! ```text
//! desired endpoints, by their ports -> pack: the slices that there are -> Changes -> recycle -> writes
//! ```
//!
//! *Invariants*
//! 1. An endpoint stays in its slice, and is in only one slice with its ports.
//! 2. No endpoint is added to a full slice.
//! 3. Slices are created, then updated, then deleted, so that a moved endpoint is never missing.
//! 4. A slice without relevant differences is not written.
//!
//! *Source*: `reconciler.go`, `util/endpointset.go` and `util/controller_utils.go` of `k8s.io/endpointslice`. There,
//! endpoints and slices have a random order; here, they are ordered by address and name.

mod endpoints;
mod pack;
mod ports;
mod writes;

pub use endpoints::{EndpointKey, EndpointSet, equal_beyond_key, is_ready};
pub use pack::{Changes, pack};
pub use ports::{PortKey, port_key, sort_ports};
pub use writes::{Write, push};

use std::collections::BTreeMap;

use pintle_sdk::api::meta::{Metadata, OwnerReference};
use pintle_sdk::document::Document;
use pintle_sdk::{Error, Kind, Lister, Query, Resource, decode};
use serde_json::json;

use crate::pods::name_prefix;

pintle_sdk::types!("discovery.k8s.io/v1/EndpointSlice": [
    "addressType",
    "endpoints",
    "metadata.annotations",
    "metadata.deletionTimestamp",
    "metadata.labels",
    "metadata.ownerReferences",
    "ports",
]);

/// An endpoint of a slice.
pub type Endpoint = EndpointSliceEndpoints;
/// Its conditions.
pub type Conditions = EndpointSliceEndpointsConditions;
/// Its hints.
pub type Hints = EndpointSliceEndpointsHints;
/// A zone of its hints.
pub type ForZone = EndpointSliceEndpointsHintsForZones;
/// A Node of its hints.
pub type ForNode = EndpointSliceEndpointsHintsForNodes;
/// The object with the address.
pub type TargetRef = EndpointSliceEndpointsTargetRef;
/// A port of a slice.
pub type Port = EndpointSlicePorts;

/// The label of a slice with the name of its Service.
#[doc(alias = "LabelServiceName")]
pub const SERVICE_NAME: &str = "kubernetes.io/service-name";
/// The label of a slice with the name of its controller.
#[doc(alias = "LabelManagedBy")]
pub const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";

/// Part of the API.
pub const IPV4: &str = "IPv4";
/// Part of the API.
pub const IPV6: &str = "IPv6";

/// An existing or new slice.
#[derive(Clone, Debug)]
pub struct Slice {
    /// The desired content. A new slice has no name.
    pub object: EndpointSlice,
    /// The text of the object, which keeps fields of newer API servers.
    text: String,
    /// The prefix of the name of a new slice.
    prefix: Option<String>,
}

impl Slice {
    /// Lists the slices of a Service that the manifest's watch selects, except those that are being deleted.
    ///
    /// # Errors
    /// If one does not fit its type.
    #[doc(alias = "dropEndpointSlicesPendingDeletion")]
    pub fn list(lister: &impl Lister, namespace: &str, service: &str) -> Result<Vec<Self>, Error> {
        let query = Query::namespace(namespace).labels(format!("{SERVICE_NAME}={service}")).whole();
        let mut slices = Vec::new();
        for text in lister.list_json(&EndpointSlice::KIND, &query) {
            let object: EndpointSlice = decode(&EndpointSlice::KIND, &text)?;
            if !object.metadata.is_deleting() {
                slices.push(Self { object, text, prefix: None });
            }
        }
        Ok(slices)
    }

    /// A new slice of an owner, a `kind`, without endpoints.
    pub fn new(
        kind: &Kind,
        owner: &impl Metadata,
        labels: BTreeMap<String, String>,
        address_type: &str,
        ports: Vec<Port>,
    ) -> Self {
        let mut object = EndpointSlice { address_type: address_type.to_owned(), ports, ..EndpointSlice::default() };
        object.metadata.labels = labels;
        let owners = [OwnerReference::controller(kind, owner)];
        let metadata = json!({"namespace": owner.namespace(), "ownerReferences": owners});
        let text = json!({"metadata": metadata, "addressType": address_type}).to_string();
        Self { object, text, prefix: Some(name_prefix(owner.name())) }
    }

    /// Takes the name and version of another slice, whose content it replaces.
    #[must_use]
    pub fn in_place_of(mut self, old: &Self) -> Self {
        self.object.metadata.name.clone_from(&old.object.metadata.name);
        self.object.metadata.resource_version.clone_from(&old.object.metadata.resource_version);
        self
    }

    /// Like [`in_place_of`](Self::in_place_of), and drops the prefix for a generated name.
    #[must_use]
    pub fn instead_of(self, old: &Self) -> Self {
        Self { prefix: None, ..self.in_place_of(old) }
    }

    /// Whether an owner of this kind has this uid.
    #[doc(alias = "ownedBy")]
    #[must_use]
    pub fn is_owned_by(&self, kind: &Kind, uid: &str) -> bool {
        let mut owners = self.object.metadata.owner_references.iter();
        owners.any(|owner| owner.uid == uid && owner.kind == kind.name && owner.api_version == kind.api_version())
    }

    /// The desired number of endpoints.
    #[must_use]
    pub fn n_endpoints(&self) -> usize {
        self.object.endpoints.len()
    }

    /// The object to write.
    fn body(&self) -> Result<Document, Error> {
        let mut body = Document::parse(&self.text)?;
        let metadata = &self.object.metadata;
        if !metadata.name.is_empty() {
            body.set(&["metadata", "name"], &metadata.name);
            body.set(&["metadata", "resourceVersion"], &metadata.resource_version);
        }
        if let Some(prefix) = &self.prefix {
            body.set(&["metadata", "generateName"], prefix);
        }
        body.set(&["metadata", "labels"], &metadata.labels);
        if metadata.annotations.is_empty() {
            body.remove(&["metadata", "annotations"]);
        } else {
            body.set(&["metadata", "annotations"], &metadata.annotations);
        }
        body.set(&["endpoints"], &self.object.endpoints);
        // Upstream has no empty list here, either.
        match self.object.ports.is_empty() {
            true => body.remove(&["ports"]),
            false => body.set(&["ports"], &self.object.ports),
        }
        Ok(body)
    }
}
