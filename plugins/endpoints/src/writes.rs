//! The writes of Endpoints.

use std::collections::BTreeMap;

use pintle_sdk::document::Document;
use pintle_sdk::{Event, EventType, Mutation, ObjectKey, Refusal, Resource};
use plugin_lib::services::{HEADLESS, has_cluster_ip};
use plugin_lib::subsets::{Endpoints, Subset};
use plugin_lib::trigger_time::ANNOTATION;

use crate::capacity::{OVER_CAPACITY, TRUNCATED, truncate};
use crate::types::Service;

/// A label of Endpoints, and its value.
#[doc(alias = "LabelManagedBy")]
pub(crate) const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";
pub(crate) const CONTROLLER: &str = "endpoint-controller";

/// Labels or annotations.
pub(crate) type Texts = BTreeMap<String, String>;

/// Whether subsets are equal, except for versions of Pods.
#[doc(alias = "endpointSubsetsEqualIgnoreResourceVersion")]
pub(crate) fn same(a: &[Subset], b: &[Subset]) -> bool {
    let without_versions = |subsets: &[Subset]| {
        let mut subsets = subsets.to_vec();
        for subset in &mut subsets {
            let addresses = subset.addresses.iter_mut().chain(&mut subset.not_ready_addresses);
            addresses
                .filter_map(|address| address.target_ref.as_mut())
                .for_each(|target| target.resource_version.clear());
        }
        subsets
    };
    without_versions(a) == without_versions(b)
}

/// The desired labels.
fn labels(service: &Service) -> Texts {
    let mut labels = service.metadata.labels.clone();
    if has_cluster_ip(&service.spec.cluster_ip) {
        labels.remove(HEADLESS);
    } else {
        labels.insert(HEADLESS.to_owned(), String::new());
    }
    labels.insert(MANAGED_BY.to_owned(), CONTROLLER.to_owned());
    labels
}

/// Sets the desired content. Returns whether it differs, apart from the time of the change.
fn fill(
    document: &mut Document,
    present: &Endpoints,
    service: &Service,
    mut subsets: Vec<Subset>,
    last_change: Option<String>,
) -> bool {
    let labels = labels(service);
    let mut annotations = present.metadata.annotations.clone();
    if truncate(&mut subsets) {
        annotations.insert(OVER_CAPACITY.to_owned(), TRUNCATED.to_owned());
    } else {
        annotations.remove(OVER_CAPACITY);
    }
    let is_new = annotations != present.metadata.annotations
        || labels != present.metadata.labels
        || !same(&subsets, &present.subsets);
    match last_change {
        Some(time) => annotations.insert(ANNOTATION.to_owned(), time),
        None => annotations.remove(ANNOTATION),
    };
    document.set(&["metadata", "labels"], &labels);
    if annotations.is_empty() {
        document.remove(&["metadata", "annotations"]);
    } else {
        document.set(&["metadata", "annotations"], &annotations);
    }
    if subsets.is_empty() {
        document.remove(&["subsets"]);
    } else {
        document.set(&["subsets"], &subsets);
    }
    is_new
}

/// The create of the Endpoints.
pub(crate) fn create(service: &Service, subsets: Vec<Subset>, last_change: Option<String>) -> Mutation {
    let (namespace, name) = (&service.metadata.namespace, &service.metadata.name);
    let mut document = Document::default();
    document.set(&["metadata", "name"], name);
    fill(&mut document, &Endpoints::default(), service, subsets, last_change);
    let failed = Event {
        regarding_kind: Endpoints::KIND,
        regarding: ObjectKey::new(namespace, name),
        regarding_uid: String::new(),
        event_type: EventType::Warning,
        reason: "FailedToCreateEndpoint".to_owned(),
        message: format!("Failed to create endpoint for service {namespace}/{name}: {{error}}"),
    };
    let create = Mutation::create(&Endpoints::KIND, namespace, document).on_failure(failed);
    create.tolerate([Refusal::NamespaceTerminating])
}

/// The update of the Endpoints; `None` if they are unchanged.
pub(crate) fn update(
    present: &Endpoints,
    mut document: Document,
    service: &Service,
    subsets: Vec<Subset>,
    last_change: Option<String>,
) -> Option<Mutation> {
    if !fill(&mut document, present, service, subsets, last_change) {
        return None;
    }
    let metadata = &present.metadata;
    let message = format!("Failed to update endpoint {}/{}: {{error}}", metadata.namespace, metadata.name);
    let failed = Event::warning(&Endpoints::KIND, metadata, "FailedToUpdateEndpoint", message);
    Some(Mutation::update(&Endpoints::KIND, document).on_failure(failed))
}
