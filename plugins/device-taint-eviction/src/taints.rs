//! The taints of devices: those of ResourceSlices, and those of DeviceTaintRules. When they evict the users of a claim.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::time::Duration;

use pintle_sdk::time::Timestamp;
use pintle_sdk::{Error, Lister, Query};
use plugin_lib::listing::fitting;
use plugin_lib::nodes::{Taint, Toleration};

use crate::types::{
    AllocatedDevice, DeviceTaintRule, DeviceTaintRuleSpecDeviceSelector, NO_EXECUTE, ResourceClaim, ResourceSlice,
    ResourceSliceSpecDevices,
};

/// When the users of a claim, or a Pod, are evicted.
#[doc(alias = "evictionAndReason")]
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Eviction {
    /// Time by the wall clock.
    pub(crate) when: Timestamp,
    /// The rules that are reasons, also those whose time comes later: name and uid.
    pub(crate) rules: BTreeMap<String, String>,
}

impl Eviction {
    /// The reasons of both; the earlier time counts.
    pub(crate) fn both(one: Option<Self>, other: Option<Self>) -> Option<Self> {
        match (one, other) {
            (Some(mut one), Some(other)) => {
                one.when = one.when.min(other.when);
                one.rules.extend(other.rules);
                Some(one)
            }
            (one, other) => one.or(other),
        }
    }
}

/// A taint with the effect `NoExecute`.
#[derive(Clone, Debug)]
struct Evicting {
    taint: Taint,
    /// The API server sets it.
    added: Option<Timestamp>,
}

impl Evicting {
    fn new(key: String, value: String, added: Option<Timestamp>) -> Self {
        Self { taint: Taint { key, value, effect: NO_EXECUTE.to_owned() }, added }
    }

    /// When a user of a device with these tolerations is evicted: after the shortest time of those that apply. `None` if
    /// one of them has no end.
    #[doc(alias = "ToleratesTaint")]
    fn until(&self, tolerations: &[Toleration]) -> Option<Timestamp> {
        let added = self.added?;
        let mut shortest: Option<i64> = None;
        let is_used =
            |toleration: &&Toleration| toleration.effect == NO_EXECUTE && toleration.tolerates(&self.taint, false);
        for toleration in tolerations.iter().filter(is_used) {
            let seconds = toleration.toleration_seconds?;
            shortest = Some(shortest.map_or(seconds, |shortest| shortest.min(seconds)));
        }
        // A negative time is none.
        let seconds = shortest.unwrap_or_default().max(0).unsigned_abs();
        Some(added.plus(Duration::from_secs(seconds)))
    }
}

/// A DeviceTaintRule, as if its effect was `NoExecute`.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    name: String,
    uid: String,
    selector: Option<DeviceTaintRuleSpecDeviceSelector>,
    taint: Evicting,
}

impl Rule {
    pub(crate) fn new(rule: DeviceTaintRule) -> Self {
        let taint = rule.spec.taint;
        Self {
            name: rule.metadata.name,
            uid: rule.metadata.uid,
            selector: rule.spec.device_selector,
            taint: Evicting::new(taint.key, taint.value, taint.time_added),
        }
    }

    /// The pool to which the selector is limited.
    pub(crate) fn pool(&self) -> Option<&str> {
        self.selector.as_ref()?.pool.as_deref()
    }

    /// Whether the selector matches a device.
    #[doc(alias = "ruleMatchesDevice")]
    pub(crate) fn matches(&self, driver: &str, pool: &str, device: &str) -> bool {
        let is = |wanted: &Option<String>, name: &str| wanted.as_deref().is_none_or(|wanted| wanted == name);
        self.selector.as_ref().is_some_and(|selector| {
            is(&selector.driver, driver) && is(&selector.pool, pool) && is(&selector.device, device)
        })
    }

