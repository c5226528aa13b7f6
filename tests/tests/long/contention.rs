//! Hosts and a kube-controller-manager contend for one Lease, while their processes, the API server and the Lease have faults: at no
//! instant do two write, and nothing is lost.
//!
//! The judge is the audit log of kube-apiserver: the user of each write must be the one that wrote the Lease last.

mod writes;

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use pintle_tests::controlplane::{Audit, KubeControllerManager, Options, User};
use pintle_tests::{ApiClient, ControlPlane, HostProcess, PATIENCE, PatchKind, eventually};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use writes::Writes;

const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-controller-manager";
const SETS: &str = "/apis/apps/v1/namespaces/default/replicasets";
const PODS: &str = "/api/v1/namespaces/default/pods";

/// How long a leader is paused: longer than the Lease.
const PAUSE: Duration = Duration::from_secs(30);
/// ReplicaSets that a user scales all the time.
const N_SETS: u32 = 6;

/// What happens to the leader or to the Lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// It is killed.
    Killed,
    /// It is asked to stop.
    Stopped,
    /// It does not run for [`PAUSE`].
    Paused,
    /// kube-apiserver is killed and starts again.
    NoApiServer,
    /// The Lease is deleted.
    Deleted,
    /// Somebody removes the holder.
    Cleared,
    /// Somebody enters another holder.
    Stolen,
    /// Its wall clock jumps by an hour, forwards or backwards.
    ClockJump(i32),
}

/// A user of the API server with a process of its own.
enum Contender {
    Pintle { user: String, host: Box<Option<HostProcess>>, clock: writes::Clock },
    KubeControllerManager { user: String, kcm: Box<Option<KubeControllerManager>> },
}

struct Contest {
    plane: ControlPlane,
    admin: ApiClient,
    contenders: Vec<Contender>,
    load: JoinHandle<()>,
}

