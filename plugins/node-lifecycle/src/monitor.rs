//! A pass over all Nodes: which are silent, which zones are disrupted, and which Nodes are tainted for eviction.
//!
//! A pass that finds silent Nodes does nothing else. The next one, which follows as soon as the caches show their
//! statuses, sees all Nodes as they are: so a failure of all Nodes at once is one disruption, and not many evictions.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use pintle_sdk::time::Timestamp;
use pintle_sdk::{
    Error, Event, EventType, Key, Lister, Moment, Mutation, MutationFailure, ObjectKey, Outcome, Place, Query,
    Resource, Step, log,
};
use plugin_lib::batch::SOON;
use plugin_lib::failures::Failures;
use plugin_lib::listing::fitting;

use crate::health::Health;
use crate::lease::{Checked, Leases};
use crate::memory::{Kept, Memory};
use crate::types::{Node, PODS, Settings, TRUE, UNKNOWN};
use crate::zones::{Disruption, Readiness, metric_label, zone_of};
use crate::{status, taints};

/// Nodes with this label do not count in the state of their zone.
#[doc(alias = "labelNodeDisruptionExclusion", alias = "isNodeExcludedFromDisruptionChecks")]
const EXCLUDED: &str = "node.kubernetes.io/exclude-disruption";

/// Shortest time between two passes while Nodes wait for a taint.
#[doc(alias = "NodeEvictionPeriod")]
const EVICTION_PERIOD: Duration = Duration::from_millis(100);

/// A pass with new writes, with more writes than this, or with more bytes, taints no Node for eviction: the host may carry
/// it out in parts, of which only the last one keeps the state, with the tokens that are left.
const MAX_WRITES: usize = 4_000;
const MAX_BYTES: usize = 8 << 20;

/// Most Nodes whose Pods one pass has marked.
const MAX_WAKES: usize = 10_000;

/// A Node in this pass.
struct Seen {
    node: Node,
    health: Health,
    zone: String,
    /// Whether this is the first pass that sees it.
    is_new: bool,
    /// Whether this pass writes it. Another write would fail with a conflict.
    is_written: bool,
}

/// One pass, at `now` in milliseconds since the host started.
struct Pass<'a> {
    settings: &'a Settings,
    now: u64,
    time: Timestamp,
    seen: Vec<Seen>,
    writes: Vec<Mutation>,
    /// Whether some of the writes are neither events nor repeated after a failure.
    has_new_writes: bool,
    wakes: Vec<Key>,
    /// Positions of the taints in `writes`, and the zones.
    evictions: Vec<(usize, String)>,
    /// Values of metrics by zone.
    samples: Vec<(&'static str, String, f64)>,
    next: Option<Duration>,
}

/// Checks all Nodes.
///
/// # Errors
/// If the configuration does not fit its type. [`Error::Needs`] if Leases must be read first.
#[doc(alias = "monitorNodeHealth", alias = "doNoExecuteTaintingPass")]
pub(crate) fn pass(lister: &impl Lister) -> Result<Outcome, Error> {
    let settings: Settings = lister.config()?;
    let now = u64::try_from(lister.uptime().as_millis()).unwrap_or(u64::MAX);
    let (kept, mut memory) = Kept::read(lister, now, settings.monitor_period);
    let leases = Leases::read(lister);
    if memory.awaited.as_ref().is_some_and(|awaited| !leases.have_reached(awaited)) {
        return Ok(kept.keep(Outcome::new(), &memory));
    }
    memory.awaited = None;
    let mut pass = Pass::observe(lister, &memory, &leases, &settings, now)?;
    let (silent, is_partial) = match pass.silent(lister, &leases)? {
        Checked::Silent { nodes, is_partial } => (nodes, is_partial),
        Checked::Stale(awaited) => {
            memory.awaited = Some(awaited);
            return Ok(kept.keep(Outcome::new(), &memory));
        }
    };
    let failures = lister.failures();
    let failed_taints = failed(&failures, None);
    pass.settle(&mut memory, &failed_taints);
    pass.wake_pods(&memory);
    let must_wait = pass.judge(&silent, &failed(&failures, Some("status")));
    if must_wait || is_partial {
        pass.keep_known(&mut memory);
        return Ok(kept.keep(pass.outcome().requeue_after(SOON), &memory));
    }
    pass.register(&memory);
    pass.follow_zones(&mut memory);
    pass.enqueue(memory.zones.is_halted, &failed_taints);
    pass.evict(&mut memory);
    pass.replace_known(&mut memory);
    Ok(kept.keep(pass.outcome(), &memory))
}

