//! Pods that were to be disrupted and were not.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::has_condition;
use crate::api::PatchKind;
use crate::scenarios::Scenario;
use crate::scenarios::stage::Stage;

pub(in crate::scenarios::list) const SCENARIOS: &[Scenario] =
    &[Scenario::new("a Pod of no budget loses a DisruptionTarget that is stale", |s| Box::pin(stale(s)))];

/// Sets the condition of ten minutes ago, so that nobody has to wait for it to be old.
async fn announce(s: &Stage, name: &str, reason: &str) -> Result<()> {
    let old = s.now() - jiff::SignedDuration::from_secs(600);
    let target = json!({
        "type": "DisruptionTarget", "status": "True", "reason": reason, "message": "m",
        "lastTransitionTime": old.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
    });
    let path = format!("{}/status", s.one("pods", name));
    s.client.patch(&path, PatchKind::StrategicMerge, &json!({"status": {"conditions": [target]}})).await?;
    Ok(())
}

async fn stale(s: &Stage) -> Result<()> {
    super::create_pods(s, "web", &["kubelet", "preempted"]).await?;
    announce(s, "kubelet", "TerminationByKubelet").await?;
    announce(s, "preempted", "PreemptionByScheduler").await?;
    let is_false = |pod: &Value| has_condition(pod, "DisruptionTarget", "False");
    s.until("pods", "preempted", "lose the condition", is_false).await?;
    let pod = s.get("pods", "kubelet").await?;
    ensure!(has_condition(&pod, "DisruptionTarget", "True"), "the kubelet's condition is not stale");
    // Announced again, it is stale again.
    announce(s, "preempted", "DeletionByTaintManager").await?;
    s.until("pods", "preempted", "lose the condition again", is_false).await
}
