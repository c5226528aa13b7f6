//! A controller manager ends while an autoscaler holds back a smaller size, and the next one starts the window again.
//!
//! Nobody keeps recommendations in the API server: kube-controller-manager that starts takes the size that it finds as its first
//! recommendation (`recordInitialRecommendation`), and so a window never becomes shorter than it is meant to be.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use pintle_tests::scenarios::history::History;
use pintle_tests::scenarios::stage::{Stage, deployment};
use pintle_tests::scenarios::subject::Running;
use pintle_tests::scenarios::{Subject, by_id};
use pintle_tests::{ControlPlane, TestCluster};
use serde_json::{Value, json};

use super::{Going, check_rules, open, take_turns};

const AUTOSCALERS: &str = "horizontalpodautoscalers";

/// How long a smaller size is held back: longer than a controller manager takes to end, also on a busy machine.
const WINDOW: Duration = Duration::from_secs(15);

/// Sizes before, with much to do, and with little to do.
const SIZES: [u64; 3] = [2, 4, 1];

/// What a Pod is to do.
const SHARE: u64 = 10;

/// Sets how much there is to do: as much as this many Pods do.
async fn set_load(s: &Stage, n_pods: u64) -> Result<()> {
    let map = json!({
        "metadata": {"name": "queue", "labels": {"sim.pintle.dev/metrics": "external"}},
        "data": {"depth": (n_pods * SHARE).to_string()},
    });
    match s.client.find(&s.one("configmaps", "queue")).await? {
        None => s.create("configmaps", &map).await?,
        Some(_) => s.patch("configmaps", "queue", &map).await?,
    };
    Ok(())
}

fn autoscaler() -> Value {
    let at_once = json!([{"type": "Percent", "value": 100, "periodSeconds": 1}]);
    let target = json!({"type": "AverageValue", "averageValue": SHARE.to_string()});
    json!({
        "metadata": {"name": "a"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "minReplicas": 1, "maxReplicas": 10,
            "metrics": [{"type": "External", "external": {"metric": {"name": "depth"}, "target": target}}],
            "behavior": {
                "scaleUp": {"stabilizationWindowSeconds": 0, "policies": at_once},
                "scaleDown": {"stabilizationWindowSeconds": WINDOW.as_secs(), "policies": at_once},
            },
        },
    })
}

/// Waits until the autoscaler has brought its target to this size.
async fn has_size(s: &Stage, size: u64) -> Result<()> {
    s.until("deployments", "web", &format!("want {size}"), |web| web["spec"]["replicas"] == size).await?;
    s.rolled_out("web").await?;
    s.until(AUTOSCALERS, "a", &format!("have the size {size}"), |hpa| {
        hpa["status"]["currentReplicas"] == size && hpa["status"]["desiredReplicas"] == size
    })
    .await
}

/// The condition `AbleToScale` has this reason.
fn is_able(hpa: &Value, reason: &str) -> bool {
    let mut conditions = hpa["status"]["conditions"].as_array().into_iter().flatten();
    conditions.any(|condition| condition["type"] == "AbleToScale" && condition["reason"] == reason)
}

/// More to do has made the target larger, and less to do has not made it smaller yet.
async fn go_midway(s: &Stage) -> Result<()> {
    let [before, much, little] = SIZES;
    s.create("deployments", &deployment("web", before as u32, json!({}))).await?;
    s.rolled_out("web").await?;
    set_load(s, much).await?;
    s.create(AUTOSCALERS, &autoscaler()).await?;
    has_size(s, much).await?;
    set_load(s, little).await?;
    s.until(AUTOSCALERS, "a", "hold back a smaller size", |hpa| is_able(hpa, "ScaleDownStabilized")).await
}

async fn hand_over(s: &Stage, plane: &ControlPlane, from: Running, going: Going, to: &Subject) -> Result<Running> {
    let [_, much, little] = SIZES;
    let recorder = open(s).await?;
    go_midway(s).await.context("go midway")?;
    going.end(from).await;
    let web = s.get("deployments", "web").await?;
    ensure!(web["spec"]["replicas"] == much, "the window is over already: {}", web["spec"]);
    let before = s.get(AUTOSCALERS, "a").await?;
    ensure!(is_able(&before, "ScaleDownStabilized"), "the window is over already: {}", before["status"]);
    let started = Instant::now();
    let to = to.start(plane).await?;
    s.until("deployments", "web", "become smaller", |web| web["spec"]["replicas"] != much).await?;
    let held_back = started.elapsed();
    ensure!(held_back >= WINDOW, "a smaller size was held back for {held_back:?} instead of {WINDOW:?}");
    has_size(s, little).await?;
    s.until(AUTOSCALERS, "a", "want nothing else", |hpa| is_able(hpa, "ReadyForNewScale")).await?;
    check(&recorder.until(&by_id(s, &s.settle().await?)).await?)?;
    Ok(to)
}

/// The target has had each size once, and nothing failed.
fn check(history: &History) -> Result<()> {
    check_rules(history)?;
    let mut sizes: Vec<u64> =
        history.of("deployments").filter_map(|web| web.object["spec"]["replicas"].as_u64()).collect();
    sizes.dedup();
    ensure!(sizes == SIZES, "the Deployment had the sizes {sizes:?}");
    let mut times: Vec<&Value> = history.of(AUTOSCALERS).map(|hpa| &hpa.object["status"]["lastScaleTime"]).collect();
    times.dedup();
    ensure!(times.len() == SIZES.len() && times[0].is_null(), "it was scaled at {times:?}");
    let of_it =
        || history.of("events").filter(|event| event.object["involvedObject"]["kind"] == "HorizontalPodAutoscaler");
    let mut told: Vec<&str> = of_it().filter_map(|event| event.object["message"].as_str()).collect();
    told.sort_unstable();
    told.dedup();
    let wanted = [
        "New size: 1; reason: All metrics below target",
        "New size: 4; reason: external metric depth(nil) above target",
    ];
    ensure!(told == wanted, "its events: {told:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn who_takes_over_an_autoscaler_holds_back_a_smaller_size_for_a_whole_window() -> Result<()> {
    let cluster = TestCluster::real().await?.with_nodes(|_| {}).await?;
    let _metrics = cluster.serve_metrics().await?;
    let (kcm, pintle) = (Subject::KubeControllerManager, Subject::pintle()?);
    // The first turn is the reference, and the third one a restart too.
    let turns = [(Going::Killed, &kcm), (Going::Killed, &pintle), (Going::Stopped, &pintle), (Going::Killed, &kcm)];
    take_turns(cluster, "autoscaler", &[AUTOSCALERS], &turns, hand_over).await
}