/// Names of the Nodes, or of the Nodes with a subresource, that the last pass could not write, and the status codes.
fn failed<'a>(failures: &'a [MutationFailure], subresource: Option<&str>) -> BTreeMap<&'a str, u32> {
    let mut failed = BTreeMap::new();
    for failure in failures.of("patch", &Node::KIND) {
        if failure.subresource.as_deref() == subresource {
            failed.insert(failure.object.name.as_str(), failure.code);
        }
    }
    failed
}

/// An event about a Node, which may be gone.
#[doc(alias = "RecordNodeEvent")]
fn node_event(name: &str, uid: &str, reason: &str, what: &str) -> Event {
    Event {
        regarding_kind: Node::KIND,
        regarding: ObjectKey::new("", name),
        regarding_uid: uid.to_owned(),
        event_type: EventType::Normal,
        reason: reason.to_owned(),
        message: format!("Node {name} event: {what}"),
    }
}

impl<'a> Pass<'a> {
    /// Reads all Nodes, and what has changed since the last pass.
    fn observe(
        lister: &impl Lister,
        memory: &Memory,
        leases: &Leases,
        settings: &'a Settings,
        now: u64,
    ) -> Result<Self, Error> {
        let mut seen = Vec::new();
        for node in fitting::<Node>(lister, &Query::all()) {
            let saved = memory.nodes.get(&node.metadata.name);
            let health = Health::observe(saved, &node, leases.of(&node.metadata.name), now);
            seen.push(Seen { health, zone: zone_of(&node), is_new: saved.is_none(), is_written: false, node });
        }
        Ok(Self {
            settings,
            now,
            time: lister.now()?,
            seen,
            writes: Vec::new(),
            has_new_writes: false,
            wakes: Vec::new(),
            evictions: Vec::new(),
            samples: Vec::new(),
            next: None,
        })
    }

    /// The Nodes that have been silent for too long, without those that are marked already, as their Leases say too.
    fn silent(&self, lister: &impl Lister, leases: &Leases) -> Result<Checked, Error> {
        let is_suspect = |seen: &&Seen| {
            seen.health.ready.as_deref() != Some(UNKNOWN) && seen.health.is_silent(self.now, self.settings)
        };
        let suspects: Vec<&str> =
            self.seen.iter().filter(is_suspect).map(|seen| seen.node.metadata.name.as_str()).collect();
        if self.settings.lease_circuit_breaker {
            return leases.check(lister, &suspects);
        }
        let nodes = suspects.into_iter().map(str::to_owned).collect();
        Ok(Checked::Silent { nodes, is_partial: false })
    }

    /// Handles taints of the last pass that failed: after a conflict, another Node may be tainted instead. After other
    /// failures the Node waits behind all others.
    fn settle(&mut self, memory: &mut Memory, failed: &BTreeMap<&str, u32>) {
        for seen in &mut self.seen {
            let name = seen.node.metadata.name.as_str();
            let was_tainted = memory.nodes.get(name).is_some_and(|saved| saved.is_tainted);
            match failed.get(name).filter(|_| was_tainted) {
                Some(409) => {
                    if let Some(zone) = memory.zones.by_name.get_mut(&seen.zone) {
                        zone.give_back(self.now);
                    }
                }
                Some(_) => seen.health.waits = Some(self.now),
                None => {}
            }
        }
    }

    /// Has the Pods marked of each Node that the last pass has marked.
    fn wake_pods(&mut self, memory: &Memory) {
        for seen in &mut self.seen {
            let name = &seen.node.metadata.name;
            let was_ready = memory.nodes.get(name).is_some_and(|saved| saved.ready.as_deref() == Some(TRUE));
            if !was_ready || seen.health.ready.as_deref() != Some(UNKNOWN) {
                continue;
            }
            if self.wakes.len() < MAX_WAKES {
                self.wakes.push(Key::new(PODS, Node::KIND, "", name));
            } else {
                // In the next pass.
                seen.health.ready = Some(TRUE.to_owned());
            }
        }
    }

