//! EndpointSlices of Services. The Pods run on Nodes without kubelets: the scenarios write the addresses and the readiness that Pods have.
//! What is compared is what the slices say, and not which slice says it.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};

use super::{Group, delete};
use crate::api::PatchKind;
use crate::scenarios::Scenario;
use crate::scenarios::stage::Stage;
use crate::{PATIENCE, eventually};

/// What these scenarios are about.
pub(super) const GROUPS: &[Group] = &[(&["endpointslice-controller"], &[SCENARIOS])];

const SCENARIOS: &[Scenario] = &[
    Scenario::new("a Service without Pods has an EndpointSlice without endpoints", |s| Box::pin(placeholder(s))),
    Scenario::new("the Pods of a Service come, become ready, and go", |s| Box::pin(life(s))),
    Scenario::new("a Service that publishes addresses of Pods that are not ready has them as ready", |s| {
        Box::pin(published(s))
    }),
    Scenario::new("the ports of a Service are looked up in each of its Pods", |s| Box::pin(ports(s))),
    Scenario::new("an EndpointSlice has the labels of its Service", |s| Box::pin(labels(s))),
    Scenario::new("a Pod belongs to each Service that selects it now", |s| Box::pin(selected(s))),
    Scenario::new("an EndpointSlice that somebody changes or deletes is made again", |s| Box::pin(restored(s)))
        .meddles_with_slices(),
    Scenario::new("a Service with more Pods than an EndpointSlice has several of them", |s| Box::pin(many(s))),
    Scenario::new("the EndpointSlices of a Service without a selector stay as they are", |s| Box::pin(unselected(s))),
    Scenario::new("a Service that is deleted loses its EndpointSlices", |s| Box::pin(deleted(s))),
    Scenario::new("an endpoint of a Service of Pods with host names has the host name", |s| Box::pin(hostnames(s))),
    Scenario::new("a Service asks for traffic from the same zone or the same Node", |s| Box::pin(distribution(s))),
    Scenario::new("a Pod on a Node that is not there is no endpoint", |s| Box::pin(no_node(s)))
        .may_report(&["FailedToUpdateEndpointSlices"]),
    Scenario::new("a Service asks for hints by topology", |s| Box::pin(topology(s))).alone().may_report(&[
        "TopologyAwareHintsDisabled: Insufficient Node information",
        "TopologyAwareHintsDisabled: Nodes only",
    ]),
];

const NODES: &str = "/api/v1/nodes";
const SLICES: &str = "endpointslices";
const ZONE: &str = "topology.kubernetes.io/zone";
const LAST_CHANGE: &str = "endpoints.kubernetes.io/last-change-trigger-time";

/// Creates a Node of the scenario in a zone, without a kubelet. It is called after the zone.
pub(super) async fn node(s: &Stage, zone: &str) -> Result<()> {
    let metadata = json!({"name": node_name(s, zone), "labels": {ZONE: zone}});
    s.client.create(NODES, &json!({"metadata": metadata})).await.map(drop)
}

fn node_name(s: &Stage, zone: &str) -> String {
    format!("{}-{zone}", s.ns)
}

/// Creates a Pod of `web` on a Node of the scenario.
pub(super) async fn pod(s: &Stage, name: &str, zone: &str, more: &Value) -> Result<()> {
    let mut spec = json!({"nodeName": node_name(s, zone), "containers": [{"name": "c", "image": "image:1"}]});
    for (field, value) in more.as_object().into_iter().flatten() {
        spec[field] = value.clone();
    }
    s.create("pods", &json!({"metadata": {"name": name, "labels": {"app": "web"}}, "spec": spec})).await.map(drop)
}

async fn status(s: &Stage, name: &str, status: &Value) -> Result<()> {
    let path = format!("{}/status", s.one("pods", name));
    s.client.patch(&path, PatchKind::Merge, &json!({"status": status})).await.map(drop)
}

