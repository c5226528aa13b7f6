//! Ranges of addresses for Services. No Service is made: the scenarios write the addresses that one would have.
//!
//! The API server gives a Service of another scenario an IPv4 address of any range that is ready, which then keeps the range. So the
//! ranges are of IPv6, for which this API server has no Services, or have no free IPv4 address.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::{Group, HOLD, delete, until_finalizers, until_gone};
use crate::api::PatchKind;
use crate::scenarios::Scenario;
use crate::scenarios::stage::Stage;
use crate::{PATIENCE, eventually};

/// What these scenarios are about.
pub(super) const GROUPS: &[Group] = &[(&["service-cidr-controller"], &[SCENARIOS])];

const RANGES: &str = "/apis/networking.k8s.io/v1/servicecidrs";
const ADDRESSES: &str = "/apis/networking.k8s.io/v1/ipaddresses";
const FINALIZER: &str = "networking.k8s.io/service-cidr-finalizer";

const SCENARIOS: &[Scenario] = &[
    Scenario::new("a range for Services is ready, and goes when no address is in it", |s| Box::pin(unused(s))),
    Scenario::new("a range for Services goes after the last address in it", |s| Box::pin(used(s))),
    Scenario::new("a range for Services goes when another one has its addresses", |s| Box::pin(contained(s))),
    Scenario::new("a range for Services is kept by the addresses that smaller ranges do not have", |s| {
        Box::pin(divided(s))
    }),
    Scenario::new("a range for Services that has lost its finalizer or its condition gets it again", |s| {
        Box::pin(restored(s))
    }),
];

fn path(s: &Stage, range: &str) -> String {
    format!("{RANGES}/{}-{range}", s.ns)
}

/// Creates a range, and waits until it is ready.
async fn range(s: &Stage, name: &str, cidrs: &[&str]) -> Result<()> {
    let object = json!({"metadata": {"name": format!("{}-{name}", s.ns)}, "spec": {"cidrs": cidrs}});
    s.client.create(RANGES, &object).await?;
    until(s, name, "True").await
}

/// Waits until the condition of a range has this status.
async fn until(s: &Stage, range: &str, status: &str) -> Result<()> {
    eventually(PATIENCE, format!("Ready of {range} to be {status}"), async || {
        let object = s.client.get(&path(s, range)).await?;
        ensure!(object["status"]["conditions"][0]["status"] == status, "it has {}", object["status"]);
        Ok(Some(()))
    })
    .await
}

/// Creates an address as the API server does for a Service.
async fn address(s: &Stage, address: &str, family: &str) -> Result<()> {
    let labels = json!({"ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io", "ipaddress.kubernetes.io/ip-family": family});
    let parent = json!({"resource": "services", "namespace": s.ns, "name": "web"});
    let object = json!({"metadata": {"name": address, "labels": labels}, "spec": {"parentRef": parent}});
    s.client.create(ADDRESSES, &object).await.map(drop)
}

/// Notes what a user sees of a range.
async fn observe(s: &Stage, when: &str, range: &str) -> Result<()> {
    let object = s.client.get(&path(s, range)).await?;
    let mut conditions = object["status"]["conditions"].clone();
    for condition in conditions.as_array_mut().into_iter().flatten() {
        ensure!(condition["lastTransitionTime"].is_string(), "{condition} has no time");
        condition["lastTransitionTime"] = json!("<time>");
    }
    let metadata = &object["metadata"];
    let managers = metadata["managedFields"].as_array().into_iter().flatten();
    let managers = managers.filter(|fields| fields["operation"] == "Apply");
    let managers: Vec<Value> = managers.map(|fields| json!([fields["manager"], fields["subresource"]])).collect();
    s.observe(
        when,
        &json!({
            "finalizers": metadata["finalizers"], "is deleted": !metadata["deletionTimestamp"].is_null(),
            "conditions": conditions, "managers": managers,
        }),
    );
    Ok(())
}

