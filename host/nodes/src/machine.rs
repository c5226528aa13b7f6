//! Decides which write each Pod needs, and when.
//!
//! Flow: the shell reports observed Pods and results of writes; [`Machine::take`] returns the next write that is due.
//!
//! Invariants: at most one write per Pod is in flight; an observation older than the Pod's last known version is ignored; a
//! deleted Pod leaves only stale timers, which are skipped.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet, VecDeque};
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::pod::{Behaviour, ObservedPod};
use crate::requests::{self, Report, Step, Write};
use crate::time::rfc3339;

/// First Pod address; about eight million follow.
const FIRST_POD_IP: Ipv4Addr = Ipv4Addr::new(10, 128, 0, 1);
/// Number of addresses before they repeat.
const N_POD_IPS: u32 = (1 << 23) - 2;
/// First and longest delay after a failed write.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));

/// Settings of the decisions.
#[derive(Debug, Clone)]
pub struct MachineConfig {
    /// Node names.
    pub nodes: Vec<String>,
    /// Whether to bind unbound Pods round robin.
    pub bind: bool,
    /// Delay from binding to Running and Ready.
    pub ready_delay: Duration,
    /// Delay from deletion to the Pod's end.
    pub stop_delay: Duration,
}

/// The result of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Done, with the Pod's new version if the server sent it, else zero.
    Done(u64),
    /// The Pod was deleted or replaced by another one of its name.
    Gone,
    /// Rejected or unanswered: retry later.
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
    /// Start time of the containers, as reported.
    started: Option<Timestamp>,
    ip: Option<Ipv4Addr>,
    in_flight: Option<Step>,
    due: Option<Timestamp>,
    not_before: Option<Timestamp>,
    n_failures: u32,
}

/// The deciding half of the simulated nodes.
#[derive(Debug)]
pub struct Machine {
    config: MachineConfig,
    nodes: HashSet<String>,
    pods: HashMap<Arc<str>, Tracked>,
    ready: VecDeque<Arc<str>>,
    timers: BinaryHeap<Reverse<(Timestamp, Arc<str>)>>,
    next_node: usize,
    next_ip: u32,
}

fn later(time: Timestamp, by: Duration) -> Timestamp {
    let by = SignedDuration::try_from(by).unwrap_or(SignedDuration::MAX);
    time.saturating_add(by).unwrap_or(Timestamp::MAX)
}

impl Machine {
    /// Creates a machine without Pods.
    pub fn new(config: MachineConfig) -> Self {
        let nodes = config.nodes.iter().cloned().collect();
        Self {
            config,
            nodes,
            pods: HashMap::new(),
            ready: VecDeque::new(),
            timers: BinaryHeap::new(),
            next_node: 0,
            next_ip: 0,
        }
    }

    /// Number of known Pods.
    pub fn n_pods(&self) -> usize {
        self.pods.len()
    }

