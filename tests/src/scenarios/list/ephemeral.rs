//! Claims of ephemeral volumes. Nothing binds them: what is compared is the claims, and the events of their Pods.

use anyhow::{Context, Result};
use serde_json::{Map, Value, json};

use super::Group;
use crate::scenarios::Scenario;
use crate::scenarios::stage::{Stage, pod};
use crate::{Failure, PATIENCE, eventually};

/// What these scenarios are about.
pub(super) const GROUPS: &[Group] = &[(&["ephemeral-volume-controller"], &[SCENARIOS])];

const CLAIMS: &str = "persistentvolumeclaims";

const SCENARIOS: &[Scenario] = &[
    Scenario::new("an ephemeral volume gets a claim that is made by its template", |s| Box::pin(templates(s))),
    Scenario::new("an ephemeral volume whose claim is deleted gets another one", |s| Box::pin(recreated(s))),
    Scenario::new("an ephemeral volume waits for a claim of somebody else to go", |s| Box::pin(conflict(s))),
    Scenario::new("an ephemeral volume whose claim a quota refuses keeps those after it waiting", |s| {
        Box::pin(quota(s))
    }),
    Scenario::new("an ephemeral volume is deleted with its Pod", |s| Box::pin(with_its_pod(s))),
];

fn volume(name: &str, template: &Value) -> Value {
    json!({"name": name, "ephemeral": {"volumeClaimTemplate": template}})
}

