//! Pods that go because of the taints of their devices, and what DeviceTaintRules report. There are no drivers: each scenario has a
//! pool of its own, with one device, which it allocates itself.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::taint_eviction::{create_node, delete_node, evicted, remove, reported, stays};
use super::{Group, HOLD};
use crate::api::PatchKind;
use crate::scenarios::Scenario;
use crate::scenarios::stage::{Stage, pod};
use crate::{PATIENCE, eventually};

/// What these scenarios are about.
pub(super) const GROUPS: &[Group] = &[(&["device-taint-eviction-controller"], &[SCENARIOS])];

const API: &str = "/apis/resource.k8s.io/v1";

const DRIVER: &str = "scenario.example.com";

/// The only device of a pool.
const DEVICE: &str = "device";

const SCENARIOS: &[Scenario] = &[
    Scenario::new("a Pod of a tainted device goes", |s| Box::pin(tainted(s))),
    Scenario::new("a Pod whose claim tolerates the taint of a device for a time goes after it", |s| {
        Box::pin(tolerated(s))
    }),
    Scenario::new("a Pod stays when the taint of its device is removed in time", |s| Box::pin(removed(s))),
    Scenario::new("a rule evicts the Pods of its devices and says so", |s| Box::pin(rule(s))),
];

fn slices() -> String {
    format!("{API}/resourceslices")
}

fn rules() -> String {
    format!("{API}/devicetaintrules")
}

fn claims(s: &Stage) -> String {
    format!("{API}/namespaces/{}/resourceclaims", s.ns)
}

/// A taint that evicts, as of now.
fn taint(s: &Stage) -> Value {
    json!({"key": "example.com/taint", "value": "v", "effect": "NoExecute", "timeAdded": s.now_text()})
}

/// Creates the Node and the pool of the scenario, which is called after its namespace.
async fn create_pool(s: &Stage) -> Result<()> {
    create_node(s).await?;
    let slice = json!({
        "metadata": {"name": s.ns},
        "spec": {
            "driver": DRIVER, "allNodes": true, "pool": {"name": s.ns, "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": DEVICE}],
        },
    });
    s.client.create(&slices(), &slice).await.map(drop)
}

/// Gives the device these taints, and no others.
async fn set_taints(s: &Stage, taints: &[Value]) -> Result<()> {
    let patch = json!({"spec": {"devices": [{"name": DEVICE, "taints": taints}]}});
    s.client.patch(&format!("{}/{}", slices(), s.ns), PatchKind::Merge, &patch).await.map(drop)
}

/// Creates a Pod on the Node, and a claim of the same name that is reserved for it and has the device.
async fn create(s: &Stage, name: &str, tolerations: &[Value]) -> Result<()> {
    let request = json!({"name": "r", "exactly": {"deviceClassName": "none"}});
    let claim = json!({"metadata": {"name": name}, "spec": {"devices": {"requests": [request]}}});
    s.client.create(&claims(s), &claim).await?;
    let mut object = pod(name, "none");
    object["metadata"]["finalizers"] = json!([HOLD]);
    object["spec"]["nodeName"] = json!(s.ns);
    object["spec"]["resourceClaims"] = json!([{"name": "c", "resourceClaimName": name}]);
    let object = s.create("pods", &object).await?;
    let result = json!({"request": "r", "driver": DRIVER, "pool": s.ns, "device": DEVICE, "tolerations": tolerations});
    let status = json!({
        "allocation": {"devices": {"results": [result]}},
        "reservedFor": [{"resource": "pods", "name": name, "uid": object["metadata"]["uid"]}],
    });
    let path = format!("{}/{name}/status", claims(s));
    s.client.patch(&path, PatchKind::Merge, &json!({"status": status})).await.map(drop)
}

async fn remove_all(s: &Stage, names: &[&str]) -> Result<()> {
    remove(s, names).await?;
    for name in names {
        // Where a controller of claims runs, it releases them.
        let path = format!("{}/{name}", claims(s));
        s.client.patch(&path, PatchKind::Merge, &json!({"metadata": {"finalizers": null}})).await?;
        s.client.delete(&path, None).await?;
    }
    s.client.delete(&format!("{}/{}", slices(), s.ns), None).await?;
    delete_node(s).await
}

async fn tainted(s: &Stage) -> Result<()> {
    create_pool(s).await?;
    create(s, "before", &[]).await?;
    let other = json!({"key": "other", "operator": "Exists", "effect": "NoExecute"});
    create(s, "of-another-taint", &[other]).await?;
    let forever = json!({"operator": "Exists", "effect": "NoExecute"});
    create(s, "stays", &[forever]).await?;
    set_taints(s, &[taint(s)]).await?;
    evicted(s, "before").await?;
    evicted(s, "of-another-taint").await?;
    create(s, "after", &[]).await?;
    evicted(s, "after").await?;
    stays(s, "stays").await?;
    remove_all(s, &["before", "of-another-taint", "stays", "after"]).await
}

async fn tolerated(s: &Stage) -> Result<()> {
    create_pool(s).await?;
    let within = |seconds| json!({"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds});
    create(s, "one", &[within(2)]).await?;
    create(s, "shortest", &[within(600), within(3)]).await?;
    set_taints(s, &[taint(s)]).await?;
    evicted(s, "one").await?;
    evicted(s, "shortest").await?;
    remove_all(s, &["one", "shortest"]).await
}

async fn removed(s: &Stage) -> Result<()> {
    create_pool(s).await?;
    create(s, "sign", &[]).await?;
    let within = json!({"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 600});
    create(s, "one", &[within]).await?;
    set_taints(s, &[taint(s)]).await?;
    evicted(s, "sign").await?;
    set_taints(s, &[]).await?;
    reported(s, "one", "Cancelling deletion").await?;
    stays(s, "one").await?;
    remove_all(s, &["sign", "one"]).await
}

/// Waits until the rule of the scenario has a condition with this reason, and notes it.
async fn says(s: &Stage, reason: &str) -> Result<()> {
    let mut condition = eventually(PATIENCE, format!("the rule to say {reason}"), async || {
        let rule = s.client.get(&format!("{}/{}", rules(), s.ns)).await?;
        let condition = rule["status"]["conditions"][0].clone();
        ensure!(condition["reason"] == reason, "it says {condition}");
        Ok(Some(condition))
    })
    .await?;
    condition["lastTransitionTime"] = Value::Null;
    s.observe(reason, &condition);
    Ok(())
}

async fn rule(s: &Stage) -> Result<()> {
    create_pool(s).await?;
    create(s, "one", &[]).await?;
    let mut none = taint(s);
    none["effect"] = json!("None");
    let selector = json!({"driver": DRIVER, "pool": s.ns});
    let rule = json!({"metadata": {"name": s.ns}, "spec": {"deviceSelector": selector, "taint": none}});
    s.client.create(&rules(), &rule).await?;
    says(s, "NoEffect").await?;
    stays(s, "one").await?;
    let path = format!("{}/{}", rules(), s.ns);
    s.client.patch(&path, PatchKind::Merge, &json!({"spec": {"taint": taint(s)}})).await?;
    evicted(s, "one").await?;
    says(s, "Completed").await?;
    s.client.delete(&path, None).await?;
    remove_all(s, &["one"]).await
}
