//! Mapping of changes to quotas and their queues, where the rules of the manifest do not suffice.

use std::time::Duration;

use pintle_sdk::api::meta::Resource as _;
use pintle_sdk::time::Timestamp;
use pintle_sdk::{Key, Kind, Lister, Query, Wake, decode};
use plugin_quota::{
    DeviceClasses, Evaluator as _, ObjectCount, PersistentVolumeClaims, Pod, Pods, ResourceClaims, ResourceQuota,
    Services,
};

use crate::usage::Cache;

const PRIMARY: &str = "resourcequota_primary";
const PRIORITY: &str = "resourcequota_priority";

/// The queue of new objects.
pub(crate) const CHANGES: &str = "resource_quota_controller_resource_changes";

/// The delay in which other Pods of a namespace may end, as after deletions.
const DELAY: Duration = Duration::from_millis(100);

/// The keys of a new or changed quota, or of the quotas whose usage a changed Pod may reduce.
pub fn keys_of(kind: &Kind, old: Option<&str>, new: Option<&str>, lister: &impl Lister) -> Vec<Wake> {
    match *kind == Pod::KIND {
        true => replenished(old, new, lister).unwrap_or_default(),
        false => new.and_then(|quota| added(quota, lister)).into_iter().collect(),
    }
}

/// The key of a quota, in the priority queue if its status is incomplete.
#[doc(alias = "addQuota")]
fn added(quota: &str, lister: &impl Lister) -> Option<Wake> {
    let ResourceQuota { metadata, spec, status } = decode(&ResourceQuota::KIND, quota).ok()?;
    let is_missing = |name: &String| !status.used.contains_key(name) && is_measured(name, lister);
    let is_first = spec.hard != status.hard || status.hard.keys().any(is_missing);
    let queue = if is_first { PRIORITY } else { PRIMARY };
    Some(Wake::now(Key::new(queue, ResourceQuota::KIND, metadata.namespace, metadata.name)))
}

/// Whether this name can be counted. Extended resources of claims have the same names as those of Pods.
fn is_measured(name: &str, lister: &impl Lister) -> bool {
    let pods = Pods { now: Timestamp::from_micros(0), pod_level_resources: true };
    let claims = ResourceClaims { classes: &DeviceClasses::default(), neighbours: &Cache(lister), pods };
    pods.measures(name)
        || Services.measures(name)
        || PersistentVolumeClaims.measures(name)
        || claims.measures(name)
        || ObjectCount::counted(name).is_some()
}

/// The keys of the quotas that limit Pods, if the change of a Pod may reduce their usage.
#[doc(alias = "replenishQuota")]
fn replenished(old: Option<&str>, new: Option<&str>, lister: &impl Lister) -> Option<Vec<Wake>> {
    let (old, new): (Pod, Pod) = (decode(&Pod::KIND, old?).ok()?, decode(&Pod::KIND, new?).ok()?);
    let pods = Pods { now: lister.now().ok()?, pod_level_resources: true };
    if !pods.makes_room(&old, &new) {
        return None;
    }
    let mut quotas: Vec<ResourceQuota> = lister.list(&Query::namespace(&new.metadata.namespace)).ok()?;
    quotas.retain(|quota| quota.status.hard.keys().any(|name| pods.measures(name)));
    let key = |quota: ResourceQuota| {
        let key = Key::new(PRIMARY, ResourceQuota::KIND, quota.metadata.namespace, quota.metadata.name);
        Wake::after(key, DELAY)
    };
    Some(quotas.into_iter().map(key).collect())
}
