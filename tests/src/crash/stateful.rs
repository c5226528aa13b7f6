//! A StatefulSet with a claim for each Pod that is rolled out twice, to image 1 and to image 2.
//!
//! Rules, at each write:
//! 1. a Pod comes only when all of lower ordinals are ready, until the first rollout has ended;
//! 2. afterwards at most one Pod is missing or not ready, and updates go from the highest ordinal down;
//! 3. claims and revisions are never deleted, and there is one for each Pod and one for each template.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use pintle_sim::{EventType, SimCluster, WriteRecord};
use serde_json::{Value, json};

use super::{Story, User, is_delete_of_host, is_ready, replay};
use crate::objects::is_observed;

const SETS: &str = "/apis/apps/v1/namespaces/default/statefulsets";
const REPLICAS: usize = 3;

/// The story.
pub const ROLLOUT: Story = Story {
    name: "StatefulSet",
    controllers: &["statefulset-controller", "garbage-collector-controller"],
    flags: &[],
    tell: |user| Box::pin(tell(user)),
    is_done: |cluster| is_rolled_out(cluster, 2),
    check,
};

async fn tell(user: &User<'_>) -> Result<()> {
    let labels = json!({"app": "db"});
    let set = json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db"},
        "spec": {
            "replicas": REPLICAS, "serviceName": "db", "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "c", "image": image(1), "volumeMounts": [{"name": "data", "mountPath": "/data"}]}]},
            },
            "volumeClaimTemplates": [{
                "metadata": {"name": "data"},
                "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
            }],
        },
    });
    user.create(SETS, &set).await?;
    wait_for(user, 1).await?;
    let patch = json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": image(2)}]}}}});
    user.patch(&format!("{SETS}/db"), &patch).await?;
    wait_for(user, 2).await
}

async fn wait_for(user: &User<'_>, revision: usize) -> Result<()> {
    user.until(&format!("revision {revision}"), &[("apps", "statefulsets")], |cluster| is_rolled_out(cluster, revision))
        .await
}

fn image(revision: usize) -> String {
    format!("db:{revision}")
}

fn is_rolled_out(cluster: &SimCluster, revision: usize) -> bool {
    let sets = cluster.objects("apps", "statefulsets");
    let [set] = &sets[..] else { return false };
    let status = &set["status"];
    let revisions = cluster.objects("apps", "controllerrevisions");
    let newest = revisions.iter().max_by_key(|revision| revision["revision"].as_i64());
    let newest = newest.map(|newest| &newest["metadata"]["name"]);
    let pods = cluster.objects("", "pods");
    ["replicas", "readyReplicas", "currentReplicas", "updatedReplicas"].iter().all(|field| status[*field] == REPLICAS)
        && is_observed(set)
        && newest.is_some_and(|name| status["currentRevision"] == *name && status["updateRevision"] == *name)
        && revisions.len() == revision
        && pods.len() == REPLICAS
        && pods.iter().all(|pod| pod["spec"]["containers"][0]["image"] == image(revision) && is_ready(pod))
}

#[derive(Default)]
struct Replay {
    /// Ordinal -> Pod.
    pods: BTreeMap<usize, Value>,
    /// The first rollout has ended.
    served: bool,
    n_created: usize,
    n_deletes: usize,
    n_claims: usize,
    n_revisions: usize,
    last_updated: Option<usize>,
}

fn check(history: &[Arc<WriteRecord>]) -> Result<()> {
    let mut seen = Replay::default();
    replay(history, |write| match write.resource.as_str() {
        "pods" => seen.pod(write),
        "persistentvolumeclaims" => kept(&mut seen.n_claims, write),
        "controllerrevisions" => kept(&mut seen.n_revisions, write),
        _ => Ok(()),
    })?;
    ensure!(seen.n_created == 2 * REPLICAS, "{} Pods were created", seen.n_created);
    ensure!(seen.n_deletes == REPLICAS, "{} Pods were deleted by the host", seen.n_deletes);
    ensure!(seen.n_claims == REPLICAS, "{} claims were created", seen.n_claims);
    ensure!(seen.n_revisions == 2, "{} revisions were created", seen.n_revisions);
    Ok(())
}

fn kept(n_created: &mut usize, write: &WriteRecord) -> Result<()> {
    ensure!(write.effect != EventType::Deleted, "it is deleted");
    *n_created += usize::from(write.effect == EventType::Added);
    Ok(())
}

impl Replay {
    fn pod(&mut self, write: &WriteRecord) -> Result<()> {
        let pod = write.after.value();
        let name = pod["metadata"]["name"].as_str().unwrap_or_default();
        let ordinal: usize =
            name.rsplit_once('-').and_then(|(_, ordinal)| ordinal.parse().ok()).context("no ordinal")?;
        if is_delete_of_host(write) {
            self.n_deletes += 1;
            ensure!(
                self.last_updated.is_none_or(|last| ordinal < last),
                "{ordinal} is updated after {:?}",
                self.last_updated
            );
            self.last_updated = Some(ordinal);
        }
        if write.effect == EventType::Added {
            self.n_created += 1;
            let n_ready = self.pods.range(..ordinal).filter(|(_, pod)| is_ready(pod)).count();
            ensure!(n_ready == ordinal, "only {n_ready} Pods of lower ordinals are ready");
        }
        match write.effect {
            EventType::Deleted => self.pods.remove(&ordinal),
            _ => self.pods.insert(ordinal, pod),
        };
        let n_ready = self.pods.values().filter(|pod| is_ready(pod)).count();
        self.served |= n_ready == REPLICAS;
        ensure!(!self.served || n_ready + 1 >= REPLICAS, "only {n_ready} Pods are ready");
        Ok(())
    }
}
