//! Pods that users delete, that change owners, and that lose their Job.

use anyhow::Result;
use serde_json::{Value, json};

use super::{JOBS, active, active_one, create, is_of, pod_spec, succeed, until_active, until_complete, until_counted};
use crate::api::PatchKind;
use crate::scenarios::Scenario;
use crate::scenarios::stage::Stage;

const TRACKING: &str = "batch.kubernetes.io/job-tracking";

/// The label of a namespace by which the API server refuses Pods.
const ENFORCE: &str = "pod-security.kubernetes.io/enforce";

pub(in crate::scenarios::list) const SCENARIOS: &[Scenario] = &[
    Scenario::new("a Job of Pods counts one that is deleted as failed", |s| Box::pin(deleted(s)))
        .comparing(JOBS)
        .meddles_with_pods(),
    Scenario::new("a Job of Pods waits for the end of one that is deleted", |s| Box::pin(waits(s)))
        .comparing(JOBS)
        .meddles_with_pods(),
    Scenario::new("a Job of Pods adopts and releases by labels", |s| Box::pin(adopts(s)))
        .comparing(JOBS)
        .meddles_with_pods(),
    Scenario::new("a Job of Pods that is deleted takes them with it", |s| Box::pin(taken(s, "Background")))
        .comparing(JOBS),
    Scenario::new("a Job of Pods that is deleted in the foreground goes after them", |s| {
        Box::pin(taken(s, "Foreground"))
    })
    .comparing(JOBS),
    Scenario::new("a Job of Pods that is deleted alone leaves them without finalizers", |s| Box::pin(orphaned(s)))
        .comparing(JOBS),
    Scenario::new("a Job of Pods that are refused begins when they are allowed", |s| Box::pin(refused(s)))
        .comparing(JOBS)
        .only_real("the embedded cluster has no admission of Pods"),
];

async fn deleted(s: &Stage) -> Result<()> {
    create(s, "pi", json!({"completions": 2, "parallelism": 2})).await?;
    let pods = until_active(s, "pi", 2).await?;
    s.delete("pods", &pods[0], "Background").await?;
    until_counted(s, "pi", 0, 1).await?;
    s.until_gone("pods", &pods[0]).await?;
    // Those that have ended are counted already.
    let pods = until_active(s, "pi", 2).await?;
    succeed(s, &pods[..1]).await?;
    until_counted(s, "pi", 1, 1).await?;
    s.delete("pods", &pods[0], "Background").await?;
    s.until_gone("pods", &pods[0]).await?;
    succeed(s, &until_active(s, "pi", 1).await?).await?;
    until_complete(s, "pi").await
}

/// The Pod has a node, which ends it when the user says so: Pods without one are collected at some time after their deletion.
async fn waits(s: &Stage) -> Result<()> {
    let template = json!({
        "metadata": {"annotations": {"sim.pintle.dev/stop-after": "1h"}},
        "spec": {
            "restartPolicy": "Never", "terminationGracePeriodSeconds": 3600,
            "containers": [{"name": "c", "image": "image:1"}],
        },
    });
    create(s, "pi", json!({"podReplacementPolicy": "Failed", "template": template})).await?;
    let pod = running(s).await?;
    s.delete("pods", &pod, "Background").await?;
    s.until("jobs", "pi", "see the deletion", |job| job["status"]["terminating"] == 1).await?;
    s.observe("active Pods beside it", &json!(active(s, "pi").await?.len()));
    annotate(s, &pod, "sim.pintle.dev/stop-after", "0s").await?;
    until_counted(s, "pi", 0, 1).await?;
    s.until_gone("pods", &pod).await?;
    annotate(s, &running(s).await?, "sim.pintle.dev/exit-code", "0").await?;
    until_complete(s, "pi").await
}

/// The active Pod, once it runs.
async fn running(s: &Stage) -> Result<String> {
    active_one(s, "have one that runs", |pod| pod["status"]["phase"] == "Running").await
}

async fn annotate(s: &Stage, pod: &str, name: &str, value: &str) -> Result<()> {
    s.patch("pods", pod, &json!({"metadata": {"annotations": {name: value}}})).await?;
    Ok(())
}

