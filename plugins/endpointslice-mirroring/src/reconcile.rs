//! One run for Endpoints.

use std::collections::BTreeMap;

use pintle_sdk::{Error, Event, Key, Lister, Mutation, Outcome, Resource, Step};
use plugin_lib::slices::{Changes, Slice, port_key, push};
use plugin_lib::subsets::Endpoints;
use serde::Deserialize;

use crate::desired::{Desired, SliceKey};
use crate::mirror::mirror;
use crate::types::Service;

/// The label of Endpoints that should not be copied.
#[doc(alias = "LabelSkipMirror")]
const SKIP: &str = "endpointslice.kubernetes.io/skip-mirror";

/// The annotation of Endpoints for the leader election of previous versions.
#[doc(alias = "LeaderElectionRecordAnnotationKey")]
const LEADER: &str = "control-plane.alpha.kubernetes.io/leader";

const ADDED: &str = "endpoint_slice_mirroring_controller_endpoints_added_per_sync";
const UPDATED: &str = "endpoint_slice_mirroring_controller_endpoints_updated_per_sync";
const REMOVED: &str = "endpoint_slice_mirroring_controller_endpoints_removed_per_sync";
const SKIPPED: &str = "endpoint_slice_mirroring_controller_addresses_skipped_per_sync";
const DESIRED: &str = "endpoint_slice_mirroring_controller_endpoints_desired";
const SLICES: &str = "endpoint_slice_mirroring_controller_num_endpoint_slices";
const DESIRED_SLICES: &str = "endpoint_slice_mirroring_controller_desired_endpoint_slices";
const CHANGES: &str = "endpoint_slice_mirroring_controller_changes";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Config {
    max_endpoints_per_subset: usize,
}

/// Computes the changes of the slices of one Endpoints object.
///
/// # Errors
/// If an object does not fit its type.
#[doc(alias = "syncEndpoints")]
pub fn reconcile(key: &Key, lister: &impl Lister) -> Result<Outcome, Error> {
    let existing = Slice::list(lister, &key.namespace, &key.name)?;
    let endpoints = lister.get::<Endpoints>(&key.namespace, &key.name)?.filter(should_mirror);
    let service = lister.get::<Service>(&key.namespace, &key.name)?.filter(|service| service.spec.selector.is_empty());
    let (Some(endpoints), Some(_)) = (endpoints, service) else {
        let writes = Changes { delete: existing, ..Changes::default() }.writes(&key.namespace)?;
        return Ok(Outcome::new().step(Step::parallel(writes.into_iter().map(|write| write.mutation))));
    };
    let config: Config = lister.config()?;
    let most = config.max_endpoints_per_subset;
    let Desired { by_key, n_invalid, n_skipped } = Desired::of(&endpoints, most);
    let mut by_slice: BTreeMap<SliceKey, Vec<Slice>> = BTreeMap::new();
    for slice in existing {
        let key = (slice.object.address_type.clone(), port_key(&slice.object.ports));
        by_slice.entry(key).or_default().push(slice);
    }
    let mut changes = Changes::default();
    let (mut n_updated, mut n_endpoints, mut n_desired_slices) = (0, 0, 0);
    for (key, (ports, desired)) in by_key {
        let existing = by_slice.remove(&key).unwrap_or_default();
        n_endpoints += desired.len();
        n_desired_slices += desired.len().div_ceil(most.max(1));
        let (of_key, n) = mirror(&endpoints, existing, desired, ports, &key.0, most);
        changes.append(of_key);
        n_updated += n;
    }
    let n_slices = changes.n_slices();
    changes.delete.extend(by_slice.into_values().flatten());
    changes.recycle(|_| true);
    if endpoints.metadata.is_deleting() {
        // The garbage collector deletes the slices.
        changes.create.clear();
    }

    let mut outcome = Outcome::new().step(Step::sequential(reports(&endpoints, n_invalid, n_skipped, most)));
    let writes = changes.writes(&key.namespace)?;
    let operations: Vec<&str> = writes.iter().map(|write| write.operation).collect();
    let step = Step::sequential(writes.into_iter().map(|write| write.mutation));
    outcome = push(outcome, step, &operations, CHANGES);
    for (metric, n) in [
        (ADDED, changes.n_added),
        (UPDATED, n_updated),
        (REMOVED, changes.n_removed),
        (SKIPPED, n_skipped),
        (DESIRED, n_endpoints),
        (SLICES, n_slices),
        (DESIRED_SLICES, n_desired_slices),
    ] {
        outcome = outcome.observe(metric, Vec::new(), number(n));
    }
    Ok(outcome)
}

#[doc(alias = "shouldMirror")]
fn should_mirror(endpoints: &Endpoints) -> bool {
    let metadata = &endpoints.metadata;
    metadata.labels.get(SKIP).is_none_or(|skip| skip != "true") && !metadata.annotations.contains_key(LEADER)
}

/// The events about addresses that are not copied.
fn reports(endpoints: &Endpoints, n_invalid: usize, n_skipped: usize, most: usize) -> Vec<Mutation> {
    let report = |reason: &str, message: String| {
        Mutation::event(Event::warning(&Endpoints::KIND, &endpoints.metadata, reason, message))
    };
    let mut reports = Vec::new();
    if n_invalid > 0 {
        let message = format!("Skipped {n_invalid} invalid IP addresses when mirroring to EndpointSlices");
        reports.push(report("InvalidIPAddress", message));
    }
    if n_skipped > n_invalid {
        let message = format!(
            "A max of {most} addresses can be mirrored to EndpointSlices per Endpoints subset. {n_skipped} addresses were skipped"
        );
        reports.push(report("TooManyAddressesToMirror", message));
    }
    reports
}

#[allow(clippy::cast_precision_loss, reason = "numbers of endpoints and slices have less than 53 bits")]
fn number(n: usize) -> f64 {
    n as f64
}
