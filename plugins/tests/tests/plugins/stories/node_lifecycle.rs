//! Sixty Nodes in three zones, of which some fall silent, while the host is paused, replaced or behind, and clocks are
//! set: no Node is tainted for eviction that should not be.
//!
//! All times are by the clock that nobody sets. A step is five seconds; each kubelet renews its Lease every ten.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

use pintle_sdk::testing::{Cluster, Fault, Fixture, Plugin, seeds};
use pintle_sdk::time::Timestamp;
use pintle_sdk::{Key, Kind, Lister};
use plugin_node_lifecycle::reconcile;
use serde_json::{Value, json};

use super::answers::Answers;

const NODE: Kind = Kind::new("", "v1", "Node");
const LEASE: Kind = Kind::new("coordination.k8s.io", "v1", "Lease");
const LEASES: &str = "kube-node-lease";
const MONITOR: &str = "node_lifecycle_controller_monitor";

const N: usize = 60;
const ZONES: [&str; 3] = ["a", "b", "c"];

/// Seconds between two steps.
const STEP: u64 = 5;

/// A kubelet posts its status at least this often, in seconds.
const POSTS: u64 = 300;

/// A Node is marked after 50 s without a heartbeat, of which the last was up to 10 s before its death.
const SHORTEST: u64 = 40;

const HOUR: i64 = 3_600;

/// Kinds whose caches are behind, and these caches.
type Behind = Rc<RefCell<Option<(Vec<Kind>, Fixture)>>>;

struct Story {
    cluster: Cluster,
    plugin: Plugin<'static>,
    /// Seconds since the beginning.
    time: u64,
    /// Nodes without a kubelet, and since when.
    dead: BTreeMap<usize, u64>,
    /// When each kubelet that has come back did so, and since when it was gone.
    back: BTreeMap<usize, (u64, u64)>,
    posted: BTreeMap<usize, u64>,
    /// Seconds by which the wall clock of the host is ahead.
    host_ahead: Rc<Cell<i64>>,
    /// Seconds by which the clocks of Nodes are ahead.
    nodes_ahead: i64,
    behind: Behind,
    marked: BTreeSet<usize>,
    tainted: BTreeSet<usize>,
    /// Number of taints so far.
    n_taints: usize,
    /// When a Node of each zone was tainted last.
    last: BTreeMap<&'static str, u64>,
}

fn name(node: usize) -> String {
    format!("n{node:02}")
}

fn zone(node: usize) -> &'static str {
    ZONES[node % ZONES.len()]
}

fn ready(node: &Value) -> &str {
    node["status"]["conditions"][0]["status"].as_str().unwrap_or_default()
}

fn shifted(time: Timestamp, seconds: i64) -> Timestamp {
    Timestamp::from_micros(time.as_micros() + seconds * 1_000_000)
}

impl Story {
    fn new(seed: u64) -> Self {
        Self::with(seed, true)
    }

    fn with(seed: u64, reads_leases: bool) -> Self {
        let behind = Behind::default();
        let host_ahead = Rc::new(Cell::new(0));
        let (caches, ahead) = (Rc::clone(&behind), Rc::clone(&host_ahead));
        let plugin = Plugin::new(include_str!("../../../../node-lifecycle/manifest.yaml"), move |key, lister| {
            let now = shifted(lister.now()?, ahead.get()).to_string();
            match &*caches.borrow() {
                Some((kinds, older)) => reconcile(key, &Answers::with_older(lister, kinds, &older.lister).at(now)),
                None => reconcile(key, &Answers::with_older(lister, &[], lister).at(now)),
            }
        });
        let mut story = Self {
            cluster: Cluster::new(seed),
            plugin: plugin.config("leaseCircuitBreaker", reads_leases),
            time: 0,
            dead: BTreeMap::new(),
            back: BTreeMap::new(),
            posted: BTreeMap::new(),
            host_ahead,
            nodes_ahead: 0,
            behind,
            marked: BTreeSet::new(),
            tainted: BTreeSet::new(),
            n_taints: 0,
            last: BTreeMap::new(),
        };
        for node in 0..N {
            let labels = json!({"topology.kubernetes.io/region": "r", "topology.kubernetes.io/zone": zone(node)});
            story.cluster.insert(json!({
                "apiVersion": "v1", "kind": "Node", "metadata": {"name": name(node), "labels": labels}, "spec": {},
            }));
            story.cluster.insert(json!({
                "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name(node), "namespace": LEASES},
                "spec": {"holderIdentity": name(node)},
            }));
            story.beat(node);
        }
        story.pass();
        story
    }

