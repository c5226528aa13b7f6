//! The API server is in trouble for minutes, and its clients make it no worse: their requests and their memory are bounded, and the
//! cluster converges afterwards.
//!
//! Pintle and kube-controller-manager run the same controllers on a control plane each, through a proxy each that counts requests.
//!
//! `cargo test --workspace --test long trouble:: -- --nocapture` prints the table.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use pintle_tests::controlplane::{KubeControllerManager, SUBJECT};
use pintle_tests::proxy::{Attempt, Proxy, Trouble, kubeconfig_through};
use pintle_tests::scenarios::history::Recorder;
use pintle_tests::scenarios::stage::{Stage, deployment};
use pintle_tests::scenarios::subject::CONTROLLERS;
use pintle_tests::scenarios::{UserActions, by_id, rules};
use pintle_tests::{HostProcess, TestCluster};
use serde_json::json;
use tokio::time::{Instant, interval};

/// Deployments that a user changes all the time.
const N_DEPLOYMENTS: u32 = 10;
/// Memory that a host may take in addition while something is wrong, over that at the beginning.
const MAX_GROWTH: u64 = 64 << 20;

/// Requests in any second: each of some sixty informers asks once at the beginning, and again at the end.
const MAX_IN_A_SECOND: usize = 300;

/// Requests per second that are no hot loop. Without a fault there are about 50.
fn max_rate(trouble: Trouble) -> f64 {
    match trouble {
        // Some sixty watches are opened in each second.
        Trouble::ShortWatches(_) => 150.0,
        Trouble::None | Trouble::Down | Trouble::Slow(_) | Trouble::Throttled(_) | Trouble::Broken => 15.0,
    }
}

/// How long something is wrong.
const TIME: Duration = Duration::from_secs(60);

enum Subject {
    Pintle(Box<HostProcess>),
    KubeControllerManager(Box<KubeControllerManager>),
}

struct Fixture {
    cluster: TestCluster,
    proxy: Proxy,
    stage: Stage,
    subject: Subject,
}

/// What a subject did while something was wrong.
struct Line {
    subject: &'static str,
    trouble: Trouble,
    time: Duration,
    n_attempts: usize,
    /// The most in any second.
    peak: usize,
    /// In the last quarter of the time, by second.
    late_rate: f64,
    most: Vec<(String, usize)>,
    /// Memory before, and the most meanwhile.
    memory: (u64, u64),
    /// Until everything was as wanted.
    converged: Duration,
}

impl Fixture {
    async fn start(is_pintle: bool) -> Result<Self> {
        let cluster = TestCluster::real().await?.with_nodes(|_| {}).await?;
        let plane = cluster.plane()?;
        let proxy = Proxy::start(plane).await?;
        let kubeconfig = kubeconfig_through(plane, SUBJECT, proxy.address())?;
        let subject = if is_pintle {
            let flags = [HostProcess::controllers(&CONTROLLERS), "--leader-elect".to_owned()];
            let mut host = HostProcess::start(&kubeconfig, &flags)?;
            host.ready().await?;
            Subject::Pintle(Box::new(host))
        } else {
            let file = plane.folder().join("through-the-proxy.kubeconfig");
            std::fs::write(&file, kubeconfig)?;
            // It would end when it loses its Lease.
            let flags = [format!("--kubeconfig={}", file.display())];
            let kcm = plane.start_kcm(&CONTROLLERS, &flags.each_ref().map(String::as_str)).await?;
            Subject::KubeControllerManager(Box::new(kcm))
        };
        let stage = Stage::new(plane.client(), plane.kubeconfig(), "trouble".to_owned());
        stage.client.create_namespace(&stage.ns).await?;
        stage.open().await?;
        for n in 0..N_DEPLOYMENTS {
            stage.create("deployments", &deployment(&name(n), 2, json!({}))).await?;
        }
        let fixture = Self { cluster, proxy, stage, subject };
        fixture.converge().await?;
        Ok(fixture)
    }

    fn memory(&self) -> Result<u64> {
        let process = match &self.subject {
            Subject::Pintle(host) => &host.process,
            Subject::KubeControllerManager(kcm) => &kcm.process,
        };
        Ok(process.memory()?.private_bytes)
    }

    async fn converge(&self) -> Result<()> {
        for n in 0..N_DEPLOYMENTS {
            self.stage.rolled_out(&name(n)).await?;
        }
        Ok(())
    }

