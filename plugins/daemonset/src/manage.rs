//! One Pod for each Node: creates missing Pods, and deletes surplus ones.
//!
//! *Invariants*
//! 1. Without a surge, all Pods of a Node except the oldest are deleted; with a surge, at most one new and one old Pod
//!    stay.
//! 2. A Pod that is being deleted is replaced only after its deletion, except with a surge, where it does not count.
//! 3. An ended Pod is deleted. The delay grows with each failure on a Node.
//!
//! *Source*: daemon_controller.go.

use pintle_sdk::{Event, Resource};
use plugin_lib::nodes::DaemonFit;
use plugin_lib::pods;

use crate::backoff::Backoff;
use crate::context::Context;
use crate::strategy;
use crate::types::{DaemonSet, Pod};

/// The Pods to create and delete.
#[derive(Default)]
pub(crate) struct Decision<'a> {
    /// Nodes that get a Pod.
    pub(crate) create: Vec<&'a str>,
    /// Pods to delete.
    pub(crate) delete: Vec<&'a Pod>,
    /// Events for the deletions.
    pub(crate) events: Vec<Event>,
}

impl Decision<'_> {
    /// Whether no Pod is created or deleted.
    pub(crate) fn is_empty(&self) -> bool {
        self.create.is_empty() && self.delete.is_empty()
    }
}

/// Decides on missing and surplus Pods.
#[doc(alias = "manage", alias = "getUnscheduledPodsWithoutNode")]
pub(crate) fn decide<'a>(context: &'a Context, backoff: &mut Backoff) -> Decision<'a> {
    let mut decision = Decision::default();
    let allows_surge = strategy::allows_surge(&context.set);
    for (node, fit) in &context.fits {
        on_node(context, node, *fit, allows_surge, backoff, &mut decision);
    }
    // Pods for deleted Nodes are never scheduled, and the Pod garbage collector leaves them alone.
    let gone = context.pods.iter().filter(|(node, _)| !context.fits.contains_key(*node)).flat_map(|(_, pods)| pods);
    decision.delete.extend(gone.filter(|pod| pod.spec.node_name.is_empty() && !pod.metadata.is_deleting()));
    decision
}

#[doc(alias = "podsShouldBeOnNode")]
fn on_node<'a>(
    context: &'a Context,
    node: &'a str,
    fit: DaemonFit,
    allows_surge: bool,
    backoff: &mut Backoff,
    decision: &mut Decision<'a>,
) {
    let pods = context.on(node);
    if fit.should_run && pods.is_empty() {
        decision.create.push(node);
        return;
    }
    let remaining = pods.iter().filter(|pod| !pod.metadata.is_deleting());
    if !fit.should_continue {
        decision.delete.extend(remaining);
        return;
    }
    let (ended, running): (Vec<_>, Vec<_>) = remaining.partition(|pod| pods::is_terminal(*pod));
    for pod in ended {
        remove_ended(context, node, pod, backoff, decision);
    }
    if !allows_surge {
        decision.delete.extend(running.iter().skip(1));
    } else if running.is_empty() {
        if fit.should_run {
            decision.create.push(node);
        }
    } else if running.len() > 1 {
        prune_surge(context, &running, decision);
    }
}

/// Deletes an ended Pod, unless Pods of this Node fail too often.
fn remove_ended<'a>(context: &Context, node: &str, pod: &'a Pod, backoff: &mut Backoff, decision: &mut Decision<'a>) {
    let meta = &pod.metadata;
    let about = |state: &str, intent: &str| {
        format!("Found {state} daemon pod {}/{} on node {node}, will try to {intent} it", meta.namespace, meta.name)
    };
    let set = &context.set.metadata;
    if pods::is_succeeded(pod) {
        let message = about("succeeded", "delete");
        decision.events.push(Event::normal(&DaemonSet::KIND, set, "SucceededDaemonPod", message));
    } else if backoff.is_waiting(node) {
        return;
    } else {
        backoff.next(node);
        decision.events.push(Event::warning(&DaemonSet::KIND, set, "FailedDaemonPod", about("failed", "kill")));
    }
    decision.delete.push(pod);
}

/// Two Pods stay while the oldest old one is ready and the oldest new one is not yet available. All others are deleted.
fn prune_surge<'a>(context: &Context, running: &[&'a Pod], decision: &mut Decision<'a>) {
    let (mut newest, mut old) = (None, None);
    for pod in running {
        let place = if context.has_hash(pod) { &mut newest } else { &mut old };
        match place {
            None => *place = Some(*pod),
            Some(_) => decision.delete.push(pod),
        }
    }
    if let (Some(new), Some(old)) = (newest, old)
        && (!pods::is_ready(old) || context.is_available(new))
    {
        decision.delete.push(old);
    }
}
