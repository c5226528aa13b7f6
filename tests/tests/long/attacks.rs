//! What each attack of `system::hostile` costs the rest of the host, as a process of its own that holds a Lease: the longest answer of
//! `/livez`, the peak of its memory, and the longest time between two renewals. The figures are printed; whatever the speed of the
//! machine, the host leads on and answers.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use pintle_tests::{ApiClient, HostProcess, PATIENCE, TestCluster, components, eventually};
use serde_json::Value;

#[allow(dead_code, reason = "how the host meets an attack is tested there")]
#[path = "../system/hostile/attacks.rs"]
mod corpus;

const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
const LEASE: &str = "pintle";
/// Renewals that each attack lasts for.
const N_RENEWALS: usize = 4;
/// The period of renewals.
const RETRY_PERIOD: &str = "500ms";

/// What an attack costs.
struct Cost {
    slowest_answer: Duration,
    n_answers: usize,
    longest_gap: Duration,
    peak: u64,
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_leads_on_and_answers_during_every_attack() -> Result<()> {
    let only = std::env::var("ATTACK").unwrap_or_default();
    let cluster = TestCluster::embedded().await?;
    corpus::create_targets(&cluster.client).await?;
    let folder = tempfile::tempdir().context("make a folder")?;
    let write = |name: &str, bytes: &[u8]| -> Result<PathBuf> {
        let file = folder.path().join(format!("{name}.wasm"));
        std::fs::write(&file, bytes).context("write a component")?;
        Ok(file)
    };
    let flags = [
        "--leader-elect=true",
        // A busy machine keeps the Lease, too.
        "--leader-elect-lease-duration=600s",
        "--leader-elect-renew-deadline=500s",
        &format!("--leader-elect-retry-period={RETRY_PERIOD}"),
        "--max-limits=hostCalls=1000000000",
        "--grant-requested",
        &write("echo", &components::guest("echo")?)?.display().to_string(),
    ];
    let mut host = cluster.host(&flags.map(str::to_owned))?;
    let client = host.ready().await?;
    let at_rest = lease(&cluster.client).await?;
    println!("renewals every {RETRY_PERIOD}, at rest {} MiB", host.process.usage()?.rss_bytes >> 20);
    println!("| attack | slowest `/livez` | answers | longest without renewal | peak of memory |");
    println!("| --- | --- | --- | --- | --- |");
    for attack in corpus::ATTACKS.iter().filter(|attack| attack.name.contains(&only)) {
        let name = attack.name;
        let file = write(name, &attack.component()?)?;
        let cost = attacked(&cluster.client, &host, &client, name, &file).await;
        let Cost { slowest_answer, n_answers, longest_gap, peak } =
            cost.with_context(|| format!("{name}: {}", host.log_tail()))?;
        println!("| `{name}` | {slowest_answer:.1?} | {n_answers} | {longest_gap:.1?} | {} MiB |", peak >> 20);
        ensure!(n_answers > 0, "{name}: /livez did not answer");
        let now = lease(&cluster.client).await?;
        for field in ["holderIdentity", "leaseTransitions"] {
            ensure!(now["spec"][field] == at_rest["spec"][field], "{name}: {now:#} {at_rest:#}");
        }
    }
    host.stop().await;
    cluster.stop().await;
    Ok(())
}

/// Loads an attack, and removes it after some renewals of the Lease.
async fn attacked(api: &ApiClient, host: &HostProcess, client: &ApiClient, name: &str, file: &Path) -> Result<Cost> {
    host.process.forget_peak()?;
    let ends = Arc::new(AtomicBool::new(false));
    let answers = tokio::spawn({
        let (ends, client) = (ends.clone(), client.clone());
        async move {
            let mut answers = Vec::new();
            while !ends.load(Ordering::Relaxed) {
                let asked = Instant::now();
                let answer = client.request("GET", "/livez", &[], None).await?;
                ensure!(answer.status == 200, "{}", answer.text());
                answers.push(asked.elapsed());
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            Ok(answers)
        }
    });
    let mut renewals = api.watch(&format!("{LEASES}?watch=true&fieldSelector=metadata.name%3D{LEASE}")).await?;
    host.plugin(&["load", &file.display().to_string()])?;
    let (mut seen, mut longest_gap) = (Instant::now(), Duration::ZERO);
    for _ in 0..N_RENEWALS {
        renewals.next(PATIENCE).await?.context("the watch ended")?;
        longest_gap = longest_gap.max(seen.elapsed());
        seen = Instant::now();
    }
    let attacks = host.plugin(&["describe", name])?["plugin"].take();
    ensure!(attacks["phase"] == "Running", "it does not attack: {attacks:#}");
    ends.store(true, Ordering::Relaxed);
    let answers = answers.await.context("ask for /livez")??;
    let peak = host.process.peak()?;
    host.plugin(&["unload", name])?;
    let slowest_answer = answers.iter().max().copied().unwrap_or_default();
    Ok(Cost { slowest_answer, n_answers: answers.len(), longest_gap, peak })
}

async fn lease(client: &ApiClient) -> Result<Value> {
    eventually(PATIENCE, "the host to lead", async || {
        let lease = client.get(&format!("{LEASES}/{LEASE}")).await?;
        Ok(lease["spec"]["holderIdentity"].as_str().is_some_and(|holder| !holder.is_empty()).then_some(lease))
    })
    .await
}
