//! Decides which write each Pod needs, and when.
//!
//! Flow: the shell passes observed Pods and results of writes; [`Machine::take`] returns the next due write.
//!
//! Invariants: at most one write per Pod is in flight; an observation older than the Pod's last known version is ignored; a
//! deleted Pod leaves only stale timers, which are skipped.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashSet, VecDeque};
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use crate::behaviour::Behaviour;
use crate::containers::{Facts, PodRun, RunCounts, later};
use crate::node::{NodeState, ObservedNode};
use crate::pod::{ObservedPod, ObservedStatus};
use crate::report::Report;
use crate::requests::{self, Step, Write};
use crate::scheduler::fits;

/// First Pod address; about eight million follow.
const FIRST_POD_IP: Ipv4Addr = Ipv4Addr::new(10, 128, 0, 1);
/// Number of addresses before they repeat.
const N_POD_IPS: u32 = (1 << 23) - 2;
/// Most run counters that are kept after their Pods are deleted.
const MAX_RUN_COUNTS: usize = 100_000;
/// First and longest delay after a failed write.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));

/// Settings of the decisions.
#[derive(Debug, Clone)]
pub struct MachineConfig {
    /// Names of the first nodes, which are ready until [`Machine::set_nodes`].
    pub nodes: Vec<String>,
    /// Whether to bind unbound Pods round robin.
    pub bind: bool,
    /// Delay from binding to Running and Ready.
    pub ready_delay: Duration,
    /// Delay from deletion to the Pod's end, at most its grace period.
    pub stop_delay: Duration,
    /// First and longest restart backoff of a container.
    pub back_off: (Duration, Duration),
}

/// The result of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Done, with the Pod's new version if the server sent it, else zero.
    Done(u64),
    /// The Pod was deleted or replaced by another one with the same name.
    Gone,
    /// Rejected, or without a response: retry later.
    Failed,
}

#[derive(Debug)]
struct Tracked {
    pod: ObservedPod,
    behaviour: Behaviour,
    version: u64,
    /// When this machine first saw the Pod bound, and first saw its deletion timestamp.
    bound_at: Option<Timestamp>,
    deleted_at: Option<Timestamp>,
    /// The containers, once the Pod is bound to one of the nodes.
    run: Option<PodRun>,
    ip: Option<Ipv4Addr>,
    in_flight: Option<Step>,
    due: Option<Timestamp>,
    not_before: Option<Timestamp>,
    n_failures: u32,
}

/// Simulated nodes by name.
pub type Nodes = BTreeMap<String, ObservedNode>;

/// The deciding half of the simulated nodes.
#[derive(Debug)]
pub struct Machine {
    config: MachineConfig,
    nodes: Arc<Nodes>,
    pods: BTreeMap<Arc<str>, Tracked>,
    ready: VecDeque<Arc<str>>,
    timers: BinaryHeap<Reverse<(Timestamp, Arc<str>)>>,
    run_counts: RunCounts,
    next_node: usize,
    next_ip: u32,
}

impl Machine {
    /// Creates a machine without Pods.
    pub fn new(config: MachineConfig) -> Self {
        let nodes = config.nodes.iter().map(|name| (name.clone(), ObservedNode::named(name))).collect();
        Self {
            config,
            nodes: Arc::new(nodes),
            pods: BTreeMap::new(),
            ready: VecDeque::new(),
            timers: BinaryHeap::new(),
            run_counts: RunCounts::new(),
            next_node: 0,
            next_ip: 0,
        }
    }

    /// Processes a change of the nodes.
    pub fn set_nodes(&mut self, nodes: Arc<Nodes>, now: Timestamp) {
        if *nodes == *self.nodes {
            return;
        }
        // Until now, the old nodes apply.
        for tracked in self.pods.values_mut() {
            advance(&self.config, &self.nodes, &mut self.run_counts, tracked, now);
        }
        self.nodes = nodes;
        let uids: Vec<Arc<str>> = self.pods.keys().cloned().collect();
        for uid in &uids {
            self.plan(uid, now);
        }
    }

