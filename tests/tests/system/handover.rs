//! A cluster is handed over from kube-controller-manager to Pintle and back, without changes of its objects.

use anyhow::{Context, Result, ensure};
use pintle_tests::handover::{Census, Comparison, fill, hand_over};
use pintle_tests::scenarios::Subject;
use pintle_tests::scenarios::history::Recorder;
use pintle_tests::scenarios::stage::{Stage, replica_set};
use pintle_tests::scenarios::subject::Running;
use pintle_tests::{PATIENCE, TestCluster, eventually};
use serde_json::{Value, json};

/// Work under the one in charge, on what the other one made. `images` are the newest and an older image.
async fn work_on(s: &Stage, in_charge: &Running, replicas: u32, new: &str, old: &str) -> Result<Census> {
    let n_before = Census::take(s).await?.count("replicasets");
    s.scale("deployments", "plain", replicas).await?;
    s.scale("deployments", "annotated", replicas).await?;
    s.scale("replicasets", "rs-plain", replicas).await?;
    s.scale("replicationcontrollers", "rc-plain", replicas).await?;
    s.set_image("surge", new).await?;
    // A revision that is there already, so no ReplicaSet is made for it.
    s.set_image("revisions", old).await?;
    for name in ["plain", "annotated", "surge", "revisions"] {
        s.rolled_out(name).await?;
    }
    s.ready("replicasets", "rs-plain", replicas.into()).await?;
    s.ready("replicationcontrollers", "rc-plain", replicas.into()).await?;
    let census = in_charge.quiet(s).await?;
    let n_made = census.count("replicasets") - n_before;
    ensure!(n_made == 1, "{n_made} ReplicaSets were made for one new template");
    Ok(census)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_cluster_goes_to_pintle_and_back_untouched() -> Result<()> {
    let cluster = TestCluster::real().await?.with_nodes(|_| {}).await?;
    let plane = cluster.plane()?;
    let namespace = Stage::new(plane.client(), plane.kubeconfig(), "handover".to_owned());
    let namespace = namespace.comparing(&["endpoints", "endpointslices", "services"]);
    let kcm = Subject::KubeControllerManager.start(plane).await?;
    namespace.client.create_namespace(&namespace.ns).await?;
    namespace.open().await?;
    fill(&namespace).await?;

    let pintle = hand_over(&namespace, plane, kcm, &Subject::pintle()?).await?;
    work_on(&namespace, &pintle, 5, "image:new", "image:2").await.context("work under pintle")?;
    namespace.has_revision("surge", "2").await?;
    namespace.has_revision("revisions", "4").await?;

    let kcm = hand_over(&namespace, plane, pintle, &Subject::KubeControllerManager).await?;
    work_on(&namespace, &kcm, 2, "image:newer", "image:1").await.context("work under kube-controller-manager")?;
    namespace.has_revision("surge", "3").await?;
    namespace.has_revision("revisions", "5").await?;

    kcm.stop().await;
    cluster.stop().await;
    Ok(())
}

/// The comparison itself would notice what it must notice.
#[tokio::test(flavor = "multi_thread")]
async fn writes_that_are_undone_are_reported_too() -> Result<()> {
    let cluster = TestCluster::embedded().await?;
    let namespace = Stage::new(cluster.client.clone(), cluster.kubeconfig(), "writes".to_owned());
    namespace.client.create_namespace(&namespace.ns).await?;
    for name in ["labelled", "status", "untouched"] {
        namespace.create("replicasets", &replica_set(name, 0, json!({}))).await?;
    }
    let before = Census::take(&namespace).await?;
    let recorder = Recorder::start(&namespace).await?;
    for label in [json!("here"), Value::Null] {
        namespace.patch("replicasets", "labelled", &json!({"metadata": {"labels": {"seen": label}}})).await?;
    }
    namespace.patch("replicasets", "status/status", &json!({"status": {"replicas": 1}})).await?;
    namespace.create("configmaps", &json!({"metadata": {"name": "brief"}})).await?;
    namespace.client.delete(&namespace.one("configmaps", "brief"), None).await?;
    let after = Census::take(&namespace).await?;
    eventually(PATIENCE, "five writes to be seen", async || Ok((recorder.n_seen() == 5).then_some(()))).await?;

    let comparison = Comparison::of(&recorder, &before, &after).await?;
    assert_eq!(
        comparison.violations,
        [
            "configmaps brief: ADDED",
            "configmaps brief: DELETED",
            "configmaps brief: written 2 times",
            "replicasets labelled: written 2 times",
        ]
    );
    let table = comparison.table("");
    ensure!(table.contains("replicasets                      3         1         2         0"), "{table}");
    Ok(())
}
