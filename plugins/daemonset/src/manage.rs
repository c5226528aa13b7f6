//! One Pod for each Node: what is missing, and what is too much.
//!
//! *Invariants*
//! 1. Without a surge, all Pods of a Node but the oldest go; with one, at most one new and one old Pod stay.
//! 2. A Pod that is being deleted is not replaced before it is gone, except with a surge, where it does not count.
//! 3. A Pod that has ended goes. That of a Node on which Pods fail again and again waits longer each time.
//!
//! *Source*: `podsShouldBeOnNode` and `getUnscheduledPodsWithoutNode` of daemon_controller.go.

use pintle_sdk::{Event, Resource};
use plugin_lib::nodes::DaemonFit;
use plugin_lib::pods;

use crate::backoff::Backoff;
use crate::pass::Pass;
use crate::strategy;
use crate::types::{DaemonSet, Pod};

/// What to write.
#[derive(Default)]
pub(crate) struct Plan<'a> {
    /// Nodes that get a Pod.
    pub(crate) create: Vec<&'a str>,
    /// Pods that go.
    pub(crate) delete: Vec<&'a Pod>,
    /// Reasons for deletions.
    pub(crate) events: Vec<Event>,
}

impl Plan<'_> {
    /// Whether no Pod is created or deleted.
    pub(crate) fn is_empty(&self) -> bool {
        self.create.is_empty() && self.delete.is_empty()
    }
}

/// What is missing, and what is too much.
pub(crate) fn plan<'a>(pass: &'a Pass, backoff: &mut Backoff) -> Plan<'a> {
    let mut plan = Plan::default();
    let allows_surge = strategy::allows_surge(&pass.set);
    for (node, fit) in &pass.fits {
        on_node(pass, node, *fit, allows_surge, backoff, &mut plan);
    }
    // Pods for Nodes that are gone: they are never scheduled, and the garbage collector of Pods leaves them.
    let gone = pass.pods.iter().filter(|(node, _)| !pass.fits.contains_key(*node)).flat_map(|(_, pods)| pods);
    plan.delete.extend(gone.filter(|pod| pod.spec.node_name.is_empty() && !pod.metadata.is_deleting()));
    plan
}

fn on_node<'a>(
    pass: &'a Pass,
    node: &'a str,
    fit: DaemonFit,
    allows_surge: bool,
    backoff: &mut Backoff,
    plan: &mut Plan<'a>,
) {
    let pods = pass.on(node);
    if fit.should_run && pods.is_empty() {
        plan.create.push(node);
        return;
    }
    let remaining = pods.iter().filter(|pod| !pod.metadata.is_deleting());
    if !fit.should_continue {
        plan.delete.extend(remaining);
        return;
    }
    let (ended, running): (Vec<_>, Vec<_>) = remaining.partition(|pod| pods::is_terminal(*pod));
    for pod in ended {
        remove_ended(pass, node, pod, backoff, plan);
    }
    if !allows_surge {
        plan.delete.extend(running.iter().skip(1));
    } else if running.is_empty() {
        if fit.should_run {
            plan.create.push(node);
        }
    } else if running.len() > 1 {
        prune_surge(pass, &running, plan);
    }
}

/// Removes a Pod that has ended, unless Pods of this Node fail too often.
fn remove_ended<'a>(pass: &Pass, node: &str, pod: &'a Pod, backoff: &mut Backoff, plan: &mut Plan<'a>) {
    let meta = &pod.metadata;
    let about = |state: &str, intent: &str| {
        format!("Found {state} daemon pod {}/{} on node {node}, will try to {intent} it", meta.namespace, meta.name)
    };
    let set = &pass.set.metadata;
    if pods::is_succeeded(pod) {
        let message = about("succeeded", "delete");
        plan.events.push(Event::normal(&DaemonSet::KIND, set, "SucceededDaemonPod", message));
    } else if backoff.is_waiting(node) {
        return;
    } else {
        backoff.next(node);
        plan.events.push(Event::warning(&DaemonSet::KIND, set, "FailedDaemonPod", about("failed", "kill")));
    }
    plan.delete.push(pod);
}

/// Two Pods stay as long as the oldest old one is ready and the oldest new one is not yet available. All others go.
fn prune_surge<'a>(pass: &Pass, running: &[&'a Pod], plan: &mut Plan<'a>) {
    let (mut newest, mut old) = (None, None);
    for pod in running {
        let place = if pass.has_hash(pod) { &mut newest } else { &mut old };
        match place {
            None => *place = Some(*pod),
            Some(_) => plan.delete.push(pod),
        }
    }
    if let (Some(new), Some(old)) = (newest, old)
        && (!pods::is_ready(old) || pass.is_available(new))
    {
        plan.delete.push(old);
    }
}
