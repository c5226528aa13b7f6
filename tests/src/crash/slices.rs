//! A Service whose Pods come and go, and whose port changes, with EndpointSlices of two endpoints.
//!
//! Rules, at each write of a slice:
//! 1. it has two endpoints at most;
//! 2. no Pod is twice in slices with the same ports;
//! 3. a Pod that was ready in a slice, and is still ready, is ready in a slice.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use anyhow::{Result, ensure};
use pintle_sim::{EventType, SimCluster, WriteRecord};
use serde_json::{Value, json};

use super::{Story, User, is_ready, replay};

const SERVICES: &str = "/api/v1/namespaces/default/services";
const PODS: &str = "/api/v1/namespaces/default/pods";
const GROUP: &str = "discovery.k8s.io";
const SLICES: &str = "endpointslices";
/// That of the flag.
const MOST: usize = 2;
/// The Pods before and after some have been replaced.
const FIRST: [&str; 5] = ["a", "b", "c", "d", "e"];
const LAST: [&str; 4] = ["b", "c", "d", "f"];

/// The story.
pub const SERVICE: Story = Story {
    name: "EndpointSlices",
    controllers: &["endpointslice-controller"],
    flags: &["--max-endpoints-per-slice=2"],
    tell: |user| Box::pin(tell(user)),
    is_done: |cluster| is_listed(cluster, &LAST, 9090),
    check,
};

async fn tell(user: &User<'_>) -> Result<()> {
    user.create(SERVICES, &json!({"metadata": {"name": "web"}, "spec": spec(8080)})).await?;
    for name in FIRST {
        user.create(PODS, &pod(name)).await?;
    }
    wait_for(user, &FIRST, 8080).await?;
    user.patch(&format!("{SERVICES}/web"), &json!({"spec": spec(9090)})).await?;
    wait_for(user, &FIRST, 9090).await?;
    user.delete(&format!("{PODS}/a")).await?;
    user.delete(&format!("{PODS}/e")).await?;
    user.create(PODS, &pod("f")).await?;
    wait_for(user, &LAST, 9090).await
}

async fn wait_for(user: &User<'_>, names: &[&str], port: u16) -> Result<()> {
    let what = format!("slices of {names:?} with port {port}");
    user.until(&what, &[(GROUP, SLICES)], |cluster| is_listed(cluster, names, port)).await
}

fn spec(port: u16) -> Value {
    json!({"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": port}]})
}

fn pod(name: &str) -> Value {
    let metadata = json!({"name": name, "labels": {"app": "web"}});
    json!({"metadata": metadata, "spec": {"containers": [{"name": "web", "image": "web:1"}]}})
}

/// Whether there are exactly these Pods, each once and ready in a slice with this port.
fn is_listed(cluster: &SimCluster, names: &[&str], port: u16) -> bool {
    let (pods, slices) = (cluster.objects("", "pods"), cluster.objects(GROUP, SLICES));
    let mut listed: Vec<&str> = slices.iter().flat_map(|slice| ready(slice)).collect();
    listed.sort_unstable();
    pods.len() == names.len()
        && pods.iter().all(|pod| is_ready(pod))
        && slices.iter().all(|slice| slice["ports"][0]["port"] == port)
        && slices.iter().map(|slice| endpoints(slice).count()).sum::<usize>() == names.len()
        && listed == names
}

fn endpoints(slice: &Value) -> impl Iterator<Item = &Value> {
    slice["endpoints"].as_array().into_iter().flatten()
}

fn pod_of(endpoint: &Value) -> &str {
    endpoint["targetRef"]["name"].as_str().unwrap_or_default()
}

/// The names of Pods that are ready in a slice.
fn ready(slice: &Value) -> impl Iterator<Item = &str> {
    endpoints(slice).filter(|endpoint| endpoint["conditions"]["ready"] == true).map(pod_of)
}

#[derive(Default)]
struct Replay {
    /// Names of Pods that are ready.
    ready: BTreeSet<String>,
    /// uid -> slice.
    slices: BTreeMap<String, Value>,
    /// Names of Pods that have been ready in a slice.
    served: BTreeSet<String>,
}

fn check(history: &[Arc<WriteRecord>]) -> Result<()> {
    let mut seen = Replay::default();
    replay(history, |write| match write.resource.as_str() {
        "pods" => {
            seen.pod(write);
            Ok(())
        }
        SLICES => seen.slice(write),
        _ => Ok(()),
    })
}

impl Replay {
    fn pod(&mut self, write: &WriteRecord) {
        let pod = write.after.value();
        let name = pod["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        if write.effect != EventType::Deleted && is_ready(&pod) {
            self.ready.insert(name);
        } else {
            self.ready.remove(&name);
        }
    }

    fn slice(&mut self, write: &WriteRecord) -> Result<()> {
        let (uid, slice) = (write.after.uid.to_string(), write.after.value());
        match write.effect {
            EventType::Deleted => self.slices.remove(&uid),
            _ => self.slices.insert(uid, slice),
        };
        let mut places = BTreeSet::new();
        for slice in self.slices.values() {
            let n_endpoints = endpoints(slice).count();
            ensure!(n_endpoints <= MOST, "a slice has {n_endpoints} endpoints");
            for pod in endpoints(slice).map(pod_of) {
                ensure!(places.insert((pod, slice["ports"].to_string())), "{pod} is in two slices with the same ports");
            }
        }
        let listed: BTreeSet<String> = self.slices.values().flat_map(ready).map(str::to_owned).collect();
        let lost: Vec<&String> = self.served.intersection(&self.ready).filter(|pod| !listed.contains(*pod)).collect();
        ensure!(lost.is_empty(), "ready, and in no slice any more: {lost:?}");
        self.served.extend(listed);
        Ok(())
    }
}
