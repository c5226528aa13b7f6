//! The ranges of one Node.

use std::time::Duration;

use pintle_sdk::{Error, Event, Key, Lister, Mutation, Outcome, PatchType, Refusal, Resource, Step};
use plugin_lib::failures::Failures;
use serde_json::json;

use crate::holdings::Held;
use crate::memory::{Memory, ranges_of};
use crate::pools::Pools;
use crate::settings::{Config, parse};
use crate::types::Node;
use crate::waiting::wake_waiting;

/// Failed patches after which an event is recorded.
#[doc(alias = "cidrUpdateRetries")]
const TRIES: u32 = 3;

/// Delay before a Node is looked at again that the caches do not show yet.
const BEHIND: Duration = Duration::from_secs(1);

/// HTTP status code of a conflict.
const CONFLICT: u32 = 409;

/// Computes the changes for one Node. The tick changes nothing: if it is the first run, the state begins with it.
///
/// # Errors
/// If the settings are not valid, or the Node does not fit its type. [`Error::Needs`] if Nodes must be read first.
#[doc(alias = "syncNode")]
pub fn reconcile(key: &Key, lister: &impl Lister) -> Result<Outcome, Error> {
    let settings = lister.config::<Config>()?.check()?;
    let mut memory = Memory::read(&settings, lister)?;
    let outcome = if key.kind == Node::KIND { sync(key, &mut memory, lister)? } else { Outcome::new() };
    Ok(memory.keep(outcome))
}

fn sync<L: Lister>(key: &Key, memory: &mut Memory<'_, L>, lister: &L) -> Result<Outcome, Error> {
    let name = &key.name;
    let node = lister.get::<Node>("", name)?;
    let mut held = memory.holdings.get(name);
    let uid = node.as_ref().map(|node| &node.metadata.uid);
    if let Some(old) = held.take_if(|held| uid != Some(&held.uid)) {
        let is_of = |live: Node| live.metadata.uid == old.uid;
        if old.unseen && lister.live::<Node>("", name)?.is_some_and(is_of) {
            return Ok(Outcome::new().requeue_after(BEHIND));
        }
        memory.release(name, &old);
    }
    let outcome = match &node {
        None => Outcome::new(),
        Some(node) if !node.spec.pod_cidrs.is_empty() => occupy(node, held, memory),
        // What is reserved for it stays so until it is gone: its last patch may still be carried out.
        Some(node) if node.metadata.is_deleting() => Outcome::new(),
        Some(node) => assign(node, held, memory, lister),
    };
    Ok(wake_waiting(key, outcome, memory, lister))
}

/// Occupies what the Node has.
#[doc(alias = "occupyCIDRs")]
fn occupy<L: Lister>(node: &Node, held: Option<Held>, memory: &mut Memory<'_, L>) -> Outcome {
    let name = &node.metadata.name;
    let new = Held { uid: node.metadata.uid.clone(), cidrs: ranges_of(node), unseen: false };
    match held {
        Some(held) if held.cidrs == new.cidrs => memory.holdings.set(name, new),
        Some(held) => {
            // Somebody else was faster: the API server refuses what was reserved for the Node.
            memory.release(name, &held);
            memory.occupy(name, new);
        }
        None if new.cidrs.is_empty() => {}
        None => memory.occupy(name, new),
    }
    match refusal(node, &memory.pools) {
        None => Outcome::new(),
        Some(why) => Outcome::new().fail(Error::terminal(why)),
    }
}

/// Why a range of the Node is not one that it could have got, in upstream's words.
fn refusal(node: &Node, pools: &Pools) -> Option<String> {
    let name = &node.metadata.name;
    node.spec.pod_cidrs.iter().enumerate().find_map(|(index, text)| match parse(text) {
        None => Some(format!("failed to parse node {name}, CIDR {text}")),
        Some(range) => pools.refusal(name, index, &range),
    })
}

/// Sets the ranges that the Node holds, or allocates them.
#[doc(alias = "AllocateOrOccupyCIDR", alias = "updateCIDRsAllocation")]
fn assign<L: Lister>(node: &Node, held: Option<Held>, memory: &mut Memory<'_, L>, lister: &L) -> Outcome {
    let name = &node.metadata.name;
    let is_kept = |held: &Held| memory.pools.fit(&held.cidrs) && !memory.is_taken(name, &held.cidrs);
    let (reserved, old) = match held.as_ref().is_some_and(is_kept) {
        true => (held.map(|held| held.cidrs), None),
        false => (None, held),
    };
    if let Some(old) = old {
        memory.release(name, &old);
    }
    let cidrs = match reserved.map_or_else(|| memory.pools.allocate(), Ok) {
        Ok(cidrs) => cidrs,
        Err(index) => {
            memory.pools.is_exhausted = true;
            let why = "CIDR allocation failed; there are no remaining CIDRs left to allocate in the accepted range";
            let why = Error::retry(format!("failed to allocate cidr from cluster cidr at idx:{index}: {why}"));
            return Outcome::new().step(Step::sequential([status_change(node, "CIDRNotAvailable")])).fail(why);
        }
    };
    let patch = patch(node, &cidrs);
    memory.holdings.set(name, Held { uid: node.metadata.uid.clone(), cidrs, unseen: false });
    let failed = has_failed(lister).then(|| status_change(node, "CIDRAssignmentFailed"));
    Outcome::new().step(Step::sequential(failed.into_iter().chain([patch])))
}

/// Sets both fields, which the API server accepts only together. Neither can be changed afterwards.
#[doc(alias = "PatchNodeCIDRs")]
fn patch(node: &Node, cidrs: &[String]) -> Mutation {
    let body = json!({"spec": {"podCIDR": cidrs.first(), "podCIDRs": cidrs}});
    Mutation::patch(&Node::KIND, node.metadata.key(), PatchType::StrategicMerge, body)
        .uid(&node.metadata.uid)
        .resource_version(&node.metadata.resource_version)
        .tolerate([Refusal::NotFound])
}

/// Whether as many patches in a row have failed as upstream tries at once. Conflicts do not count: upstream's patches
/// have no preconditions.
fn has_failed(lister: &impl Lister) -> bool {
    let attempt = lister.attempt();
    let failures = lister.failures();
    let is_error = failures.of("patch", &Node::KIND).any(|failure| failure.code != CONFLICT);
    attempt > 0 && attempt.is_multiple_of(TRIES) && is_error
}

#[doc(alias = "RecordNodeStatusChange")]
fn status_change(node: &Node, status: &str) -> Mutation {
    let message = format!("Node {} status is now: {status}", node.metadata.name);
    Mutation::event(Event::normal(&Node::KIND, &node.metadata, status, message))
}
