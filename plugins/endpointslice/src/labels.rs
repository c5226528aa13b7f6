//! The labels of slices: those of the Service, and some of the controller's own.

use std::collections::BTreeMap;

use plugin_lib::services::{HEADLESS, has_cluster_ip};
use plugin_lib::slices::{MANAGED_BY, SERVICE_NAME};

use crate::types::Service;

/// Part of the API.
const CONTROLLER: &str = "endpointslice-controller.k8s.io";

/// The desired labels of a slice with these labels, and whether they differ in any but the controller's own.
#[doc(alias = "setEndpointSliceLabels")]
pub(crate) fn of(present: &BTreeMap<String, String>, service: &Service) -> (BTreeMap<String, String>, bool) {
    let others = |labels: &BTreeMap<String, String>| -> BTreeMap<String, String> {
        labels.iter().filter(|(key, _)| !is_reserved(key)).map(|(key, value)| (key.clone(), value.clone())).collect()
    };
    let mut wanted = others(&service.metadata.labels);
    let differ = others(present) != wanted;
    if !has_cluster_ip(&service.spec.cluster_ip) {
        wanted.insert(HEADLESS.to_owned(), String::new());
    }
    wanted.insert(SERVICE_NAME.to_owned(), service.metadata.name.clone());
    wanted.insert(MANAGED_BY.to_owned(), CONTROLLER.to_owned());
    (wanted, differ)
}

#[doc(alias = "isReservedLabelKey")]
fn is_reserved(key: &str) -> bool {
    matches!(key, SERVICE_NAME | MANAGED_BY | HEADLESS)
}
