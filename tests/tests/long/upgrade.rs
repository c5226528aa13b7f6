//! A cluster of the minor version before goes from its kube-controller-manager to Pintle, the API server is upgraded under load, and
//! kube-controller-manager of the new version takes over, then Pintle again: what rests stays as it is.

use anyhow::{Context, Result, ensure};
use futures::future::try_join;
use pintle_core::kubernetes;
use pintle_tests::controlplane::{Audit, AuditEntry, SUBJECT};
use pintle_tests::handover::{fill, hand_over};
use pintle_tests::scenarios::Subject;
use pintle_tests::scenarios::stage::{Stage, deployment};
use pintle_tests::{ControlPlane, Options, PATIENCE, TestCluster, eventually};
use serde_json::json;
use tokio::sync::watch;

/// The newest of the minor version before that the module proxy has.
const BEFORE: &str = "1.36.3";

const RESTING: &str = "resting";
/// How many Deployments begin before the upgrade, and how many after it.
const N_AROUND: usize = 8;

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_is_taken_over_and_upgraded_under_load_and_what_rests_stays_as_it_is() -> Result<()> {
    let options = Options { kubernetes: Some(BEFORE), audit: Some(Audit::Writes), ..Options::default() };
    let cluster = TestCluster::real_with(options).await?.with_nodes(|_| {}).await?;
    let plane = cluster.plane()?;
    let resting = Stage::new(plane.client(), plane.kubeconfig(), RESTING.to_owned());
    let kcm = Subject::KubeControllerManager.start(plane).await?;
    resting.client.create_namespace(&resting.ns).await?;
    resting.open().await?;
    fill(&resting).await?;
    fill_with_others(&resting).await?;

    plane.clear_audit_log()?;
    let pintle = hand_over(&resting, plane, kcm, &Subject::pintle()?).await?;
    // The condition `Unused` and the observed generation are new in 1.37.
    written(plane, "kube-controller-manager -> pintle", &["claim", "idle"]).await?;
    upgrade_under_load(plane).await?;
    pintle.quiet(&resting).await?;
    written(plane, "upgrade", &[]).await?;
    let kcm = hand_over(&resting, plane, pintle, &Subject::KubeControllerManager).await?;
    written(plane, "pintle -> kube-controller-manager", &[]).await?;
    let pintle = hand_over(&resting, plane, kcm, &Subject::pintle()?).await?;
    written(plane, "kube-controller-manager -> pintle", &[]).await?;
    pintle.stop().await;
    cluster.stop().await;
    Ok(())
}

/// Kinds that [`fill`] does not make.
async fn fill_with_others(s: &Stage) -> Result<()> {
    let labels = |app: &str| json!({"matchLabels": {"app": app}});
    let template = |app: &str| json!({"metadata": {"labels": {"app": app}}, "spec": {"containers": [{"name": "c", "image": "image:1"}]}});
    let set = json!({"metadata": {"name": "set"}, "spec": {
        "replicas": 2, "selector": labels("set"), "serviceName": "set", "template": template("set"),
    }});
    s.create("statefulsets", &set).await?;
    let daemons = json!({"metadata": {"name": "daemons"}, "spec": {"selector": labels("daemons"), "template": template("daemons")}});
    s.create("daemonsets", &daemons).await?;
    let mut work = template("work");
    work["spec"]["restartPolicy"] = json!("Never");
    work["metadata"]["annotations"] = json!({"sim.pintle.dev/run-for": "1s"});
    s.create("jobs", &json!({"metadata": {"name": "work"}, "spec": {"template": work}})).await?;
    let budget = json!({"metadata": {"name": "budget"}, "spec": {"minAvailable": 1, "selector": labels("set")}});
    s.create("poddisruptionbudgets", &budget).await?;
    let claim = json!({"metadata": {"name": "claim"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": "",
    }});
    s.create("persistentvolumeclaims", &claim).await?;
    s.patch("persistentvolumeclaims", "claim/status", &json!({"status": {"phase": "Bound"}})).await?;
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "empty"});
    let idle = json!({"metadata": {"name": "idle"}, "spec": {"scaleTargetRef": target, "maxReplicas": 3}});
    s.create("horizontalpodautoscalers", &idle).await?;
    s.until("horizontalpodautoscalers", "idle", "have conditions", |o| o["status"]["conditions"].is_array()).await?;
    s.until("statefulsets", "set", "be ready", |o| o["status"]["readyReplicas"] == 2).await?;
    s.until("daemonsets", "daemons", "be ready", |o| {
        o["status"]["desiredNumberScheduled"].as_u64() > Some(0)
            && o["status"]["numberReady"] == o["status"]["desiredNumberScheduled"]
    })
    .await?;
    s.until("jobs", "work", "be complete", |o| o["status"]["succeeded"] == 1).await?;
    s.until("poddisruptionbudgets", "budget", "count", |o| o["status"]["currentHealthy"] == 2).await
}

