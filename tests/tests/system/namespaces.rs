//! What Pintle does not do to a namespace that is being deleted, on a real control plane.
//!
//! What it does, and that kube-controller-manager does the same, is in `src/scenarios/list/namespace.rs`.

use anyhow::{Result, ensure};
use pintle_tests::controlplane::{Audit, AuditEntry, SUBJECT};
use pintle_tests::scenarios::Stage;
use pintle_tests::scenarios::Subject;
use pintle_tests::scenarios::stage::{deployment, pod};
use pintle_tests::scenarios::subject::Running;
use pintle_tests::{Options, PATIENCE, TestCluster, eventually};
use serde_json::json;

const NAMESPACE: &str = "/api/v1/namespaces/doomed";

async fn start() -> Result<(TestCluster, Running, Stage)> {
    let options = Options { audit: Some(Audit::Writes), ..Options::default() };
    let cluster = TestCluster::real_with(options).await?.with_nodes(|_| {}).await?;
    let running = Subject::pintle()?.start(cluster.plane()?).await?;
    let stage = Stage::new(cluster.client.clone(), cluster.kubeconfig(), "doomed".to_owned());
    stage.client.create_namespace("doomed").await?;
    stage.open().await?;
    Ok((cluster, running, stage))
}

async fn gone(stage: &Stage) -> Result<()> {
    eventually(PATIENCE, "the namespace to go", async || {
        let namespace = stage.client.find(NAMESPACE).await?;
        ensure!(namespace.is_none(), "{:#}", namespace.unwrap_or_default()["status"]);
        Ok(Some(()))
    })
    .await
}

/// Upstream's controllers try to replace the Pods, are refused, and keep silent. Here they do not even try.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_created_in_a_namespace_that_terminates() -> Result<()> {
    let (cluster, running, stage) = start().await?;
    for name in ["one", "two", "three"] {
        stage.create("deployments", &deployment(name, 40, json!({}))).await?;
    }
    for name in ["one", "two", "three"] {
        stage.rolled_out(name).await?;
    }
    // Events about the rollout come later than its end.
    stage.settle().await?;
    cluster.plane()?.clear_audit_log()?;
    stage.client.delete(NAMESPACE, None).await?;
    gone(&stage).await?;
    running.stop().await;
    let log = cluster.plane()?.audit_log()?;
    let writes: Vec<&AuditEntry> = log.iter().filter(|entry| entry.user.username == SUBJECT).collect();
    let collections = writes.iter().filter(|entry| entry.verb == "deletecollection").count();
    assert!(collections > 5, "the log shows what was done");
    let created: Vec<_> = writes.iter().filter(|entry| entry.verb == "create").collect();
    assert!(created.is_empty(), "{created:#?}");
    let late = |entry: &&&AuditEntry| matches!(entry.response_status.code, 404 | 409);
    let refused: Vec<_> = writes.iter().filter(|entry| entry.response_status.code >= 400 && !late(entry)).collect();
    assert!(refused.is_empty(), "{refused:#?}");
    cluster.stop().await;
    Ok(())
}

/// What keeps the Pods may be an object of the same namespace.
#[tokio::test(flavor = "multi_thread")]
async fn what_keeps_the_pods_of_a_namespace_goes_with_it() -> Result<()> {
    let (cluster, running, stage) = start().await?;
    let client = &cluster.client;
    stage.create("pods", &pod("stays", "none")).await?;
    stage.create("configmaps", &json!({"metadata": {"name": "guard"}})).await?;
    let group = "/apis/admissionregistration.k8s.io/v1";
    let rule = json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["DELETE"], "resources": ["pods"]});
    let policy = json!({"metadata": {"name": "stay"}, "spec": {
        "failurePolicy": "Fail", "matchConstraints": {"resourceRules": [rule]},
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "validations": [{"expression": "false", "message": "Pods stay as long as the guard is there"}],
    }});
    let binding = json!({"metadata": {"name": "stay"}, "spec": {
        "policyName": "stay", "validationActions": ["Deny"], "paramRef": {"name": "guard", "parameterNotFoundAction": "Allow"},
    }});
    client.create(&format!("{group}/validatingadmissionpolicies"), &policy).await?;
    client.create(&format!("{group}/validatingadmissionpolicybindings"), &binding).await?;
    let dry_run = json!({"dryRun": ["All"]});
    eventually(PATIENCE, "the policy to be in force", async || {
        let tried = client.delete(&stage.one("pods", "stays"), Some(&dry_run)).await;
        Ok(tried.is_err().then_some(()))
    })
    .await?;
    cluster.plane()?.clear_audit_log()?;
    client.delete(NAMESPACE, None).await?;
    gone(&stage).await?;
    let log = cluster.plane()?.audit_log()?;
    let was_refused = log.iter().any(|entry| {
        entry.verb == "deletecollection" && entry.object_ref.resource == "pods" && entry.response_status.code >= 400
    });
    assert!(was_refused, "the policy refused nothing");
    running.stop().await;
    cluster.stop().await;
    Ok(())
}