/// Gives a Pod an address, and says whether it is ready. Each change has a later time: of two within a second, one would not count.
pub(super) async fn run(s: &Stage, name: &str, address: &str, is_ready: bool) -> Result<()> {
    let pod = s.get("pods", name).await?;
    let mut conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    let before = conditions.find(|condition| condition["type"] == "Ready");
    let before = before.and_then(|condition| condition["lastTransitionTime"].as_str()?.parse::<Timestamp>().ok());
    let time = before.map_or_else(|| s.now(), |before| before + SignedDuration::from_secs(1));
    let condition = json!({
        "type": "Ready", "status": if is_ready { "True" } else { "False" },
        "lastTransitionTime": time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
    });
    let running = json!({"phase": "Running", "podIP": address, "podIPs": [{"ip": address}], "conditions": [condition]});
    status(s, name, &running).await
}

/// Deletes a Pod as its kubelet does in the end.
pub(super) async fn end(s: &Stage, name: &str) -> Result<()> {
    s.client.delete(&s.one("pods", name), Some(&json!({"gracePeriodSeconds": 0}))).await.map(drop)
}

/// Deletes the Pods and the Nodes of the scenario.
pub(super) async fn clean_up(s: &Stage, zones: &[&str]) -> Result<()> {
    for pod in s.list("pods").await? {
        end(s, pod["metadata"]["name"].as_str().unwrap_or_default()).await?;
    }
    for zone in zones {
        delete(s, &format!("{NODES}/{}", node_name(s, zone))).await?;
    }
    Ok(())
}

