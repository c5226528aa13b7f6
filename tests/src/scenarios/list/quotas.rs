//! Quotas: what is counted, and what is refused.

use anyhow::{Result, bail, ensure};
use futures::future::join_all;
use serde_json::{Map, Value, json};

use super::Group;
use crate::api::PatchKind;
use crate::scenarios::Scenario;
use crate::scenarios::stage::{Stage, pod};
use crate::{Failure, PATIENCE, eventually};

/// What these scenarios are about.
pub(super) const GROUPS: &[Group] = &[(&["resourcequota-controller"], &[SCENARIOS])];

const SCENARIOS: &[Scenario] = &[
    Scenario::new("a new quota counts what there is", |s| Box::pin(counts(s))),
    Scenario::new("a quota counts Pods until they end or go", |s| Box::pin(pods(s))).meddles_with_pods(),
    Scenario::new("a quota counts the Pods of its scopes", |s| Box::pin(scopes(s))),
    Scenario::new("a quota counts a Service as what it becomes", |s| Box::pin(services(s))),
    Scenario::new("a quota counts claims by class, and with what they were promised", |s| Box::pin(claims(s))),
    Scenario::new("a quota counts devices by class", |s| Box::pin(devices(s))),
    Scenario::new("a quota counts objects of a custom kind", |s| Box::pin(custom(s))),
    Scenario::new("a quota that changes is counted anew", |s| Box::pin(changed(s))),
    Scenario::new("a quota keeps what nobody can count", |s| Box::pin(kept(s))),
    Scenario::new("a quota refuses what is above it, and says why", |s| Box::pin(refuses(s))),
    Scenario::new("a quota refuses an update that would use more", |s| Box::pin(updates(s))),
    Scenario::new("many creators at once do not exceed a quota", |s| Box::pin(creators(s))),
    Scenario::new("the room of a deleted object is given to the next one", |s| Box::pin(next(s))),
];

async fn quota(s: &Stage, name: &str, spec: Value) -> Result<()> {
    s.create("resourcequotas", &json!({"metadata": {"name": name}, "spec": spec})).await?;
    Ok(())
}

/// Waits until this is used of a quota, and notes its status.
async fn until_used(s: &Stage, name: &str, used: Value) -> Result<()> {
    s.until("resourcequotas", name, &format!("have used {used}"), |quota| {
        quota["status"]["used"] == used && quota["status"]["hard"] == quota["spec"]["hard"]
    })
    .await?;
    let when = format!("{name} with {used}").replace(&s.ns, "<namespace>");
    s.observe(&when, &s.get("resourcequotas", name).await?["status"]);
    Ok(())
}

fn requesting(name: &str, requests: Value) -> Value {
    let mut pod = pod(name, "none");
    pod["spec"]["containers"][0]["resources"] = json!({"requests": requests});
    pod
}

/// Waits until the API server would refuse an object, and notes why. Its admission reads quotas from a cache.
async fn until_refused(s: &Stage, when: &str, plural: &str, object: &Value) -> Result<()> {
    let try_only = format!("{}?dryRun=All", s.all(plural));
    let why = eventually(PATIENCE, format!("{plural} to be refused"), async || {
        let tried = s.client.create(&try_only, object).await;
        Ok(tried.err().and_then(|error| error.downcast_ref::<Failure>().cloned()))
    })
    .await?;
    s.observe(when, &json!([why.code, why.reason, why.message]));
    Ok(())
}

/// Waits until the API server would take an object.
async fn until_allowed(s: &Stage, plural: &str, object: &Value) -> Result<()> {
    let try_only = format!("{}?dryRun=All", s.all(plural));
    eventually(PATIENCE, format!("{plural} to be allowed"), async || {
        Ok(s.client.create(&try_only, object).await.ok().map(drop))
    })
    .await
}

async fn delete(s: &Stage, plural: &str, name: &str) -> Result<()> {
    s.delete(plural, name, "Background").await?;
    s.until_gone(plural, name).await
}

