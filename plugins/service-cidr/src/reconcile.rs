//! The finalizer and the condition of one ServiceCIDR.

use std::net::IpAddr;
use std::time::Duration;

use pintle_sdk::time::Timestamp;
use pintle_sdk::{
    Error, Event, Key, Lister, Mutation, Outcome, PatchType, Query, Refusal, Resource, Step, has_finalizer,
};
use plugin_lib::cidr::{self, IpNet};
use plugin_lib::conditions::find;
use serde_json::json;

use crate::types::{IPAddress, ServiceCIDR};

/// Part of the API.
const FINALIZER: &str = "networking.k8s.io/service-cidr-finalizer";

/// Part of the API: the manager of the condition.
const FIELD_MANAGER: &str = "service-cidr-controller";

const FAMILY: &str = "ipaddress.kubernetes.io/ip-family";

/// How long the finalizer stays after the deletion began.
#[doc(alias = "deletionGracePeriod")]
const GRACE: Duration = Duration::from_secs(10);

/// Computes the changes for one ServiceCIDR.
///
/// # Errors
/// If an object does not fit its type.
pub fn reconcile(key: &Key, lister: &impl Lister) -> Result<Outcome, Error> {
    let Some(cidr) = lister.get::<ServiceCIDR>("", &key.name)? else { return Ok(Outcome::new()) };
    let now = lister.now()?;
    let is_protected = has_finalizer(&cidr.metadata, FINALIZER);
    let Some(deleted) = cidr.metadata.deletion_timestamp else {
        let protect = (!is_protected).then(|| finalizer(&cidr, "finalizers"));
        let message = "The ServiceCIDR Status can not be set to Ready=True";
        let failed = Event::warning(&ServiceCIDR::KIND, &cidr.metadata, "KubernetesServiceCIDRError", message);
        let ready = condition(&cidr, "True", "", "Kubernetes Service CIDR is ready", now);
        let ready = ready.map(|ready| ready.on_failure(failed));
        return Ok(Outcome::new().step(Step::sequential(protect.into_iter().chain(ready))));
    };
    if !can_delete(&cidr, lister)? {
        let message =
            "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new ServiceCIDR";
        let terminating = condition(&cidr, "False", "Terminating", message, now);
        return Ok(Outcome::new().step(Step::sequential(terminating)));
    }
    let end = deleted.plus(GRACE);
    if now < end {
        return Ok(Outcome::new().requeue_at(end, now));
    }
    let release = is_protected.then(|| finalizer(&cidr, "$deleteFromPrimitiveList/finalizers"));
    Ok(Outcome::new().step(Step::sequential(release)))
}

/// Whether every address is also in another ServiceCIDR.
#[doc(alias = "canDeleteCIDR")]
fn can_delete(cidr: &ServiceCIDR, lister: &impl Lister) -> Result<bool, Error> {
    let own = ranges(cidr);
    let mut others = lister.list::<ServiceCIDR>(&Query::all())?;
    others.retain(|other| other.metadata.name != cidr.metadata.name);
    let mut others: Vec<IpNet> = others.iter().flat_map(ranges).collect();
    others.retain(|other| own.iter().any(|range| cidr::overlaps(other, range)));
    if own.iter().all(|range| others.iter().any(|other| cidr::contains(other, range))) {
        return Ok(true);
    }
    for range in &own {
        let family = if range.addr().is_ipv4() { "IPv4" } else { "IPv6" };
        let addresses: Vec<IPAddress> = lister.list(&Query::all().labels(format!("{FAMILY}={family}")))?;
        let addresses = addresses.iter().filter_map(|address| address.metadata.name.parse::<IpAddr>().ok());
        let serves = |ranges: &[IpNet], address| ranges.iter().any(|range| cidr::serves(range, address));
        if addresses.into_iter().any(|address| serves(&own, address) && !serves(&others, address)) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn ranges(cidr: &ServiceCIDR) -> Vec<IpNet> {
    cidr.spec.cidrs.iter().filter_map(|text| cidr::parse(text).ok()).collect()
}

/// The patch of the finalizer: `finalizers` adds it.
#[doc(alias = "addServiceCIDRFinalizerIfNeeded")]
#[doc(alias = "removeServiceCIDRFinalizerIfNeeded")]
fn finalizer(cidr: &ServiceCIDR, list: &str) -> Mutation {
    let body = json!({"metadata": {list: [FINALIZER]}});
    Mutation::patch(&ServiceCIDR::KIND, cidr.metadata.key(), PatchType::StrategicMerge, body)
        .uid(&cidr.metadata.uid)
        .tolerate([Refusal::NotFound])
}

/// The apply of the condition, unless it is unchanged.
#[doc(alias = "updateConditionIfNeeded")]
fn condition(cidr: &ServiceCIDR, status: &str, reason: &str, message: &str, now: Timestamp) -> Option<Mutation> {
    const TYPE: &str = "Ready";
    let is_same = find(&cidr.status.conditions, TYPE).is_some_and(|current| {
        (current.status.as_str(), current.reason.as_str(), current.message.as_str()) == (status, reason, message)
    });
    let condition = json!({
        "type": TYPE, "status": status, "reason": reason, "message": message, "lastTransitionTime": now.truncate(),
    });
    let body = json!({"status": {"conditions": [condition]}});
    let apply = || Mutation::apply(&ServiceCIDR::KIND, cidr.metadata.key(), FIELD_MANAGER, true, body);
    (!is_same).then(apply).map(|apply| apply.subresource("status").uid(&cidr.metadata.uid))
}