    /// What a kubelet does every ten seconds: it renews its Lease, and posts its status if that is old or not its own.
    fn beat(&mut self, node: usize) {
        let now = shifted(self.cluster.now(), self.nodes_ahead);
        self.cluster.edit(&LEASE, LEASES, &name(node), |lease| lease["spec"]["renewTime"] = json!(now));
        let is_old = self.posted.get(&node).is_none_or(|posted| self.time - posted >= POSTS);
        let is_ready = self.cluster.get(&NODE, "", &name(node)).is_some_and(|node| ready(node) == "True");
        if is_old || !is_ready {
            self.posted.insert(node, self.time);
            self.cluster.edit(&NODE, "", &name(node), |node| {
                node["status"] = json!({"conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": now}]});
            });
        }
    }

    fn kill(&mut self, nodes: impl IntoIterator<Item = usize>) {
        for node in nodes {
            self.dead.entry(node).or_insert(self.time);
        }
    }

    fn revive(&mut self, nodes: impl IntoIterator<Item = usize>) {
        for node in nodes {
            if let Some(since) = self.dead.remove(&node) {
                self.back.insert(node, (self.time, since));
            }
        }
    }

    /// Five seconds of the kubelets, without the host.
    fn live(&mut self) {
        self.cluster.advance(Duration::from_secs(STEP));
        self.time += STEP;
        let due = (self.time / STEP) as usize;
        for node in (0..N).filter(|node| (node + due).is_multiple_of(2)) {
            if !self.dead.contains_key(&node) {
                self.beat(node);
            }
        }
    }

    fn monitor(&self) -> Key {
        Key::new(MONITOR, Kind::new("pintle", "v1", "Tick"), "", MONITOR)
    }

    /// A tick of the monitor, with the runs that follow at once, and the keys of the Nodes that are not ready.
    fn pass(&mut self) {
        let monitor = self.monitor();
        for _ in 0..20 {
            let run = self.cluster.run(&self.plugin, &monitor);
            assert!(run.result.is_ok(), "{run:?}");
            if run.crashed {
                // Another host knows of no taints that it has set.
                self.last.clear();
            }
            self.check();
            let follows = run.requeue_after().is_some_and(|after| after < Duration::from_millis(50));
            // Caches that are behind show no new versions to a run that has failed.
            if !follows && !run.crashed && (run.failures.is_empty() || self.behind.borrow().is_some()) {
                break;
            }
        }
        let is_changed = |node: &&Value| ready(node) != "True" || node["spec"]["taints"].is_array();
        let changed: Vec<String> = self.cluster.list(&NODE).filter(is_changed).map(super::objects::name_of).collect();
        for name in changed {
            self.cluster.run(&self.plugin, &self.plugin.key(&NODE, "", &name));
        }
    }

    /// Runs for some seconds.
    fn run(&mut self, seconds: u64) {
        for _ in 0..seconds / STEP {
            self.live();
            self.pass();
        }
    }

    /// The caches of these kinds no longer follow, until [`Story::catch_up`].
    fn fall_behind(&self, kinds: &[Kind]) {
        let fixture = self.cluster.fixture(&self.plugin, &self.monitor());
        *self.behind.borrow_mut() = Some((kinds.to_vec(), fixture));
    }

    fn catch_up(&self) {
        *self.behind.borrow_mut() = None;
    }

    /// For this long, the host does nothing, and then its caches are behind for one pass.
    fn pause(&mut self, seconds: u64) {
        self.fall_behind(&[NODE, LEASE]);
        (0..seconds / STEP).for_each(|_| self.live());
        self.pass();
        self.catch_up();
    }

    /// For how long a Node has no kubelet, or none that has sent anything since it came back.
    fn silence(&self, node: usize) -> Option<u64> {
        let late = || self.back.get(&node).filter(|(back, _)| self.time - back <= 2 * STEP).map(|(_, since)| since);
        self.dead.get(&node).or_else(late).map(|since| self.time - since)
    }

    /// Checks each Node that was marked or tainted.
    fn check(&mut self) {
        let nodes: Vec<Value> = self.cluster.list(&NODE).cloned().collect();
        let is_any_ready = nodes.iter().any(|node| ready(node) == "True");
        for (node, object) in nodes.iter().enumerate() {
            let is_marked = ready(object) == "Unknown";
            if is_marked && self.marked.insert(node) {
                let silence = self.silence(node);
                assert!(silence.is_some_and(|silence| silence >= SHORTEST), "{} is marked: {silence:?}", name(node));
            } else if !is_marked {
                self.marked.remove(&node);
            }
            let mut taints = object["spec"]["taints"].as_array().into_iter().flatten();
            let is_tainted = taints.any(|taint| taint["effect"] == "NoExecute");
            if is_tainted && self.tainted.insert(node) {
                self.n_taints += 1;
                let silence = self.silence(node);
                assert!(silence.is_some_and(|silence| silence >= SHORTEST), "{} is tainted: {silence:?}", name(node));
                assert!(is_any_ready, "no Node is ready, and {} is tainted", name(node));
                if let Some(last) = self.last.insert(zone(node), self.time) {
                    assert!(self.time - last >= 10, "two Nodes of a zone are tainted in {} s", self.time - last);
                }
            } else if !is_tainted {
                self.tainted.remove(&node);
            }
        }
    }

    fn tainted(&self) -> Vec<usize> {
        self.tainted.iter().copied().collect()
    }

    fn n_marked(&self) -> usize {
        self.marked.len()
    }
}

