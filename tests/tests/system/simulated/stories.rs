//! Stories in which something goes wrong: the rules of a story hold, and it comes to its end.
//!
//! ```text
//! undisturbed story -> its writes -> a story for each write and each kind of trouble
//! ```

use std::fmt;
use std::io::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use pintle_sim::faults::{Failure, RequestMatch, WatchEnd, When};
use pintle_tests::crash::{HOST, Story, User, cron, daemon, job, rollout, stateful};

use tokio::sync::watch;

use super::{Hosted, Shared, Simulation, all};

/// A host that has not written for so long has come to rest: longer than any delay of a retry and any silence of a watch.
const REST: Duration = Duration::from_secs(120);
/// Virtual time that a story may take.
const DEADLINE: Duration = Duration::from_secs(6 * 3600);
/// Alone, and with others.
const ALONE: &str = "--leader-elect=false";
const ELECTED: &str = "--leader-elect=true";

const STORIES: [Story; 6] =
    [rollout::ROLLING, rollout::RECREATION, job::INDEXED, stateful::ROLLOUT, daemon::SURGE, cron::FIRE];

/// What goes wrong.
#[derive(Clone, Debug)]
enum Trouble {
    /// Nothing.
    None,
    /// The host crashes right after a write, and starts again.
    Crash(u64),
    /// The host that leads crashes right after a write, and another one takes over.
    HandOver(u64),
    /// The network of the host that leads is gone for so many seconds after a write, and another host takes over.
    Partition(u64, u64),
    /// Writes of the host from this one on fail so, this many times.
    Writes(u64, u64, When, Failure),
    /// After a write of the cluster, all watches end.
    Watches(u64, WatchEnd),
    /// The events of a kind, or of all, come late by seconds; in the end also by more than the host waits for them.
    Late(Option<&'static str>, u64),
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

/// The failures of a write.
fn failures() -> [(When, Failure); 8] {
    [
        (When::Before, Failure::status(409)),
        (When::Before, Failure::too_many_requests(3)),
        (When::Before, Failure::status(500)),
        (When::Before, Failure::DropConnection),
        (When::Before, Failure::Delay(Duration::from_secs(20))),
        (When::After, Failure::status(500)),
        (When::After, Failure::status(504)),
        (When::After, Failure::DropConnection),
    ]
}

/// Plays a story with trouble. Returns the number of writes of the host, and the virtual time.
fn play(shared: &Shared, seed: u64, story: Story, trouble: &Trouble) -> Result<(u64, Duration)> {
    pintle_simulated::run(async {
        let begun = tokio::time::Instant::now();
        let told = tokio::time::timeout(DEADLINE, tell(shared, seed, story, trouble)).await;
        let n_writes = told.unwrap_or_else(|_| bail!("not finished after {DEADLINE:?} of virtual time"));
        let n_writes = n_writes.with_context(|| format!("{}, {trouble} (SEED={seed:x})", story.name))?;
        Ok((n_writes, begun.elapsed()))
    })
}

async fn tell(shared: &Shared, seed: u64, story: Story, trouble: &Trouble) -> Result<u64> {
    let simulation = Simulation::start(shared, seed).await?;
    let faults = simulation.cluster.faults().clone();
    let mut crash = None;
    let mut election = ALONE;
    match trouble {
        Trouble::None => {}
        Trouble::Crash(n) => crash = Some(faults.kill_client_after(*n, HOST)),
        Trouble::HandOver(n) => {
            crash = Some(faults.kill_client_after(*n, HOST));
            election = ELECTED;
        }
        Trouble::Partition(n, _) => {
            let (at, signal) = watch::channel(false);
            let left = AtomicU64::new(*n);
            faults.observe(move |write| {
                if write.user_agent.contains(HOST) && left.fetch_sub(1, Ordering::Relaxed) == 1 {
                    at.send_replace(true);
                }
            });
            crash = Some(signal);
            election = ELECTED;
        }
        Trouble::Writes(n, times, when, failure) => {
            let matching = RequestMatch { user_agent: Some(HOST.to_owned()), ..RequestMatch::writes() };
            faults.fail(matching, *n, *times, *when, failure.clone());
        }
        Trouble::Watches(n, end) => {
            let (script, end) = (faults.clone(), *end);
            faults.after_write(*n, move |_| script.end_watches(None, end));
        }
        Trouble::Late(kind, seconds) => faults.delay_watches(*kind, Duration::from_secs(*seconds)),
    }
    let start = async || simulation.host(story.controllers, &[election]).await;
    let mut hosts: Vec<Hosted> = vec![start().await?];
    if election == ELECTED {
        // The first one leads before another one asks.
        tokio::time::sleep(Duration::from_secs(5)).await;
        hosts.push(start().await?);
    }
    let user = User::new(&simulation.cluster.server, &simulation.client).with_patience(DEADLINE);
    let telling = (story.tell)(&user);
    tokio::pin!(telling);
    if let Some(mut crash) = crash {
        tokio::select! {
            biased;
            ended = &mut telling => {
                ended?;
            }
            _ = crash.wait_for(|crash| *crash) => {
                if let Trouble::Partition(_, seconds) = trouble {
                    hosts[0].dialer.hold();
                    let held = async {
                        tokio::time::sleep(Duration::from_secs(*seconds)).await;
                        hosts[0].dialer.release();
                    };
                    let (told, ()) = tokio::join!(&mut telling, held);
                    told?;
                } else {
                    hosts.remove(0).crash();
                    faults.revive_clients();
                    if hosts.is_empty() {
                        hosts.push(start().await?);
                    }
                    telling.await?;
                }
            }
        }
    } else {
        telling.await?;
    }
    let n_writes = || {
        let history = simulation.cluster.server.history();
        history.iter().filter(|write| write.user_agent.contains(HOST) && write.resource != "leases").count() as u64
    };
    loop {
        let before = n_writes();
        tokio::time::sleep(REST).await;
        if n_writes() == before {
            break;
        }
    }
    ensure!((story.is_done)(&simulation.cluster.server), "the cluster left its final state");
    (story.check)(&simulation.cluster.server.history())?;
    let n_writes = n_writes();
    for host in hosts {
        host.stop().await?;
    }
    // The cluster ends with its runtime.
    Ok(n_writes)
}

/// Plays stories with trouble at each of their writes.
fn play_all(what: &str, troubles: impl Fn(u64, u64) -> Vec<Trouble>) -> Result<()> {
    let shared = Shared::new()?;
    let begun = Instant::now();
    let undisturbed = all(&STORIES, |story| play(&shared, shared.seed, *story, &Trouble::None));
    let mut jobs = Vec::new();
    for (story, undisturbed) in STORIES.into_iter().zip(undisturbed) {
        let (n_writes, _) = undisturbed?;
        ensure!(n_writes > 0, "{}: the host wrote nothing", story.name);
        let seeds = (0..).map(|n| shared.seed.wrapping_add(n));
        jobs.extend(
            troubles(n_writes, shared.seed).into_iter().zip(seeds).map(|(trouble, seed)| (story, trouble, seed)),
        );
    }
    let results = all(&jobs, |(story, trouble, seed)| play(&shared, *seed, *story, trouble));
    let n = results.len();
    let time: Duration = results.iter().flatten().map(|(_, time)| *time).sum();
    let wrong: Vec<String> = results.into_iter().filter_map(|one| one.err().map(|why| format!("{why:#}"))).collect();
    let hours = time.as_secs_f64() / 3600.0;
    writeln!(
        std::io::stderr(),
        "{what}: {n} points, {hours:.1} hours of virtual time in {:.0?} (SEED={:x})",
        begun.elapsed(),
        shared.seed
    )?;
    ensure!(wrong.is_empty(), "{} of {n} stories broke a rule:\n{}", wrong.len(), wrong.join("\n"));
    Ok(())
}

#[test]
fn a_crash_after_any_write_loses_nothing_and_does_nothing_twice() -> Result<()> {
    play_all("crashes", |n_writes, _| (1..=n_writes).map(Trouble::Crash).collect())
}

#[test]
fn another_host_takes_over_after_any_write() -> Result<()> {
    // The first writes are those of the election.
    play_all("hand-overs", |n_writes, _| (1..=n_writes).step_by(3).map(|n| Trouble::HandOver(n + 3)).collect())
}

/// The hosts release their Leases by time alone: none writes beside the other.
#[test]
fn a_leader_without_a_network_leaves_its_work_to_another_host() -> Result<()> {
    play_all("partitions", |n_writes, _| {
        (1..=n_writes).step_by(4).map(|n| Trouble::Partition(n + 3, if n % 8 == 1 { 12 } else { 40 })).collect()
    })
}

/// Each write fails in one way, which the seed selects; in the long run all meet.
#[test]
fn a_failure_of_any_write_loses_nothing_and_does_nothing_twice() -> Result<()> {
    play_all("failed writes", |n_writes, seed| {
        let failures = failures();
        let of = |n: u64| {
            let place = seed.wrapping_add(n) as usize % failures.len();
            let (when, failure) = failures[place].clone();
            Trouble::Writes(n, 1 + n % 3, when, failure)
        };
        (1..=n_writes).map(of).collect()
    })
}

#[test]
fn watches_that_end_or_are_late_lose_nothing() -> Result<()> {
    let ends = [WatchEnd::Close, WatchEnd::Drop, WatchEnd::Gone];
    play_all("watches", |n_writes, seed| {
        let ended = (1..=n_writes)
            .step_by(4)
            .map(|n| Trouble::Watches(n + 20, ends[seed.wrapping_add(n) as usize % ends.len()]));
        let kinds = [None, Some("pods"), Some("jobs"), Some("replicasets"), Some("statefulsets"), Some("daemonsets")];
        let late = kinds.into_iter().flat_map(|kind| [2, 10, 45].map(|seconds| Trouble::Late(kind, seconds)));
        ended.chain(late).collect()
    })
}
