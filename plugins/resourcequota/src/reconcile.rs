//! The status of one ResourceQuota.

use pintle_sdk::{Error, Key, Lister, Outcome, Step};
use plugin_lib::status;
use plugin_quota::{ResourceList, ResourceQuota, resource_list};
use serde::Serialize;

use crate::queue::CHANGES;
use crate::usage::calculate_usage;

#[derive(Serialize)]
struct Status<'a> {
    #[serde(skip_serializing_if = "ResourceList::is_empty")]
    hard: &'a ResourceList,
    #[serde(skip_serializing_if = "ResourceList::is_empty")]
    used: &'a ResourceList,
}

/// Computes the status of one ResourceQuota.
///
/// # Errors
/// If it does not fit its type.
#[doc(alias = "syncResourceQuota")]
pub fn reconcile(key: &Key, lister: &impl Lister) -> Result<Outcome, Error> {
    let Some((quota, document)) = lister.get_document::<ResourceQuota>(&key.namespace, &key.name)? else {
        return Ok(Outcome::new());
    };
    let (hard, before) = (&quota.spec.hard, &quota.status);
    let usage = calculate_usage(&quota, lister)?;
    // Resources that cannot be counted keep their values.
    let mut used = before.used.clone();
    used.extend(usage.used);
    if key.queue == CHANGES {
        resource_list::raise(&mut used, &before.used);
    }
    used.retain(|name, _| hard.contains_key(name));
    let mut outcome = Outcome::new();
    if used != before.used || *hard != before.hard {
        let update = status::replace::<ResourceQuota>(document, &Status { hard, used: &used });
        outcome.push(Step::sequential([update]));
    }
    Ok(match usage.error {
        Some(error) => outcome.fail(error),
        None => outcome,
    })
}