/// The Nodes of the first zone.
fn first_zone() -> Vec<usize> {
    (0..N).filter(|node| zone(*node) == ZONES[0]).collect()
}

#[test]
fn one_lost_node_is_tainted_until_it_is_back() {
    let mut story = Story::new(1);
    story.run(60);
    story.kill([7]);
    story.run(40);
    assert_eq!((story.n_marked(), story.tainted()), (0, vec![]));
    story.run(30);
    assert_eq!((story.n_marked(), story.tainted()), (1, vec![7]));
    story.revive([7]);
    story.run(15);
    assert_eq!((story.n_marked(), story.tainted()), (0, vec![]));
}

#[test]
fn a_lost_zone_is_tainted_at_the_rate_of_evictions() {
    let mut story = Story::new(1);
    story.run(60);
    story.kill(first_zone());
    story.run(90);
    let tainted = story.tainted();
    assert!(story.n_marked() == 20 && (3..=5).contains(&tainted.len()), "{tainted:?}");
    story.run(200);
    assert_eq!(story.tainted(), first_zone());
}

/// Before half of them were marked, which takes a pass, one of each zone was tainted, as upstream.
#[test]
fn small_zones_with_most_nodes_lost_are_not_tainted() {
    let mut story = Story::new(1);
    story.run(60);
    story.kill(0..42);
    story.run(70);
    let first = story.tainted();
    assert!(story.n_marked() == 42 && first.len() <= ZONES.len(), "{first:?}");
    story.run(300);
    assert_eq!((story.n_marked(), story.tainted()), (42, first));
    story.revive(0..42);
    story.run(60);
    assert_eq!((story.n_marked(), story.tainted()), (0, vec![]));
}

#[test]
fn no_node_is_tainted_while_all_are_lost_nor_when_all_are_back() {
    let mut story = Story::new(1);
    story.run(60);
    story.kill([7]);
    story.run(70);
    assert_eq!(story.tainted(), [7]);
    story.kill(0..N);
    // As long as only half of them are marked, which takes a pass, one of each zone is tainted, as upstream.
    story.run(70);
    assert_eq!((story.n_marked(), story.tainted()), (N, vec![]));
    let n_taints = story.n_taints;
    assert!(n_taints <= 1 + ZONES.len(), "{n_taints}");
    story.run(300);
    assert_eq!((story.n_marked(), story.n_taints), (N, n_taints));
    story.revive(0..N);
    story.run(300);
    assert_eq!((story.n_marked(), story.n_taints), (0, n_taints));
}

