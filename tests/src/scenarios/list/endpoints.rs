//! Endpoints of Services, and the EndpointSlices to which those of Services without a selector are copied.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::endpoint_slices::{clean_up, content, end, in_order, node, pod, run, service};
use super::{Group, delete, until_gone};
use crate::scenarios::Scenario;
use crate::scenarios::stage::Stage;
use crate::{PATIENCE, eventually};

/// What these scenarios are about.
pub(super) const GROUPS: &[Group] =
    &[(&["endpoints-controller"], &[ENDPOINTS]), (&["endpointslice-mirroring-controller"], &[COPIES])];

const ENDPOINTS: &[Scenario] = &[
    Scenario::new("a Service without Pods has Endpoints without subsets", |s| Box::pin(nothing(s))),
    Scenario::new("the addresses of Pods come into Endpoints, become ready, and go", |s| Box::pin(life(s))),
    Scenario::new(
        "Endpoints of a Service that publishes addresses of Pods that are not ready have them as ready",
        |s| Box::pin(published(s)),
    ),
    Scenario::new("Endpoints have a subset for each set of ports", |s| Box::pin(subsets(s))),
    Scenario::new("Endpoints have the labels of their Service", |s| Box::pin(labels(s))),
    Scenario::new("Endpoints of a headless Service have host names", |s| Box::pin(hostnames(s))),
    Scenario::new("Endpoints that somebody deletes are made again", |s| Box::pin(restored(s))),
    Scenario::new("Endpoints that somebody changes stay so until a Pod changes", |s| Box::pin(changed(s))),
    Scenario::new("Endpoints have a thousand addresses at most", |s| Box::pin(crowd(s)))
        .only_real("a thousand Pods take as long there as a hundred other scenarios"),
    Scenario::new("Endpoints of a Service without a selector stay as they are", |s| Box::pin(unselected(s))),
    Scenario::new("Endpoints go with their Service", |s| Box::pin(deleted(s))),
];

const COPIES: &[Scenario] = &[
    Scenario::new("Endpoints of a Service without a selector are copied to EndpointSlices", |s| Box::pin(copied(s))),
    Scenario::new("a copy of Endpoints has their labels and annotations", |s| Box::pin(copied_metadata(s))),
    Scenario::new("Endpoints that are not to be copied have no EndpointSlices", |s| Box::pin(not_copied(s))),
    Scenario::new("addresses of Endpoints that are none, or too many, are reported", |s| Box::pin(reported(s))),
    Scenario::new("a copy of Endpoints that somebody changes or deletes is made again", |s| Box::pin(copied_again(s))),
];

const PLURAL: &str = "endpoints";
const SLICES: &str = "endpointslices";
const LAST_CHANGE: &str = "endpoints.kubernetes.io/last-change-trigger-time";

/// Waits until the Endpoints `web` have these addresses, by the names of their Pods: ready or not. Notes what they say.
async fn until(s: &Stage, when: &str, expected: &[(&str, bool)]) -> Result<()> {
    let expected: BTreeMap<String, bool> =
        expected.iter().map(|(name, is_ready)| ((*name).to_owned(), *is_ready)).collect();
    until_so(s, when, |endpoints| {
        let mut found = BTreeMap::new();
        for subset in endpoints["subsets"].as_array().into_iter().flatten() {
            for (field, is_ready) in [("addresses", true), ("notReadyAddresses", false)] {
                for address in subset[field].as_array().into_iter().flatten() {
                    let name = address["targetRef"]["name"].as_str().unwrap_or_default();
                    found.insert(name.to_owned(), is_ready);
                }
            }
        }
        found == expected
    })
    .await
}

/// Waits until the Endpoints `web` are so, and notes what they say.
async fn until_so(s: &Stage, when: &str, is_so: impl Fn(&Value) -> bool) -> Result<()> {
    let endpoints = eventually(PATIENCE, format!("the Endpoints of web, {when}"), async || {
        let endpoints = s.get(PLURAL, "web").await?;
        ensure!(is_so(&endpoints), "they are {endpoints}");
        Ok(Some(endpoints))
    })
    .await?;
    s.observe(when, &shown(&endpoints));
    Ok(())
}

