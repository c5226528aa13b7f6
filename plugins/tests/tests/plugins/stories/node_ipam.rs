//! Nodes come and go while patches fail, answers are lost, hosts crash, and caches are behind: no two Nodes ever have one
//! range, and no range is lost.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use pintle_sdk::testing::{Cluster, Fault, Fixture, Plugin, seeds};
use pintle_sdk::{Action, Kind, Outcome};
use plugin_node_ipam::reconcile;
use serde_json::{Value, json};

use super::answers::Answers;
use super::objects::name_of;

const NODE: Kind = Kind::new("", "v1", "Node");

/// Ranges of the cluster: so few that each is soon given again.
const N_RANGES: usize = 4;

/// Names of Nodes. There are sometimes more of them than ranges.
const N_NAMES: u64 = 6;

struct Story {
    cluster: Cluster,
    plugin: Plugin<'static>,
    /// The caches, which may be behind.
    cache: Rc<RefCell<Rc<Fixture>>>,
    cached: u64,
    /// Earlier contents of the caches, and their versions.
    earlier: Vec<(Rc<Fixture>, u64)>,
    /// When the last run of a name has written something.
    written: BTreeMap<String, u64>,
    /// Patches that were answered with an error, and may still be carried out.
    late: Vec<Action>,
    /// The ranges of each Node that has got some, by uid.
    given: BTreeMap<String, Value>,
}

fn manifest() -> &'static str {
    include_str!("../../../../node-ipam/manifest.yaml")
}

impl Story {
    fn new(seed: u64) -> Self {
        let cluster = Cluster::new(seed);
        let plugin = crate::node_ipam::plugin();
        let cache = Rc::new(RefCell::new(Rc::new(cluster.fixture(&plugin, &plugin.key(&NODE, "", "n0")))));
        let shared = Rc::clone(&cache);
        let plugin = Plugin::new(manifest(), move |key, lister| {
            reconcile(key, &Answers::with_older(lister, &[NODE], &shared.borrow().lister))
        });
        let plugin = plugin.config("clusterCIDR", "10.0.0.0/26,fd00::/62").config("nodeCIDRMaskSizeIPv4", 28);
        Self {
            cluster,
            plugin,
            cache,
            cached: 0,
            earlier: Vec::new(),
            written: BTreeMap::new(),
            late: Vec::new(),
            given: BTreeMap::new(),
        }
    }

    fn nodes(&self) -> Vec<String> {
        self.cluster.list(&NODE).map(name_of).collect()
    }

    fn any_node(&mut self) -> Option<String> {
        let nodes = self.nodes();
        let place = self.cluster.random(nodes.len() as u64) as usize;
        nodes.get(place).cloned()
    }

    fn any_name(&mut self) -> String {
        format!("n{}", self.cluster.random(N_NAMES))
    }

