//! A DaemonSet that is rolled out twice, to image 1 and with surge to image 2.
//!
//! Rules, at each write:
//! 1. a Node has at most one Pod of a revision, and two in all;
//! 2. once the first rollout has ended, each Node has a Pod that is ready;
//! 3. revisions are never deleted, and there is one for each template.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use pintle_sim::{EventType, SimCluster, WriteRecord};
use serde_json::{Value, json};

use super::{Story, User, is_delete_of_host, is_ready, replay};
use crate::objects::{is_observed, pinned_node};

const SETS: &str = "/apis/apps/v1/namespaces/default/daemonsets";
/// Those of `SimNodesConfig::new`.
const NODES: usize = 3;

/// The story.
pub const SURGE: Story = Story {
    name: "DaemonSet with surge",
    controllers: &["daemonset-controller", "garbage-collector-controller"],
    flags: &[],
    tell: |user| Box::pin(tell(user)),
    is_done: |cluster| is_rolled_out(cluster, 2),
    check,
};

async fn tell(user: &User<'_>) -> Result<()> {
    let labels = json!({"app": "agent"});
    let set = json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "agent"},
        "spec": {
            "selector": {"matchLabels": labels},
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": image(1)}]}},
        },
    });
    user.create(SETS, &set).await?;
    wait_for(user, 1).await?;
    let patch = json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": image(2)}]}}}});
    user.patch(&format!("{SETS}/agent"), &patch).await?;
    wait_for(user, 2).await
}

async fn wait_for(user: &User<'_>, revision: usize) -> Result<()> {
    user.until(&format!("revision {revision}"), &[("apps", "daemonsets")], |cluster| is_rolled_out(cluster, revision))
        .await
}

fn image(revision: usize) -> String {
    format!("agent:{revision}")
}

fn is_rolled_out(cluster: &SimCluster, revision: usize) -> bool {
    let sets = cluster.objects("apps", "daemonsets");
    let [set] = &sets[..] else { return false };
    let pods = cluster.objects("", "pods");
    let fields = [
        "desiredNumberScheduled",
        "currentNumberScheduled",
        "updatedNumberScheduled",
        "numberReady",
        "numberAvailable",
    ];
    fields.iter().all(|field| set["status"][*field] == NODES)
        && is_observed(set)
        && cluster.objects("apps", "controllerrevisions").len() == revision
        && pods.len() == NODES
        && pods.iter().all(|pod| pod["spec"]["containers"][0]["image"] == image(revision) && is_ready(pod))
}

#[derive(Default)]
struct Replay {
    /// uid -> Pod.
    pods: BTreeMap<String, Value>,
    /// The first rollout has ended.
    served: bool,
    n_created: usize,
    n_deletes: usize,
    n_revisions: usize,
}

fn check(history: &[Arc<WriteRecord>]) -> Result<()> {
    let mut seen = Replay::default();
    replay(history, |write| match write.resource.as_str() {
        "pods" => seen.pod(write),
        "controllerrevisions" => seen.revision(write),
        _ => Ok(()),
    })?;
    ensure!(seen.n_created == 2 * NODES, "{} Pods were created", seen.n_created);
    ensure!(seen.n_deletes == NODES, "{} Pods were deleted by the host", seen.n_deletes);
    ensure!(seen.n_revisions == 2, "{} revisions were created", seen.n_revisions);
    Ok(())
}

impl Replay {
    fn revision(&mut self, write: &WriteRecord) -> Result<()> {
        ensure!(write.effect != EventType::Deleted, "it is deleted");
        self.n_revisions += usize::from(write.effect == EventType::Added);
        Ok(())
    }

    fn pod(&mut self, write: &WriteRecord) -> Result<()> {
        let uid = write.after.uid.to_string();
        self.n_deletes += usize::from(is_delete_of_host(write));
        self.n_created += usize::from(write.effect == EventType::Added);
        let pod = write.after.value();
        match write.effect {
            EventType::Deleted => self.pods.remove(&uid),
            _ => self.pods.insert(uid, pod),
        };
        let mut on: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
        for pod in self.pods.values() {
            on.entry(pinned_node(pod).context("a Pod for no Node")?).or_default().push(pod);
        }
        for (node, pods) in &on {
            let of = |revision: usize| {
                pods.iter().filter(|pod| pod["spec"]["containers"][0]["image"] == image(revision)).count()
            };
            ensure!(of(1) <= 1 && of(2) <= 1, "{node} has {} Pods of image 1 and {} of image 2", of(1), of(2));
        }
        let n_served = on.values().filter(|pods| pods.iter().any(|pod| is_ready(pod))).count();
        self.served |= n_served == NODES;
        ensure!(!self.served || n_served == NODES, "only {n_served} Nodes have a ready Pod");
        Ok(())
    }
}