fn shown(endpoints: &Value) -> Value {
    let metadata = &endpoints["metadata"];
    let mut subsets = endpoints["subsets"].clone();
    for subset in subsets.as_array_mut().into_iter().flatten() {
        for field in ["addresses", "notReadyAddresses"] {
            for address in subset[field].as_array_mut().into_iter().flatten() {
                if address["targetRef"]["uid"].is_string() {
                    address["targetRef"]["uid"] = json!("<uid>");
                }
            }
        }
        if let Some(fields) = subset.as_object_mut() {
            fields.retain(|_, value| !value.is_null());
        }
    }
    // kube-controller-manager sorts subsets by hashes, which depend on the uids.
    in_order(&mut subsets);
    let mut annotations = metadata["annotations"].clone();
    if annotations[LAST_CHANGE].is_string() {
        annotations[LAST_CHANGE] = json!("<time>");
    }
    json!({"labels": metadata["labels"], "annotations": annotations, "subsets": subsets})
}

async fn nothing(s: &Stage) -> Result<()> {
    service(s, &json!({})).await?;
    until(s, "at the beginning", &[]).await
}

async fn life(s: &Stage) -> Result<()> {
    node(s, "a").await?;
    service(s, &json!({})).await?;
    until(s, "without Pods", &[]).await?;
    pod(s, "one", "a", &json!({})).await?;
    run(s, "one", "10.210.0.1", false).await?;
    until(s, "with a Pod that is not ready", &[("one", false)]).await?;
    run(s, "one", "10.210.0.1", true).await?;
    until(s, "with a ready Pod", &[("one", true)]).await?;
    pod(s, "two", "a", &json!({})).await?;
    run(s, "two", "10.210.0.2", false).await?;
    until(s, "with two Pods", &[("one", true), ("two", false)]).await?;
    delete(s, &s.one("pods", "one")).await?;
    until(s, "with a Pod that is being deleted", &[("two", false)]).await?;
    end(s, "two").await?;
    until(s, "in the end", &[]).await?;
    clean_up(s, &["a"]).await
}

async fn published(s: &Stage) -> Result<()> {
    node(s, "a").await?;
    service(s, &json!({"publishNotReadyAddresses": true})).await?;
    until(s, "without Pods", &[]).await?;
    pod(s, "one", "a", &json!({})).await?;
    run(s, "one", "10.210.1.1", false).await?;
    until(s, "with a Pod that is not ready", &[("one", true)]).await?;
    s.patch("services", "web", &json!({"spec": {"publishNotReadyAddresses": false}})).await?;
    until(s, "without publishing", &[("one", false)]).await?;
    clean_up(s, &["a"]).await
}

async fn subsets(s: &Stage) -> Result<()> {
    node(s, "a").await?;
    for (name, address, port) in
        [("one", "10.210.2.1", 8080), ("two", "10.210.2.2", 8080), ("three", "10.210.2.3", 9090)]
    {
        let ports =
            json!([{"name": "http", "containerPort": port}, {"name": "dns", "containerPort": 53, "protocol": "UDP"}]);
        pod(s, name, "a", &json!({"containers": [{"name": "c", "image": "image:1", "ports": ports}]})).await?;
        run(s, name, address, name != "two").await?;
    }
    pod(s, "none", "a", &json!({})).await?;
    run(s, "none", "10.210.2.4", true).await?;
    let named = json!([
        {"name": "web", "port": 80, "targetPort": "http", "appProtocol": "kubernetes.io/h2c"},
        {"name": "dns", "port": 53, "protocol": "UDP", "targetPort": "dns"},
    ]);
    service(s, &json!({"ports": named})).await?;
    until(s, "with names of ports", &[("one", true), ("two", false), ("three", true)]).await?;
    s.patch("services", "web", &json!({"spec": {"ports": [{"name": "web", "port": 80, "targetPort": 7070}]}})).await?;
    until(s, "with another port", &[("one", true), ("two", false), ("three", true), ("none", true)]).await?;
    clean_up(s, &["a"]).await
}

