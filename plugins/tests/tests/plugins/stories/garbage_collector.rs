//! Objects with unusual owner references, run repeatedly until they are deleted or stay unchanged.

use std::cell::Cell;

use pintle_sdk::testing::{Cluster, FixtureLister, Plugin};
use pintle_sdk::{Error, Key, Kind};
use serde_json::{Value, json};

use super::answers::Answers;
use crate::garbage_collector::plugin;

const CONFIG_MAP: Kind = Kind::new("", "v1", "ConfigMap");

struct Story<'a> {
    cluster: Cluster,
    plugin: Plugin<'a>,
    key: Key,
}

impl<'a> Story<'a> {
    /// A ConfigMap `dependent` with these owner references.
    fn new(owners: Vec<Value>) -> Self {
        Self::of(owners, plugin())
    }

    fn of(owners: Vec<Value>, plugin: Plugin<'a>) -> Self {
        let resource = |kind: &str, plural: &str, namespaced: bool| json!({"kind": kind, "plural": plural, "namespaced": namespaced, "preferred": true, "verbs": ["list", "watch", "delete"]});
        let resources = json!([resource("v1/ConfigMap", "configmaps", true), resource("v1/Node", "nodes", false)]);
        let mut cluster = Cluster::new(1).resources(serde_json::from_value(resources).expect("these are resources"));
        cluster.insert(config_map("dependent", owners));
        let key = plugin.key(&CONFIG_MAP, "default", "dependent");
        Self { cluster, plugin, key }
    }

    fn dependent(&self) -> Option<&Value> {
        self.cluster.get(&CONFIG_MAP, "default", "dependent")
    }

    fn n_owners(&self) -> usize {
        self.dependent().map_or(0, |one| one["metadata"]["ownerReferences"].as_array().map_or(0, Vec::len))
    }

    /// Runs until a run writes nothing; returns the number of references after each run.
    fn settle(&mut self) -> Vec<usize> {
        let mut left = Vec::new();
        loop {
            let run = self.cluster.run(&self.plugin, &self.key);
            assert!(run.failures.is_empty(), "{:?}", run.failures);
            assert!(!matches!(run.result, Err(Error::Terminal(_))), "{:?}", run.result);
            if run.is_quiet() {
                return left;
            }
            left.push(self.n_owners());
        }
    }
}

fn config_map(name: &str, owners: Vec<Value>) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default", "uid": name, "ownerReferences": owners},
    })
}

fn owner(name: &str, uid: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid})
}

fn gone(n: usize) -> Vec<Value> {
    (0..n).map(|i| owner(&format!("gone-{i}"), &format!("gone-{i}"))).collect()
}

#[test]
fn an_object_with_thousands_of_owners_that_are_gone_goes_in_steps() {
    let mut story = Story::new(gone(2_000));
    let left = story.settle();
    assert_eq!(story.dependent(), None);
    assert!(left.windows(2).all(|pair| pair[1] < pair[0]) && left.len() <= 11, "{left:?}");
}

#[test]
fn references_to_owners_that_are_gone_are_removed_beside_one_that_is_there() {
    let mut owners = gone(3_000);
    owners.insert(1_500, owner("solid", "solid"));
    let mut story = Story::new(owners);
    story.cluster.insert(config_map("solid", Vec::new()));
    story.settle();
    let left = &story.dependent().expect("its owner is there")["metadata"]["ownerReferences"];
    assert_eq!(left, &json!([owner("solid", "solid")]));
}

#[test]
fn the_same_owner_many_times_over_is_read_once() {
    let mut story = Story::new(vec![owner("gone", "gone"); 5_000]);
    assert!(story.settle().len() <= 1);
    assert_eq!(story.dependent(), None);
}

#[test]
fn owners_are_looked_for_in_one_round_whatever_other_runs_learn_meanwhile() {
    let n_reads = Cell::new(0);
    // Other runs constantly store other absent owners.
    let others = |_: &str| {
        let first = n_reads.replace(n_reads.get() + 1) * 64;
        let absent = |i: usize| {
            let name = format!("gone-{i}");
            format!("{} {name} v1 ConfigMap default {name}", name.len())
        };
        Some(json!((first..first + 64).map(absent).collect::<Vec<_>>()).to_string())
    };
    let restless = |key: &Key, lister: &FixtureLister| {
        plugin_garbage_collector::reconcile(key, &Answers::with_state(lister, &others))
    };
    let mut story =
        Story::of(gone(2_000), Plugin::new(include_str!("../../../../garbage-collector/manifest.yaml"), restless));
    let run = story.cluster.run(&story.plugin, &story.key);
    assert_eq!(run.n_writes, 1, "{:?}", run.result);
    assert_eq!(n_reads.get(), 2, "calls of the run");
    assert_eq!(story.n_owners(), 1_800);
}

#[test]
fn names_that_nothing_can_have_are_those_of_absent_owners() {
    let long = "x".repeat(100_000);
    for name in ["a/b", "..", "%2f", "a b", "a\nb", "\u{202e}", "../../secrets/x", &long] {
        let mut story = Story::new(vec![owner(name, name)]);
        story.settle();
        assert_eq!(story.dependent(), None, "{name:.20}");
    }
}

#[test]
fn what_is_kept_of_absent_owners_is_bounded_whatever_their_names() {
    let named =
        |n: usize| -> Vec<Value> { (0..700).map(|i| owner(&format!("{i}-{}", "x".repeat(n)), "gone")).collect() };
    for (n, n_kept) in [(0, 500), (900, 500), (1_024, 0)] {
        let mut story = Story::new(named(n));
        story.settle();
        let state = story.cluster.state(&story.plugin);
        let kept = state.get("absent-owners").map(|text| serde_json::from_str::<Vec<String>>(text));
        assert_eq!(kept.map_or(0, |kept| kept.expect("it is a list").len()), n_kept, "names of {n} bytes");
        assert_eq!(story.dependent(), None);
    }
}

#[test]
fn orphaning_releases_dependents_in_parts_and_the_owner_last() {
    let mut story = Story::new(Vec::new());
    // More references than one patch removes, and more dependents than one run releases.
    story.cluster.insert(config_map("many", vec![owner("dependent", "dependent"); 2_500]));
    for i in 0..600 {
        story.cluster.insert(config_map(&format!("one-{i}"), vec![owner("dependent", "dependent")]));
    }
    story
        .cluster
        .edit(&CONFIG_MAP, "default", "dependent", |owner| owner["metadata"]["finalizers"] = json!(["orphan"]));
    story.cluster.delete(&CONFIG_MAP, "default", "dependent");
    story.settle();
    let is_dependent =
        |one: &&Value| one["metadata"]["ownerReferences"].as_array().is_some_and(|owners| !owners.is_empty());
    assert_eq!(story.cluster.list(&CONFIG_MAP).filter(is_dependent).count(), 0);
    assert_eq!(story.dependent(), None);
}