async fn counts(s: &Stage) -> Result<()> {
    for name in ["a", "b"] {
        s.create("secrets", &json!({"metadata": {"name": name}})).await?;
        let mut pod = requesting(name, json!({"cpu": "100m", "memory": "64Mi", "example.com/gpu": "1"}));
        pod["spec"]["containers"][0]["resources"]["limits"] = json!({"example.com/gpu": "1"});
        s.create("pods", &pod).await?;
    }
    s.create("services", &json!({"metadata": {"name": "web"}, "spec": {"ports": [{"port": 80}]}})).await?;
    let hard = json!({
        "count/pods": "9", "count/secrets": "9", "cpu": "2", "pods": "9", "requests.example.com/gpu": "9", "requests.memory": "1Gi",
        "secrets": "9", "services": "9", "services.nodeports": "9",
    });
    quota(s, "all", json!({ "hard": hard })).await?;
    let used = json!({
        "count/pods": "2", "count/secrets": "2", "cpu": "200m", "pods": "2", "requests.example.com/gpu": "2",
        "requests.memory": "128Mi", "secrets": "2", "services": "1", "services.nodeports": "0",
    });
    until_used(s, "all", used).await
}

async fn pods(s: &Stage) -> Result<()> {
    for name in ["a", "b", "c"] {
        s.create("pods", &requesting(name, json!({"cpu": "100m"}))).await?;
    }
    quota(s, "q", json!({"hard": {"count/pods": "9", "pods": "9", "requests.cpu": "2"}})).await?;
    until_used(s, "q", json!({"count/pods": "3", "pods": "3", "requests.cpu": "300m"})).await?;
    let ended = json!({"status": {"phase": "Failed"}});
    s.client.patch(&format!("{}/status", s.one("pods", "a")), PatchKind::Merge, &ended).await?;
    until_used(s, "q", json!({"count/pods": "3", "pods": "2", "requests.cpu": "200m"})).await?;
    delete(s, "pods", "b").await?;
    until_used(s, "q", json!({"count/pods": "2", "pods": "1", "requests.cpu": "100m"})).await?;
    delete(s, "pods", "a").await?;
    until_used(s, "q", json!({"count/pods": "1", "pods": "1", "requests.cpu": "100m"})).await
}

async fn scopes(s: &Stage) -> Result<()> {
    let ends = |mut pod: Value| {
        pod["spec"]["activeDeadlineSeconds"] = json!(36_000);
        pod
    };
    s.create("pods", &pod("plain", "none")).await?;
    s.create("pods", &ends(pod("ends", "none"))).await?;
    s.create("pods", &requesting("asks", json!({"cpu": "100m"}))).await?;
    s.create("pods", &ends(requesting("asks-and-ends", json!({"cpu": "200m"})))).await?;
    quota(s, "best-effort", json!({"hard": {"pods": "9"}, "scopes": ["BestEffort"]})).await?;
    let cpu = json!({"pods": "9", "requests.cpu": "9"});
    quota(s, "ends", json!({"hard": cpu, "scopes": ["Terminating"]})).await?;
    quota(s, "both", json!({"hard": cpu, "scopes": ["NotBestEffort", "NotTerminating"]})).await?;
    let selector = json!({"matchExpressions": [{"scopeName": "PriorityClass", "operator": "DoesNotExist"}]});
    quota(s, "no-class", json!({"hard": cpu, "scopeSelector": selector})).await?;
    until_used(s, "best-effort", json!({"pods": "2"})).await?;
    until_used(s, "ends", json!({"pods": "2", "requests.cpu": "200m"})).await?;
    until_used(s, "both", json!({"pods": "1", "requests.cpu": "100m"})).await?;
    until_used(s, "no-class", json!({"pods": "4", "requests.cpu": "300m"})).await?;
    // It leaves a scope, and comes into another one.
    s.patch("pods", "asks", &json!({"spec": {"activeDeadlineSeconds": 36_000}})).await?;
    until_used(s, "both", json!({"pods": "0", "requests.cpu": "0"})).await?;
    until_used(s, "ends", json!({"pods": "3", "requests.cpu": "300m"})).await
}

