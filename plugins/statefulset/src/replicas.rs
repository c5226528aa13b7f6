//! Sorts the Pods of a StatefulSet into replicas.

use std::collections::BTreeMap;

use pintle_sdk::api::meta::HasController as _;
use pintle_sdk::{Error, Lister, Query};
use plugin_lib::controller_ref::{self, Claimed};

use crate::identity::{is_member, ordinal, pod_name};
use crate::set::Set;
use crate::types::{Pod, StatefulSet};

/// The Pods of a StatefulSet, including those that it adopts, and the writes that adopt and release.
///
/// # Errors
/// As for [`recheck`](controller_ref::recheck).
#[doc(alias = "getPodsForStatefulSet")]
pub(crate) fn claim(lister: &impl Lister, set: &Set) -> Result<Claimed<Pod>, Error> {
    let meta = &set.object.metadata;
    let query = Query::namespace(set.namespace());
    let mut all = lister.list::<Pod>(&query.clone().controlled_by(&meta.uid))?;
    if !set.is_deleting() {
        // Of the namespace's other Pods without a controller, only those that it could adopt.
        let mut orphans = lister.list::<Pod>(&query.controlled_by_or_orphans(&meta.uid).labels(&set.selector))?;
        orphans.retain(|pod| pod.metadata.controller_uid().is_none());
        all.append(&mut orphans);
    }
    let is_own = |pod: &Pod| is_member(set.name(), &pod.metadata.name);
    controller_ref::claim_where::<StatefulSet, Pod>(lister, meta, &set.selector, all, is_own)
}

/// The Pods by role.
#[derive(Default)]
pub(crate) struct Replicas<'a> {
    /// Existing replicas within the desired range, by ordinal.
    pub(crate) wanted: BTreeMap<i64, &'a Pod>,
    /// Replicas outside the desired range with their ordinals, the highest first.
    pub(crate) condemned: Vec<(i64, &'a Pod)>,
}

impl<'a> Replicas<'a> {
    /// Sorts the Pods of a StatefulSet. Pods without a 32-bit ordinal are in neither list.
    pub(crate) fn sort(set: &Set, pods: &'a [Pod]) -> Self {
        let mut replicas = Self::default();
        for pod in pods {
            let name = &pod.metadata.name;
            match ordinal(name) {
                Some(ordinal) if !set.wants(ordinal) => replicas.condemned.push((ordinal, pod)),
                // `web-01` is not `web-1`.
                Some(ordinal) if *name == pod_name(set.name(), ordinal) => drop(replicas.wanted.insert(ordinal, pod)),
                Some(_) | None => {}
            }
        }
        replicas.condemned.sort_by_key(|(ordinal, _)| std::cmp::Reverse(*ordinal));
        replicas
    }

    /// All replicas.
    pub(crate) fn all(&self) -> impl Iterator<Item = &'a Pod> {
        self.wanted.values().copied().chain(self.condemned.iter().map(|(_, pod)| *pod))
    }
}
