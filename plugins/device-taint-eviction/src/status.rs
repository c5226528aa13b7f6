//! The condition `EvictionInProgress` of a DeviceTaintRule.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use pintle_sdk::api::meta::Condition;
use pintle_sdk::time::Timestamp;
use pintle_sdk::{Error, Key, Lister, Mutation, Outcome, Query, Resource, Step};
use plugin_lib::conditions::find;
use plugin_lib::listing::fitting;
use serde_json::json;

use crate::claims::users;
use crate::evicted::number_of;
use crate::pod::RULE_STATUS_PERIOD;
use crate::taints::Rule;
use crate::types::{Config, DeviceTaintRule, NO_EXECUTE, ResourceClaim, ResourceSlice};

#[doc(alias = "DeviceTaintConditionEvictionInProgress")]
const TYPE: &str = "EvictionInProgress";

/// Part of the API: the manager of the condition.
const FIELD_MANAGER: &str = "device-taint-eviction-controller";

/// Computes the changes for the status of one rule.
///
/// # Errors
/// If the configuration or an object does not fit its type.
#[doc(alias = "maybeUpdateRuleStatus")]
pub(crate) fn sync(key: &Key, lister: &impl Lister) -> Result<Outcome, Error> {
    let config: Config = lister.config()?;
    let rule = lister.get::<DeviceTaintRule>("", &key.name)?;
    let Some(rule) = rule.filter(|_| config.rules) else { return Ok(Outcome::new()) };
    let now = lister.now()?;
    let old = find(&rule.status.conditions, TYPE);
    if let Some(wait) = old.and_then(|old| until_update(old, rule.metadata.generation, now)) {
        return Ok(Outcome::new().requeue_after(wait));
    }
    let new = condition(&rule, lister, config)?;
    // Its time is that of the last change of any part.
    let is_same = old.is_some_and(|old| {
        let observed_generation = Some(old.observed_generation.unwrap_or_default());
        Condition { last_transition_time: None, observed_generation, ..old.clone() } == new
    });
    let apply = (!is_same).then(|| apply(&rule, &new, now));
    Ok(Outcome::new().step(Step::sequential(apply)))
}

/// Time until the next update: the condition is of this generation, and recent. A time in the future is that of another
/// clock.
fn until_update(old: &Condition, generation: i64, now: Timestamp) -> Option<Duration> {
    let last = old.last_transition_time.filter(|last| *last <= now)?;
    let left = RULE_STATUS_PERIOD.checked_sub(now.since(last)).filter(|left| !left.is_zero())?;
    (old.observed_generation.unwrap_or_default() == generation).then_some(left)
}

/// The condition, without its time.
fn condition(rule: &DeviceTaintRule, lister: &impl Lister, config: Config) -> Result<Condition, Error> {
    let n_evicted = number_of(&rule.metadata.uid, lister);
    let (is_pending, reason, mut message) = match rule.spec.taint.effect.as_str() {
        NO_EXECUTE => {
            let pending = Pending::of(&Rule::new(rule.clone()), lister, config)?;
            if pending.n_pods > 0 {
                (true, "PodsPendingEviction", pending.message())
            } else if n_evicted > 0 {
                (false, "Completed", String::new())
            } else {
                (false, "NotStarted", String::new())
            }
        }
        "None" => (false, "NoEffect", simulate(&Rule::new(rule.clone()), lister, config)?),
        _ => (false, "OtherEffect", "Eviction only happens for the NoExecute effect.".to_owned()),
    };
    if n_evicted > 0 {
        let space = if message.is_empty() { "" } else { " " };
        let pods = counted(n_evicted, "pod", "pods");
        message.push_str(&format!("{space}{pods} evicted since starting the controller."));
    }
    Ok(Condition {
        type_: TYPE.into(),
        status: if is_pending { "True" } else { "False" }.into(),
        observed_generation: Some(rule.metadata.generation),
        reason: reason.into(),
        message,
        ..Condition::default()
    })
}

