//! How long a host on standby takes from the Lease to its first write: `cargo xtask bench -- --only standby`.
//!
//! Two processes of one program contend for the Lease of kube-controller-manager. The one that leads is killed, somebody scales a
//! Deployment, and the other one takes the Lease when it expires. Both times are from the audit log of kube-apiserver: when the update
//! of the Lease was received, and when the first write of a workload after it.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use jiff::Timestamp;
use serde_json::json;

use crate::api::PatchKind;
use crate::controlplane::{ControlPlane, TimedEntry};
use crate::scenarios::Subject;
use crate::scenarios::subject::Running;
use crate::{ApiClient, PATIENCE, eventually};

const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-controller-manager";
const FLAGS: [&str; 1] = ["--leader-elect=true"];
/// A write in the audit log.
struct Write {
    /// When the API server received it.
    at: Timestamp,
    /// Of the Lease; otherwise of a workload.
    is_lease: bool,
}

/// The time of one take-over. The cluster has a Deployment at `path` and its Pods; the control plane logs writes.
///
/// # Errors
/// A process did not start, or nobody took over.
pub async fn measure(plane: &ControlPlane, subject: &Subject, controllers: &[&str], path: &str) -> Result<Duration> {
    let client = plane.client();
    // The holder before may have been killed.
    client.delete(LEASE, None).await.ok();
    let first = subject.start_with(plane, controllers, &FLAGS).await?;
    scaled(&client, path).await.with_context(|| first.process().log_tail())?;
    let second = subject.start_with(plane, controllers, &FLAGS).await?;
    let transitions = transitions(&client).await?;
    settled(&first, &second).await?;
    first.kill();
    plane.clear_audit_log()?;
    scaled(&client, path).await.with_context(|| second.process().log_tail())?;
    ensure!(self::transitions(&client).await? > transitions, "the Lease has not changed hands");
    second.kill();
    let writes = writes(plane)?;
    let taken = writes.iter().position(|write| write.is_lease).context("nobody took the Lease")?;
    let first = writes[taken..].iter().find(|write| !write.is_lease);
    let took = first.context("nothing was written")?.at.duration_since(writes[taken].at);
    Duration::try_from(took).context("the first write came before the Lease")
}

/// Adds a replica, and waits until the Deployment says that it has it.
async fn scaled(client: &ApiClient, path: &str) -> Result<()> {
    let replicas = client.get(path).await?["spec"]["replicas"].as_u64().unwrap_or(1) + 1;
    client.patch(path, PatchKind::Merge, &json!({"spec": {"replicas": replicas}})).await?;
    eventually(PATIENCE, "the Deployment to be scaled", async || {
        let deployment = client.get(path).await?;
        Ok((deployment["status"]["replicas"] == replicas).then_some(()))
    })
    .await
}

async fn transitions(client: &ApiClient) -> Result<u64> {
    Ok(client.get(LEASE).await?["spec"]["leaseTransitions"].as_u64().unwrap_or(0))
}

/// Waits until neither process has anything to do.
async fn settled(first: &Running, second: &Running) -> Result<()> {
    let usage = || anyhow::Ok(first.process().usage()?.cpu + second.process().usage()?.cpu);
    let mut last = usage()?;
    eventually(PATIENCE, "both processes to be idle", async || {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let (before, now) = (last, usage()?);
        last = now;
        Ok((now.saturating_sub(before) <= Duration::from_millis(50)).then_some(()))
    })
    .await
}

/// The writes of controllers that succeeded, in the order of their arrival.
fn writes(plane: &ControlPlane) -> Result<Vec<Write>> {
    let mut writes: Vec<Write> = plane.timed_audit_log()?.iter().filter_map(write_of).collect();
    writes.sort_by_key(|write| write.at);
    Ok(writes)
}

fn write_of(TimedEntry { entry, received, .. }: &TimedEntry) -> Option<Write> {
    if entry.user_agent.starts_with("pintle-tests") || !entry.succeeded() {
        return None;
    }
    let is_lease = match &*entry.object_ref.resource {
        // API servers have Leases, too.
        "leases" if entry.object_ref.name == "kube-controller-manager" => true,
        "deployments" | "replicasets" | "pods" => false,
        _ => return None,
    };
    Some(Write { at: *received, is_lease })
}
