//! Usage of a quota by the objects of its namespace.
//!
//! *Source*: `CalculateUsage` of `apiserver/pkg/quota/v1/resources.go`.

use std::collections::BTreeSet;

use pintle_sdk::api::Listed;
use pintle_sdk::quantity::Quantity;
use pintle_sdk::{ApiResource, Error, Kind, Lister, Query};
use plugin_quota::{
    DeviceClass, DeviceClasses, Evaluator, Neighbours, ObjectCount, PersistentVolumeClaims, Pod, Pods, ResourceClaim,
    ResourceClaims, ResourceList, ResourceQuota, Scope, Services, resource_list, scopes, usage_stats,
};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Config {
    pod_level_resources: bool,
}

/// The usage of a quota.
pub(crate) struct Usage {
    /// The resources that could be counted.
    pub(crate) used: ResourceList,
    /// The reason why some could not be counted.
    pub(crate) error: Option<Error>,
}

/// Counts the usage of a quota.
///
/// # Errors
/// If the configuration or the time cannot be decoded.
#[doc(alias = "CalculateUsage")]
pub(crate) fn calculate_usage(quota: &ResourceQuota, lister: &impl Lister) -> Result<Usage, Error> {
    let config: Config = lister.config()?;
    let pods = Pods { now: lister.now()?, pod_level_resources: config.pod_level_resources };
    let classes: DeviceClasses = lister.list::<DeviceClass>(&Query::all())?.into_iter().collect();
    let mut sum = Sum::new(quota, lister);
    sum.add(&pods);
    sum.add(&Services);
    sum.add(&PersistentVolumeClaims);
    sum.add(&ResourceClaims { classes: &classes, neighbours: &Cache(lister), pods });
    sum.add_counts();
    Ok(sum.usage())
}

/// The other objects in the namespace of a claim, from the cache.
pub(crate) struct Cache<'a, L>(pub(crate) &'a L);

impl<L: Lister> Neighbours for Cache<'_, L> {
    fn pod(&self, namespace: &str, name: &str) -> Option<Pod> {
        self.0.get(namespace, name).ok().flatten()
    }

    fn claims(&self, namespace: &str, pod: &str) -> Vec<ResourceClaim> {
        self.0.list(&Query::namespace(namespace).controlled_by(pod)).unwrap_or_default()
    }
}

struct Sum<'a, L> {
    lister: &'a L,
    hard: &'a ResourceList,
    scopes: Vec<Scope>,
    objects: Query,
    /// The counts of all evaluators, which may have more resources than the quota limits.
    used: ResourceList,
    measured: BTreeSet<&'a str>,
    unknown: BTreeSet<&'a str>,
    error: Option<Error>,
}

impl<'a, L: Lister> Sum<'a, L> {
    fn new(quota: &'a ResourceQuota, lister: &'a L) -> Self {
        Self {
            lister,
            hard: &quota.spec.hard,
            scopes: scopes(quota),
            objects: Query::namespace(&quota.metadata.namespace),
            used: ResourceList::new(),
            measured: BTreeSet::new(),
            unknown: BTreeSet::new(),
            error: None,
        }
    }

    /// Adds the usage of the objects of a kind, if the quota limits one of its resources.
    fn add<E: Evaluator<Object: Listed>>(&mut self, evaluator: &E) {
        let measured: Vec<&str> =
            self.hard.keys().map(String::as_str).filter(|name| evaluator.measures(name)).collect();
        if measured.is_empty() {
            return;
        }
        match self.lister.list::<E::Object>(&self.objects) {
            Ok(objects) => resource_list::add(&mut self.used, &usage_stats(evaluator, &self.scopes, objects)),
            Err(error) => {
                self.unknown.extend(&measured);
                self.error.get_or_insert(error);
            }
        }
        self.measured.extend(measured);
    }

    /// Adds the numbers of objects of the other kinds.
    fn add_counts(&mut self) {
        let mut resources: Option<Vec<ApiResource>> = None;
        for name in self.hard.keys().filter(|name| !self.measured.contains(name.as_str())).collect::<Vec<_>>() {
            let Some((group, plural)) = ObjectCount::counted(name) else { continue };
            let resources = resources.get_or_insert_with(|| self.lister.resources());
            // An unknown kind may be served later.
            let Some(kind) = counted_kind(resources, group, plural) else { continue };
            // Objects of these kinds are in no scope.
            let n = if self.scopes.is_empty() { self.lister.count(kind, &self.objects) } else { 0 };
            self.used.insert(name.clone(), resource_list::number(n as usize));
            self.measured.insert(name);
        }
    }

    fn usage(self) -> Usage {
        let known = self.measured.difference(&self.unknown);
        let amount = |name: &&str| ((*name).to_owned(), self.used.get(*name).copied().unwrap_or(Quantity::ZERO));
        Usage { used: known.map(amount).collect(), error: self.error }
    }
}

/// The kind of a resource that quotas can count, in the version that the host watches: the preferred one.
#[doc(alias = "GetQuotableResources")]
fn counted_kind<'r>(resources: &'r [ApiResource], group: &str, plural: &str) -> Option<&'r Kind> {
    let has = |resource: &ApiResource, verb: &str| resource.verbs.iter().any(|has| has == verb);
    let is_counted = |resource: &&ApiResource| {
        resource.namespaced
            && resource.plural == plural
            && resource.kind.group == group
            && ["create", "delete", "list", "watch"].iter().all(|verb| has(resource, verb))
    };
    let found = resources.iter().filter(is_counted);
    let found = found.max_by(|a, b| (a.preferred, &a.kind.version).cmp(&(b.preferred, &b.kind.version)));
    found.map(|resource| &resource.kind)
}
