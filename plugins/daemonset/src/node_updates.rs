//! Node changes: enqueues the affected DaemonSets.
//!
//! *Flow*: key of a Node -> its Pods, all DaemonSets -> keys of DaemonSets.
//!
//! *Source*: daemon_controller.go.

use std::collections::BTreeSet;

use pintle_sdk::api::meta::HasController as _;
use pintle_sdk::{Error, Key, Lister, Outcome, Query, Resource};
use plugin_lib::listing::fitting;

use crate::fit;
use crate::types::{DaemonSet, ListedDaemonSet, Node, Pod};

/// Enqueues the DaemonSets that a Node affects: those that lack a Pod there, have a surplus one, or have Pods on Nodes
/// where they should not run, which may no longer include this one.
///
/// # Errors
/// The Node does not decode.
#[doc(alias = "syncNodeUpdate")]
pub(crate) fn reconcile(key: &Key, lister: &impl Lister) -> Result<Outcome, Error> {
    let Some(node) = lister.get::<Node>("", &key.name)? else { return Ok(Outcome::new()) };
    let pods: Vec<Pod> = fitting(lister, &Query::all().index("node", &key.name)).collect();
    let owners: BTreeSet<&str> = pods.iter().filter_map(|pod| pod.metadata.controller_uid()).collect();
    let comparisons = fit::comparisons(lister)?;
    let mut outcome = Outcome::new();
    for set in fitting::<ListedDaemonSet>(lister, &Query::all()) {
        let placement = fit::placement(&set);
        let fit = fit::daemon(&placement, comparisons).fit(&fit::target(&node));
        let is_scheduled = owners.contains(set.metadata.uid.as_str());
        let is_concerned =
            if is_scheduled { !fit.should_continue || set.status.number_misscheduled > 0 } else { fit.should_run };
        if is_concerned {
            outcome = outcome.wake(Key::new("daemonset", DaemonSet::KIND, &set.metadata.namespace, &set.metadata.name));
        }
    }
    Ok(outcome)
}
