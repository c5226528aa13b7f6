//! How fast Pods of Deployments are made, and how fast their namespace goes.

use std::time::Instant;

use anyhow::{Context, Result, bail};
use pintle_tests::scenarios::subject;
use pintle_tests::{ControlPlane, Options, PATIENCE, eventually};

use crate::arguments::Args;
use crate::memory::memory;
use crate::objects::{count, create_all, deployment, prepare, small_pod};
use crate::report::{self, Implementation, Sample};
use crate::rounds;
use crate::running::{start, usage_at_rest};

/// What is measured with a number of Deployments and of Pods of each.
#[derive(Clone, Copy)]
pub(crate) enum Measured {
    /// How fast the Pods are made.
    Rollout { deployments: usize, pods: usize },
    /// How long their namespace takes to go when it is deleted.
    Namespace { deployments: usize, pods: usize },
}

pub(crate) const SCENARIOS: [(&str, Measured); 6] = [
    ("10x300", Measured::Rollout { deployments: 10, pods: 300 }),
    ("300x10", Measured::Rollout { deployments: 300, pods: 10 }),
    ("1x3000", Measured::Rollout { deployments: 1, pods: 3000 }),
    ("namespace-10x300", Measured::Namespace { deployments: 10, pods: 300 }),
    ("namespace-300x10", Measured::Namespace { deployments: 300, pods: 10 }),
    ("namespace-1x3000", Measured::Namespace { deployments: 1, pods: 3000 }),
];

impl Measured {
    fn others(self) -> &'static [Implementation] {
        match self {
            Measured::Rollout { .. } => &[Implementation::KubeControllerManager, Implementation::Bare],
            // Without controllers no namespace goes.
            Measured::Namespace { .. } => &[Implementation::KubeControllerManager],
        }
    }

    async fn sample(self, args: &Args, implementation: Implementation) -> Result<Sample> {
        match self {
            Measured::Rollout { deployments, pods } => rollout(args, implementation, deployments, pods).await,
            Measured::Namespace { deployments, pods } => namespace(args, implementation, deployments, pods).await,
        }
    }
}

/// Measures the wanted ones, and memory, and reports them, if there are any.
pub(crate) async fn deployments(args: &Args) -> Result<()> {
    let sample = async |measured: Measured, implementation| measured.sample(args, implementation).await;
    let mut samples = rounds::measure(args, &SCENARIOS, Measured::others, sample).await?;
    if args.wants("memory") {
        for (implementation, sample) in memory(args).await? {
            samples.entry((SCENARIOS.len(), implementation)).or_default().push(sample);
        }
    }
    if samples.is_empty() {
        return Ok(());
    }
    let memory = format!("memory-{}", args.cached_pods);
    let names = SCENARIOS.iter().map(|(name, _)| *name).chain([memory.as_str()]);
    let rows: Vec<_> = names.map(|name| (name, "Pods")).collect();
    report::report(&samples, &rows, "controllers.json")
}

async fn rollout(args: &Args, implementation: Implementation, deployments: usize, pods: usize) -> Result<Sample> {
    let plane = ControlPlane::start(Options::default()).await?;
    let client = plane.client();
    prepare(&client).await?;
    let subject = start(args, &plane, implementation, &subject::CONTROLLERS).await?;
    let before = match &subject {
        Some(subject) => Some(usage_at_rest(subject).await?),
        None => None,
    };
    let begun = Instant::now();
    match implementation {
        Implementation::Bare => {
            let pod = small_pod();
            create_all(&client, "/api/v1/namespaces/bench/pods", (0..deployments * pods).map(|_| pod.clone())).await?;
        }
        _ => {
            let all = (0..deployments).map(|number| deployment(&format!("app-{number}"), pods));
            create_all(&client, "/apis/apps/v1/namespaces/bench/deployments", all).await?;
        }
    }
    let total = deployments * pods;
    eventually(PATIENCE, format!("{total} Pods"), || async {
        Ok((count(&client).await? >= total as u64).then_some(()))
    })
    .await?;
    let pods_per_second = total as f64 / begun.elapsed().as_secs_f64();
    let mut sample = Sample { pods_per_second, ..Sample::default() };
    if let (Some(subject), Some(before)) = (&subject, before) {
        eventually(PATIENCE, "every status", || async {
            let all = client.list("/apis/apps/v1/namespaces/bench/deployments").await?;
            Ok(all.iter().all(|deployment| deployment["status"]["replicas"] == pods).then_some(()))
        })
        .await?;
        let after = usage_at_rest(subject).await?;
        sample.cpu_seconds = after.cpu.saturating_sub(before.cpu).as_secs_f64();
        sample.rss_bytes = after.rss_bytes as f64;
        let surplus = count(&client).await?;
        if surplus != total as u64 {
            bail!("{surplus} Pods where {total} were wanted");
        }
    }
    if let Some(subject) = subject {
        subject.stop().await;
    }
    plane.stop().await;
    Ok(sample)
}

/// How long a namespace takes to go from its deletion on, with all controllers that have a part in it. The Pods are on no node, so
/// nothing but the controllers and the API server takes time.
async fn namespace(args: &Args, implementation: Implementation, deployments: usize, pods: usize) -> Result<Sample> {
    const PATH: &str = "/api/v1/namespaces/bench";
    let plane = ControlPlane::start(Options::default()).await?;
    let client = plane.client();
    prepare(&client).await?;
    let subject = start(args, &plane, implementation, &subject::CONTROLLERS).await?.context("nothing runs")?;
    let all = (0..deployments).map(|number| deployment(&format!("app-{number}"), pods));
    create_all(&client, "/apis/apps/v1/namespaces/bench/deployments", all).await?;
    eventually(PATIENCE, "every status", || async {
        let all = client.list("/apis/apps/v1/namespaces/bench/deployments").await?;
        Ok(all.iter().all(|deployment| deployment["status"]["replicas"] == pods).then_some(()))
    })
    .await?;
    let before = usage_at_rest(&subject).await?;
    let begun = Instant::now();
    client.delete(PATH, None).await?;
    eventually(PATIENCE, "the namespace to go", || async { Ok(client.find(PATH).await?.is_none().then_some(())) })
        .await
        .with_context(|| subject.process().log_tail())?;
    let seconds = begun.elapsed().as_secs_f64();
    let after = usage_at_rest(&subject).await?;
    let cpu_seconds = after.cpu.saturating_sub(before.cpu).as_secs_f64();
    subject.stop().await;
    plane.stop().await;
    Ok(Sample { seconds, cpu_seconds, rss_bytes: after.rss_bytes as f64, ..Sample::default() })
}
