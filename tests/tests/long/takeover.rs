//! A controller manager ends in the middle of rollouts, and the next one finishes them: kube-controller-manager and Pintle in turns.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use pintle_tests::scenarios::history::{Effect, History, Recorder};
use pintle_tests::scenarios::stage::{Stage, deployment};
use pintle_tests::scenarios::subject::Running;
use pintle_tests::scenarios::{Subject, UserActions, rules};
use pintle_tests::{ControlPlane, PATIENCE, TestCluster, eventually};
use serde_json::{Value, json};

mod autoscaler;
mod workloads;

/// How the one in charge goes.
#[derive(Debug, Clone, Copy)]
enum Going {
    /// At once, in the middle of what it does.
    Killed,
    /// In order, when asked.
    Stopped,
}

impl Going {
    /// Ends the one in charge.
    async fn end(self, running: Running) {
        match self {
            Going::Killed => running.kill(),
            Going::Stopped => running.stop().await,
        }
    }
}

/// Creates a namespace, and waits until it is ready for Pods. The recorder has seen it from the start.
async fn open(s: &Stage) -> Result<Recorder> {
    s.client.create_namespace(&s.ns).await?;
    let recorder = Recorder::start(s).await?;
    s.open().await?;
    Ok(recorder)
}

/// Fails if a history broke a rule.
fn check_rules(history: &History) -> Result<()> {
    let broken = rules::broken(history, UserActions { replaces_subject: true, ..UserActions::default() });
    ensure!(broken.is_empty(), "rules are broken:\n{}", broken.join("\n"));
    Ok(())
}

/// How many Pods were made for an app, and how many went.
fn pods_of(history: &History, app: &str) -> (u64, u64) {
    let n = |effect: Effect| {
        let of_it = history.of("pods").filter(|pod| pod.object["metadata"]["labels"]["app"] == app);
        of_it.filter(|pod| pod.effect == effect).count() as u64
    };
    (n(Effect::Added), n(Effect::Deleted))
}

/// Starts kube-controller-manager, and lets `hand_over` go through the turns: how the one in charge goes, and who comes. Each has a
/// namespace of its own, in which objects of these kinds are compared too.
async fn take_turns(
    cluster: TestCluster,
    name: &str,
    kinds: &'static [&'static str],
    turns: &[(Going, &Subject)],
    hand_over: impl AsyncFn(&Stage, &ControlPlane, Running, Going, &Subject) -> Result<Running>,
) -> Result<()> {
    let plane = cluster.plane()?;
    let mut in_charge = Subject::KubeControllerManager.start(plane).await?;
    for (n, &(going, next)) in turns.iter().enumerate() {
        let namespace = Stage::new(plane.client(), plane.kubeconfig(), format!("{name}-{n}")).comparing(kinds);
        let turn = format!("{} is {going:?}, {} takes over", in_charge.name, next.name());
        in_charge = hand_over(&namespace, plane, in_charge, going, next).await.with_context(|| turn.clone())?;
        writeln!(std::io::stderr(), "{turn}: through")?;
    }
    in_charge.stop().await;
    cluster.stop().await;
    Ok(())
}

/// Replicas of each Deployment that is in the middle of something.
const N_MIDWAY: u64 = 4;

/// The longest that Pods take to end: the time in which a recreated Deployment has neither old nor new ones that run.
const STOP_DELAY: Duration = Duration::from_secs(3);

/// spec.replicas of the ReplicaSets of a Deployment: image -> (replicas, generation).
async fn sets_of(s: &Stage, name: &str) -> Result<BTreeMap<String, (u64, u64)>> {
    let sets = s.list("replicasets").await?;
    let of_it = sets.iter().filter(|set| set["metadata"]["ownerReferences"][0]["name"] == name);
    Ok(of_it
        .map(|set| {
            let image = set["spec"]["template"]["spec"]["containers"][0]["image"].as_str().unwrap_or_default();
            let number = |value: &Value| value.as_u64().unwrap_or(0);
            (image.to_owned(), (number(&set["spec"]["replicas"]), number(&set["metadata"]["generation"])))
        })
        .collect())
}

/// Waits until a Deployment has this many replicas or more of image 2.
async fn until_new(s: &Stage, name: &str, n: u64) -> Result<()> {
    eventually(PATIENCE, format!("{name} to have {n} new replicas"), async || {
        let sets = sets_of(s, name).await?;
        ensure!(sets.get("image:2").is_some_and(|(replicas, _)| *replicas >= n), "it has {sets:?}");
        Ok(Some(()))
    })
    .await
}