async fn labels(s: &Stage) -> Result<()> {
    service(s, &json!({"clusterIP": "None"})).await?;
    until(s, "at the beginning", &[]).await?;
    for (when, labels) in
        [("with two labels", json!({"a": "1", "b": "1"})), ("with one label", json!({"a": "2", "b": null}))]
    {
        s.patch("services", "web", &json!({"metadata": {"labels": labels}})).await?;
        let wanted = labels["a"].clone();
        until_so(s, when, |endpoints| endpoints["metadata"]["labels"]["a"] == wanted).await?;
    }
    Ok(())
}

async fn hostnames(s: &Stage) -> Result<()> {
    node(s, "a").await?;
    for (name, address, more) in [
        ("one", "10.210.3.1", json!({"hostname": "first", "subdomain": "web"})),
        ("two", "10.210.3.2", json!({"hostname": "second", "subdomain": "other"})),
    ] {
        pod(s, name, "a", &more).await?;
        run(s, name, address, true).await?;
    }
    service(s, &json!({"clusterIP": "None", "ports": null})).await?;
    until(s, "at the beginning", &[("one", true), ("two", true)]).await?;
    clean_up(s, &["a"]).await
}

async fn restored(s: &Stage) -> Result<()> {
    node(s, "a").await?;
    pod(s, "one", "a", &json!({})).await?;
    run(s, "one", "10.210.4.1", true).await?;
    service(s, &json!({})).await?;
    until(s, "at the beginning", &[("one", true)]).await?;
    delete(s, &s.one(PLURAL, "web")).await?;
    until(s, "after a deletion", &[("one", true)]).await?;
    clean_up(s, &["a"]).await
}

async fn changed(s: &Stage) -> Result<()> {
    node(s, "a").await?;
    pod(s, "one", "a", &json!({})).await?;
    run(s, "one", "10.210.5.1", true).await?;
    service(s, &json!({})).await?;
    until(s, "at the beginning", &[("one", true)]).await?;
    let other = json!([{"addresses": [{"ip": "10.210.5.9"}], "ports": [{"port": 1}]}]);
    let patch = json!({"metadata": {"annotations": {"example.com/a": "b"}}, "subsets": other});
    s.patch(PLURAL, "web", &patch).await?;
    run(s, "one", "10.210.5.1", false).await?;
    until(s, "after a change of the Pod", &[("one", false)]).await?;
    clean_up(s, &["a"]).await
}

/// More Pods than Endpoints have addresses.
const N_PODS: usize = 1_003;

async fn crowd(s: &Stage) -> Result<()> {
    node(s, "a").await?;
    for i in 0..N_PODS {
        let name = format!("p{i}");
        pod(s, &name, "a", &json!({})).await?;
        // The last ones are not ready.
        run(s, &name, &format!("10.211.{}.{}", i / 250, i % 250), i < 998).await?;
    }
    service(s, &json!({})).await?;
    let until = async |n_ready: usize, n_not_ready: usize, when: &str| {
        let found = eventually(PATIENCE, format!("{n_ready} ready addresses, {n_not_ready} others"), async || {
            let endpoints = s.get(PLURAL, "web").await?;
            let n = |field: &str| endpoints["subsets"][0][field].as_array().map_or(0, Vec::len);
            ensure!(
                (n("addresses"), n("notReadyAddresses")) == (n_ready, n_not_ready),
                "there are {} and {}",
                n("addresses"),
                n("notReadyAddresses")
            );
            Ok(Some(endpoints["metadata"]["annotations"]["endpoints.kubernetes.io/over-capacity"].clone()))
        })
        .await?;
        s.observe(when, &found);
        anyhow::Ok(())
    };
    until(998, 2, "beyond the capacity").await?;
    for i in 0..3 {
        end(s, &format!("p{i}")).await?;
    }
    until(995, 5, "within the capacity").await?;
    // Otherwise each Pod that goes is a write of a thousand addresses.
    delete(s, &s.one("services", "web")).await?;
    clean_up(s, &["a"]).await
}