    /// Whether the selector matches an allocated device.
    pub(crate) fn is_about(&self, device: &AllocatedDevice) -> bool {
        self.matches(&device.driver, &device.pool, &device.device)
    }

    /// Whether it evicts users of the claim, now or later.
    pub(crate) fn evicts(&self, claim: &ResourceClaim) -> bool {
        let mut devices = claim.devices().iter().filter(|device| self.is_about(device));
        devices.any(|device| self.taint.until(&device.tolerations).is_some())
    }
}

/// The devices with evicting taints of one pool, by name.
type Pool = BTreeMap<String, Vec<Evicting>>;

/// The evicting taints of all devices. Pools are read as needed, each once.
pub(crate) struct Taints<'a, L> {
    lister: &'a L,
    rules: Vec<Rule>,
    /// By driver and name.
    pools: BTreeMap<(String, String), Pool>,
}

impl<'a, L: Lister> Taints<'a, L> {
    /// Reads the rules with the effect `NoExecute`, if rules count.
    #[doc(alias = "evictingRules")]
    pub(crate) fn read(lister: &'a L, with_rules: bool) -> Self {
        let all = Query::all();
        let rules = with_rules.then(|| fitting::<DeviceTaintRule>(lister, &all)).into_iter().flatten();
        let rules = rules.filter(|rule| rule.spec.taint.effect == NO_EXECUTE).map(Rule::new).collect();
        Self { lister, rules, pools: BTreeMap::new() }
    }

    /// When the users of a claim are evicted.
    ///
    /// # Errors
    /// If a ResourceSlice does not fit its type.
    #[doc(alias = "claimEvictionTime")]
    #[doc(alias = "allEvictingDeviceTaints")]
    pub(crate) fn eviction_of(&mut self, claim: &ResourceClaim) -> Result<Option<Eviction>, Error> {
        let mut eviction: Option<Eviction> = None;
        let mut add = |when: Option<Timestamp>, rule: Option<&Rule>| {
            let rules = rule.map(|rule| (rule.name.clone(), rule.uid.clone())).into_iter().collect();
            let new = when.map(|when| Eviction { when, rules });
            eviction = Eviction::both(eviction.take(), new);
        };
        for device in claim.devices() {
            for taint in self.pool(device)?.get(&device.device).into_iter().flatten() {
                add(taint.until(&device.tolerations), None);
            }
            for rule in self.rules.iter().filter(|rule| rule.is_about(device)) {
                add(rule.taint.until(&device.tolerations), Some(rule));
            }
        }
        Ok(eviction)
    }

    /// The pool of a device.
    fn pool(&mut self, device: &AllocatedDevice) -> Result<&Pool, Error> {
        match self.pools.entry((device.driver.clone(), device.pool.clone())) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(new) => Ok(new.insert(read_pool(self.lister, &device.driver, &device.pool)?)),
        }
    }
}

/// The tainted devices of the slices with the highest generation; others are outdated.
#[doc(alias = "getDevice")]
#[doc(alias = "getTaintedDevices")]
fn read_pool(lister: &impl Lister, driver: &str, name: &str) -> Result<Pool, Error> {
    let mut slices: Vec<ResourceSlice> = lister.list(&Query::all().index("pool", name))?;
    slices.retain(|slice| slice.spec.driver == driver);
    let newest = slices.iter().map(|slice| slice.spec.pool.generation).max();
    slices.retain(|slice| Some(slice.spec.pool.generation) == newest);
    let mut pool = Pool::new();
    for ResourceSliceSpecDevices { name, taints } in slices.into_iter().flat_map(|slice| slice.spec.devices) {
        let evicting = taints.into_iter().filter(|taint| taint.effect == NO_EXECUTE);
        let evicting: Vec<_> = evicting.map(|taint| Evicting::new(taint.key, taint.value, taint.time_added)).collect();
        if !evicting.is_empty() {
            pool.entry(name).or_insert(evicting);
        }
    }
    Ok(pool)
}