/// A Job with its own selector.
async fn create_selecting(s: &Stage, completions: u32, suspend: bool) -> Result<()> {
    let template = json!({"metadata": {"labels": {"app": "pi", "job-name": "pi"}}, "spec": pod_spec("Never")});
    let spec = json!({
        "completions": completions, "parallelism": completions, "manualSelector": true, "suspend": suspend,
        "selector": {"matchLabels": {"app": "pi"}}, "template": template,
    });
    create(s, "pi", spec).await
}

async fn create_orphan(s: &Stage, name: &str) -> Result<()> {
    let metadata = json!({"name": name, "labels": {"app": "pi", "job-name": "pi"}});
    s.create("pods", &json!({"metadata": metadata, "spec": pod_spec("Never")})).await?;
    Ok(())
}

async fn adopts(s: &Stage) -> Result<()> {
    create_orphan(s, "orphan").await?;
    create_selecting(s, 2, false).await?;
    let pods = until_active(s, "pi", 2).await?;
    s.until("pods", "orphan", "be adopted", |pod| pod["metadata"]["ownerReferences"][0]["name"] == "pi").await?;
    observe_metadata(s, "orphan", "adopted").await?;
    s.patch("pods", "orphan", &json!({"metadata": {"labels": {"app": "debug", "job-name": null}}})).await?;
    s.until("pods", "orphan", "be released", |pod| pod["metadata"]["ownerReferences"].is_null()).await?;
    observe_metadata(s, "orphan", "released").await?;
    let kept: Vec<String> = pods.into_iter().filter(|pod| pod != "orphan").collect();
    let now = until_active(s, "pi", 2).await?;
    s.observe("the other is kept", &json!(kept.iter().all(|pod| now.contains(pod))));
    succeed(s, &now).await?;
    until_complete(s, "pi").await
}

/// Notes owner and finalizers of a Pod.
async fn observe_metadata(s: &Stage, pod: &str, what: &str) -> Result<()> {
    let metadata = s.get("pods", pod).await?["metadata"].clone();
    let mut owners = metadata["ownerReferences"].clone();
    for owner in owners.as_array_mut().into_iter().flatten() {
        owner["uid"] = Value::Null;
    }
    s.observe(what, &json!({"owners": owners, "finalizers": metadata["finalizers"]}));
    Ok(())
}

async fn taken(s: &Stage, policy: &str) -> Result<()> {
    create(s, "pi", json!({"completions": 3, "parallelism": 2})).await?;
    let pods = until_active(s, "pi", 2).await?;
    succeed(s, &pods[..1]).await?;
    until_counted(s, "pi", 1, 0).await?;
    until_active(s, "pi", 2).await?;
    s.delete("jobs", "pi", policy).await?;
    s.until_gone("jobs", "pi").await?;
    s.until_all("pods", "be gone", |pods| pods.is_empty()).await?;
    Ok(())
}

async fn orphaned(s: &Stage) -> Result<()> {
    create(s, "pi", json!({"completions": 3, "parallelism": 2})).await?;
    let pods = until_active(s, "pi", 2).await?;
    s.delete("jobs", "pi", "Orphan").await?;
    s.until_gone("jobs", "pi").await?;
    for pod in &pods {
        s.until("pods", pod, "be let go", |pod| {
            pod["metadata"]["finalizers"].is_null() && pod["metadata"]["ownerReferences"].is_null()
        })
        .await?;
    }
    // One with the finalizer of nobody loses it.
    let mut stray = json!({"metadata": {"name": "stray", "finalizers": [TRACKING]}});
    stray["spec"] = pod_spec("Never");
    s.create("pods", &stray).await?;
    s.until("pods", "stray", "be let go", |pod| pod["metadata"]["finalizers"].is_null()).await
}

async fn refused(s: &Stage) -> Result<()> {
    let enforce = async |level: Value| {
        let path = format!("/api/v1/namespaces/{}", s.ns);
        let labels = json!({"metadata": {"labels": {ENFORCE: level}}});
        s.client.patch(&path, PatchKind::Merge, &labels).await
    };
    enforce(json!("restricted")).await?;
    create(s, "pi", json!({"completions": 2, "parallelism": 2})).await?;
    s.until_all("events", "report the refusal", |events| events.iter().any(|event| event["reason"] == "FailedCreate"))
        .await?;
    enforce(Value::Null).await?;
    let pods = until_active(s, "pi", 2).await?;
    s.observe("Pods", &json!(s.list("pods").await?.iter().filter(|pod| is_of(pod, "pi")).count()));
    succeed(s, &pods).await?;
    until_complete(s, "pi").await
}