/// Three Deployments on their way from image 1 to image 2: one that rolls, one that was paused meanwhile, and one that
/// recreates and whose old Pods have not ended.
async fn go_midway(s: &Stage) -> Result<()> {
    let rolling = json!({"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}});
    let slow = json!({"strategy": rolling, "minReadySeconds": 2});
    let kinds = [("rolling", slow.clone()), ("paused", slow), ("recreate", json!({"strategy": {"type": "Recreate"}}))];
    for (name, spec) in &kinds {
        s.create("deployments", &deployment(name, N_MIDWAY as u32, spec.clone())).await?;
    }
    for (name, _) in &kinds {
        s.rolled_out(name).await?;
    }
    s.set_image("paused", "image:2").await?;
    until_new(s, "paused", 2).await?;
    s.patch("deployments", "paused", &json!({"spec": {"paused": true}})).await?;
    s.condition("paused", "Progressing", "Unknown", "DeploymentPaused").await?;
    s.set_image("rolling", "image:2").await?;
    until_new(s, "rolling", 2).await?;
    s.set_image("recreate", "image:2").await?;
    eventually(PATIENCE, "recreate to end its old Pods", async || {
        let sets = sets_of(s, "recreate").await?;
        ensure!(sets.get("image:1").is_some_and(|(replicas, _)| *replicas == 0), "it has {sets:?}");
        Ok(Some(()))
    })
    .await
}

/// Fails if nothing is left to do for the one who takes over.
async fn is_midway(s: &Stage) -> Result<()> {
    let rolling = sets_of(s, "rolling").await?;
    ensure!(rolling["image:2"].0 < N_MIDWAY && rolling["image:1"].0 > 0, "rolling is through: {rolling:?}");
    let recreate = sets_of(s, "recreate").await?;
    ensure!(!recreate.contains_key("image:2"), "recreate is through: {recreate:?}");
    let paused = sets_of(s, "paused").await?;
    ensure!(paused["image:1"].0 > 0 && paused["image:2"].0 > 0, "paused is through: {paused:?}");
    Ok(())
}

/// One in charge goes in the middle of everything, another comes and ends it.
async fn go_over_midway(s: &Stage, plane: &ControlPlane, from: Running, going: Going, to: &Subject) -> Result<Running> {
    let recorder = open(s).await?;
    go_midway(s).await.context("go midway")?;
    going.end(from).await;
    is_midway(s).await?;
    let left = sets_of(s, "paused").await?;
    let to = to.start(plane).await?;
    for name in ["rolling", "recreate"] {
        s.rolled_out(name).await?;
    }
    to.quiet(s).await?;
    ensure!(sets_of(s, "paused").await? == left, "a paused Deployment went on");
    s.patch("deployments", "paused", &json!({"spec": {"paused": false}})).await?;
    s.rolled_out("paused").await?;
    let census = to.quiet(s).await?;
    let history = recorder.until(&census.objects).await?;
    check_rules(&history)?;
    for name in ["rolling", "recreate", "paused"] {
        let sets: BTreeMap<String, u64> =
            sets_of(s, name).await?.into_iter().map(|(image, (replicas, _))| (image, replicas)).collect();
        ensure!(
            sets == BTreeMap::from([("image:1".to_owned(), 0), ("image:2".to_owned(), N_MIDWAY)]),
            "{name}: {sets:?}"
        );
        let (n_made, n_gone) = pods_of(&history, name);
        ensure!((n_made, n_gone) == (2 * N_MIDWAY, N_MIDWAY), "{name}: {n_made} Pods made, {n_gone} gone");
        s.has_revision(name, "2").await?;
    }
    Ok(to)
}

/// There is no Lease between them: the next one starts when the last one has ended.
#[tokio::test(flavor = "multi_thread")]
async fn who_takes_over_in_the_middle_ends_what_the_other_began() -> Result<()> {
    let cluster = TestCluster::real().await?.with_nodes(|nodes| nodes.stop_delay = STOP_DELAY).await?;
    let (kcm, pintle) = (Subject::KubeControllerManager, Subject::pintle()?);
    let turns = [(Going::Killed, &pintle), (Going::Killed, &kcm), (Going::Stopped, &pintle), (Going::Stopped, &kcm)];
    take_turns(cluster, "midway", &[], &turns, go_over_midway).await
}