    /// Number of known Pods.
    pub fn n_pods(&self) -> usize {
        self.pods.len()
    }

    /// Processes a Pod from a list or a watch.
    pub fn observe(&mut self, mut pod: ObservedPod, now: Timestamp) {
        let uid: Arc<str> = pod.metadata.uid.as_str().into();
        let version = pod.version_number();
        if let Some(ip) = pod.status.pod_ip.as_deref().and_then(|ip| ip.parse::<Ipv4Addr>().ok()) {
            self.skip_ip(ip);
        }
        let behaviour = Behaviour::of(&pod);
        match self.pods.get_mut(&uid) {
            Some(tracked) if version < tracked.version => return,
            Some(tracked) => {
                // Until now, the old Pod applies.
                advance(&self.config, &self.nodes, &mut self.run_counts, tracked, now);
                // A Pod keeps its node: an older observation must not make it unbound again.
                if pod.spec.node_name.is_none() {
                    pod.spec.node_name = tracked.pod.spec.node_name.take();
                }
                tracked.pod = pod;
                tracked.behaviour = behaviour;
                tracked.version = version;
            }
            None => {
                let ip = pod.status.pod_ip.as_deref().and_then(|ip| ip.parse().ok());
                let tracked = Tracked {
                    pod,
                    behaviour,
                    version,
                    bound_at: None,
                    deleted_at: None,
                    run: None,
                    ip,
                    in_flight: None,
                    due: None,
                    not_before: None,
                    n_failures: 0,
                };
                self.pods.insert(Arc::clone(&uid), tracked);
            }
        }
        self.plan(&uid, now);
    }

    /// Processes the deletion of a Pod.
    pub fn forget(&mut self, uid: &str) {
        self.pods.remove(uid);
        if self.run_counts.len() > MAX_RUN_COUNTS {
            self.run_counts.clear();
        }
    }

    /// Processes a complete list: Pods that are missing from it were deleted.
    pub fn replace(&mut self, pods: Vec<ObservedPod>, now: Timestamp) {
        let present: HashSet<&str> = pods.iter().map(|pod| pod.metadata.uid.as_str()).collect();
        self.pods.retain(|uid, _| present.contains(&**uid));
        for pod in pods {
            self.observe(pod, now);
        }
    }

    /// The time of the next write, if one is scheduled.
    pub fn next_due(&self) -> Option<Timestamp> {
        match self.ready.is_empty() {
            true => self.timers.peek().map(|Reverse((due, _))| *due),
            false => Some(Timestamp::MIN),
        }
    }

    /// Takes the next due write. The caller must report its result to [`Machine::finish`].
    pub fn take(&mut self, now: Timestamp) -> Option<Write> {
        loop {
            let uid = self.next_uid(now)?;
            let Some(tracked) = self.pods.get_mut(&uid) else {
                continue;
            };
            if tracked.in_flight.is_some() || tracked.due.is_none_or(|due| due > now) {
                continue;
            }
            tracked.due = None;
            match step(&self.config, &self.nodes, &mut self.run_counts, tracked, now) {
                Some((due, step)) if due <= now => {
                    tracked.in_flight = Some(step);
                    return self.write(&uid, step, now);
                }
                _ => self.plan(&uid, now),
            }
        }
    }

    fn next_uid(&mut self, now: Timestamp) -> Option<Arc<str>> {
        if let Some(uid) = self.ready.pop_front() {
            return Some(uid);
        }
        if self.timers.peek().is_none_or(|Reverse((due, _))| *due > now) {
            return None;
        }
        self.timers.pop().map(|Reverse((_, uid))| uid)
    }

