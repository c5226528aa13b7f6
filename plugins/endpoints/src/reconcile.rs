//! One run for a Service.

use pintle_sdk::selector::Selector;
use pintle_sdk::{Error, Key, Lister, Mutation, Outcome, Query, Refusal, Resource, Step};
use plugin_lib::services::{HEADLESS, Pod};
use plugin_lib::subsets::{Endpoints, Subset, repack};
use plugin_lib::trigger_time::{self, TriggerTimes};

use crate::capacity::{OVER_CAPACITY, is_over_capacity};
use crate::subsets::subsets;
use crate::types::{LEFTOVERS, Leftover, Service};
use crate::writes::{CONTROLLER, MANAGED_BY, Texts, create, same, update};

/// Computes the changes for one Service.
///
/// # Errors
/// If an object does not fit its type.
#[doc(alias = "syncService")]
pub fn reconcile(key: &Key, lister: &impl Lister) -> Result<Outcome, Error> {
    let Some(service) = lister.get::<Service>(&key.namespace, &key.name)? else { return gone(key, lister) };
    if key.queue == LEFTOVERS || service.spec.type_ == "ExternalName" || service.spec.selector.is_empty() {
        return Ok(Outcome::new());
    }
    let selector = Selector::from_map(&service.spec.selector);
    let pods: Vec<Pod> = lister.list(&Query::namespace(&key.namespace).labels(selector))?;
    let times = TriggerTimes::of(lister, &key.object(), service.metadata.creation_timestamp, &pods);
    let subsets = subsets(&service, &pods);
    let write = match lister.get_document::<Endpoints>(&key.namespace, &key.name)? {
        Some((present, _)) if has_all(&present, &service, &subsets) => None,
        Some((present, document)) => update(&present, document, &service, subsets, times.last_change()),
        None => Some(create(&service, subsets, times.last_change())),
    };
    Ok(times.keep(Outcome::new().step(Step::sequential(write))))
}

/// Deletes the Endpoints of a deleted Service.
#[doc(alias = "checkLeftoverEndpoints")]
fn gone(key: &Key, lister: &impl Lister) -> Result<Outcome, Error> {
    let outcome = trigger_time::forget(lister, &key.object(), Outcome::new());
    let Some(Leftover { metadata }) = lister.get(&key.namespace, &key.name)? else { return Ok(outcome) };
    if key.queue == LEFTOVERS {
        // Endpoints may be created before their Service. Only those from before the start of the host are leftovers.
        let start = lister.now()?.minus(lister.uptime());
        let was_there = metadata.creation_timestamp.is_none_or(|created| created < start);
        if !was_there || metadata.annotations.leader.is_some() {
            return Ok(outcome);
        }
    }
    let delete = Mutation::delete(&Endpoints::KIND, &key.namespace, &key.name).uid(metadata.uid);
    Ok(outcome.step(Step::sequential([delete.tolerate([Refusal::NotFound])])))
}

/// Whether Endpoints have the desired content. The time of the change does not count.
fn has_all(present: &Endpoints, service: &Service, subsets: &[Subset]) -> bool {
    // Another order does not count as a difference.
    let is_equal = same(&present.subsets, subsets) || same(&repack(&present.subsets), subsets);
    let is_marked = present.metadata.annotations.contains_key(OVER_CAPACITY);
    is_equal
        && has_labels(&present.metadata.labels, &service.metadata.labels)
        && !is_over_capacity(&present.subsets)
        && !is_marked
}

/// Whether the labels are those that the Service requires.
#[doc(alias = "labelsCorrectForEndpoints")]
fn has_labels(present: &Texts, service: &Texts) -> bool {
    let of_service = || present.iter().filter(|(key, _)| !matches!(key.as_str(), HEADLESS | MANAGED_BY));
    present.get(MANAGED_BY).is_some_and(|manager| manager == CONTROLLER)
        && of_service().all(|(key, value)| service.get(key) == Some(value))
        && of_service().count() == service.len()
}