async fn services(s: &Stage) -> Result<()> {
    let ports = json!([{"name": "a", "port": 80}, {"name": "b", "port": 81}]);
    s.create("services", &json!({"metadata": {"name": "web"}, "spec": {"ports": ports}})).await?;
    quota(s, "q", json!({"hard": {"services": "9", "services.loadbalancers": "9", "services.nodeports": "9"}})).await?;
    let used = |balancers: &str, ports: &str| json!({"services": "1", "services.loadbalancers": balancers, "services.nodeports": ports});
    until_used(s, "q", used("0", "0")).await?;
    s.patch("services", "web", &json!({"spec": {"type": "NodePort"}})).await?;
    until_used(s, "q", used("0", "2")).await?;
    s.patch("services", "web", &json!({"spec": {"type": "LoadBalancer"}})).await?;
    until_used(s, "q", used("1", "2")).await?;
    s.patch("services", "web", &json!({"spec": {"type": "ClusterIP", "ports": ports}})).await?;
    until_used(s, "q", used("0", "0")).await
}

async fn claims(s: &Stage) -> Result<()> {
    let claim = |name: &str, class: &str| {
        let resources = json!({"requests": {"storage": "1Gi"}});
        json!({"metadata": {"name": name}, "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": class, "resources": resources}})
    };
    const CLAIMS: &str = "persistentvolumeclaims";
    s.create(CLAIMS, &claim("a", "gold")).await?;
    s.create(CLAIMS, &claim("b", "silver")).await?;
    let gold = "gold.storageclass.storage.k8s.io/requests.storage";
    quota(s, "q", json!({"hard": {CLAIMS: "9", "requests.storage": "9Gi", gold: "9Gi"}})).await?;
    let used = |all: &str, of_gold: &str| json!({CLAIMS: "2", "requests.storage": all, gold: of_gold});
    until_used(s, "q", used("2Gi", "1Gi")).await?;
    let promised = json!({"status": {"allocatedResources": {"storage": "3Gi"}}});
    s.client.patch(&format!("{}/status", s.one(CLAIMS, "a")), PatchKind::Merge, &promised).await?;
    until_used(s, "q", used("4Gi", "3Gi")).await
}