    fn write(&mut self, uid: &Arc<str>, step: Step, now: Timestamp) -> Option<Write> {
        let (tracked, nodes) = (self.pods.get_mut(uid)?, &*self.nodes);
        Some(match step {
            Step::Bind => {
                let turn = self.next_node % nodes.len().max(1);
                let in_turn = nodes.values().skip(turn).chain(nodes.values().take(turn));
                let chosen = in_turn.enumerate().find(|(_, node)| fits(&tracked.pod, node));
                let (n_passed, node) = chosen.unzip();
                self.next_node = (turn + n_passed.unwrap_or_default() + 1) % nodes.len().max(1);
                requests::bind(&tracked.pod, node.map_or("", |node| &node.metadata.name))
            }
            Step::Delete => requests::delete(&tracked.pod),
            Step::Report => {
                let ip = *tracked.ip.get_or_insert_with(|| new_ip(&mut self.next_ip));
                let host = requests::host_ip(tracked.pod.spec.node_name.as_deref().unwrap_or_default());
                let facts = facts(&self.config, nodes, tracked);
                let status = tracked
                    .run
                    .as_ref()
                    .map(|run| Report::of(&facts, run, now).patch(&tracked.pod, run, ip, &host, now));
                requests::status(&tracked.pod, &status.unwrap_or_default())
            }
        })
    }

    /// Processes the result of a write.
    pub fn finish(&mut self, write: &Write, outcome: Outcome, now: Timestamp) {
        let Some(tracked) = self.pods.get_mut(write.uid.as_str()) else {
            return;
        };
        tracked.in_flight = None;
        match outcome {
            Outcome::Done(version) => {
                tracked.n_failures = 0;
                tracked.not_before = None;
                tracked.version = tracked.version.max(version);
                apply(tracked, write);
            }
            Outcome::Gone => {
                self.pods.remove(write.uid.as_str());
                return;
            }
            Outcome::Failed => {
                let wait = BACKOFF.0.saturating_mul(1 << tracked.n_failures.min(10)).min(BACKOFF.1);
                tracked.n_failures += 1;
                tracked.not_before = Some(later(now, wait));
            }
        }
        let uid: Arc<str> = write.uid.as_str().into();
        self.plan(&uid, now);
    }

    /// Schedules the Pod's next step.
    fn plan(&mut self, uid: &Arc<str>, now: Timestamp) {
        let Some(tracked) = self.pods.get_mut(uid) else {
            return;
        };
        if tracked.bound_at.is_none() && tracked.pod.spec.node_name.is_some() {
            tracked.bound_at = Some(now);
        }
        if tracked.deleted_at.is_none() && tracked.pod.metadata.deletion_timestamp.is_some() {
            tracked.deleted_at = Some(now);
        }
        if tracked.in_flight.is_some() {
            return;
        }
        let Some((due, _)) = step(&self.config, &self.nodes, &mut self.run_counts, tracked, now) else {
            tracked.due = None;
            return;
        };
        let due = tracked.not_before.map_or(due, |not_before| due.max(not_before));
        if tracked.due == Some(due) {
            return;
        }
        tracked.due = Some(due);
        if due <= now {
            self.ready.push_back(Arc::clone(uid));
        } else {
            self.timers.push(Reverse((due, Arc::clone(uid))));
        }
    }

    /// Keeps addresses unique after a restart.
    fn skip_ip(&mut self, ip: Ipv4Addr) {
        let index = u32::from(ip).wrapping_sub(u32::from(FIRST_POD_IP));
        if index < N_POD_IPS {
            self.next_ip = self.next_ip.max((index + 1) % N_POD_IPS);
        }
    }
}

/// The next address.
fn new_ip(next: &mut u32) -> Ipv4Addr {
    let ip = Ipv4Addr::from(u32::from(FIRST_POD_IP) + *next);
    *next = (*next + 1) % N_POD_IPS;
    ip
}

fn facts<'a>(config: &MachineConfig, nodes: &Nodes, tracked: &'a Tracked) -> Facts<'a> {
    Facts {
        pod: &tracked.pod,
        behaviour: &tracked.behaviour,
        back_off: config.back_off,
        deleted: tracked.deleted_at,
        stop_delay: config.stop_delay,
        node_is_ready: node_of(nodes, tracked).is_some_and(|node| node.state() == NodeState::Ready),
    }
}

/// The simulated node of a Pod.
fn node_of<'a>(nodes: &'a Nodes, tracked: &Tracked) -> Option<&'a ObservedNode> {
    nodes.get(tracked.pod.spec.node_name.as_ref()?)
}