    /// Lets the API server be in trouble, and a user go on meanwhile.
    async fn suffer(&self, trouble: Trouble, time: Duration) -> Result<Line> {
        let before = self.memory()?;
        let mut memory = (before, before);
        self.proxy.attempts();
        let begun = Instant::now();
        self.proxy.suffer(trouble);
        let mut ticks = interval(Duration::from_millis(500));
        for turn in 0u32.. {
            ticks.tick().await;
            if begun.elapsed() >= time {
                break;
            }
            let name = name(turn % N_DEPLOYMENTS);
            match turn / N_DEPLOYMENTS % 2 {
                0 => drop(self.stage.scale("deployments", &name, 1 + turn % 4).await?),
                _ => drop(self.stage.set_image(&name, &format!("image:{turn}")).await?),
            }
            memory.1 = memory.1.max(self.memory()?);
        }
        let attempts = self.proxy.attempts();
        let time = begun.elapsed();
        self.proxy.suffer(Trouble::None);
        let over = Instant::now();
        self.converge().await.with_context(|| format!("after {trouble:?}"))?;
        memory.1 = memory.1.max(self.memory()?);
        let subject = match &self.subject {
            Subject::Pintle(_) => "Pintle",
            Subject::KubeControllerManager(_) => "kube-controller-manager",
        };
        let late = attempts.iter().filter(|attempt| attempt.at > begun + time * 3 / 4).count();
        let line = Line {
            subject,
            trouble,
            time,
            n_attempts: attempts.len(),
            peak: peak(&attempts),
            late_rate: late as f64 / (time / 4).as_secs_f64(),
            most: most(&attempts),
            memory,
            converged: over.elapsed(),
        };
        println!("{line}");
        Ok(line)
    }

    /// All that has happened has kept the rules.
    async fn check(&self, recorder: &Recorder) -> Result<()> {
        let settled = self.stage.settle().await?;
        let history = recorder.until(&by_id(&self.stage, &settled)).await?;
        // Events that cannot be sent are dropped, as in client-go.
        let broken = rules::broken(&history, UserActions { replaces_subject: true, ..UserActions::default() });
        ensure!(broken.is_empty(), "rules are broken:\n{}", broken.join("\n"));
        println!("{} writes, and no rule is broken", history.writes.len());
        Ok(())
    }
}

fn name(n: u32) -> String {
    format!("app-{n}")
}

/// The most attempts in any second.
fn peak(attempts: &[Attempt]) -> usize {
    let second = Duration::from_secs(1);
    let in_second = |first: usize| attempts[first..].iter().take_while(|a| a.at < attempts[first].at + second).count();
    (0..attempts.len()).map(in_second).max().unwrap_or_default()
}

/// What was attempted most.
fn most(attempts: &[Attempt]) -> Vec<(String, usize)> {
    let mut by_what: BTreeMap<&str, usize> = BTreeMap::new();
    for attempt in attempts {
        *by_what.entry(&attempt.what).or_default() += 1;
    }
    let mut most: Vec<(String, usize)> = by_what.into_iter().map(|(what, n)| (what.to_owned(), n)).collect();
    most.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
    most.truncate(4);
    most
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { subject, trouble, time, n_attempts, peak, late_rate, most, memory, converged } = self;
        let rate = *n_attempts as f64 / time.as_secs_f64();
        let (before, highest) = (memory.0 >> 20, memory.1 >> 20);
        write!(
            f,
            "{subject}, {trouble:?} for {:.0} s: {n_attempts} requests, {rate:.1}/s, at most {peak} in a second, {late_rate:.1}/s in \
             the last quarter; {before} MiB, then at most {highest} MiB; as wanted {:.1} s afterwards. Most: {most:?}",
            time.as_secs_f64(),
            converged.as_secs_f64()
        )
    }
}

async fn go_through(trouble: Trouble, time: Duration, is_pintle: bool) -> Result<Line> {
    let fixture = Fixture::start(is_pintle).await?;
    let recorder = Recorder::start(&fixture.stage).await?;
    let line = fixture.suffer(trouble, time).await?;
    fixture.check(&recorder).await?;
    if let Subject::Pintle(host) = fixture.subject {
        host.stop().await;
    }
    fixture.cluster.stop().await;
    Ok(line)
}

/// A host makes it no worse, and the cluster converges afterwards.
async fn bears(trouble: Trouble, time: Duration) -> Result<()> {
    let (line, of_kcm) = tokio::try_join!(go_through(trouble, time, true), go_through(trouble, time, false))?;
    println!("{line}\n{of_kcm}");
    let bound = max_rate(trouble);
    let rate = line.n_attempts as f64 / line.time.as_secs_f64();
    ensure!(rate <= bound && line.late_rate <= bound, "more than {bound} requests per second: {line}");
    ensure!(line.peak <= MAX_IN_A_SECOND, "more than {MAX_IN_A_SECOND} requests in a second: {line}");
    ensure!(line.memory.1 < line.memory.0 + MAX_GROWTH, "the memory grows: {line}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_bears_an_api_server_that_is_gone() -> Result<()> {
    bears(Trouble::Down, 2 * TIME).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_bears_an_api_server_that_is_slow() -> Result<()> {
    bears(Trouble::Slow(Duration::from_secs(3)), TIME).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_bears_an_api_server_that_throttles() -> Result<()> {
    bears(Trouble::Throttled(5), TIME).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_bears_an_api_server_that_answers_with_errors() -> Result<()> {
    bears(Trouble::Broken, TIME).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_bears_an_api_server_that_ends_watches_soon() -> Result<()> {
    bears(Trouble::ShortWatches(Duration::from_secs(1)), TIME).await
}