    /// Marks the silent Nodes. Returns whether the rest of the pass must wait for the result. It does not wait for those
    /// that could not be marked by the last pass.
    fn judge(&mut self, silent: &BTreeSet<String>, failed: &BTreeMap<&str, u32>) -> bool {
        let mut must_wait = false;
        for seen in &mut self.seen {
            let name = seen.node.metadata.name.as_str();
            if silent.contains(name) {
                self.writes.push(status::unknown(&seen.node, self.time));
                seen.is_written = true;
                must_wait |= !failed.contains_key(name);
            }
        }
        must_wait
    }

    /// Reports Nodes that came and went.
    #[doc(alias = "classifyNodes")]
    fn register(&mut self, memory: &Memory) {
        let mut present = BTreeSet::new();
        for Seen { node, is_new, .. } in &self.seen {
            let (name, uid) = (&node.metadata.name, &node.metadata.uid);
            present.insert(name);
            if *is_new {
                let what = format!("Registered Node {name} in Controller");
                self.writes.push(node_event(name, uid, "RegisteredNode", &what).into());
            }
        }
        for (name, health) in memory.nodes.iter().filter(|(name, _)| !present.contains(name)) {
            let what = format!("Removing Node {name} from Controller");
            self.writes.push(node_event(name, &health.uid, "RemovingNode", &what).into());
        }
    }

    /// Updates the states of the zones. Once some Node is ready after none was, each Node may be silent for the whole
    /// time again.
    #[doc(alias = "handleDisruption")]
    fn follow_zones(&mut self, memory: &mut Memory) {
        let present: BTreeSet<&str> = self.seen.iter().map(|seen| seen.zone.as_str()).collect();
        let mut readiness: BTreeMap<&str, Readiness> = BTreeMap::new();
        // Those that could not be marked, and are written again, do not count: their conditions are wrong.
        let counts = |seen: &&Seen| !seen.is_written && !seen.node.metadata.labels.contains_key(EXCLUDED);
        for seen in self.seen.iter().filter(counts) {
            let zone = readiness.entry(&seen.zone).or_default();
            match seen.node.ready() {
                Some(TRUE) => zone.n_ready += 1,
                _ => zone.n_not_ready += 1,
            }
        }
        let (new, gone) = memory.zones.follow(&present, self.settings, self.now);
        self.samples.extend(new.into_iter().map(|zone| (EVICTIONS, zone, 0.0)));
        for zone in gone {
            self.samples.extend([(SIZE, zone.clone(), 0.0), (HEALTH, zone.clone(), 100.0), (UNHEALTHY, zone, 0.0)]);
        }
        for (zone, nodes) in &readiness {
            let all = [(SIZE, as_f64(nodes.size())), (HEALTH, nodes.health()), (UNHEALTHY, as_f64(nodes.n_not_ready))];
            self.samples.extend(all.map(|(metric, value)| (metric, (*zone).to_owned(), value)));
        }
        match memory.zones.update(&readiness, self.settings, self.now) {
            Disruption::None => {}
            Disruption::Begins => log::info("no Node of any zone is ready: no Pods are evicted"),
            Disruption::Ends => {
                log::info("some Nodes are ready again: each Node may be silent for the whole grace period");
                self.seen.iter_mut().for_each(|seen| seen.health.probe = self.now);
            }
        }
    }

