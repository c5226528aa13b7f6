//! Stories on the embedded cluster by the real `pintle run`, with whatever goes wrong meanwhile.
//!
//! Flow: [`StoryRun::start`] makes a cluster and its nodes in this process and starts the host as a child; [`StoryRun::run`]
//! does what the user of a [`Story`] does, and kills the host when told; [`StoryRun::finish`] waits until the host has
//! nothing left to write and hands every write to the rules of the story.
//!
//! Not here: what goes wrong, which is each test's part; the stories and their rules ([`rollout`], [`job`], [`stateful`],
//! [`daemon`], [`cron`], [`slices`], [`quota`]).

pub mod cron;
pub mod daemon;
pub mod job;
mod points;
pub mod quota;
pub mod rollout;
pub mod slices;
pub mod stateful;

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures::future::LocalBoxFuture;
use pintle_nodes::{Connect, SimNodes, SimNodesConfig};
use pintle_sim::{FaultScript, SimCluster, SimConfig, WriteRecord, WriteVerb};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::eventually;
use crate::objects::has_condition;
use crate::{ApiClient, HostProcess, PatchKind};

pub use points::crash_everywhere;

/// Part of the `User-Agent` of the host's writes, and of nobody else's.
pub const HOST: &str = "pintle/";
/// How long one step of a user may take, with a restart of the host and on a busy machine.
const STEP: Duration = Duration::from_secs(300);
/// A host that has not written for so long has come to rest.
const REST: Duration = Duration::from_millis(300);

/// What a user does, and what must come of it.
#[derive(Debug, Clone, Copy)]
pub struct Story {
    /// For messages.
    pub name: &'static str,
    /// The controllers that it needs.
    pub controllers: &'static [&'static str],
    /// Other flags of the host.
    pub flags: &'static [&'static str],
    /// What the user does. It ends when all has happened that the user waits for.
    pub tell: for<'a> fn(&'a User<'a>) -> LocalBoxFuture<'a, Result<()>>,
    /// Whether the cluster is in the final state.
    pub is_done: fn(&SimCluster) -> bool,
    /// The rules that bind each write, given all of them in order.
    pub check: fn(&[Arc<WriteRecord>]) -> Result<()>,
}

/// The user of a story, who tries again while the server is away.
pub struct User<'a> {
    /// The cluster, for looking at it.
    pub cluster: &'a SimCluster,
    client: &'a ApiClient,
    /// How long a step may take.
    patience: Duration,
}

impl std::fmt::Debug for User<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("User").field("client", self.client).finish_non_exhaustive()
    }
}

impl<'a> User<'a> {
    /// The user of this cluster, by way of this client.
    pub fn new(cluster: &'a SimCluster, client: &'a ApiClient) -> User<'a> {
        User { cluster, client, patience: STEP }
    }

    /// The same user, who waits so long for each step.
    #[must_use]
    pub fn with_patience(mut self, patience: Duration) -> User<'a> {
        self.patience = patience;
        self
    }

    /// Creates an object; it may exist, because an answer can be lost.
    ///
    /// # Errors
    /// The server refuses without end.
    pub async fn create(&self, path: &str, object: &Value) -> Result<()> {
        self.persist(async || self.client.create(path, object).await.map(drop), 409).await
    }

    /// Changes an object by a strategic merge patch.
    ///
    /// # Errors
    /// The server refuses without end.
    pub async fn patch(&self, path: &str, patch: &Value) -> Result<()> {
        self.persist(async || self.client.patch(path, PatchKind::StrategicMerge, patch).await.map(drop), 0).await
    }

    /// Deletes an object; it may be gone, because an answer can be lost.
    ///
    /// # Errors
    /// The server refuses without end.
    pub async fn delete(&self, path: &str) -> Result<()> {
        self.persist(async || self.client.delete(path, None).await.map(drop), 404).await
    }

    async fn persist(&self, request: impl AsyncFn() -> Result<()>, done: u16) -> Result<()> {
        eventually(self.patience, "the user's request", async || match request().await {
            Err(error) if crate::Failure::code_of(&error) != Some(done) => Err(error),
            _ => Ok(Some(())),
        })
        .await
    }

    /// Waits until the cluster is in a state.
    ///
    /// # Errors
    /// It is not in time; the message contains the Pods and these objects, as group and plural.
    pub async fn until(&self, what: &str, objects: &[(&str, &str)], is_so: impl Fn(&SimCluster) -> bool) -> Result<()> {
        let waited = eventually(self.patience, what, async || Ok(is_so(self.cluster).then_some(()))).await;
        waited.with_context(|| {
            let all =
                objects.iter().chain(&[("", "pods")]).flat_map(|(group, plural)| self.cluster.objects(group, plural));
            format!("state: {}", all.map(|object| brief(&object)).collect::<Value>())
        })
    }
}

