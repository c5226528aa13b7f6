//! The programs that are measured: their start, and what they have used.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use pintle_tests::process::Usage;
use pintle_tests::scenarios::Subject;
use pintle_tests::scenarios::subject::Running;
use pintle_tests::{ControlPlane, PATIENCE, eventually};

use crate::arguments::Args;
use crate::objects::deployment;
use crate::report::Implementation;

/// How long a subject may take to come to rest.
const REST_DEADLINE: Duration = Duration::from_secs(60);

/// Usage of a subject once it does nothing more.
pub(crate) async fn usage_at_rest(subject: &Running) -> Result<Usage> {
    let mut last = subject.process().usage()?;
    let mut quiet = 0;
    let begun = Instant::now();
    while quiet < 4 {
        tokio::time::sleep(Duration::from_millis(250)).await;
        let now = subject.process().usage()?;
        quiet = if now.cpu.saturating_sub(last.cpu) <= Duration::from_millis(10) { quiet + 1 } else { 0 };
        last = now;
        if begun.elapsed() > REST_DEADLINE {
            eprintln!("{} does not come to rest; it is measured as it is", subject.name);
            break;
        }
    }
    Ok(last)
}

/// A name that no other probe has.
pub(crate) fn probe_name() -> String {
    static N_PROBES: AtomicUsize = AtomicUsize::new(0);
    format!("probe-{}", N_PROBES.fetch_add(1, Ordering::Relaxed))
}

/// Starts a subject with these controllers and flags, which are the same for all.
pub(crate) async fn start_unprobed(
    args: &Args,
    plane: &ControlPlane,
    implementation: Implementation,
    controllers: &[&str],
    flags: &[&str],
) -> Result<Option<Running>> {
    let Some(subject) = args.subject(implementation)? else { return Ok(None) };
    let own: &[&str] = match subject {
        Subject::Pintle(_) => &["--log=warn,pintle::run=info"],
        Subject::KubeControllerManager => &[],
    };
    Ok(Some(subject.start_with(plane, controllers, &[own, flags].concat()).await?))
}

/// Starts a subject, and waits until it has made the Pod of a small Deployment: only then are its caches filled.
pub(crate) async fn start(
    args: &Args,
    plane: &ControlPlane,
    implementation: Implementation,
    controllers: &[&str],
) -> Result<Option<Running>> {
    let Some(running) = start_unprobed(args, plane, implementation, controllers, &[]).await? else { return Ok(None) };
    let client = plane.client();
    let name = &probe_name();
    client.create("/apis/apps/v1/namespaces/probe/deployments", &deployment(name, 1)).await?;
    eventually(PATIENCE, "the Pod of the probe", || async {
        let pods = client.list("/api/v1/namespaces/probe/pods").await?;
        Ok(pods.iter().any(|pod| pod["metadata"]["labels"]["app"] == *name).then_some(()))
    })
    .await
    .with_context(|| running.process().log_tail())?;
    Ok(Some(running))
}