#[test]
fn wall_clocks_that_are_set_mark_no_node() {
    let mut story = Story::new(1);
    story.run(60);
    for (host, nodes) in [(HOUR, 0), (0, 0), (-HOUR, 0), (0, HOUR), (0, -HOUR), (0, 0), (HOUR, -HOUR)] {
        story.host_ahead.set(host);
        story.nodes_ahead = nodes;
        story.run(60);
        assert_eq!((story.n_marked(), story.tainted()), (0, vec![]));
        story.kill([7]);
        story.run(70);
        assert_eq!((story.n_marked(), story.tainted()), (1, vec![7]), "a Node that is lost is found all the same");
        story.revive([7]);
        story.run(30);
    }
}

#[test]
fn a_pause_of_the_host_marks_no_node_that_lives() {
    for reads_leases in [true, false] {
        let mut story = Story::with(1, reads_leases);
        story.run(60);
        for seconds in [20, 60, 600, 5_000] {
            story.pause(seconds);
            story.run(60);
            assert_eq!((story.n_marked(), story.tainted()), (0, vec![]));
        }
        story.kill([7]);
        story.pause(600);
        story.run(70);
        assert_eq!(story.tainted(), [7], "a Node that is lost is found all the same");
    }
}

/// The first host stops before each of its first writes in turn.
#[test]
fn another_host_begins_anew() {
    for n_written in 0..3 {
        let mut story = Story::new(1);
        story.run(60);
        story.kill([7]);
        story.cluster.inject(Fault::crash().skip(n_written));
        story.run(200);
        assert_eq!(story.cluster.n_faults(), 0, "it has stopped");
        assert_eq!((story.n_marked(), story.tainted()), (1, vec![7]));
    }
}

#[test]
fn a_cache_that_is_behind_marks_no_node() {
    let mut story = Story::new(1);
    story.run(60);
    for kinds in [&[LEASE][..], &[NODE, LEASE]] {
        story.fall_behind(kinds);
        story.kill([7]);
        story.run(240);
        assert_eq!((story.n_marked(), story.tainted()), (0, vec![]));
        story.catch_up();
        story.run(120);
        assert_eq!((story.n_marked(), story.tainted()), (1, vec![7]));
        story.revive([7]);
        story.run(30);
    }
}

/// The checks of [`Story::check`] hold whatever happens.
#[test]
fn no_node_is_tainted_that_should_not_be_whatever_happens() {
    let mut n_tainted = 0;
    for seed in seeds(0..6) {
        let mut story = Story::with(seed, !seed.is_multiple_of(3));
        story.run(30);
        for _ in 0..60 {
            let node = story.cluster.random(N as u64) as usize;
            match story.cluster.random(16) {
                0..=2 => story.kill([node]),
                3 => story.kill(first_zone()),
                4 => story.kill(0..N),
                5..=6 => story.revive(0..N),
                7 => story.revive(first_zone()),
                8 => story.pause(10 * STEP * (1 + node as u64)),
                9 => story.cluster.inject(Fault::crash()),
                10 => story.host_ahead.set(HOUR * (node as i64 - 30)),
                11 => story.nodes_ahead = HOUR * (node as i64 - 30),
                12 => {
                    story.cluster.inject(Fault::reject(409, "Conflict", "somebody else was faster").one_in(3).times(5))
                }
                13 => story.cluster.inject(Fault::reject(500, "InternalError", "etcd is away").one_in(3).times(5)),
                14 if !seed.is_multiple_of(3) => {
                    story.fall_behind(&[LEASE]);
                    story.run(60 + node as u64);
                    story.catch_up();
                }
                _ => {}
            }
            story.run(STEP * (1 + node as u64 / 4));
        }
        n_tainted += story.n_taints;
    }
    assert!(n_tainted > 60, "{n_tainted}");
}