/// Updates the containers of a Pod, and returns the time of their next change. On a node that is not ready, nothing
/// happens.
fn advance(
    config: &MachineConfig,
    nodes: &Nodes,
    counts: &mut RunCounts,
    tracked: &mut Tracked,
    now: Timestamp,
) -> Option<Timestamp> {
    let mut run = tracked.run.take()?;
    let facts = facts(config, nodes, tracked);
    let next = if facts.node_is_ready { run.advance(&facts, counts, now) } else { None };
    tracked.run = Some(run);
    next
}

/// The next step of a Pod, and its due time. A future step may turn out to be unnecessary.
fn step(
    config: &MachineConfig,
    nodes: &Nodes,
    counts: &mut RunCounts,
    tracked: &mut Tracked,
    now: Timestamp,
) -> Option<(Timestamp, Step)> {
    let pod = &tracked.pod;
    if pod.spec.node_name.is_none() {
        let scheduler = pod.spec.scheduler_name.as_deref().unwrap_or("default-scheduler");
        let ours = config.bind && scheduler == "default-scheduler";
        let free = pod.spec.scheduling_gates.is_empty() && pod.metadata.deletion_timestamp.is_none();
        let binds = ours && free && nodes.values().any(|node| fits(pod, node));
        return binds.then_some((Timestamp::MIN, Step::Bind));
    }
    let node_is_ready = match node_of(nodes, tracked)?.state() {
        NodeState::Ready => true,
        NodeState::NotReady => false,
        NodeState::Unreachable => return None,
    };
    let is_deleted = tracked.deleted_at.is_some();
    // With a grace period of zero, the API server does not wait for the node.
    let confirm = (is_deleted && node_is_ready && pod.metadata.deletion_grace_period_seconds != Some(0))
        .then_some((Timestamp::MIN, Step::Delete));
    if pod.is_finished() {
        return confirm;
    }
    if tracked.run.is_none() {
        let begin = later(tracked.bound_at?, config.ready_delay);
        let run = PodRun::restore(&facts(config, nodes, tracked), counts);
        if run.is_none() && begin > now && !is_deleted {
            return Some((begin, Step::Report));
        }
        if run.is_none() && !node_is_ready {
            return None;
        }
        tracked.run = Some(run.unwrap_or_else(|| PodRun::new(&tracked.pod, begin.min(now))));
    }
    let next = advance(config, nodes, counts, tracked, now);
    let facts = facts(config, nodes, tracked);
    let run = tracked.run.as_ref()?;
    // The owner of a finalizer needs the final status.
    let is_seen = !(is_deleted && run.is_over(&facts) && facts.pod.metadata.finalizers.is_empty());
    if is_seen && !Report::of(&facts, run, now).is_in(&facts.pod.status) {
        return Some((Timestamp::MIN, Step::Report));
    }
    if run.is_over(&facts) {
        return confirm;
    }
    next.map(|next| (next, Step::Report))
}

/// Applies a write to the known Pod, before the watch delivers it.
fn apply(tracked: &mut Tracked, write: &Write) {
    let (pod, body) = (&mut tracked.pod, &write.request.body);
    match write.step {
        Step::Bind => pod.spec.node_name = body["target"]["name"].as_str().map(str::to_owned),
        Step::Delete => {
            pod.metadata.deletion_timestamp.get_or_insert_default();
            pod.metadata.deletion_grace_period_seconds = Some(0);
        }
        Step::Report => {
            // The body was created by this crate; a field that does not fit is written again after the next
            // observation.
            let mut written: ObservedStatus = serde_json::from_value(body["status"].clone()).unwrap_or_default();
            let others = std::mem::take(&mut pod.status.conditions);
            let is_other = |other: &super::pod::ObservedCondition| {
                !written.conditions.iter().any(|condition| condition.r#type == other.r#type)
            };
            let others: Vec<_> = others.into_iter().filter(is_other).collect();
            written.conditions.extend(others);
            pod.status = written;
        }
    }
}

#[cfg(test)]
#[path = "machine_tests.rs"]
mod tests;