/// Creates the Service `web` of the Pods with this label, for their port 8080.
pub(super) async fn service(s: &Stage, spec: &Value) -> Result<Value> {
    let mut all = json!({"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}]});
    for (field, value) in spec.as_object().into_iter().flatten() {
        all[field] = value.clone();
    }
    s.create("services", &json!({"metadata": {"name": "web"}, "spec": all})).await
}

async fn slices(s: &Stage, service: &str) -> Result<Vec<Value>> {
    let mut slices = s.list(SLICES).await?;
    slices.retain(|slice| slice["metadata"]["labels"]["kubernetes.io/service-name"] == service);
    Ok(slices)
}

fn endpoints(slices: &[Value]) -> impl Iterator<Item = &Value> {
    slices.iter().flat_map(|slice| slice["endpoints"].as_array().into_iter().flatten())
}

/// Waits until the Service `web` has these endpoints, by the names of their Pods: ready or not. Notes what its slices say.
async fn until(s: &Stage, when: &str, expected: &[(&str, bool)]) -> Result<Vec<Value>> {
    until_of(s, "web", when, expected).await
}

async fn until_of(s: &Stage, service: &str, when: &str, expected: &[(&str, bool)]) -> Result<Vec<Value>> {
    let expected: BTreeMap<String, bool> =
        expected.iter().map(|(name, is_ready)| ((*name).to_owned(), *is_ready)).collect();
    until_so(s, service, when, |slices| {
        let state = |endpoint: &Value| {
            let name = endpoint["targetRef"]["name"].as_str().unwrap_or_default().to_owned();
            (name, endpoint["conditions"]["ready"] == true)
        };
        let found: BTreeMap<String, bool> = endpoints(slices).map(state).collect();
        !slices.is_empty() && found == expected
    })
    .await
}

/// Waits until the slices of a Service are so, and notes what they say.
async fn until_so(s: &Stage, service: &str, when: &str, is_so: impl Fn(&[Value]) -> bool) -> Result<Vec<Value>> {
    let slices = eventually(PATIENCE, format!("the slices of {service}, {when}"), async || {
        let slices = slices(s, service).await?;
        ensure!(is_so(&slices), "they are {}", json!(slices));
        Ok(Some(slices))
    })
    .await?;
    s.observe(&format!("{service}, {when}"), &shown(&slices));
    Ok(slices)
}

/// What slices say, in an order that does not depend on names.
fn shown(slices: &[Value]) -> Value {
    let show = |slice: &Value| {
        let mut shown = content(slice);
        shown["prefix"] = slice["metadata"]["generateName"].clone();
        shown["has time of change"] = json!(slice["metadata"]["annotations"][LAST_CHANGE].is_string());
        shown
    };
    let mut shown = slices.iter().map(show).collect();
    in_order(&mut shown);
    shown
}

/// Sorts a list whose order is chance.
pub(super) fn in_order(list: &mut Value) {
    if let Some(elements) = list.as_array_mut() {
        elements.sort_by_cached_key(|element| {
            let mut element = element.clone();
            element.sort_all_objects();
            element.to_string()
        });
    }
}

/// What a slice says, apart from names, uids and annotations.
pub(super) fn content(slice: &Value) -> Value {
    let metadata = &slice["metadata"];
    let mut endpoints = slice["endpoints"].as_array().cloned().unwrap_or_default();
    for endpoint in &mut endpoints {
        if endpoint["targetRef"]["uid"].is_string() {
            endpoint["targetRef"]["uid"] = json!("<uid>");
        }
    }
    endpoints.sort_by_cached_key(|endpoint| endpoint["addresses"].to_string());
    let mut owners = metadata["ownerReferences"].clone();
    for owner in owners.as_array_mut().into_iter().flatten() {
        owner["uid"] = json!("<uid>");
    }
    json!({
        "labels": metadata["labels"], "owners": owners, "type": slice["addressType"], "ports": slice["ports"],
        "endpoints": endpoints,
    })
}

async fn placeholder(s: &Stage) -> Result<()> {
    service(s, &json!({})).await?;
    until(s, "at the beginning", &[]).await.map(drop)
}

async fn life(s: &Stage) -> Result<()> {
    node(s, "a").await?;
    service(s, &json!({})).await?;
    until(s, "without Pods", &[]).await?;
    pod(s, "one", "a", &json!({})).await?;
    run(s, "one", "10.200.0.1", false).await?;
    until(s, "with a Pod that is not ready", &[("one", false)]).await?;
    run(s, "one", "10.200.0.1", true).await?;
    until(s, "with a ready Pod", &[("one", true)]).await?;
    pod(s, "two", "a", &json!({})).await?;
    run(s, "two", "10.200.0.2", true).await?;
    until(s, "with two Pods", &[("one", true), ("two", true)]).await?;
    // It keeps its condition while it is being deleted.
    delete(s, &s.one("pods", "one")).await?;
    until(s, "with a Pod that is being deleted", &[("one", false), ("two", true)]).await?;
    end(s, "one").await?;
    until(s, "with one Pod again", &[("two", true)]).await?;
    status(s, "two", &json!({"phase": "Succeeded", "conditions": [{"type": "Ready", "status": "False"}]})).await?;
    until(s, "with a Pod that has ended", &[]).await?;
    clean_up(s, &["a"]).await
}

async fn published(s: &Stage) -> Result<()> {
    node(s, "a").await?;
    service(s, &json!({"publishNotReadyAddresses": true})).await?;
    until(s, "without Pods", &[]).await?;
    pod(s, "one", "a", &json!({})).await?;
    run(s, "one", "10.200.1.1", false).await?;
    until(s, "with a Pod that is not ready", &[("one", true)]).await?;
    delete(s, &s.one("pods", "one")).await?;
    until_so(s, "web", "with a Pod that is being deleted", |slices| {
        endpoints(slices).any(|endpoint| endpoint["conditions"]["terminating"] == true)
    })
    .await?;
    s.patch("services", "web", &json!({"spec": {"publishNotReadyAddresses": false}})).await?;
    until(s, "without publishing", &[("one", false)]).await?;
    clean_up(s, &["a"]).await
}

/// A Pod whose container has the port `http`.
fn container(port: u16) -> Value {
    let ports =
        json!([{"name": "http", "containerPort": port}, {"name": "dns", "containerPort": 53, "protocol": "UDP"}]);
    json!({"containers": [{"name": "c", "image": "image:1", "ports": ports}]})
}

async fn ports(s: &Stage) -> Result<()> {
    node(s, "a").await?;
    for (name, address, port) in
        [("one", "10.200.2.1", 8080), ("two", "10.200.2.2", 8080), ("three", "10.200.2.3", 9090)]
    {
        pod(s, name, "a", &container(port)).await?;
        run(s, name, address, true).await?;
    }
    pod(s, "none", "a", &json!({})).await?;
    run(s, "none", "10.200.2.4", true).await?;
    let all = [("one", true), ("two", true), ("three", true), ("none", true)];
    let named = json!([
        {"name": "web", "port": 80, "targetPort": "http", "appProtocol": "kubernetes.io/h2c"},
        {"name": "dns", "port": 53, "protocol": "UDP", "targetPort": "dns"},
        {"name": "admin", "port": 81, "targetPort": 8081},
    ]);
    service(s, &json!({"ports": named})).await?;
    until(s, "with names of ports", &all).await?;
    s.patch("services", "web", &json!({"spec": {"ports": [{"name": "web", "port": 80, "targetPort": 7070}]}})).await?;
    until_so(s, "web", "with another port", |slices| {
        slices.len() == 1 && slices[0]["ports"][0]["port"] == 7070 && endpoints(slices).count() == all.len()
    })
    .await?;
    clean_up(s, &["a"]).await
}

async fn labels(s: &Stage) -> Result<()> {
    service(s, &json!({"clusterIP": "None"})).await?;
    until(s, "at the beginning", &[]).await?;
    let reserved = "service.kubernetes.io/headless";
    for (when, labels) in [
        ("with two labels", json!({"a": "1", "b": "1", reserved: "x"})),
        ("with one label", json!({"a": "2", "b": null, reserved: null})),
        ("without labels", json!({"a": null})),
    ] {
        s.patch("services", "web", &json!({"metadata": {"labels": labels}})).await?;
        let wanted = labels["a"].clone();
        until_so(s, "web", when, |slices| {
            let labels = slices.first().map(|slice| slice["metadata"]["labels"].clone()).unwrap_or_default();
            labels["a"] == wanted && labels["b"].is_null() == (when != "with two labels")
        })
        .await?;
    }
    Ok(())
}

async fn selected(s: &Stage) -> Result<()> {
    node(s, "a").await?;
    for (name, address) in [("one", "10.200.3.1"), ("two", "10.200.3.2")] {
        pod(s, name, "a", &json!({})).await?;
        run(s, name, address, true).await?;
    }
    service(s, &json!({})).await?;
    until(s, "with both Pods", &[("one", true), ("two", true)]).await?;
    let other = json!({"metadata": {"name": "other"}, "spec": {"selector": {"app": "other"}, "ports": [{"port": 80}]}});
    s.create("services", &other).await?;
    until_of(s, "other", "without Pods", &[]).await?;
    s.patch("pods", "one", &json!({"metadata": {"labels": {"app": "other"}}})).await?;
    until(s, "without the Pod with another label", &[("two", true)]).await?;
    until_of(s, "other", "with this Pod", &[("one", true)]).await?;
    s.patch("services", "other", &json!({"spec": {"selector": {"app": "web"}}})).await?;
    until_of(s, "other", "with another selector", &[("two", true)]).await?;
    clean_up(s, &["a"]).await
}

async fn restored(s: &Stage) -> Result<()> {
    node(s, "a").await?;
    pod(s, "one", "a", &json!({})).await?;
    run(s, "one", "10.200.4.1", true).await?;
    service(s, &json!({})).await?;
    let slices = until(s, "at the beginning", &[("one", true)]).await?;
    let name = slices[0]["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    s.patch(SLICES, &name, &json!({"endpoints": [{"addresses": ["10.200.4.9"]}]})).await?;
    until(s, "after a change of endpoints", &[("one", true)]).await?;
    s.patch(SLICES, &name, &json!({"ports": [{"port": 1}]})).await?;
    until_so(s, "web", "after a change of ports", |slices| slices.len() == 1 && slices[0]["ports"][0]["port"] == 8080)
        .await?;
    delete(s, &s.one(SLICES, &name)).await?;
    until_so(s, "web", "after a deletion", |slices| {
        slices.len() == 1 && slices[0]["metadata"]["name"] != *name && endpoints(slices).count() == 1
    })
    .await?;
    clean_up(s, &["a"]).await
}

/// Pods of the Service with more than one slice.
const N_PODS: usize = 103;

async fn many(s: &Stage) -> Result<()> {
    node(s, "a").await?;
    for i in 0..N_PODS {
        let name = format!("p{i}");
        pod(s, &name, "a", &json!({})).await?;
        run(s, &name, &format!("10.201.0.{i}"), true).await?;
    }
    let sizes = |slices: &[Value]| {
        let mut sizes: Vec<usize> =
            slices.iter().map(|slice| slice["endpoints"].as_array().map_or(0, Vec::len)).collect();
        sizes.sort_unstable();
        sizes
    };
    let until = async |n: usize, when: &str| {
        let found = eventually(PATIENCE, format!("{n} endpoints"), async || {
            let slices = slices(s, "web").await?;
            let n_found = endpoints(&slices).count();
            ensure!(n_found == n, "there are {n_found}");
            Ok(Some(sizes(&slices)))
        })
        .await?;
        s.observe(when, &json!(found));
        anyhow::Ok(())
    };
    // All of them are there when the Service comes, so that one run sees them.
    service(s, &json!({})).await?;
    until(N_PODS, "slices of all Pods").await?;
    clean_up(s, &["a"]).await?;
    until(0, "slices without Pods").await
}

async fn unselected(s: &Stage) -> Result<()> {
    node(s, "a").await?;
    pod(s, "one", "a", &json!({})).await?;
    run(s, "one", "10.200.5.1", true).await?;
    service(s, &json!({})).await?;
    until(s, "with a selector", &[("one", true)]).await?;
    s.patch("services", "web", &json!({"spec": {"selector": null}})).await?;
    // A Service that comes later has its slice when the first one has been looked at.
    let other = json!({"metadata": {"name": "other"}, "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}});
    s.create("services", &other).await?;
    until_of(s, "other", "later", &[("one", true)]).await?;
    end(s, "one").await?;
    until_of(s, "other", "without the Pod", &[]).await?;
    until(s, "without a selector", &[("one", true)]).await?;
    clean_up(s, &["a"]).await
}

async fn deleted(s: &Stage) -> Result<()> {
    service(s, &json!({})).await?;
    until(s, "at the beginning", &[]).await?;
    delete(s, &s.one("services", "web")).await?;
    until_so(s, "web", "in the end", <[Value]>::is_empty).await.map(drop)
}

async fn hostnames(s: &Stage) -> Result<()> {
    node(s, "a").await?;
    for (name, address, more) in [
        ("one", "10.200.6.1", json!({"hostname": "first", "subdomain": "web"})),
        ("two", "10.200.6.2", json!({"hostname": "second", "subdomain": "other"})),
        ("three", "10.200.6.3", json!({"subdomain": "web"})),
    ] {
        pod(s, name, "a", &more).await?;
        run(s, name, address, true).await?;
    }
    service(s, &json!({"clusterIP": "None", "ports": null})).await?;
    until(s, "at the beginning", &[("one", true), ("two", true), ("three", true)]).await?;
    clean_up(s, &["a"]).await
}

async fn distribution(s: &Stage) -> Result<()> {
    let zones = ["a", "b"];
    for (i, zone) in zones.iter().enumerate() {
        node(s, zone).await?;
        pod(s, &format!("p{i}"), zone, &json!({})).await?;
        run(s, &format!("p{i}"), &format!("10.200.7.{}", i + 1), true).await?;
    }
    pod(s, "waiting", "b", &json!({})).await?;
    run(s, "waiting", "10.200.7.9", false).await?;
    let all = [("p0", true), ("p1", true), ("waiting", false)];
    service(s, &json!({"trafficDistribution": "PreferClose"})).await?;
    until(s, "PreferClose", &all).await?;
    for (distribution, n_zones, n_nodes) in [("PreferSameNode", 2, 2), ("PreferSameZone", 2, 0), ("", 0, 0)] {
        let value = if distribution.is_empty() { Value::Null } else { json!(distribution) };
        s.patch("services", "web", &json!({"spec": {"trafficDistribution": value}})).await?;
        until_so(s, "web", &format!("distribution {distribution:?}"), |slices| {
            let n = |kind: &str| endpoints(slices).filter(|one| one["hints"][kind].is_array()).count();
            (n("forZones"), n("forNodes")) == (n_zones, n_nodes)
        })
        .await?;
    }
    clean_up(s, &zones).await
}

async fn no_node(s: &Stage) -> Result<()> {
    node(s, "a").await?;
    pod(s, "one", "a", &json!({})).await?;
    run(s, "one", "10.200.8.1", true).await?;
    pod(s, "two", "a", &json!({"nodeName": "no-node"})).await?;
    run(s, "two", "10.200.8.2", true).await?;
    service(s, &json!({})).await?;
    until(s, "with a Node that is missing", &[("one", true)]).await?;
    s.patch("services", "web", &json!({"spec": {"publishNotReadyAddresses": true}})).await?;
    until(s, "published", &[("one", true), ("two", true)]).await?;
    clean_up(s, &["a"]).await
}

/// How many endpoints have a hint for each zone.
fn hints(slices: &[Value]) -> BTreeMap<String, usize> {
    let mut hints = BTreeMap::new();
    for endpoint in endpoints(slices) {
        for zone in endpoint["hints"]["forZones"].as_array().into_iter().flatten() {
            *hints.entry(zone["name"].as_str().unwrap_or_default().to_owned()).or_default() += 1;
        }
    }
    hints
}

async fn topology(s: &Stage) -> Result<()> {
    let zones = ["a", "b", "c"];
    let simulated: Vec<String> = s
        .client
        .list(NODES)
        .await?
        .iter()
        .filter_map(|node| Some(node["metadata"]["name"].as_str()?.to_owned()))
        .filter(|name| name.starts_with("sim-node-"))
        .collect();
    ensure!(simulated.len() == zones.len(), "there are {} simulated Nodes", simulated.len());
    let in_zone = async |node: &String, zone: Value| {
        let patch = json!({"metadata": {"labels": {ZONE: zone}}});
        s.client.patch(&format!("{NODES}/{node}"), PatchKind::Merge, &patch).await.map(drop)
    };
    for (node, zone) in simulated.iter().zip(zones) {
        in_zone(node, json!(zone)).await?;
    }
    // Four Pods in the first zone, one in each of the others.
    for (i, zone) in ["a", "a", "a", "a", "b", "c"].iter().enumerate() {
        if i == 0 || i > 3 {
            node(s, zone).await?;
        }
        pod(s, &format!("p{i}"), zone, &json!({})).await?;
        run(s, &format!("p{i}"), &format!("10.200.9.{}", i + 1), true).await?;
    }
    service(s, &json!({})).await?;
    let annotate = async |value: Value, touched: usize| {
        let annotations =
            json!({"service.kubernetes.io/topology-mode": value, "example.com/touched": touched.to_string()});
        s.patch("services", "web", &json!({"metadata": {"annotations": annotations}})).await
    };
    let mut n_tries = 0;
    let found = eventually(PATIENCE, "hints for all zones", async || {
        // A Service is not looked at again when Nodes have zones at last.
        n_tries += 1;
        annotate(json!("Auto"), n_tries).await?;
        let found = hints(&slices(s, "web").await?);
        ensure!(found.len() == zones.len(), "there are {found:?}");
        Ok(Some(found))
    })
    .await?;
    s.observe("hints", &found.into_iter().map(|(zone, n)| (zone, json!(n))).collect::<Map<_, _>>().into());
    annotate(Value::Null, 0).await?;
    eventually(PATIENCE, "no hints", async || {
        let found = hints(&slices(s, "web").await?);
        ensure!(found.is_empty(), "there are {found:?}");
        Ok(Some(()))
    })
    .await?;
    for node in &simulated {
        in_zone(node, Value::Null).await?;
    }
    clean_up(s, &zones).await
}