impl Contest {
    /// Starts the contenders, one after another, and a user who scales ReplicaSets.
    async fn start(n_hosts: usize, with_kcm: bool, seed: u64) -> Result<Self> {
        let names = (0..n_hosts).map(|i| format!("host-{i}")).chain(with_kcm.then(|| "kcm".to_owned()));
        let users: Vec<User> = names.map(|name| User { name, groups: vec!["system:masters".to_owned()] }).collect();
        let options = Options { users: users.clone(), audit: Some(Audit::Writes), ..Options::default() };
        let plane = ControlPlane::start(options).await?;
        let admin = plane.client();
        // Pods need it, and no controller makes it.
        admin.create("/api/v1/namespaces/default/serviceaccounts", &json!({"metadata": {"name": "default"}})).await?;
        let pod = json!({"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        for i in 0..N_SETS {
            let label = format!("x{i}");
            let mut template = pod.clone();
            template["metadata"]["labels"]["app"] = label.as_str().into();
            let set = json!({
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": label},
                "spec": {"replicas": 1, "selector": {"matchLabels": {"app": label}}, "template": template},
            });
            admin.create(SETS, &set).await?;
        }
        let load = tokio::spawn(scale(plane.client(), seed));
        let mut contest = Self { plane, admin, contenders: Vec::new(), load };
        for user in users {
            let contender = if user.name == "kcm" {
                Contender::KubeControllerManager { user: user.name, kcm: Box::default() }
            } else {
                let clock = writes::Clock::new(contest.plane.folder(), &user.name)?;
                Contender::Pintle { user: user.name, host: Box::default(), clock }
            };
            contest.contenders.push(contender);
            let last = contest.contenders.len() - 1;
            contest.begin(last).await?;
        }
        Ok(contest)
    }

    /// Starts a contender that does not run.
    async fn begin(&mut self, i: usize) -> Result<()> {
        let plane = &self.plane;
        match &mut self.contenders[i] {
            Contender::Pintle { user, host, clock } => {
                let kubeconfig = std::fs::read_to_string(plane.kubeconfig_for(user))?;
                let flags = [HostProcess::controllers(&["replicaset"]), "--leader-elect".to_owned()];
                let started = HostProcess::start_with_environment(&kubeconfig, &flags, &clock.environment())?;
                host.insert(started).ready().await?;
            }
            Contender::KubeControllerManager { user, kcm } => {
                let kubeconfig = format!("--kubeconfig={}", plane.kubeconfig_for(user).display());
                **kcm = Some(plane.start_kcm(&["replicaset-controller"], &["--leader-elect=true", &kubeconfig]).await?);
            }
        }
        Ok(())
    }

    /// The contender that leads, once one does.
    async fn leader(&self) -> Result<usize> {
        eventually(PATIENCE, "somebody to lead", async || {
            let lease = self.admin.get(LEASE).await?;
            let holder = lease["spec"]["holderIdentity"].as_str().unwrap_or_default();
            ensure!(!holder.is_empty(), "nobody holds the Lease");
            Ok(self.contenders.iter().position(|contender| match contender {
                Contender::Pintle { host, .. } => host.as_ref().as_ref().is_some_and(|host| host.is_of(holder)),
                Contender::KubeControllerManager { kcm, .. } => {
                    kcm.is_some() && lease["metadata"]["annotations"]["pintle.dev/holder"] != holder
                }
            }))
        })
        .await
    }

    /// Carries out a fault; returns how long it took until a contender wrote again, counted from when the last one could not any more.
    async fn suffer(&mut self, fault: Fault) -> Result<Option<Duration>> {
        let leader = self.leader().await?;
        self.somebody_writes(&[]).await?;
        let (before, is_kcm) =
            (Instant::now(), matches!(self.contenders[leader], Contender::KubeControllerManager { .. }));
        let user = self.contenders[leader].user().to_owned();
        match (&mut self.contenders[leader], fault) {
            (Contender::Pintle { host, .. }, Fault::Killed) => drop(host.take()),
            (Contender::KubeControllerManager { kcm, .. }, Fault::Killed) => drop(kcm.take()),
            (Contender::Pintle { host, .. }, Fault::Stopped) => host.take().context("it runs")?.stop().await,
            (Contender::Pintle { host, .. }, Fault::Paused) => {
                host.as_ref().as_ref().context("it runs")?.process.pause()
            }
            (Contender::Pintle { clock, .. }, Fault::ClockJump(hours)) => clock.jump(hours)?,
            (_, Fault::NoApiServer) => {
                self.plane.kill_apiserver().await;
                self.plane.start_apiserver().await?;
            }
            (_, Fault::Deleted) => drop(self.admin.delete(LEASE, None).await?),
            (_, Fault::Cleared) => self.hold("").await?,
            (_, Fault::Stolen) => self.hold("somebody-else").await?,
            (Contender::KubeControllerManager { .. }, _) => return Ok(None),
        }
        let at = Instant::now();
        let others = [user.as_str()];
        let others = if matches!(fault, Fault::Killed | Fault::Stopped | Fault::Paused) { &others[..] } else { &[] };
        self.somebody_writes(others).await?;
        let took = at.elapsed();
        if fault == Fault::Paused {
            tokio::time::sleep(PAUSE.saturating_sub(before.elapsed())).await;
            if let Contender::Pintle { host, .. } = &self.contenders[leader] {
                host.as_ref().as_ref().context("it runs")?.process.resume();
            }
            self.somebody_writes(others).await?;
        }
        // kube-controller-manager ends when it loses the Lease.
        let ended = match &mut self.contenders[leader] {
            Contender::Pintle { host, .. } => host.is_none(),
            Contender::KubeControllerManager { kcm, .. } => {
                kcm.as_mut().as_mut().is_none_or(|kcm| kcm.process.exited().is_some())
            }
        };
        if ended {
            self.begin(leader).await?;
        }
        ensure!(!is_kcm || fault != Fault::Paused, "kube-controller-manager is not paused");
        Ok(Some(took))
    }

    async fn hold(&self, holder: &str) -> Result<()> {
        self.admin.patch(LEASE, PatchKind::Merge, &json!({"spec": {"holderIdentity": holder}})).await.map(drop)
    }

    /// Waits until a Pod is created or deleted by a contender that is none of these.
    async fn somebody_writes(&self, none_of: &[&str]) -> Result<()> {
        let seen = Writes::read(&self.plane)?.len();
        eventually(PATIENCE, "a contender to write", async || {
            let writes = Writes::read(&self.plane)?;
            Ok(writes.after(seen).any(|write| write.is_of_pods() && !none_of.contains(&write.user())).then_some(()))
        })
        .await
    }

    /// Stops the load, waits until every ReplicaSet has its Pods, and judges all writes.
    async fn end(self) -> Result<String> {
        self.load.abort();
        eventually(PATIENCE, "all ReplicaSets to have their Pods", async || {
            let (sets, pods) = (self.admin.list(SETS).await?, self.admin.list(PODS).await?);
            for set in &sets {
                let owned = |pod: &&Value| {
                    pod["metadata"]["ownerReferences"][0]["uid"] == set["metadata"]["uid"]
                        && pod["metadata"]["deletionTimestamp"].is_null()
                };
                let n_pods = pods.iter().filter(owned).count();
                ensure!(set["spec"]["replicas"] == n_pods, "{} has {n_pods} Pods", set["metadata"]["name"]);
            }
            Ok(Some(()))
        })
        .await?;
        let writes = Writes::read(&self.plane)?;
        let overlaps = writes.overlaps();
        let (of_kcm, of_pintle): (Vec<_>, Vec<_>) = overlaps.into_iter().partition(|overlap| overlap.user == "kcm");
        ensure!(of_pintle.is_empty(), "writes without the Lease: {of_pintle:#?}");
        Ok(format!(
            "{} writes by contenders, {} terms; written without the Lease: 0 by Pintle, {} by kube-controller-manager",
            writes.n_of_contenders(),
            writes.n_terms(),
            of_kcm.len(),
        ))
    }
}

impl Contender {
    fn user(&self) -> &str {
        match self {
            Self::Pintle { user, .. } | Self::KubeControllerManager { user, .. } => user,
        }
    }
}

/// Scales ReplicaSets up and down, so that there is always something to write.
async fn scale(client: ApiClient, seed: u64) {
    let mut random = StdRng::seed_from_u64(seed);
    loop {
        let set = format!("{SETS}/x{}", random.random_range(0..N_SETS));
        let replicas = random.random_range(0..8);
        // The API server is away at times.
        let _ = client.patch(&set, PatchKind::Merge, &json!({"spec": {"replicas": replicas}})).await;
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

async fn contest(n_hosts: usize, with_kcm: bool, faults: &[Fault]) -> Result<()> {
    let seed = rand::random();
    println!("{n_hosts} hosts{}, seed {seed}", if with_kcm { " and kube-controller-manager" } else { "" });
    let mut contest = Contest::start(n_hosts, with_kcm, seed).await?;
    for fault in faults {
        let leader = contest.leader().await?;
        let user = contest.contenders[leader].user().to_owned();
        match contest.suffer(*fault).await.with_context(|| format!("{fault:?} while {user} leads"))? {
            Some(took) => println!("{fault:?} while {user} leads: the next write after {took:.2?}"),
            None => println!("{fault:?} while {user} leads: not for it"),
        }
    }
    println!("{}", contest.end().await?);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hosts_never_write_at_once() -> Result<()> {
    let faults = [
        Fault::Stopped,
        Fault::Killed,
        Fault::Paused,
        Fault::NoApiServer,
        Fault::Deleted,
        Fault::Cleared,
        Fault::Stolen,
        Fault::ClockJump(1),
        Fault::ClockJump(-1),
        Fault::Stopped,
    ];
    contest(2, false, &faults).await
}

#[tokio::test(flavor = "multi_thread")]
async fn three_hosts_never_write_at_once() -> Result<()> {
    let faults = [Fault::Killed, Fault::Stopped, Fault::Paused, Fault::Deleted, Fault::NoApiServer, Fault::Stopped];
    contest(3, false, &faults).await
}

#[tokio::test(flavor = "multi_thread")]
async fn hosts_and_kube_controller_manager_never_write_at_once() -> Result<()> {
    contest(1, true, &[Fault::Stopped, Fault::Killed, Fault::Paused, Fault::Killed, Fault::NoApiServer]).await?;
    contest(2, true, &[Fault::Killed, Fault::Killed, Fault::Stopped, Fault::Killed, Fault::Paused]).await
}
