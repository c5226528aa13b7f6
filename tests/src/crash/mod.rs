//! A rollout on the embedded cluster by the real `pintle run`, with whatever goes wrong meanwhile.
//!
//! Flow: [`Rollout::start`] makes a cluster and its nodes in this process and starts the host as a child; [`Rollout::run`]
//! rolls a Deployment out twice, to image 1 and to image 2, and kills the host when told; [`Rollout::finish`] waits
//! until the host has nothing left to write and hands every write of the story to [`rules`].
//!
//! Not here: what goes wrong, which is each test's part; the rules that a story must have kept ([`rules`]).

mod points;
pub mod rules;

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use pintle_nodes::{Connect, SimNodes, SimNodesConfig};
use pintle_sim::{FaultScript, SimCluster, SimConfig};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::eventually::eventually;
use crate::{ApiClient, HostProcess, PatchKind};

pub use points::{Points, crash_at};

/// Part of the `User-Agent` of the host's writes, and of nobody else's.
pub const HOST: &str = "pintle/";
/// Pods of the Deployment.
pub const REPLICAS: i64 = 4;
/// How long one rollout may take, with a restart of the host and on a busy machine.
const ROLLOUT: Duration = Duration::from_secs(300);
/// A host that has not written for so long has come to rest.
const REST: Duration = Duration::from_millis(300);

/// What a rollout needs.
const CONTROLLERS: [&str; 3] = ["deployment-controller", "replicaset-controller", "garbage-collector-controller"];

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

/// How Pods are replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strategy {
    /// With one Pod more and one available Pod less at most.
    Rolling,
    /// All old Pods go before the first new one comes.
    Recreate,
}

/// A cluster, its nodes and a host at work on it. Dropping it ends all three.
pub struct Rollout {
    /// The cluster.
    pub cluster: SimCluster,
    /// The host.
    pub host: HostProcess,
    strategy: Strategy,
    client: ApiClient,
    _nodes: SimNodes,
}

impl Rollout {
    /// Starts everything.
    ///
    /// # Errors
    /// There is no `pintle` binary, or the system does not let us start something.
    pub async fn start(strategy: Strategy) -> Result<Rollout> {
        let cluster = SimCluster::start(SimConfig::default()).await?;
        let config = SimNodesConfig { heartbeat: None, ..SimNodesConfig::new(Connect::Endpoint(cluster.base_url())) };
        let nodes = SimNodes::start(config).await?;
        let client = ApiClient::new(&cluster.base_url(), None, None);
        let host = HostProcess::start(&cluster.kubeconfig(), &[HostProcess::controllers(&CONTROLLERS)])?;
        Ok(Rollout { cluster, host, strategy, client, _nodes: nodes })
    }

    /// The fault script of the cluster.
    pub fn faults(&self) -> &FaultScript {
        self.cluster.faults()
    }

    /// Arms the crash of the host right after its `n`-th write from now; to be given to [`Rollout::run`].
    pub fn crash_after(&self, n: u64) -> watch::Receiver<bool> {
        self.faults().kill_client_after(n, HOST)
    }

    /// Rolls image 1 out, then image 2. As soon as `crash` turns true the host is killed, and started again.
    /// Returns whether that happened.
    ///
    /// # Errors
    /// A rollout did not end in time.
    ///
    /// # Cancel safety
    /// A dropped future leaves the story where it is.
    pub async fn run(&mut self, mut crash: watch::Receiver<bool>) -> Result<bool> {
        let story = tell(&self.cluster, &self.client, self.strategy);
        tokio::pin!(story);
        let mut crashed = false;
        let ended = loop {
            tokio::select! {
                ended = &mut story => break ended,
                Ok(_) = crash.wait_for(|crash| *crash), if !crashed => {
                    crashed = true;
                    self.host.kill();
                    self.cluster.faults().revive_clients();
                    self.host.restart()?;
                }
            }
        };
        ended.with_context(|| self.host.log_tail())?;
        Ok(crashed)
    }

    /// [`Rollout::run`] without a crash.
    ///
    /// # Errors
    /// As `play`.
    pub async fn run_undisturbed(&mut self) -> Result<()> {
        // A receiver whose sender is gone never turns true.
        let (_, never) = watch::channel(false);
        self.run(never).await.map(drop)
    }