    /// Removes the taints of ready Nodes, replaces those that no longer fit, and lets Nodes wait that need one.
    ///
    /// A new Node begins without them, also one that an earlier process has tainted. As long as no Node of any zone is
    /// ready, none has them.
    #[doc(alias = "processTaintBaseEviction", alias = "markNodeForTainting")]
    fn enqueue(&mut self, is_halted: bool, failed: &BTreeMap<&str, u32>) {
        for seen in self.seen.iter_mut().filter(|seen| !seen.is_written) {
            let ready = seen.node.ready();
            let wanted = ready.and_then(taints::of_ready);
            let is_freed = seen.is_new || is_halted;
            let has = |taint: &str| !is_freed && seen.node.has_taint(taint, taints::NO_EXECUTE);
            let (write, needs_taint) = match wanted {
                _ if is_freed || ready == Some(TRUE) => {
                    let is_evicting = taints::is_evicting(&seen.node);
                    (is_evicting.then(|| taints::remove_evicting(&seen.node, self.time)), wanted.is_some())
                }
                Some((add, remove)) if has(remove) => (Some(taints::swap(&seen.node, add, remove, self.time)), false),
                Some((add, _)) => (None, !has(add)),
                None => (None, false),
            };
            seen.health.waits = needs_taint.then(|| seen.health.waits.unwrap_or(self.now));
            seen.is_written = write.is_some();
            self.has_new_writes |= write.is_some() && !failed.contains_key(seen.node.metadata.name.as_str());
            self.writes.extend(write);
        }
    }

    /// Taints the Nodes that have waited for the longest time, as many as their zones allow.
    #[doc(alias = "doNoExecuteTaintingPass", alias = "RateLimitedTimedQueue")]
    fn evict(&mut self, memory: &mut Memory) {
        let n_bytes: usize = self.writes.iter().map(Mutation::n_bytes).sum();
        let may_taint = !self.has_new_writes && self.writes.len() <= MAX_WRITES && n_bytes <= MAX_BYTES;
        let mut waiting: Vec<&mut Seen> = self.seen.iter_mut().filter(|seen| seen.health.waits.is_some()).collect();
        waiting.sort_by(|a, b| (a.health.waits, &a.node.metadata.name).cmp(&(b.health.waits, &b.node.metadata.name)));
        for seen in waiting {
            let Some(zone) = memory.zones.by_name.get_mut(&seen.zone) else { continue };
            let taint = seen.node.ready().and_then(taints::of_ready).filter(|_| may_taint && !seen.is_written);
            if let Some((add, remove)) = taint.filter(|_| zone.take(self.now)) {
                self.evictions.push((self.writes.len(), seen.zone.clone()));
                self.writes.push(taints::swap(&seen.node, add, remove, self.time));
                seen.health.is_tainted = true;
            } else if let Some(wait) = zone.until_token(self.now) {
                let wait = wait.max(EVICTION_PERIOD);
                self.next = Some(self.next.map_or(wait, |next| next.min(wait)));
            }
        }
    }

    /// Keeps the health of the known Nodes. Others are new in the next pass, and those that are gone are reported then.
    fn keep_known(&mut self, memory: &mut Memory) {
        let known = self.seen.drain(..).filter(|seen| !seen.is_new);
        memory.nodes.extend(known.map(|seen| (seen.node.metadata.name, seen.health)));
    }

    /// Keeps the health of all Nodes, and no others.
    fn replace_known(&mut self, memory: &mut Memory) {
        memory.nodes = self.seen.drain(..).map(|seen| (seen.node.metadata.name, seen.health)).collect();
    }

    /// The outcome: all writes are independent of each other.
    fn outcome(self) -> Outcome {
        let mut outcome = Outcome::new().step(Step::parallel(self.writes));
        for (position, zone) in self.evictions {
            let place = Place { step: 0, position: u32::try_from(position).unwrap_or(u32::MAX) };
            outcome = outcome.observe_at(Moment::Done(place), EVICTIONS, vec![metric_label(&zone)], 1.0);
        }
        for (metric, zone, value) in self.samples {
            outcome = outcome.observe(metric, vec![metric_label(&zone)], value);
        }
        outcome = self.wakes.into_iter().fold(outcome, Outcome::wake);
        self.next.into_iter().fold(outcome, Outcome::requeue_after)
    }
}

const SIZE: &str = "node_collector_zone_size";
const HEALTH: &str = "node_collector_zone_health";
const UNHEALTHY: &str = "node_collector_unhealthy_nodes_in_zone";
const EVICTIONS: &str = "node_collector_evictions_total";

#[allow(clippy::cast_precision_loss, reason = "numbers of Nodes")]
fn as_f64(number: usize) -> f64 {
    number as f64
}