    fn insert(&mut self) {
        let name = self.any_name();
        if self.cluster.get(&NODE, "", &name).is_none() {
            self.cluster.insert(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": {}}));
        }
    }

    fn remove(&mut self) {
        if let Some(name) = self.any_node() {
            self.cluster.remove(&NODE, "", &name);
        }
    }

    fn heartbeat(&mut self) {
        if let Some(name) = self.any_node() {
            let version = self.cluster.version();
            self.cluster.edit(&NODE, "", &name, |node| node["status"] = json!({"beat": version}));
        }
    }

    /// The caches catch up.
    fn refresh(&mut self) {
        let key = self.plugin.key(&NODE, "", "n0");
        let fixture = Rc::new(self.cluster.fixture(&self.plugin, &key));
        let before = std::mem::replace(&mut *self.cache.borrow_mut(), fixture);
        self.earlier.push((before, self.cached));
        self.cached = self.cluster.version();
    }

    /// The caches of another host may show less than those of the last one.
    fn replace_host(&mut self) {
        let place = self.cluster.random(5) as usize;
        if let Some((fixture, version)) = self.earlier.iter().rev().nth(place) {
            (*self.cache.borrow_mut(), self.cached) = (Rc::clone(fixture), *version);
        }
        self.written.clear();
    }

    fn run(&mut self, name: &str) -> bool {
        // The host waits until the caches show what the last run of the key has written.
        if self.written.get(name).is_some_and(|written| *written > self.cached) {
            self.refresh();
        }
        let key = self.plugin.key(&NODE, "", name);
        let run = self.cluster.run(&self.plugin, &key);
        if run.crashed {
            // Its patches are carried out or not, before the term of another host begins.
            while !self.late.is_empty() {
                self.arrive();
            }
            self.replace_host();
        } else if run.failures.is_empty() {
            self.written.insert(name.to_owned(), self.cluster.version());
        } else if let Ok(outcome) = &run.result {
            self.late.extend(patches(outcome));
        }
        self.check();
        run.is_quiet()
    }

    /// A patch is carried out after its answer, or never.
    fn arrive(&mut self) {
        let place = self.cluster.random(self.late.len() as u64) as usize;
        if self.late.is_empty() {
            return;
        }
        let Action::Patch { object, body, preconditions, .. } = self.late.swap_remove(place) else { return };
        let Some(node) = self.cluster.get(&NODE, "", &object.name) else { return };
        let metadata = &node["metadata"];
        let is_met =
            |wanted: &Option<String>, field: &str| wanted.as_deref().is_none_or(|text| metadata[field] == text);
        if is_met(&preconditions.uid, "uid")
            && is_met(&preconditions.resource_version, "resourceVersion")
            && self.cluster.random(2) == 0
        {
            let body: Value = serde_json::from_str(&body).expect("a patch is JSON");
            self.cluster.edit(&NODE, "", &object.name, |node| node["spec"] = body["spec"].clone());
            self.check();
        }
    }

    fn check(&mut self) {
        let mut seen = BTreeSet::new();
        for node in self.cluster.list(&NODE).filter(|node| node["spec"]["podCIDRs"].is_array()) {
            for range in node["spec"]["podCIDRs"].as_array().into_iter().flatten() {
                assert!(seen.insert(range.to_string()), "two Nodes have {range}");
            }
            let uid = node["metadata"]["uid"].to_string();
            let given = self.given.entry(uid).or_insert_with(|| node["spec"]["podCIDRs"].clone());
            assert_eq!(*given, node["spec"]["podCIDRs"], "{} gets another range", name_of(node));
        }
    }

    fn step(&mut self) {
        match self.cluster.random(12) {
            0 | 1 => self.insert(),
            2 => self.remove(),
            3 => self.heartbeat(),
            4 => self.refresh(),
            5 => self.arrive(),
            6 if self.cluster.random(4) == 0 => self.cluster.inject(Fault::crash()),
            _ => {
                let name = self.any_name();
                self.run(&name);
            }
        }
    }

    /// Every key runs until nothing changes.
    fn rest(&mut self) {
        self.cluster.clear_faults();
        self.late.clear();
        while self.nodes().len() > N_RANGES {
            self.remove();
        }
        for _ in 0..20 {
            let mut is_quiet = true;
            for number in 0..N_NAMES {
                self.refresh();
                is_quiet &= self.run(&format!("n{number}"));
            }
            if is_quiet {
                return;
            }
        }
        panic!("it does not settle: {:?}", self.cluster.writes().last());
    }

    /// Number of used ranges of the first family in the state.
    fn n_used(&self) -> u64 {
        let state = self.cluster.state(&self.plugin);
        let pools: Value = serde_json::from_str(&state["pools"]).expect("the state is JSON");
        let used = pools["pools"][0]["used"].as_array().into_iter().flatten();
        let bound = |range: &Value, place: usize| range[place].as_u64().expect("an index");
        used.map(|range| bound(range, 1) - bound(range, 0) + 1).sum()
    }
}

fn patches(outcome: &Outcome) -> impl Iterator<Item = Action> {
    let mutations = outcome.steps.iter().flat_map(|step| &step.mutations);
    mutations.map(|mutation| mutation.action.clone()).filter(|action| matches!(action, Action::Patch { .. }))
}

#[test]
fn no_two_nodes_ever_have_one_range_and_none_is_lost() {
    let mut n_given = 0;
    for seed in seeds(0..200) {
        let mut story = Story::new(seed);
        for _ in 0..3 {
            story.cluster.inject(Fault::reject(504, "Timeout", "the answer is lost").one_in(2));
            for _ in 0..60 {
                story.step();
            }
            story.rest();
            let nodes = story.nodes();
            let has_ranges = |node: &Value| node["spec"]["podCIDRs"].as_array().is_some_and(|ranges| ranges.len() == 2);
            assert!(story.cluster.list(&NODE).all(has_ranges), "seed {seed}: a Node has no ranges");
            assert_eq!(story.n_used(), nodes.len() as u64, "seed {seed}: ranges are lost, or given away twice");
        }
        n_given += story.given.len();
    }
    assert!(n_given > 1_000, "{n_given}");
}