    /// Waits until the host rests, and checks the whole story.
    ///
    /// # Errors
    /// The host does not come to rest, ended by itself, or broke a rule.
    pub async fn finish(&mut self) -> Result<()> {
        ensure!(self.host.is_running(), "the host ended by itself:\n{}", self.host.log_tail());
        let mut seen = (self.n_host_writes(), tokio::time::Instant::now());
        eventually(ROLLOUT, "the host to rest", async || {
            let n = self.n_host_writes();
            if n != seen.0 {
                seen = (n, tokio::time::Instant::now());
            }
            Ok((seen.1.elapsed() >= REST).then_some(()))
        })
        .await?;
        // Later writes may have undone it.
        ensure!(rolled_out(&self.cluster, 2), "the Deployment left its final state");
        rules::check(&self.cluster.history(), self.strategy).with_context(|| self.host.log_tail())
    }

    /// Writes of the host that took effect so far.
    pub fn n_host_writes(&self) -> u64 {
        let history = self.cluster.history();
        history.iter().filter(|write| write.user_agent.contains(HOST)).map(|_| 1).sum()
    }

    /// Those of them that do not depend on what the host sees at once: neither status updates nor events.
    pub fn n_certain_writes(&self) -> u64 {
        let history = self.cluster.history();
        let certain = history.iter().filter(|write| {
            let is_status = write.subresource.as_deref() == Some("status");
            write.user_agent.contains(HOST) && !is_status && write.resource != "events"
        });
        certain.map(|_| 1).sum()
    }
}

async fn tell(cluster: &SimCluster, client: &ApiClient, strategy: Strategy) -> Result<()> {
    persist(async || client.create(DEPLOYMENTS, &deployment(strategy)).await.map(drop), 409).await?;
    wait_for(cluster, 1).await?;
    let patch = json!({"spec": {"template": {"spec": {"containers": [{"name": "web", "image": image(2)}]}}}});
    let path = format!("{DEPLOYMENTS}/web");
    persist(async || client.patch(&path, PatchKind::StrategicMerge, &patch).await.map(drop), 0).await?;
    wait_for(cluster, 2).await
}

/// The user tries again while the server is away.
async fn persist(request: impl AsyncFn() -> Result<()>, done: u16) -> Result<()> {
    eventually(ROLLOUT, "the user's request", async || match request().await {
        Err(error) if crate::Failure::code_of(&error) != Some(done) => Err(error),
        _ => Ok(Some(())),
    })
    .await
}

async fn wait_for(cluster: &SimCluster, revision: u8) -> Result<()> {
    let waited = eventually(ROLLOUT, format_args!("revision {revision}"), async || {
        Ok(rolled_out(cluster, revision).then_some(()))
    })
    .await;
    waited.with_context(|| {
        let state: Vec<Value> =
            ["deployments", "replicasets"].iter().flat_map(|r| cluster.objects("apps", r)).map(|o| brief(&o)).collect();
        let pods: Vec<Value> = cluster.objects("", "pods").iter().map(|o| brief(o)).collect();
        format!("state: {}", json!({"apps": state, "pods": pods}))
    })
}

fn brief(object: &Value) -> Value {
    let meta = &object["metadata"];
    let status = match object["kind"].as_str() {
        Some("Pod") => json!({"phase": object["status"]["phase"], "node": object["spec"]["nodeName"]}),
        _ => object["status"].clone(),
    };
    json!({"name": meta["name"], "deleted": meta["deletionTimestamp"], "replicas": object["spec"]["replicas"], "status": status})
}

/// Whether the Deployment, its ReplicaSets and its Pods are what they are after so many rollouts.
fn rolled_out(cluster: &SimCluster, revision: u8) -> bool {
    let deployments = cluster.objects("apps", "deployments");
    let [deployment] = &deployments[..] else { return false };
    let status = &deployment["status"];
    let counted = |field: &str| status[field].as_i64() == Some(REPLICAS);
    let told = status["observedGeneration"] == deployment["metadata"]["generation"]
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
                && set["status"]["observedGeneration"] == set["metadata"]["generation"]
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
