//! Ranges of addresses for the Pods of Nodes. Which of them a Node gets depends on the Nodes of other scenarios.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, Ipv6Addr};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::{Group, HOLD, delete, until_gone};
use crate::api::PatchKind;
use crate::scenarios::Scenario;
use crate::scenarios::stage::Stage;
use crate::{PATIENCE, eventually};

/// What these scenarios are about.
pub(super) const GROUPS: &[Group] = &[(&["node-ipam-controller"], &[SCENARIOS])];

const NODES: &str = "/api/v1/nodes";

/// The start of `--cluster-cidr`, which is 10.128.0.0/12, and the number of bits after it.
const CLUSTER_V4: (Ipv4Addr, u32) = (Ipv4Addr::new(10, 128, 0, 0), 32 - 12);

/// The start of the second range of `--cluster-cidr`, which is fd00:128::/48, and the number of bits after it.
const CLUSTER_V6: (Ipv6Addr, u32) = (Ipv6Addr::new(0xfd00, 0x128, 0, 0, 0, 0, 0, 0), 128 - 48);

/// The start of `--service-cluster-ip-range`, which is 10.128.0.0/20, and the number of bits after it: no Node gets a part of it.
const SERVICES: (Ipv4Addr, u32) = (Ipv4Addr::new(10, 128, 0, 0), 32 - 20);

const SCENARIOS: &[Scenario] = &[
    Scenario::new("a Node gets a range of addresses of each family", |s| Box::pin(new_node(s))),
    Scenario::new("Nodes that are made at once get different ranges", |s| Box::pin(many(s))),
    Scenario::new("a Node keeps the ranges that it brings, and no other Node gets them", |s| Box::pin(brought(s))),
    Scenario::new("a Node that is made again gets ranges again", |s| Box::pin(again(s))),
    Scenario::new("a Node that is being deleted keeps its ranges", |s| Box::pin(held(s))),
    // kube-controller-manager does not start while there is such a Node.
    Scenario::new("a Node with a range outside of the cluster's keeps it", |s| Box::pin(outside(s))).alone(),
];

fn path(s: &Stage, name: &str) -> String {
    format!("{NODES}/{}-{name}", s.ns)
}

async fn create(s: &Stage, name: &str, cidrs: &[&str]) -> Result<()> {
    let mut node = json!({"metadata": {"name": format!("{}-{name}", s.ns)}});
    if let Some(first) = cidrs.first() {
        node["spec"] = json!({"podCIDR": first, "podCIDRs": cidrs});
    }
    s.client.create(NODES, &node).await.map(drop)
}

/// Waits until a Node has ranges.
async fn ranges(s: &Stage, name: &str) -> Result<Vec<String>> {
    eventually(PATIENCE, format!("{name} to have ranges"), async || {
        let node = s.client.get(&path(s, name)).await?;
        let spec = &node["spec"];
        let cidrs = spec["podCIDRs"].as_array().with_context(|| format!("it has {spec}"))?;
        ensure!(cidrs.first() == Some(&spec["podCIDR"]), "it has {spec}");
        Ok(Some(cidrs.iter().filter_map(Value::as_str).map(str::to_owned).collect()))
    })
    .await
}

/// What of a range does not depend on other Nodes: its size, and what it is a part of.
fn kind_of(cidr: &str) -> Result<Value> {
    let (address, size) = cidr.split_once('/').with_context(|| format!("{cidr} has no size"))?;
    let (of_cluster, of_services) = match address.parse::<Ipv4Addr>() {
        Ok(address) => {
            let is_in = |(start, n_bits): (Ipv4Addr, u32)| u32::from(address) >> n_bits == u32::from(start) >> n_bits;
            (is_in(CLUSTER_V4), is_in(SERVICES))
        }
        Err(_) => {
            let (start, n_bits) = CLUSTER_V6;
            (u128::from(address.parse::<Ipv6Addr>()?) >> n_bits == u128::from(start) >> n_bits, false)
        }
    };
    Ok(json!({"size": size, "part of the cluster's": of_cluster, "part of the Services'": of_services}))
}

/// Notes the ranges of a Node.
async fn observe(s: &Stage, when: &str, name: &str) -> Result<Vec<String>> {
    let ranges = ranges(s, name).await?;
    let kinds = ranges.iter().map(|cidr| kind_of(cidr)).collect::<Result<Vec<Value>>>()?;
    s.observe(when, &json!(kinds));
    Ok(ranges)
}

async fn new_node(s: &Stage) -> Result<()> {
    create(s, "one", &[]).await?;
    observe(s, "when it is new", "one").await?;
    delete(s, &path(s, "one")).await
}

async fn many(s: &Stage) -> Result<()> {
    const N: usize = 30;
    for i in 0..N {
        create(s, &format!("n{i}"), &[]).await?;
    }
    let mut all = BTreeSet::new();
    for i in 0..N {
        all.extend(ranges(s, &format!("n{i}")).await?);
    }
    s.observe("different ranges", &json!(all.len()));
    for i in 0..N {
        delete(s, &path(s, &format!("n{i}"))).await?;
    }
    Ok(())
}

/// The last ranges of the cluster, which are never the next ones.
async fn brought(s: &Stage) -> Result<()> {
    let last = ["10.143.255.0/24", "fd00:128:0:ffff::/64"];
    create(s, "one", &last).await?;
    create(s, "two", &[]).await?;
    let others = observe(s, "the other Node", "two").await?;
    ensure!(last.iter().all(|range| others.iter().all(|other| other != range)), "the other Node has {others:?}");
    s.observe("the Node", &json!(ranges(s, "one").await?));
    delete(s, &path(s, "one")).await?;
    delete(s, &path(s, "two")).await
}

async fn again(s: &Stage) -> Result<()> {
    for when in ["at first", "again"] {
        create(s, "one", &[]).await?;
        observe(s, when, "one").await?;
        delete(s, &path(s, "one")).await?;
        until_gone(s, &path(s, "one")).await?;
    }
    Ok(())
}

async fn held(s: &Stage) -> Result<()> {
    create(s, "one", &[]).await?;
    let before = ranges(s, "one").await?;
    let finalizers = |list: Value| json!({"metadata": {"finalizers": list}});
    s.client.patch(&path(s, "one"), PatchKind::Merge, &finalizers(json!([HOLD]))).await?;
    delete(s, &path(s, "one")).await?;
    create(s, "two", &[]).await?;
    let other = observe(s, "the other Node", "two").await?;
    ensure!(ranges(s, "one").await? == before, "the Node has other ranges than {before:?}");
    ensure!(other.iter().all(|range| !before.contains(range)), "both Nodes have {other:?}");
    s.client.patch(&path(s, "one"), PatchKind::Merge, &finalizers(Value::Null)).await?;
    until_gone(s, &path(s, "one")).await?;
    delete(s, &path(s, "two")).await
}

async fn outside(s: &Stage) -> Result<()> {
    create(s, "one", &["192.168.77.0/24"]).await?;
    create(s, "two", &[]).await?;
    observe(s, "the other Node", "two").await?;
    s.observe("the Node", &json!(ranges(s, "one").await?));
    delete(s, &path(s, "one")).await?;
    delete(s, &path(s, "two")).await
}
