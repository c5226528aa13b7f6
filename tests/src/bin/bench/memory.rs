//! Memory with many Pods in the cache.

use anyhow::{Context, Result};
use pintle_tests::scenarios::subject;
use pintle_tests::{ControlPlane, Options};

use crate::arguments::Args;
use crate::objects::{create_all, prepare, realistic_pod};
use crate::report::{Implementation, Sample};
use crate::running::{start, usage_at_rest};

/// Resident memory with many Pods of realistic size in the cache, some time after they came: what the first list left
/// behind is garbage in one subject and freed pages in the other, and neither is what a cached Pod costs.
pub(crate) async fn memory(args: &Args) -> Result<Vec<(Implementation, Sample)>> {
    let plane = ControlPlane::start(Options::default()).await?;
    let client = plane.client();
    prepare(&client).await?;
    let pod = realistic_pod();
    create_all(&client, "/api/v1/namespaces/bench/pods", (0..args.cached_pods).map(|_| pod.clone())).await?;
    let mut samples = Vec::new();
    for round in 0..args.rounds() {
        for implementation in args.turns(round, &[Implementation::KubeControllerManager]) {
            let subject = start(args, &plane, implementation, &subject::CONTROLLERS).await?.context("nothing runs")?;
            let first = usage_at_rest(&subject).await?;
            tokio::time::sleep(args.settle()).await;
            let usage = usage_at_rest(&subject).await?;
            let (cpu, rss) = (usage.cpu.as_secs_f64(), usage.rss_bytes as f64);
            let sample = Sample { cpu_seconds: cpu, rss_bytes: rss, ..Sample::default() };
            let at_first = first.rss_bytes;
            eprintln!("round {} memory {}: {sample:.1?}, {at_first} at first", round + 1, implementation.name());
            samples.push((implementation, sample));
            subject.stop().await;
        }
    }
    plane.stop().await;
    Ok(samples)
}
