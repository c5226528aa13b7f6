//! One process per controller: eight of the same program, each with annotations of its own.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use pintle_tests::audited::Audited;
use pintle_tests::process::{Guarded, Memory};
use pintle_tests::{PatchKind, eventually};
use serde_json::json;

use super::PATIENCE;

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const COPIES: &str = "/api/v1/namespaces/operators/configmaps";

/// Runs `n` of them at once until each has made its copy and followed a change, and answers what all of them take together.
pub(crate) async fn run(audited: &Audited, manager: &Path, n: usize) -> Result<Memory> {
    let namespace = json!({"metadata": {"name": "operators", "labels": {"example.com/operators": "yes"}}});
    audited.client.create("/api/v1/namespaces", &namespace).await?;
    let kubeconfig = format!("--kubeconfig={}", audited.plane.kubeconfig().display());
    let mut running: Vec<Guarded> = Vec::new();
    for i in 0..n {
        let args = [kubeconfig.clone(), format!("--domain=operator-{i}.example.com")];
        running.push(audited.plane.start_program("operator", manager, &args).await?);
    }
    for (i, operator) in running.iter().enumerate() {
        let works = replicates(audited, i).await;
        works.with_context(|| format!("operator {i}; its log ends with:\n{}\n", operator.log_tail()))?;
    }
    let mut all = Memory::default();
    println!("operator-go  RSS MiB  PSS MiB  private MiB");
    for (i, operator) in running.iter().enumerate() {
        let Memory { rss_bytes, pss_bytes, private_bytes } = operator.memory()?;
        let [rss, pss, private] = [rss_bytes, pss_bytes, private_bytes].map(super::mib);
        println!("{i:>11}  {rss:7.1}  {pss:7.1}  {private:11.1}");
        all.rss_bytes += rss_bytes;
        all.pss_bytes += pss_bytes;
        all.private_bytes += private_bytes;
    }
    Ok(all)
}

/// The same job as the plugin's: a copy is made, and follows its source.
async fn replicates(audited: &Audited, i: usize) -> Result<()> {
    let name = format!("source-{i}");
    let annotation = format!("operator-{i}.example.com/to");
    let source = json!({
        "metadata": {"name": name, "annotations": {annotation: "example.com/operators=yes"}}, "data": {"LEVEL": "info"},
    });
    audited.client.create(CONFIG_MAPS, &source).await?;
    for level in ["info", "debug"] {
        let data = json!({"data": {"LEVEL": level}});
        audited.client.patch(&format!("{CONFIG_MAPS}/{name}"), PatchKind::Merge, &data).await?;
        eventually(PATIENCE, format!("the copy of {name} to say {level}"), async || {
            let copy = audited.client.get(&format!("{COPIES}/{name}")).await?;
            ensure!(copy["data"]["LEVEL"] == level, "{copy}");
            Ok(Some(()))
        })
        .await?;
    }
    Ok(())
}