/// Whether a Pod is ready, and nobody has deleted it.
fn is_ready(pod: &Value) -> bool {
    pod["metadata"]["deletionTimestamp"].is_null() && has_condition(pod, "Ready", "True")
}

/// Whether a write is the deletion of an object by the host.
fn is_delete_of_host(write: &WriteRecord) -> bool {
    write.verb == WriteVerb::Delete && write.user_agent.contains(HOST)
}

/// Takes one write after the other. The error of a step gets the write that it is about.
fn replay(history: &[Arc<WriteRecord>], mut step: impl FnMut(&WriteRecord) -> Result<()>) -> Result<()> {
    for write in history {
        step(write).with_context(|| {
            let key = &write.after.key;
            format!("write {}: {:?} {} {key} by {}", write.n, write.verb, write.resource, write.user_agent)
        })?;
    }
    Ok(())
}

fn brief(object: &Value) -> Value {
    let meta = &object["metadata"];
    let status = match object["kind"].as_str() {
        Some("Pod") => json!({"phase": object["status"]["phase"], "node": object["spec"]["nodeName"]}),
        _ => object["status"].clone(),
    };
    json!({"name": meta["name"], "deleted": meta["deletionTimestamp"], "replicas": object["spec"]["replicas"], "status": status})
}

/// A cluster, its nodes and a host at work on it. Dropping it ends all three.
pub struct StoryRun {
    /// The cluster.
    pub cluster: SimCluster,
    /// The host.
    pub host: HostProcess,
    story: Story,
    client: ApiClient,
    _nodes: SimNodes,
}

impl StoryRun {
    /// Starts everything.
    ///
    /// # Errors
    /// There is no `pintle` binary, or the system does not let us start something.
    pub async fn start(story: Story) -> Result<StoryRun> {
        let cluster = SimCluster::start(SimConfig::default()).await?;
        let config = SimNodesConfig { heartbeat: None, ..SimNodesConfig::new(Connect::Endpoint(cluster.base_url())) };
        let nodes = SimNodes::start(config).await?;
        let client = ApiClient::new(&cluster.base_url(), None, None);
        let flags = story.flags.iter().map(|flag| (*flag).to_owned());
        let flags: Vec<String> = [HostProcess::controllers(story.controllers)].into_iter().chain(flags).collect();
        let host = HostProcess::start(&cluster.kubeconfig(), &flags)?;
        Ok(StoryRun { cluster, host, story, client, _nodes: nodes })
    }

    /// The fault script of the cluster.
    pub fn faults(&self) -> &FaultScript {
        self.cluster.faults()
    }

    /// Arms the crash of the host right after its `n`-th write from now; to be given to [`StoryRun::run`].
    pub fn crash_after(&self, n: u64) -> watch::Receiver<bool> {
        self.faults().kill_client_after(n, HOST)
    }

    /// Does what the user does. As soon as `crash` turns true the host is killed, and started again.
    /// Returns whether that happened.
    ///
    /// # Errors
    /// A step did not end in time.
    ///
    /// # Cancel safety
    /// A dropped future leaves the story where it is.
    pub async fn run(&mut self, mut crash: watch::Receiver<bool>) -> Result<bool> {
        let user = User::new(&self.cluster, &self.client);
        let story = (self.story.tell)(&user);
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

    /// [`StoryRun::run`] without a crash.
    ///
    /// # Errors
    /// As `run`.
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
        eventually(STEP, "the host to rest", async || {
            let n = self.n_host_writes();
            if n != seen.0 {
                seen = (n, tokio::time::Instant::now());
            }
            Ok((seen.1.elapsed() >= REST).then_some(()))
        })
        .await?;
        // Later writes may have undone it.
        ensure!((self.story.is_done)(&self.cluster), "the cluster left its final state");
        (self.story.check)(&self.cluster.history()).with_context(|| self.host.log_tail())
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
