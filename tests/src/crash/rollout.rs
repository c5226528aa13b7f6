//! A Deployment that is rolled out twice, to image 1 and to image 2.

pub mod rules;

use anyhow::Result;
use pintle_sim::SimCluster;
use serde_json::{Value, json};

use super::{Story, User};
use crate::objects::is_observed;

/// Pods of the Deployment.
pub const REPLICAS: i64 = 4;

/// What a rollout needs.
const CONTROLLERS: &[&str] = &["deployment-controller", "replicaset-controller", "garbage-collector-controller"];

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

/// How Pods are replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strategy {
    /// With one Pod more and one available Pod less at most.
    Rolling,
    /// All old Pods go before the first new one comes.
    Recreate,
}

/// A rolling update.
pub const ROLLING: Story = Story {
    name: "rolling update",
    controllers: CONTROLLERS,
    flags: &[],
    tell: |user| Box::pin(tell(user, Strategy::Rolling)),
    is_done: |cluster| rolled_out(cluster, 2),
    check: |history| rules::check(history, Strategy::Rolling),
};

/// An update that recreates the Pods.
pub const RECREATION: Story = Story {
    name: "recreation",
    controllers: CONTROLLERS,
    flags: &[],
    tell: |user| Box::pin(tell(user, Strategy::Recreate)),
    is_done: |cluster| rolled_out(cluster, 2),
    check: |history| rules::check(history, Strategy::Recreate),
};

async fn tell(user: &User<'_>, strategy: Strategy) -> Result<()> {
    user.create(DEPLOYMENTS, &deployment(strategy)).await?;
    wait_for(user, 1).await?;
    let patch = json!({"spec": {"template": {"spec": {"containers": [{"name": "web", "image": image(2)}]}}}});
    user.patch(&format!("{DEPLOYMENTS}/web"), &patch).await?;
    wait_for(user, 2).await
}

async fn wait_for(user: &User<'_>, revision: u8) -> Result<()> {
    let objects = [("apps", "deployments"), ("apps", "replicasets")];
    user.until(&format!("revision {revision}"), &objects, |cluster| rolled_out(cluster, revision)).await
}

/// Whether the Deployment, its ReplicaSets and its Pods are what they are after so many rollouts.
fn rolled_out(cluster: &SimCluster, revision: u8) -> bool {
    let deployments = cluster.objects("apps", "deployments");
    let [deployment] = &deployments[..] else { return false };
    let status = &deployment["status"];
    let counted = |field: &str| status[field].as_i64() == Some(REPLICAS);
    let told = is_observed(deployment)
        && ["replicas", "updatedReplicas", "readyReplicas", "availableReplicas"].into_iter().all(counted)
        && revision_of(deployment) == revision.to_string()
        && complete(status);
    let sets = cluster.objects("apps", "replicasets");
    let sets_fit = sets.len() == usize::from(revision)
        && sets.iter().all(|set| {
            let newest = revision_of(set) == revision.to_string();
            let wanted = if newest { REPLICAS } else { 0 };
            set["spec"]["replicas"] == wanted
                && set["status"]["replicas"] == wanted
                && set["status"]["availableReplicas"].as_i64().unwrap_or(0) == wanted
                && is_observed(set)
        });
    let pods = cluster.objects("", "pods");
    let pods_fit = i64::try_from(pods.len()) == Ok(REPLICAS)
        && pods.iter().all(|pod| {
            pod["spec"]["containers"][0]["image"] == image(revision) && pod["metadata"]["deletionTimestamp"].is_null()
        });
    told && sets_fit && pods_fit
}

fn complete(status: &Value) -> bool {
    let conditions = status["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let has = |kind: &str, reason: &str| {
        conditions.iter().any(|c| c["type"] == kind && c["status"] == "True" && c["reason"] == reason)
    };
    has("Progressing", "NewReplicaSetAvailable") && has("Available", "MinimumReplicasAvailable")
}

fn revision_of(object: &Value) -> &str {
    object["metadata"]["annotations"]["deployment.kubernetes.io/revision"].as_str().unwrap_or_default()
}

fn image(revision: u8) -> String {
    format!("web:{revision}")
}

fn deployment(strategy: Strategy) -> Value {
    let strategy = match strategy {
        Strategy::Rolling => json!({"type": "RollingUpdate", "rollingUpdate": {
            "maxSurge": rules::MAX_SURGE, "maxUnavailable": rules::MAX_UNAVAILABLE}}),
        Strategy::Recreate => json!({"type": "Recreate"}),
    };
    let labels = json!({"app": "web"});
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {
            "replicas": REPLICAS, "selector": {"matchLabels": labels}, "strategy": strategy,
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "web", "image": image(1)}]}
            }
        }
    })
}