fn apply(rule: &DeviceTaintRule, new: &Condition, now: Timestamp) -> Mutation {
    let condition = json!({
        "type": new.type_, "status": new.status, "reason": new.reason, "message": new.message,
        "observedGeneration": new.observed_generation, "lastTransitionTime": now.truncate(),
    });
    let body = json!({"status": {"conditions": [condition]}});
    Mutation::apply(&DeviceTaintRule::KIND, rule.metadata.key(), FIELD_MANAGER, true, body)
        .subresource("status")
        .uid(&rule.metadata.uid)
}

/// Pods that a rule evicts now or later.
struct Pending {
    n_pods: u64,
    n_namespaces: u64,
}

impl Pending {
    #[doc(alias = "countPendingPods")]
    fn of(rule: &Rule, lister: &impl Lister, config: Config) -> Result<Self, Error> {
        let mut pods: BTreeSet<(String, String)> = BTreeSet::new();
        for claim in claims(rule, lister).into_iter().filter(|claim| rule.evicts(claim)) {
            for (name, pod) in users(&claim, lister, config)? {
                if !pod.metadata.is_deleting() && !pod.spec.node_name.is_empty() {
                    pods.insert((claim.metadata.namespace.clone(), name));
                }
            }
        }
        let namespaces: BTreeSet<&String> = pods.iter().map(|(namespace, _)| namespace).collect();
        Ok(Self { n_pods: length(pods.len()), n_namespaces: length(namespaces.len()) })
    }

    fn message(&self) -> String {
        let pods = counted(self.n_pods, "pod needs", "pods need");
        format!("{pods} to be evicted in {}.", self.namespaces())
    }

    fn namespaces(&self) -> String {
        counted(self.n_namespaces, "namespace", "different namespaces")
    }
}

/// The message about what the rule would do if its effect was `NoExecute`.
fn simulate(rule: &Rule, lister: &impl Lister, config: Config) -> Result<String, Error> {
    let pending = Pending::of(rule, lister, config)?;
    let claims = claims(rule, lister);
    let allocated = claims.iter().flat_map(ResourceClaim::devices).filter(|device| rule.is_about(device));
    let allocated = counted(length(allocated.count()), "allocated device", "allocated devices");
    let published = counted(n_published(rule, lister), "published device", "published devices");
    let pods = counted(pending.n_pods, "pod", "pods");
    Ok(format!(
        "{published} selected. {allocated} selected. {pods} would be evicted in {} if the effect was NoExecute. This \
         information will not be updated again. Recreate the DeviceTaintRule to trigger an update.",
        pending.namespaces()
    ))
}

/// The claims that may have a device which the rule selects.
fn claims(rule: &Rule, lister: &impl Lister) -> Vec<ResourceClaim> {
    fitting(lister, &in_pool(rule)).collect()
}

fn in_pool(rule: &Rule) -> Query {
    rule.pool().map_or_else(Query::all, |pool| Query::all().index("pool", pool))
}

/// Number of selected devices in slices that are not outdated.
#[doc(alias = "countTaintedDevices")]
fn n_published(rule: &Rule, lister: &impl Lister) -> u64 {
    // Driver and name -> the highest generation, and the number of devices in its slices.
    let mut pools: BTreeMap<(String, String), (i64, u64)> = BTreeMap::new();
    for slice in fitting::<ResourceSlice>(lister, &in_pool(rule)) {
        let spec = slice.spec;
        let is_selected = |name: &str| rule.matches(&spec.driver, &spec.pool.name, name);
        let n = length(spec.devices.iter().filter(|device| is_selected(&device.name)).count());
        let newest = (spec.pool.generation, 0);
        let pool = pools.entry((spec.driver, spec.pool.name)).or_insert(newest);
        if pool.0 < newest.0 {
            *pool = newest;
        }
        if pool.0 == newest.0 {
            pool.1 += n;
        }
    }
    pools.values().map(|(_, n)| n).sum()
}

fn length(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}

/// A number with what is counted.
fn counted(n: u64, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}
