//! The slices of a Service after each write: ready endpoints stay listed, and none is listed twice, whatever changes.
//!
//! Each run carries out one write, so that the test checks the state after each write. Some writes are rejected.

use std::collections::{BTreeMap, BTreeSet};

use pintle_sdk::testing::{Cluster, Fault, Plugin, seeds};
use pintle_sdk::{Key, Kind};
use serde_json::{Value, json};

use super::objects::name_of;
use crate::endpointslice::plugin;

const SERVICE: Kind = Kind::new("", "v1", "Service");
const POD: Kind = Kind::new("", "v1", "Pod");
const SLICE: Kind = Kind::new("discovery.k8s.io", "v1", "EndpointSlice");

/// Largest number of endpoints in a slice.
const MOST: usize = 3;

struct Story {
    cluster: Cluster,
    plugin: Plugin<'static>,
    key: Key,
    n_pods: usize,
}

impl Story {
    fn new(seed: u64) -> Self {
        let mut cluster = Cluster::new(seed);
        cluster.insert(json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "default", "uid": "s"},
            "spec": {
                "clusterIP": "10.96.0.1", "ipFamilies": ["IPv4"], "selector": {"app": "web"},
                "ports": [{"name": "", "port": 80, "protocol": "TCP", "targetPort": 8080}],
            },
        }));
        for zone in ["a", "b"] {
            let labels = json!({"topology.kubernetes.io/zone": zone});
            cluster.insert(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": zone, "labels": labels}}));
        }
        let plugin = plugin().config("maxEndpointsPerSlice", MOST).mutations(1);
        let key = plugin.key(&SERVICE, "default", "web");
        Self { cluster, plugin, key, n_pods: 0 }
    }

    /// Makes a random change.
    fn change(&mut self) {
        let cluster = &mut self.cluster;
        let some = |cluster: &mut Cluster, kind: &Kind| {
            let names: Vec<String> = cluster.list(kind).map(name_of).collect();
            let place = cluster.random(names.len().max(1) as u64) as usize;
            names.get(place).cloned()
        };
        match cluster.random(10) {
            0..=3 => {
                self.n_pods += 1;
                let ip = format!("10.0.{}.{}", self.n_pods / 250, self.n_pods % 250);
                let zone = if self.n_pods.is_multiple_of(2) { "a" } else { "b" };
                cluster.insert(json!({
                    "apiVersion": "v1", "kind": "Pod",
                    "metadata": {"name": format!("p{}", self.n_pods), "namespace": "default", "labels": {"app": "web"}},
                    "spec": {"nodeName": zone},
                    "status": {"podIP": ip, "podIPs": [{"ip": ip}], "conditions": [{"type": "Ready", "status": "True"}]},
                }));
            }
            4 => {
                if let Some(name) = some(cluster, &POD) {
                    cluster.remove(&POD, "default", &name);
                }
            }
            5 => {
                if let Some(name) = some(cluster, &POD) {
                    cluster.edit(&POD, "default", &name, |pod| {
                        let ready = &mut pod["status"]["conditions"][0]["status"];
                        *ready = json!(if *ready == "True" { "False" } else { "True" });
                    });
                }
            }
            6 => {
                if let Some(name) = some(cluster, &SLICE) {
                    cluster.delete(&SLICE, "default", &name);
                }
            }
            7 => cluster.edit(&SERVICE, "default", "web", |service| {
                let port = &mut service["spec"]["ports"][0]["targetPort"];
                *port = json!(if *port == 8080 { 9090 } else { 8080 });
            }),
            8 => cluster.edit(&SERVICE, "default", "web", |service| {
                let distribution = &mut service["spec"]["trafficDistribution"];
                *distribution = if distribution.is_null() { json!("PreferSameZone") } else { Value::Null };
            }),
            _ => cluster.inject(Fault::reject(500, "InternalError", "not now").times(1)),
        }
    }

    /// Runs the key until it writes nothing, and checks the slices after each write.
    fn settle(&mut self) {
        for _ in 0..1_000 {
            let before = self.listed();
            let run = self.cluster.run(&self.plugin, &self.key);
            let after = self.listed();
            let lost: Vec<&String> = before.difference(&after).filter(|name| self.is_ready(name)).collect();
            assert!(lost.is_empty(), "ready and not listed any more: {lost:?}");
            if run.is_quiet() {
                return;
            }
        }
        panic!("it does not settle");
    }

    /// The Pods in slices. No slice is too large, and no Pod is listed twice with the same ports.
    fn listed(&self) -> BTreeSet<String> {
        let mut by_ports: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for slice in self.cluster.list(&SLICE) {
            let endpoints = slice["endpoints"].as_array().map(Vec::as_slice).unwrap_or_default();
            assert!(endpoints.len() <= MOST, "{slice}");
            let names = by_ports.entry(slice["ports"].to_string()).or_default();
            for endpoint in endpoints {
                let name = endpoint["targetRef"]["name"].as_str().unwrap_or_default();
                assert!(names.insert(name.to_owned()), "{name} is listed twice");
            }
        }
        by_ports.into_values().flatten().collect()
    }

    fn is_ready(&self, name: &str) -> bool {
        self.cluster.get(&POD, "default", name).is_some_and(|pod| pod["status"]["conditions"][0]["status"] == "True")
    }
}

#[test]
fn ready_endpoints_stay_listed_at_every_write() {
    for seed in seeds(0..50) {
        let mut story = Story::new(seed);
        for _ in 0..60 {
            for _ in 0..=story.cluster.random(4) {
                story.change();
            }
            story.settle();
            let pods: BTreeSet<String> = story.cluster.list(&POD).map(name_of).collect();
            assert_eq!(story.listed(), pods);
            let port = story.cluster.get(&SERVICE, "default", "web").expect("it is there")["spec"]["ports"][0].clone();
            for slice in story.cluster.list(&SLICE) {
                let is_current = slice["ports"][0]["port"] == port["targetPort"];
                let is_placeholder = slice["ports"].as_array().is_none_or(Vec::is_empty);
                assert!(is_current || is_placeholder && pods.is_empty(), "{slice}");
                let has_hints = |endpoint: &Value| endpoint["hints"].is_object();
                let endpoints = || slice["endpoints"].as_array().into_iter().flatten();
                let service = story.cluster.get(&SERVICE, "default", "web").expect("it is there");
                let wants_hints = service["spec"]["trafficDistribution"].is_string();
                assert!(endpoints().all(|one| !has_hints(one) || wants_hints), "{slice}");
            }
        }
    }
}