    /// Processes a Pod from a list or a watch.
    pub fn observe(&mut self, mut pod: ObservedPod, now: Timestamp) {
        let uid: Arc<str> = pod.metadata.uid.as_str().into();
        let version = pod.version();
        if let Some(ip) = pod.status.pod_ip.as_deref().and_then(|ip| ip.parse::<Ipv4Addr>().ok()) {
            self.skip_ip(ip);
        }
        let behaviour = Behaviour::from_annotations(&pod.metadata.annotations);
        match self.pods.get_mut(&uid) {
            Some(tracked) if version < tracked.version => return,
            Some(tracked) => {
                // A Pod keeps its node: an older observation must not make it look unbound again.
                if pod.spec.node_name.is_none() {
                    pod.spec.node_name = tracked.pod.spec.node_name.take();
                }
                tracked.pod = pod;
                tracked.behaviour = behaviour;
                tracked.version = version;
            }
            None => {
                let ip = pod.status.pod_ip.as_deref().and_then(|ip| ip.parse().ok());
                let started = pod.status.start_time.as_deref().and_then(|time| time.parse().ok());
                let tracked = Tracked {
                    pod,
                    behaviour,
                    version,
                    bound_at: None,
                    deleted_at: None,
                    started,
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
    }

    /// Processes a whole list: Pods that are not in it were deleted.
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

    /// Takes the next write that is due. The caller must report its result to [`Machine::finish`].
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
            let Some((_, step)) = step(&self.config, &self.nodes, tracked) else {
                continue;
            };
            tracked.in_flight = Some(step);
            return Some(self.write(&uid, step, now));
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

    fn write(&mut self, uid: &Arc<str>, step: Step, now: Timestamp) -> Write {
        let fresh_ip = match self.pods.get(uid) {
            Some(tracked) if tracked.ip.is_none() && !matches!(step, Step::Bind | Step::Delete) => Some(self.new_ip()),
            _ => None,
        };
        let node = self.config.nodes.get(self.next_node % self.config.nodes.len().max(1)).cloned();
        // The caller has just found the Pod under this key.
        let Some(tracked) = self.pods.get_mut(uid) else {
            return requests::delete(&ObservedPod::default());
        };
        match step {
            Step::Bind => {
                self.next_node = self.next_node.wrapping_add(1);
                requests::bind(&tracked.pod, node.as_deref().unwrap_or_default())
            }
            Step::Delete => requests::delete(&tracked.pod),
            Step::Run { .. } | Step::Finish { .. } => {
                let ip = *tracked.ip.get_or_insert(fresh_ip.unwrap_or(FIRST_POD_IP));
                let started = rfc3339(*tracked.started.get_or_insert(now));
                let node = tracked.pod.spec.node_name.as_deref().unwrap_or_default();
                requests::status(&tracked.pod, &Report { step, ip, node, started: &started, now })
            }
        }
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
        let Some((due, _)) = step(&self.config, &self.nodes, tracked) else {
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

    fn new_ip(&mut self) -> Ipv4Addr {
        let ip = Ipv4Addr::from(u32::from(FIRST_POD_IP) + self.next_ip);
        self.next_ip = (self.next_ip + 1) % N_POD_IPS;
        ip
    }

    /// Keeps addresses unique after a restart.
    fn skip_ip(&mut self, ip: Ipv4Addr) {
        let index = u32::from(ip).wrapping_sub(u32::from(FIRST_POD_IP));
        if index < N_POD_IPS {
            self.next_ip = self.next_ip.max((index + 1) % N_POD_IPS);
        }
    }
}

/// The next step of a Pod, and when it is due.
fn step(config: &MachineConfig, nodes: &HashSet<String>, tracked: &Tracked) -> Option<(Timestamp, Step)> {
    let pod = &tracked.pod;
    let behaviour = &tracked.behaviour;
    let Some(node) = &pod.spec.node_name else {
        let scheduler = pod.spec.scheduler_name.as_deref().unwrap_or("default-scheduler");
        let ours = config.bind && !config.nodes.is_empty() && scheduler == "default-scheduler";
        let free = pod.spec.scheduling_gates.is_empty() && pod.metadata.deletion_timestamp.is_none();
        return (ours && free).then_some((Timestamp::MIN, Step::Bind));
    };
    if !nodes.contains(node) {
        return None;
    }
    if let Some(deleted) = tracked.deleted_at {
        if pod.metadata.deletion_grace_period_seconds == Some(0) {
            return None;
        }
        let due = later(deleted, behaviour.stop_after.unwrap_or(config.stop_delay));
        // The owner of a finalizer needs to see how the Pod ended.
        let report = !pod.metadata.finalizers.is_empty() && !pod.is_finished();
        return Some((due, if report { Step::Finish { succeeded: false } } else { Step::Delete }));
    }
    if pod.is_finished() {
        return None;
    }
    let bound = tracked.bound_at?;
    if pod.status.phase != "Running" {
        let ready = behaviour.ready_after.is_none() && !behaviour.never_ready;
        return Some((later(bound, config.ready_delay), Step::Run { ready }));
    }
    running_step(tracked)
}

fn running_step(tracked: &Tracked) -> Option<(Timestamp, Step)> {
    let (pod, behaviour) = (&tracked.pod, &tracked.behaviour);
    let started = tracked.started.unwrap_or(Timestamp::MIN);
    let ends = [
        behaviour.fail_after.map(|after| (later(started, after), Step::Finish { succeeded: false })),
        behaviour.complete_after.map(|after| (later(started, after), Step::Finish { succeeded: true })),
    ];
    let end = ends.into_iter().flatten().min_by_key(|(due, _)| *due);
    let containers_ready = pod.is_true("ContainersReady");
    let gates_open = pod.spec.readiness_gates.iter().all(|gate| pod.is_true(&gate.condition_type));
    let wrong = pod.is_true("Ready") != (containers_ready && gates_open);
    let change = match (behaviour.never_ready, containers_ready) {
        (true, true) => Some((Timestamp::MIN, Step::Run { ready: false })),
        (false, false) => Some((later(started, behaviour.ready_after.unwrap_or_default()), Step::Run { ready: true })),
        _ if wrong => Some((Timestamp::MIN, Step::Run { ready: containers_ready })),
        _ => None,
    };
    [change, end].into_iter().flatten().min_by_key(|(due, _)| *due)
}

/// Applies a write to the known Pod, ahead of the watch.
fn apply(tracked: &mut Tracked, write: &Write) {
    let pod = &mut tracked.pod;
    match write.step {
        Step::Bind => pod.spec.node_name = write.body["target"]["name"].as_str().map(str::to_owned),
        Step::Delete => {
            pod.metadata.deletion_timestamp.get_or_insert_default();
            pod.metadata.deletion_grace_period_seconds = Some(0);
        }
        Step::Run { .. } | Step::Finish { .. } => {
            let status = &write.body["status"];
            pod.status.phase = status["phase"].as_str().unwrap_or_default().to_owned();
            for written in status["conditions"].as_array().into_iter().flatten() {
                let kind = written["type"].as_str().unwrap_or_default();
                let value = written["status"].as_str().unwrap_or_default().to_owned();
                match pod.status.conditions.iter_mut().find(|known| known.r#type == kind) {
                    Some(known) => known.status = value,
                    None => pod.status.conditions.push(super::pod::ObservedCondition {
                        r#type: kind.to_owned(),
                        status: value,
                        last_transition_time: written["lastTransitionTime"].as_str().map(str::to_owned),
                    }),
                }
            }
        }
    }
}

#[cfg(test)]
#[path = "machine_tests.rs"]
mod tests;