async fn devices(s: &Stage) -> Result<()> {
    let path = format!("/apis/resource.k8s.io/v1/namespaces/{}/resourceclaims", s.ns);
    let claim =
        |name: &str, request: Value| json!({"metadata": {"name": name}, "spec": {"devices": {"requests": [request]}}});
    let two = json!({"name": "r", "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 2}});
    let all = json!({"name": "r", "exactly": {"deviceClassName": "gpu", "allocationMode": "All"}});
    let one =
        |n: u32| json!({"name": format!("n{n}"), "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": n});
    let first = json!({"name": "r", "firstAvailable": [one(1), one(4)]});
    for (name, request) in [("two", two), ("all", all), ("first", first)] {
        s.client.create(&path, &claim(name, request)).await?;
    }
    let (count, devices) = ("count/resourceclaims.resource.k8s.io", "gpu.deviceclass.resource.k8s.io/devices");
    quota(s, "q", json!({"hard": {count: "9", devices: "99"}})).await?;
    until_used(s, "q", json!({count: "3", devices: "38"})).await?;
    s.client.delete(&format!("{path}/all"), None).await?;
    until_used(s, "q", json!({count: "2", devices: "6"})).await
}

async fn custom(s: &Stage) -> Result<()> {
    let group = format!("{}.example.com", s.ns);
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let definition = json!({"metadata": {"name": format!("widgets.{group}")}, "spec": {
        "group": group, "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
    }});
    s.client.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition).await?;
    let path = format!("/apis/{group}/v1/namespaces/{}/widgets", s.ns);
    eventually(PATIENCE, "widgets to be served", async || Ok(s.client.find(&path).await?.map(drop))).await?;
    let widget =
        |name: &str| json!({"apiVersion": format!("{group}/v1"), "kind": "Widget", "metadata": {"name": name}});
    for name in ["a", "b"] {
        s.client.create(&path, &widget(name)).await?;
    }
    let count = format!("count/widgets.{group}");
    quota(s, "q", json!({"hard": {&count: "5"}})).await?;
    // A controller finds the kind after half a minute, and then counts only what changes.
    let mut limits = ["6", "5"].into_iter().cycle();
    eventually(PATIENCE, "widgets to be counted", async || {
        let counted = s.get("resourcequotas", "q").await?["status"]["used"][&count] == "2";
        if !counted {
            s.patch("resourcequotas", "q", &json!({"spec": {"hard": {&count: limits.next()}}})).await?;
        }
        Ok(counted.then_some(()))
    })
    .await?;
    s.patch("resourcequotas", "q", &json!({"spec": {"hard": {&count: "5"}}})).await?;
    until_used(s, "q", json!({&count: "2"})).await?;
    s.client.delete(&format!("{path}/a"), None).await?;
    until_used(s, "q", json!({&count: "1"})).await
}

async fn changed(s: &Stage) -> Result<()> {
    for name in ["a", "b"] {
        s.create("secrets", &json!({"metadata": {"name": name}})).await?;
    }
    quota(s, "q", json!({"hard": {"pods": "5", "secrets": "5"}})).await?;
    until_used(s, "q", json!({"pods": "0", "secrets": "2"})).await?;
    // Less than there is.
    s.patch("resourcequotas", "q", &json!({"spec": {"hard": {"pods": null, "secrets": "1"}}})).await?;
    until_used(s, "q", json!({"secrets": "2"})).await?;
    s.patch("resourcequotas", "q", &json!({"spec": {"hard": {"services": "3"}}})).await?;
    until_used(s, "q", json!({"secrets": "2", "services": "0"})).await
}

async fn kept(s: &Stage) -> Result<()> {
    let gadgets = "count/gadgets.example.com";
    quota(s, "q", json!({"hard": {gadgets: "5", "secrets": "5"}})).await?;
    until_used(s, "q", json!({"secrets": "0"})).await?;
    let status = json!({"status": {"used": {gadgets: "3"}}});
    s.client.patch(&format!("{}/status", s.one("resourcequotas", "q")), PatchKind::Merge, &status).await?;
    s.patch("resourcequotas", "q", &json!({"spec": {"hard": {"secrets": "6"}}})).await?;
    until_used(s, "q", json!({gadgets: "3", "secrets": "0"})).await
}

async fn refuses(s: &Stage) -> Result<()> {
    s.create("pods", &requesting("a", json!({"cpu": "600m"}))).await?;
    quota(s, "cpu", json!({"hard": {"pods": "5", "requests.cpu": "1"}})).await?;
    until_used(s, "cpu", json!({"pods": "1", "requests.cpu": "600m"})).await?;
    until_refused(s, "too much", "pods", &requesting("b", json!({"cpu": "600m"}))).await?;
    until_refused(s, "without a request", "pods", &pod("b", "none")).await?;
    until_allowed(s, "pods", &requesting("b", json!({"cpu": "400m"}))).await?;
    quota(s, "secrets", json!({"hard": {"count/secrets": "0", "secrets": "0"}})).await?;
    until_used(s, "secrets", json!({"count/secrets": "0", "secrets": "0"})).await?;
    until_refused(s, "none at all", "secrets", &json!({"metadata": {"name": "b"}})).await?;
    quota(s, "ends", json!({"hard": {"pods": "0"}, "scopes": ["Terminating"]})).await?;
    until_used(s, "ends", json!({"pods": "0"})).await?;
    let mut ends = requesting("b", json!({"cpu": "100m"}));
    ends["spec"]["activeDeadlineSeconds"] = json!(36_000);
    until_refused(s, "in a scope", "pods", &ends).await?;
    until_allowed(s, "pods", &requesting("b", json!({"cpu": "100m"}))).await
}

async fn updates(s: &Stage) -> Result<()> {
    let ports = json!([{"name": "a", "port": 80}, {"name": "b", "port": 81}]);
    s.create("services", &json!({"metadata": {"name": "web"}, "spec": {"ports": ports}})).await?;
    quota(s, "q", json!({"hard": {"services": "1", "services.nodeports": "1"}})).await?;
    until_used(s, "q", json!({"services": "1", "services.nodeports": "0"})).await?;
    until_refused(s, "another one", "services", &json!({"metadata": {"name": "b"}, "spec": {"ports": ports}})).await?;
    let to_ports = json!({"spec": {"type": "NodePort"}});
    match s.patch("services", "web", &to_ports).await {
        Err(error) => match error.downcast_ref::<Failure>() {
            Some(why) => s.observe("node ports", &json!([why.code, why.reason, why.message])),
            None => return Err(error),
        },
        Ok(service) => bail!("{service} is above the quota"),
    }
    s.patch("services", "web", &json!({"metadata": {"labels": {"a": "b"}}})).await?;
    let one = json!({"spec": {"type": "NodePort", "ports": [{"name": "a", "port": 80}]}});
    s.patch("services", "web", &one).await?;
    until_used(s, "q", json!({"services": "1", "services.nodeports": "1"})).await
}

/// How many create at once.
const N_CREATORS: usize = 32;

async fn creators(s: &Stage) -> Result<()> {
    quota(s, "q", json!({"hard": {"count/secrets": "8"}})).await?;
    until_used(s, "q", json!({"count/secrets": "0"})).await?;
    // The admission has seen the quota.
    let none = json!({"spec": {"hard": {"count/secrets": "0"}}});
    s.patch("resourcequotas", "q", &none).await?;
    until_refused(s, "none", "secrets", &json!({"metadata": {"name": "none"}})).await?;
    s.patch("resourcequotas", "q", &json!({"spec": {"hard": {"count/secrets": "8"}}})).await?;
    until_allowed(s, "secrets", &json!({"metadata": {"name": "none"}})).await?;
    let create = |n: usize| async move {
        let secret = json!({"metadata": {"name": format!("secret-{n}")}});
        s.client.create(&s.all("secrets"), &secret).await.is_ok()
    };
    let created = join_all((0..N_CREATORS).map(create)).await.into_iter().filter(|is_created| *is_created).count();
    ensure!(created <= 8, "{created} were created");
    // Those that lost too many races to be counted come again.
    for n in 0..N_CREATORS {
        create(n).await;
    }
    until_used(s, "q", json!({"count/secrets": "8"})).await?;
    let mut seen = Map::new();
    seen.insert("secrets".into(), json!(s.list("secrets").await?.len()));
    s.observe("created", &Value::Object(seen));
    Ok(())
}

async fn next(s: &Stage) -> Result<()> {
    let secret = |name: &str| json!({"metadata": {"name": name}});
    quota(s, "q", json!({"hard": {"secrets": "1"}})).await?;
    until_used(s, "q", json!({"secrets": "0"})).await?;
    for name in ["a", "b", "c"] {
        eventually(PATIENCE, format!("{name} to be created"), async || {
            Ok(s.client.create(&s.all("secrets"), &secret(name)).await.ok().map(drop))
        })
        .await?;
        until_used(s, "q", json!({"secrets": "1"})).await?;
        until_refused(s, &format!("beside {name}"), "secrets", &secret("other")).await?;
        delete(s, "secrets", name).await?;
        until_used(s, "q", json!({"secrets": "0"})).await?;
    }
    Ok(())
}
