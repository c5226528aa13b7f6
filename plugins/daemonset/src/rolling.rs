//! Rolling update: deletes old Pods, and with a surge creates new ones next to them.
//!
//! *Invariants*
//! 1. Without a surge, an available old Pod is deleted only while fewer Nodes than `maxUnavailable` lack an available
//!    Pod. An unavailable one is deleted whatever the limit.
//! 2. With a surge, an available old Pod is deleted only when the new one on its Node is available, or when its Node
//!    should not have one and more Nodes than desired have an available Pod. At most `maxSurge` new Pods wait next to
//!    available ones.
//! 3. A Node with several old or several new Pods is left to `manage`, and counts as unavailable, or against the surge.
//!
//! *Source*: update.go.

use std::collections::BTreeSet;

use pintle_sdk::Error;

use crate::context::Context;
use crate::manage::Decision;
use crate::strategy::{self, Limits};
use crate::types::Pod;

/// The next step of a rolling update; empty with another strategy.
///
/// # Errors
/// The limits are invalid, or a Node with an old Pod is deleted.
#[doc(alias = "rollingUpdate")]
pub(crate) fn decide(context: &Context) -> Result<Decision<'_>, Error> {
    if !strategy::is_rolling(&context.set) {
        return Ok(Decision::default());
    }
    let limits = strategy::limits(&context.set, context.n_desired())?;
    if limits.surge == 0 { Ok(replace(context, limits)) } else { surge(context, limits) }
}

/// Nodes that have a Pod, or should have one.
fn nodes(context: &Context) -> BTreeSet<&str> {
    let wanted = context.fits.iter().filter(|(_, fit)| fit.should_run).map(|(node, _)| node);
    wanted.chain(context.pods.keys()).map(String::as_str).collect()
}

/// The new and the old Pod of a Node, ignoring those that are being deleted. `None` if there are several of one kind.
#[doc(alias = "findUpdatedPodsOnNode")]
fn pair<'a>(context: &'a Context, node: &str) -> Option<(Option<&'a Pod>, Option<&'a Pod>)> {
    let (mut new, mut old) = (None, None);
    for pod in context.on(node).iter().filter(|pod| !pod.metadata.is_deleting()) {
        let place = if context.is_updated(pod) { &mut new } else { &mut old };
        if place.replace(pod).is_some() {
            return None;
        }
    }
    Some((new, old))
}

/// Deletes old Pods; `manage` creates new ones in their place.
fn replace(context: &Context, limits: Limits) -> Decision<'_> {
    let mut n_unavailable = 0;
    let (mut delete, mut candidates) = (Vec::new(), Vec::new());
    for node in nodes(context) {
        match pair(context, node) {
            Some((Some(new), None)) if context.is_available(new) => {}
            Some((None, Some(old))) if context.is_available(old) => candidates.push(old),
            Some((None, Some(old))) => {
                n_unavailable += 1;
                delete.push(old);
            }
            _ => n_unavailable += 1,
        }
    }
    delete.extend(candidates.into_iter().take(limits.unavailable.saturating_sub(n_unavailable)));
    Decision { delete, ..Decision::default() }
}

/// Creates new Pods next to old ones, and deletes old ones that are no longer needed.
fn surge(context: &Context, limits: Limits) -> Result<Decision<'_>, Error> {
    let (mut delete, mut misplaced) = (Vec::new(), Vec::new());
    let (mut create, mut candidates) = (Vec::new(), Vec::new());
    let (mut n_surge, mut n_available) = (0, 0);
    for node in nodes(context) {
        let Some((new, old)) = pair(context, node) else {
            n_surge += 1;
            continue;
        };
        let is_available = |pod: Option<&Pod>| pod.is_some_and(|pod| context.is_available(pod));
        n_available += usize::from(is_available(old.or(new)));
        match (new, old) {
            (_, None) => {}
            (None, Some(pod)) => {
                let fit = context.fits.get(node).ok_or_else(|| {
                    Error::retry(format!(
                        "Node {node} of Pod {} is gone: the update waits for the Pod",
                        pod.metadata.name
                    ))
                })?;
                match (is_available(old), fit.should_run) {
                    (false, false) => delete.push(pod),
                    (false, true) => create.push(node),
                    (true, false) => misplaced.push(pod),
                    (true, true) => candidates.push(node),
                }
            }
            (Some(_), Some(old)) if is_available(new) => delete.push(old),
            (Some(_), Some(_)) => n_surge += 1,
        }
    }
    // With a surge, as many Pods as desired should stay available, even while Nodes change.
    delete.extend(misplaced.into_iter().take(n_available.saturating_sub(context.n_desired())));
    create.extend(candidates.into_iter().take(limits.surge.saturating_sub(n_surge)));
    Ok(Decision { create, delete, ..Decision::default() })
}