fn one_gigabyte() -> Value {
    json!({"spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "", "resources": {"requests": {"storage": "1Gi"}}}})
}

async fn create(s: &Stage, name: &str, volumes: &[Value]) -> Result<()> {
    let mut object = pod(name, "none");
    object["spec"]["volumes"] = json!(volumes);
    s.create("pods", &object).await?;
    Ok(())
}

/// Waits until there is a claim that the Pod owns.
async fn until_owned(s: &Stage, claim: &str, pod: &str) -> Result<()> {
    let uid = s.get("pods", pod).await?["metadata"]["uid"].clone();
    eventually(PATIENCE, format!("{claim} to be the claim of {pod}"), async || {
        let found = s.client.find(&s.one(CLAIMS, claim)).await?;
        Ok(found.filter(|found| found["metadata"]["ownerReferences"][0]["uid"] == uid).map(drop))
    })
    .await
}

/// Notes what was asked for in the claims that there are.
async fn observe(s: &Stage, when: &str) -> Result<()> {
    let mut seen = Map::new();
    for claim in s.list(CLAIMS).await? {
        let (metadata, spec) = (&claim["metadata"], &claim["spec"]);
        let mut owners = metadata["ownerReferences"].clone();
        for owner in owners.as_array_mut().into_iter().flatten() {
            owner["uid"] = json!("<uid>");
        }
        let name = metadata["name"].as_str().unwrap_or_default().to_owned();
        let fields = json!({
            "labels": metadata["labels"], "annotations": metadata["annotations"], "owners": owners, "spec": spec,
        });
        seen.insert(name, fields);
    }
    s.observe(when, &Value::Object(seen));
    Ok(())
}

/// Deletes a claim. No controller takes the finalizer away by which a claim that is in use is protected.
async fn delete_claim(s: &Stage, name: &str) -> Result<()> {
    s.delete(CLAIMS, name, "Background").await?;
    if s.client.find(&s.one(CLAIMS, name)).await?.is_some_and(|claim| claim["metadata"]["finalizers"].is_array()) {
        let released = s.patch(CLAIMS, name, &json!({"metadata": {"finalizers": null}})).await;
        // Its protection may have ended meanwhile.
        match released {
            Err(error) if Failure::code_of(&error) == Some(404) => {}
            released => drop(released?),
        }
    }
    Ok(())
}

async fn templates(s: &Stage) -> Result<()> {
    let mut rich = one_gigabyte();
    rich["metadata"] = json!({"labels": {"app": "web"}, "annotations": {"example.com/a": "b"}});
    rich["spec"]["volumeMode"] = json!("Block");
    rich["spec"]["selector"] = json!({"matchLabels": {"disk": "fast"}});
    let empty = json!({"name": "none", "emptyDir": {}});
    create(s, "web-0", &[volume("data", &rich), empty, volume("more-data", &one_gigabyte())]).await?;
    until_owned(s, "web-0-data", "web-0").await?;
    until_owned(s, "web-0-more-data", "web-0").await?;
    observe(s, "claims").await
}

async fn recreated(s: &Stage) -> Result<()> {
    create(s, "web-0", &[volume("data", &one_gigabyte())]).await?;
    until_owned(s, "web-0-data", "web-0").await?;
    let first = s.get(CLAIMS, "web-0-data").await?["metadata"]["uid"].clone();
    delete_claim(s, "web-0-data").await?;
    eventually(PATIENCE, "another claim", async || {
        let found = s.client.find(&s.one(CLAIMS, "web-0-data")).await?;
        Ok(found.filter(|found| found["metadata"]["uid"] != first).map(drop))
    })
    .await?;
    until_owned(s, "web-0-data", "web-0").await?;
    observe(s, "claims").await
}

/// In the event about a claim of somebody else.
const NOT_OWNER: &str = "pod is not owner";

async fn conflict(s: &Stage) -> Result<()> {
    let mut foreign = one_gigabyte();
    foreign["metadata"] = json!({"name": "web-0-data"});
    s.create(CLAIMS, &foreign).await?;
    create(
        s,
        "web-0",
        &[volume("first", &one_gigabyte()), volume("data", &one_gigabyte()), volume("last", &one_gigabyte())],
    )
    .await?;
    until_owned(s, "web-0-first", "web-0").await?;
    // The first try may not see the other claim yet.
    until_event(s, NOT_OWNER).await?;
    observe(s, "claims, with one of somebody else").await?;
    delete_claim(s, "web-0-data").await?;
    until_owned(s, "web-0-data", "web-0").await?;
    until_owned(s, "web-0-last", "web-0").await?;
    observe(s, "claims, when it is gone").await?;
    // The message names the namespace, which is replaced in what is observed alone.
    s.settle().await?;
    let events = s.list("events").await?;
    let failed = events.iter().find(|event| says(event, NOT_OWNER)).context("the event is gone")?;
    s.observe("event", &json!([failed["type"], failed["message"], failed["source"]["component"]]));
    s.client.delete(&s.all("events"), None).await?;
    Ok(())
}

/// Whether an event is about a claim that was not created, and has this text.
fn says(event: &Value, text: &str) -> bool {
    event["reason"] == "FailedBinding" && event["message"].as_str().is_some_and(|message| message.contains(text))
}

async fn until_event(s: &Stage, text: &str) -> Result<()> {
    s.until_all("events", "have one about the claim", |events| events.iter().any(|event| says(event, text))).await?;
    Ok(())
}

async fn quota(s: &Stage) -> Result<()> {
    let hard = json!({"persistentvolumeclaims": "1"});
    let mut other = one_gigabyte();
    other["metadata"] = json!({"name": "other"});
    s.quota(&hard, &json!({"persistentvolumeclaims": "0"}), CLAIMS, &other).await?;
    s.create(CLAIMS, &other).await?;
    s.until("resourcequotas", "few", "count", |q| q["status"]["used"]["persistentvolumeclaims"] == "1").await?;
    create(s, "web-0", &[volume("data", &one_gigabyte()), volume("last", &one_gigabyte())]).await?;
    until_event(s, "exceeded quota").await?;
    observe(s, "claims, as many as the quota allows").await?;
    s.delete("resourcequotas", "few", "Background").await?;
    until_owned(s, "web-0-data", "web-0").await?;
    until_owned(s, "web-0-last", "web-0").await?;
    observe(s, "claims, without a quota").await
}

async fn with_its_pod(s: &Stage) -> Result<()> {
    create(s, "web-0", &[volume("data", &one_gigabyte())]).await?;
    until_owned(s, "web-0-data", "web-0").await?;
    s.delete("pods", "web-0", "Background").await?;
    s.until_gone("pods", "web-0").await?;
    eventually(PATIENCE, "the claim to be deleted", async || {
        let found = s.client.find(&s.one(CLAIMS, "web-0-data")).await?;
        Ok(found.is_none_or(|claim| claim["metadata"]["deletionTimestamp"].is_string()).then_some(()))
    })
    .await?;
    s.observe("the claim", &json!("deleted"));
    Ok(())
}
