//! Dependents that stay behind their owner are kept, also those of a kind that cannot be listed for a moment.

use std::fs;

use anyhow::{Result, bail, ensure};
use pintle_sim::faults::{Failure, RequestMatch, When};
use pintle_sim::{SimCluster, SimConfig};
use pintle_tests::crash::HOST;
use pintle_tests::{ApiClient, HostProcess, PATIENCE, eventually};
use serde_json::json;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";
const OWNERS: &str = "/api/v1/namespaces/default/configmaps";

/// A new kind is refused until the roles of an aggregated or custom API are in force.
#[tokio::test(flavor = "multi_thread")]
async fn a_dependent_of_a_kind_that_is_refused_for_a_moment_is_orphaned_and_not_deleted() -> Result<()> {
    let cluster = SimCluster::start(SimConfig::default()).await?;
    let client = ApiClient::new(&cluster.base_url(), None, None);
    let flags = [HostProcess::controllers(&["garbage-collector-controller"])];
    let mut host = HostProcess::start(&cluster.kubeconfig(), &flags)?;
    let metrics = host.ready().await?;
    for verb in ["list", "watch"] {
        let of_host = RequestMatch { user_agent: Some(HOST.to_owned()), ..RequestMatch::new(verb, "widgets") };
        cluster.faults().fail(of_host, 1, u64::MAX, When::Before, Failure::status(403));
    }
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let definition = json!({"metadata": {"name": "widgets.example.com"}, "spec": {
        "group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
    }});
    client.create(DEFINITIONS, &definition).await?;
    eventually(PATIENCE, "the kind to be served", async || Ok(client.find(WIDGETS).await?.map(drop))).await?;
    let owner = client.create(OWNERS, &json!({"metadata": {"name": "owner"}})).await?;
    let reference = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]});
    let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget",
        "metadata": {"name": "dependent", "ownerReferences": [reference]}});
    client.create(WIDGETS, &widget).await?;
    eventually(PATIENCE, "the host to be refused", async || {
        let text = metrics.request("GET", "/metrics", &[], None).await?.text();
        Ok(text.lines().any(|line| line.starts_with("rest_client_requests_total{code=\"403\"")).then_some(()))
    })
    .await?;

    client.delete(&format!("{OWNERS}/owner"), Some(&json!({"propagationPolicy": "Orphan"}))).await?;
    eventually(PATIENCE, "a run that waits for the kind", async || {
        let log = fs::read_to_string(host.process.log())?;
        Ok(log.contains("while a kind is not listed yet").then_some(()))
    })
    .await?;
    let owner = client.get(&format!("{OWNERS}/owner")).await?;
    ensure!(owner["metadata"]["finalizers"] == json!(["orphan"]), "{owner:#}");

    cluster.faults().clear();
    eventually(PATIENCE, "the owner to go", async || {
        Ok(client.find(&format!("{OWNERS}/owner")).await?.is_none().then_some(()))
    })
    .await?;
    // It loses its reference before its owner goes; an owner that is gone would take it along.
    let Some(dependent) = client.find(&format!("{WIDGETS}/dependent")).await? else { bail!("the dependent is gone") };
    let references = dependent["metadata"]["ownerReferences"].as_array();
    ensure!(references.is_none_or(Vec::is_empty), "{dependent:#}");
    host.stop().await;
    cluster.shutdown().await;
    Ok(())
}
