//! A cluster is handed over from kube-controller-manager to Pintle and back, without changes of its objects.

use std::io::Write;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use pintle_tests::handover::{Census, Comparison};
use pintle_tests::scenarios::Subject;
use pintle_tests::scenarios::history::Recorder;
use pintle_tests::scenarios::stage::{Stage, deployment, pod, replica_set, replication_controller};
use pintle_tests::scenarios::subject::Running;
use pintle_tests::{ControlPlane, TestCluster, eventually};
use serde_json::{Value, json};

/// How long a watch may take to show a write.
const SEEN_DEADLINE: Duration = Duration::from_secs(300);

/// An annotation of a template by which the nodes never call its Pods ready.
fn never_ready() -> Value {
    json!({"sim.pintle.dev/never-ready": "true"})
}

fn rolling(surge: Value, unavailable: Value) -> Value {
    json!({"strategy": {"rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}})
}

/// Deployments in every state in which they can rest.
async fn fill_with_deployments(s: &Stage) -> Result<()> {
    let kinds = [
        ("plain", 3, json!({})),
        ("surge", 3, rolling(json!(1), json!(0))),
        ("unavailable", 3, rolling(json!(0), json!(1))),
        ("quarter", 4, rolling(json!("25%"), json!("25%"))),
        ("surge-all", 3, rolling(json!("100%"), json!(0))),
        ("recreate", 3, json!({"strategy": {"type": "Recreate"}})),
        ("slow", 2, json!({"minReadySeconds": 1})),
        ("paused", 3, json!({})),
        ("revisions", 3, json!({})),
        ("stuck", 3, json!({"progressDeadlineSeconds": 2})),
        ("annotated", 2, json!({})),
        ("empty", 0, json!({})),
        ("forgetful", 2, json!({"revisionHistoryLimit": 0})),
    ];
    for (name, replicas, spec) in &kinds {
        let mut object = deployment(name, *replicas, spec.clone());
        if *name == "annotated" {
            object["metadata"]["annotations"] =
                json!({"first": "1", "second": "2", "kubectl.kubernetes.io/last-applied-configuration": "{}"});
            object["metadata"]["labels"] = json!({"tier": "front"});
        }
        s.create("deployments", &object).await?;
    }
    for (name, ..) in &kinds {
        s.rolled_out(name).await?;
    }
    for name in ["quarter", "recreate", "revisions", "forgetful"] {
        s.set_image(name, "image:2").await?;
    }
    // A change that waits for the end of the pause.
    s.patch("deployments", "paused", &json!({"spec": {"paused": true}})).await?;
    s.set_image("paused", "image:2").await?;
    s.annotate_template("stuck", &never_ready()).await?;
    for name in ["quarter", "recreate", "revisions", "forgetful"] {
        s.rolled_out(name).await?;
    }
    let cause = json!({"metadata": {"annotations": {"kubernetes.io/change-cause": "the third"}}});
    s.patch("deployments", "revisions", &cause).await?;
    s.set_image("revisions", "image:3").await?;
    s.rolled_out("revisions").await?;
    s.condition("paused", "Progressing", "Unknown", "DeploymentPaused").await?;
    s.condition("stuck", "Progressing", "False", "ProgressDeadlineExceeded").await
}

/// Five ReplicaSets or ReplicationControllers that belong to nobody.
async fn fill_with_sets(s: &Stage, plural: &str, prefix: &str, make: fn(&str, u32, Value) -> Value) -> Result<()> {
    let name = |suffix: &str| format!("{prefix}-{suffix}");
    // One Pod is there already, and is adopted.
    s.create("pods", &pod(&name("orphan"), &name("adopter"))).await?;
    for (suffix, replicas, spec) in [
        ("plain", 3, json!({})),
        ("empty", 0, json!({})),
        ("slow", 2, json!({"minReadySeconds": 1})),
        ("unready", 2, json!({"template": {"metadata": {"annotations": never_ready()}}})),
        ("adopter", 2, json!({})),
    ] {
        s.create(plural, &make(&name(suffix), replicas, spec)).await?;
    }
    for (suffix, n) in [("plain", 3), ("empty", 0), ("slow", 2), ("adopter", 2)] {
        s.ready(plural, &name(suffix), n).await?;
    }
    s.until(plural, &name("unready"), "have its Pods", |o| o["status"]["replicas"] == 2).await
}

/// Hands a quiet namespace over to the next one, waits until it has reconciled all objects, and compares.
async fn hand_over(s: &Stage, plane: &ControlPlane, from: Running, to: &Subject) -> Result<Running> {
    let before = from.quiet(s).await?;
    let from_name = from.name;
    from.stop().await;
    let recorder = Recorder::start(s).await?;
    let to = to.start(plane).await?;
    let after = to.quiet(s).await?;
    let comparison = Comparison::of(&recorder, &before, &after).await?;
    let title = format!("{from_name} -> {}", to.name);
    // The table is a result, so it is printed past the capture of the test harness.
    writeln!(std::io::stderr(), "{}", comparison.table(&title))?;
    let violations = comparison.violations;
    ensure!(violations.is_empty(), "{title}:\n{}", violations.join("\n"));
    Ok(to)
}

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
    let kcm = Subject::KubeControllerManager.start(plane).await?;
    namespace.client.create_namespace(&namespace.ns).await?;
    namespace.open().await?;
    tokio::try_join!(
        fill_with_deployments(&namespace),
        fill_with_sets(&namespace, "replicasets", "rs", replica_set),
        fill_with_sets(&namespace, "replicationcontrollers", "rc", replication_controller),
    )
    .context("fill the namespace")?;

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
    eventually(SEEN_DEADLINE, "five writes to be seen", async || Ok((recorder.n_seen() == 5).then_some(()))).await?;

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
