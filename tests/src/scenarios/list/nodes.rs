//! What is written on Nodes. The Nodes of these scenarios have no kubelets.

use anyhow::{Result, ensure};
use serde_json::json;

use super::Group;
use crate::api::PatchKind;
use crate::scenarios::Scenario;
use crate::scenarios::stage::Stage;
use crate::{PATIENCE, eventually};

/// What these scenarios are about.
pub(super) const GROUPS: &[Group] = &[(&["ttl-controller"], &[SCENARIOS])];

const NODES: &str = "/api/v1/nodes";

const TTL: &str = "node.alpha.kubernetes.io/ttl";

const SCENARIOS: &[Scenario] = &[
    Scenario::new("a Node is annotated for how long its kubelet may cache", |s| Box::pin(new_node(s))),
    Scenario::new("a Node whose annotation somebody changes gets it back", |s| Box::pin(changed(s))),
    Scenario::new("a Node whose annotation is not a number gets one", |s| Box::pin(not_a_number(s))),
    Scenario::new("a Node learns that there are many others when it changes", |s| Box::pin(many(s))).alone(),
];

fn path(s: &Stage, name: &str) -> String {
    format!("{NODES}/{}-{name}", s.ns)
}

async fn create(s: &Stage, name: &str, annotation: Option<&str>) -> Result<()> {
    let mut node =
        json!({"metadata": {"name": format!("{}-{name}", s.ns), "annotations": {"example.com/other": "kept"}}});
    if let Some(annotation) = annotation {
        node["metadata"]["annotations"][TTL] = json!(annotation);
    }
    s.client.create(NODES, &node).await?;
    Ok(())
}

/// Changes a Node, as its kubelet does from time to time.
async fn touch(s: &Stage, name: &str, label: &str) -> Result<()> {
    let patch = json!({"metadata": {"labels": {"touched": label}}});
    s.client.patch(&path(s, name), PatchKind::Merge, &patch).await?;
    Ok(())
}

/// Waits until a Node has this annotation, and notes all of them.
async fn has(s: &Stage, name: &str, seconds: &str, when: &str) -> Result<()> {
    let node = eventually(PATIENCE, format!("{name} to have the annotation {seconds}"), async || {
        let node = s.client.get(&path(s, name)).await?;
        let annotations = &node["metadata"]["annotations"];
        ensure!(annotations[TTL] == seconds, "it has {annotations}");
        Ok(Some(node))
    })
    .await?;
    s.observe(&format!("{name}, {when}"), &node["metadata"]["annotations"]);
    Ok(())
}

async fn delete(s: &Stage, name: &str) -> Result<()> {
    s.client.delete(&path(s, name), None).await?;
    Ok(())
}

async fn new_node(s: &Stage) -> Result<()> {
    create(s, "one", None).await?;
    has(s, "one", "0", "when it is new").await?;
    delete(s, "one").await
}

async fn changed(s: &Stage) -> Result<()> {
    create(s, "one", Some("300")).await?;
    has(s, "one", "0", "when it is new").await?;
    let other = json!({"metadata": {"annotations": {TTL: "7"}}});
    s.client.patch(&path(s, "one"), PatchKind::Merge, &other).await?;
    has(s, "one", "0", "after a change").await?;
    let none = json!({"metadata": {"annotations": {TTL: null}}});
    s.client.patch(&path(s, "one"), PatchKind::Merge, &none).await?;
    has(s, "one", "0", "after a removal").await?;
    delete(s, "one").await
}

async fn not_a_number(s: &Stage) -> Result<()> {
    create(s, "one", Some("0s")).await?;
    has(s, "one", "0", "when it is new").await?;
    delete(s, "one").await
}

/// More than 100 Nodes and fewer than 90 are the limits; between them, what was before holds.
async fn many(s: &Stage) -> Result<()> {
    create(s, "first", None).await?;
    has(s, "first", "0", "alone").await?;
    let n_others = s.client.list(NODES).await?.len() - 1;
    for i in 0..100 {
        create(s, &format!("n{i}"), None).await?;
    }
    // The last one is seen with all others.
    has(s, "n99", "15", "as the one beyond a hundred").await?;
    touch(s, "first", "of-many").await?;
    has(s, "first", "15", "after a change, of many").await?;
    for i in 0..10 {
        delete(s, &format!("n{i}")).await?;
    }
    create(s, "late", None).await?;
    has(s, "late", "15", "of fewer than a hundred").await?;
    for i in 10..(20 + n_others) {
        delete(s, &format!("n{i}")).await?;
    }
    create(s, "last", None).await?;
    has(s, "last", "0", "of fewer than ninety").await?;
    touch(s, "first", "of-few").await?;
    has(s, "first", "0", "after a change, of few").await?;
    for i in (20 + n_others)..100 {
        delete(s, &format!("n{i}")).await?;
    }
    for name in ["first", "late", "last"] {
        delete(s, name).await?;
    }
    Ok(())
}