/// Upgrades the API server while Deployments come and change; each ends with its Pods, and one ReplicaSet for each template.
async fn upgrade_under_load(plane: &ControlPlane) -> Result<()> {
    let load = Stage::new(plane.client(), plane.kubeconfig(), "load".to_owned());
    load.client.create_namespace(&load.ns).await?;
    load.open().await?;
    let (begun, seen) = watch::channel(0);
    let (upgraded, is_upgraded) = watch::channel(false);
    let changes = async {
        let (mut n, mut n_after) = (0, 0);
        while n_after < N_AROUND {
            let name = format!("load-{n}");
            // The server may go before it answers.
            eventually(PATIENCE, format!("{name} to be created"), async || {
                match load.create("deployments", &deployment(&name, 2, json!({}))).await {
                    Err(error) if !format!("{error:#}").contains("AlreadyExists") => Err(error),
                    _ => Ok(Some(())),
                }
            })
            .await?;
            if n > 0 {
                let name = format!("load-{}", n - 1);
                // A template that is replaced before the controller sees it has no ReplicaSet.
                load.until("deployments", &name, "be observed", |one| !one["status"]["observedGeneration"].is_null())
                    .await?;
                eventually(PATIENCE, format!("{name} to be changed"), async || {
                    load.set_image(&name, "image:2").await.map(Some)
                })
                .await?;
            }
            n += 1;
            n_after += usize::from(*is_upgraded.borrow());
            begun.send_replace(n);
        }
        anyhow::Ok(n)
    };
    let upgrade = async {
        seen.clone().wait_for(|n| *n >= N_AROUND).await.context("the changes ended")?;
        plane.upgrade(kubernetes::VERSION).await?;
        upgraded.send_replace(true);
        Ok(())
    };
    let (n, ()) = try_join(changes, upgrade).await?;
    for i in 0..n {
        load.rolled_out(&format!("load-{i}")).await?;
    }
    let sets = load.list("replicasets").await?;
    // Each but the last has changed once.
    ensure!(sets.len() == 2 * n - 1, "{} ReplicaSets of {n} Deployments", sets.len());
    load.until_all("pods", "be two of each", |pods| pods.len() == 2 * n).await?;
    println!("{n} Deployments rolled out while the API server was upgraded from {BEFORE} to {}", kubernetes::VERSION);
    Ok(())
}

/// Fails unless the one in charge has written the status of these objects of the namespace that rests, each once, and nothing else, since
/// the last time. Events do not count: an autoscaler reports that the API server was away.
async fn written(plane: &ControlPlane, when: &str, expected: &[&str]) -> Result<()> {
    let own = || {
        let mut log = plane.audit_log()?;
        let is_event = |entry: &AuditEntry| entry.object_ref.resource == "events";
        log.retain(|e| e.user.username == SUBJECT && e.object_ref.namespace == RESTING && !is_event(e));
        anyhow::Ok(log)
    };
    eventually(PATIENCE, format!("{when}: {} writes", expected.len()), async || {
        Ok((own()?.len() >= expected.len()).then_some(()))
    })
    .await?;
    let log = own()?;
    let is_status = |entry: &AuditEntry| entry.object_ref.subresource == "status" && entry.succeeded();
    let mut names: Vec<&str> =
        log.iter().filter(|entry| is_status(entry)).map(|entry| &*entry.object_ref.name).collect();
    names.sort_unstable();
    ensure!(names == expected && names.len() == log.len(), "{when}: {log:#?}");
    println!("{when}: {} writes", log.len());
    plane.clear_audit_log()
}