async fn unselected(s: &Stage) -> Result<()> {
    node(s, "a").await?;
    pod(s, "one", "a", &json!({})).await?;
    run(s, "one", "10.210.6.1", true).await?;
    service(s, &json!({})).await?;
    until(s, "with a selector", &[("one", true)]).await?;
    s.patch("services", "web", &json!({"spec": {"selector": null}})).await?;
    let other = json!({"metadata": {"name": "other"}, "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}});
    s.create("services", &other).await?;
    let has = async |n: usize| {
        s.until(PLURAL, "other", &format!("have {n} addresses"), |endpoints| {
            endpoints["subsets"][0]["addresses"].as_array().map_or(0, Vec::len) == n
        })
        .await
    };
    has(1).await?;
    end(s, "one").await?;
    has(0).await?;
    until(s, "without a selector", &[("one", true)]).await?;
    clean_up(s, &["a"]).await
}

async fn deleted(s: &Stage) -> Result<()> {
    service(s, &json!({})).await?;
    until(s, "at the beginning", &[]).await?;
    delete(s, &s.one("services", "web")).await?;
    until_gone(s, &s.one(PLURAL, "web")).await
}

/// Creates the Service `web` without a selector, and Endpoints.
async fn endpoints(s: &Stage, metadata: &Value, subsets: &Value) -> Result<()> {
    let ports = json!([{"port": 80}]);
    s.create("services", &json!({"metadata": {"name": "web"}, "spec": {"clusterIP": "None", "ports": ports}})).await?;
    let mut object = json!({"metadata": metadata, "subsets": subsets});
    object["metadata"]["name"] = json!("web");
    s.create(PLURAL, &object).await.map(drop)
}

/// Waits until the copies have so many endpoints, and notes what they say.
async fn until_copied(s: &Stage, when: &str, n: usize) -> Result<Vec<Value>> {
    until_copies(s, when, |slices| n_endpoints(slices) == n).await
}

fn n_endpoints(slices: &[Value]) -> usize {
    slices.iter().map(|slice| slice["endpoints"].as_array().map_or(0, Vec::len)).sum()
}

async fn until_copies(s: &Stage, when: &str, is_so: impl Fn(&[Value]) -> bool) -> Result<Vec<Value>> {
    let slices = eventually(PATIENCE, format!("copies, {when}"), async || {
        let slices = s.list(SLICES).await?;
        ensure!(is_so(&slices), "they are {}", json!(slices));
        Ok(Some(slices))
    })
    .await?;
    let mut copies = slices.iter().map(copy).collect();
    in_order(&mut copies);
    s.observe(when, &copies);
    Ok(slices)
}

fn copy(slice: &Value) -> Value {
    let mut copy = content(slice);
    copy["annotations"] = slice["metadata"]["annotations"].clone();
    copy
}

async fn copied(s: &Stage) -> Result<()> {
    let target = json!({"kind": "Pod", "namespace": "other", "name": "p", "uid": "u"});
    let subsets = json!([
        {
            "addresses": [
                {"ip": "10.220.0.1", "hostname": "first", "nodeName": "n"}, {"ip": "10.220.0.2", "targetRef": target},
                {"ip": "2001:db8::1"},
            ],
            "notReadyAddresses": [{"ip": "10.220.0.3"}],
            "ports": [{"name": "web", "port": 80, "appProtocol": "http"}, {"name": "dns", "port": 53, "protocol": "UDP"}],
        },
        {"addresses": [{"ip": "10.220.0.1"}], "ports": [{"name": "admin", "port": 81}]},
    ]);
    endpoints(s, &json!({}), &subsets).await?;
    until_copied(s, "of two subsets", 5).await?;
    s.patch(PLURAL, "web", &json!({"subsets": [{"addresses": [{"ip": "10.220.0.9"}], "ports": [{"port": 82}]}]}))
        .await?;
    until_copied(s, "of other subsets", 1).await?;
    s.patch(PLURAL, "web", &json!({"subsets": null})).await?;
    until_copies(s, "without subsets", <[Value]>::is_empty).await?;
    s.patch(PLURAL, "web", &json!({"subsets": [{"addresses": [{"ip": "10.220.0.9"}], "ports": [{"port": 82}]}]}))
        .await?;
    until_copied(s, "of a subset again", 1).await?;
    delete(s, &s.one(PLURAL, "web")).await?;
    until_copies(s, "of Endpoints that are gone", <[Value]>::is_empty).await.map(drop)
}

fn one_address() -> Value {
    json!([{"addresses": [{"ip": "10.220.1.1"}], "ports": [{"port": 80}]}])
}

async fn copied_metadata(s: &Stage) -> Result<()> {
    let annotations = json!({
        "example.com/a": "b", "kubectl.kubernetes.io/last-applied-configuration": "{}", LAST_CHANGE: "2026-01-01T00:00:00Z",
    });
    let labels = json!({"a": "1", "endpointslice.kubernetes.io/skip-mirror": "false"});
    endpoints(s, &json!({"labels": labels, "annotations": annotations}), &one_address()).await?;
    until_copied(s, "at the beginning", 1).await?;
    s.patch(PLURAL, "web", &json!({"metadata": {"labels": {"a": "2"}}})).await?;
    until_copies(s, "with another label", |slices| slices.len() == 1 && slices[0]["metadata"]["labels"]["a"] == "2")
        .await?;
    s.patch(PLURAL, "web", &json!({"metadata": {"annotations": {"example.com/a": null}}})).await?;
    until_copies(s, "without the annotation", |slices| {
        slices.len() == 1 && slices[0]["metadata"]["annotations"]["example.com/a"].is_null()
    })
    .await
    .map(drop)
}

async fn not_copied(s: &Stage) -> Result<()> {
    endpoints(s, &json!({}), &one_address()).await?;
    let skip = |value: Value| json!({"metadata": {"labels": {"endpointslice.kubernetes.io/skip-mirror": value}}});
    let lead = |value: Value| json!({"metadata": {"annotations": {"control-plane.alpha.kubernetes.io/leader": value}}});
    until_copied(s, "at the beginning", 1).await?;
    s.patch(PLURAL, "web", &skip(json!("true"))).await?;
    until_copies(s, "with the label", <[Value]>::is_empty).await?;
    s.patch(PLURAL, "web", &skip(Value::Null)).await?;
    until_copied(s, "without the label", 1).await?;
    s.patch(PLURAL, "web", &lead(json!("{}"))).await?;
    until_copies(s, "of a leader election", <[Value]>::is_empty).await?;
    s.patch(PLURAL, "web", &lead(Value::Null)).await?;
    until_copied(s, "without a leader election", 1).await?;
    delete(s, &s.one("services", "web")).await?;
    until_copies(s, "without a Service", <[Value]>::is_empty).await.map(drop)
}

async fn reported(s: &Stage) -> Result<()> {
    let addresses: Vec<Value> = (0..1_002).map(|i| json!({"ip": format!("10.221.{}.{}", i / 250, i % 250)})).collect();
    endpoints(s, &json!({}), &json!([{"addresses": addresses, "ports": [{"port": 80}]}])).await?;
    let sizes = eventually(PATIENCE, "copies of a thousand addresses", async || {
        let slices = s.list(SLICES).await?;
        ensure!(n_endpoints(&slices) == 1_000, "they have {} endpoints", n_endpoints(&slices));
        Ok(Some(slices.len()))
    })
    .await?;
    s.observe("copies", &json!(sizes));
    s.patch(PLURAL, "web", &json!({"subsets": null})).await?;
    until_copies(s, "without subsets", <[Value]>::is_empty).await.map(drop)
}

async fn copied_again(s: &Stage) -> Result<()> {
    endpoints(s, &json!({}), &one_address()).await?;
    let slices = until_copied(s, "at the beginning", 1).await?;
    let name = slices[0]["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let other = json!({"endpoints": [{"addresses": ["10.220.2.1"]}, {"addresses": ["10.220.2.2"]}]});
    s.patch(SLICES, &name, &other).await?;
    until_copied(s, "after a change", 1).await?;
    delete(s, &s.one(SLICES, &name)).await?;
    until_copies(s, "after a deletion", |slices| slices.len() == 1 && slices[0]["metadata"]["name"] != *name)
        .await
        .map(drop)
}