async fn unused(s: &Stage) -> Result<()> {
    range(s, "some", &["172.30.1.0/31", "fd00:1::/112"]).await?;
    range(s, "others", &["fd00:2::/112"]).await?;
    observe(s, "ready", "some").await?;
    // The network and the broadcast address are no addresses of Services.
    address(s, "172.30.1.0", "IPv4").await?;
    address(s, "172.30.1.1", "IPv4").await?;
    delete(s, &path(s, "some")).await?;
    until_gone(s, &path(s, "some")).await?;
    observe(s, "others", "others").await?;
    delete(s, &format!("{ADDRESSES}/172.30.1.0")).await?;
    delete(s, &format!("{ADDRESSES}/172.30.1.1")).await?;
    delete(s, &path(s, "others")).await?;
    until_gone(s, &path(s, "others")).await
}

async fn used(s: &Stage) -> Result<()> {
    address(s, "172.30.3.1", "IPv4").await?;
    address(s, "172.30.3.2", "IPv4").await?;
    range(s, "some", &["172.30.3.0/30", "fd00:3::/112"]).await?;
    address(s, "fd00:3::ffff", "IPv6").await?;
    delete(s, &path(s, "some")).await?;
    until(s, "some", "False").await?;
    observe(s, "while there are addresses", "some").await?;
    delete(s, &format!("{ADDRESSES}/172.30.3.1")).await?;
    delete(s, &format!("{ADDRESSES}/172.30.3.2")).await?;
    observe(s, "while there is one", "some").await?;
    delete(s, &format!("{ADDRESSES}/fd00:3::ffff")).await?;
    until_gone(s, &path(s, "some")).await
}

async fn contained(s: &Stage) -> Result<()> {
    range(s, "small", &["fd00:4::/120"]).await?;
    address(s, "fd00:4::7", "IPv6").await?;
    delete(s, &path(s, "small")).await?;
    until(s, "small", "False").await?;
    range(s, "large", &["fd00:4::/112"]).await?;
    until_gone(s, &path(s, "small")).await?;
    observe(s, "the other one", "large").await?;
    delete(s, &format!("{ADDRESSES}/fd00:4::7")).await?;
    delete(s, &path(s, "large")).await?;
    until_gone(s, &path(s, "large")).await
}

async fn divided(s: &Stage) -> Result<()> {
    range(s, "large", &["fd00:5::/112"]).await?;
    range(s, "low", &["fd00:5::/113"]).await?;
    address(s, "fd00:5::7", "IPv6").await?;
    address(s, "fd00:5::9000", "IPv6").await?;
    delete(s, &path(s, "large")).await?;
    until(s, "large", "False").await?;
    observe(s, "while an address is not in the other range", "large").await?;
    range(s, "high", &["fd00:5::8000/113"]).await?;
    until_gone(s, &path(s, "large")).await?;
    for address in ["fd00:5::7", "fd00:5::9000"] {
        delete(s, &format!("{ADDRESSES}/{address}")).await?;
    }
    for range in ["low", "high"] {
        delete(s, &path(s, range)).await?;
        until_gone(s, &path(s, range)).await?;
    }
    Ok(())
}

async fn restored(s: &Stage) -> Result<()> {
    range(s, "some", &["fd00:6::/112"]).await?;
    let held = json!({"metadata": {"finalizers": [HOLD]}});
    s.client.patch(&path(s, "some"), PatchKind::Merge, &held).await?;
    until_finalizers(s, &path(s, "some"), &[FINALIZER, HOLD]).await?;
    observe(s, "with the finalizer again", "some").await?;
    let other = json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown", "reason": "Test", "message": "",
        "lastTransitionTime": s.now_text()}]}});
    s.client.patch(&format!("{}/status", path(s, "some")), PatchKind::Merge, &other).await?;
    until(s, "some", "True").await?;
    observe(s, "with the condition again", "some").await?;
    delete(s, &path(s, "some")).await?;
    until_finalizers(s, &path(s, "some"), &[HOLD]).await?;
    observe(s, "while another finalizer holds it", "some").await?;
    s.client.patch(&path(s, "some"), PatchKind::Merge, &json!({"metadata": {"finalizers": null}})).await?;
    until_gone(s, &path(s, "some")).await
}
