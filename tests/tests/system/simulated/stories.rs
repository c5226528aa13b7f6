//! Stories in which something goes wrong: the rules of a story hold, and it comes to its end.
//!
//! ```text
//! undisturbed story -> its writes -> a story for each write and each kind of trouble
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use pintle_sim::faults::{Failure, FaultScript, RequestMatch, WatchEnd, When};
use pintle_sim::{WriteRecord, WriteVerb};
use pintle_tests::crash::{HOST, Story, User, cron, daemon, job, quota, rollout, slices, stateful};
use pintle_tests::scenarios::sample::all_are_asked_for;
use tokio::sync::watch;

use super::{Hosted, Shared, Simulation, all};

/// A host that has not written for so long has come to rest: longer than any delay of a retry and any silence of a watch.
const REST: Duration = Duration::from_secs(120);
/// Virtual time that a story may take.
const DEADLINE: Duration = Duration::from_secs(6 * 3600);
/// How long a request is stuck: longer than another host needs to take over and to go on.
const STUCK: Duration = Duration::from_secs(60);
/// Alone, and with others.
const ALONE: &str = "--leader-elect=false";
const ELECTED: &str = "--leader-elect=true";

const STORIES: [Story; 8] = [
    rollout::ROLLING,
    rollout::RECREATION,
    job::INDEXED,
    stateful::ROLLOUT,
    daemon::SURGE,
    cron::FIRE,
    slices::SERVICE,
    quota::COUNT,
];

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
    /// The n-th request of a verb by the host that leads takes effect after [`STUCK`], when its network is gone and another host has
    /// taken over.
    Stuck(String, u64),
    /// Writes of the host from this one on fail so, this many times.
    Writes(u64, u64, When, Failure),
    /// After a write of the cluster, all watches end.
    Watches(u64, WatchEnd),
    /// The events of a kind, or of all, come late by seconds; in the end also by more than the host waits for them.
    Late(Option<String>, u64),
}

impl Trouble {
    /// Sets it up. The receiver turns true when it takes effect.
    fn arm(&self, faults: &FaultScript) -> watch::Receiver<bool> {
        let (strikes, struck) = watch::channel(false);
        match self {
            Trouble::None => struck,
            Trouble::Crash(n) | Trouble::HandOver(n) => faults.kill_client_after(*n, HOST),
            Trouble::Partition(n, _) => {
                let left = AtomicU64::new(*n);
                faults.observe(move |write| {
                    if write.user_agent.contains(HOST) && left.fetch_sub(1, Ordering::Relaxed) == 1 {
                        strikes.send_replace(true);
                    }
                });
                struck
            }
            Trouble::Stuck(verb, n) => {
                let matching = RequestMatch { verb: Some(verb.clone()), ..of_host() };
                faults.fail(matching, *n, 1, When::Before, Failure::Delay(STUCK))
            }
            Trouble::Writes(n, times, when, failure) => faults.fail(of_host(), *n, *times, *when, failure.clone()),
            Trouble::Watches(n, end) => {
                let (script, end) = (faults.clone(), *end);
                faults.after_write(*n, move |_| {
                    script.end_watches(None, end);
                    strikes.send_replace(true);
                });
                struck
            }
            Trouble::Late(kind, seconds) => faults.delay_watches(kind.as_deref(), Duration::from_secs(*seconds)),
        }
    }

    /// Whether another host stands by.
    fn has_standby(&self) -> bool {
        matches!(self, Trouble::HandOver(_) | Trouble::Partition(..) | Trouble::Stuck(..))
    }

    /// What becomes of the hosts, of which the first one leads, when it takes effect.
    async fn strike(&self, cast: &mut Cast<'_>) -> Result<()> {
        match self {
            Trouble::Crash(_) | Trouble::HandOver(_) => {
                cast.hosts.remove(0).crash();
                cast.simulation.cluster.faults().revive_clients();
                if cast.hosts.is_empty() {
                    cast.start_host(ALONE).await?;
                }
            }
            Trouble::Partition(_, seconds) => cast.hold(Duration::from_secs(*seconds)),
            Trouble::Stuck(..) => cast.hold(STUCK + Duration::from_secs(10)),
            _ => {}
        }
        Ok(())
    }
}

/// All writes of the host.
fn of_host() -> RequestMatch {
    RequestMatch { user_agent: Some(HOST.to_owned()), ..RequestMatch::writes() }
}

/// The simulation of a story, and its hosts. The first one is the first to lead.
struct Cast<'a> {
    simulation: &'a Simulation<'a>,
    story: Story,
    hosts: Vec<Hosted>,
}

impl Cast<'_> {
    async fn start_host(&mut self, election: &str) -> Result<()> {
        let flags: Vec<&str> = self.story.flags.iter().copied().chain([election]).collect();
        self.hosts.push(self.simulation.host(self.story.controllers, &flags).await?);
        Ok(())
    }

    /// Takes the network of the first host away for so long.
    fn hold(&self, time: Duration) {
        let dialer = self.hosts[0].dialer.clone();
        dialer.hold();
        tokio::spawn(async move {
            tokio::time::sleep(time).await;
            dialer.release();
        });
    }
}

/// What came of a story.
struct Played {
    /// Writes of the host, without those of the election.
    writes: Vec<Arc<WriteRecord>>,
    /// Whether the trouble took effect.
    struck: bool,
    /// Virtual time.
    time: Duration,
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

/// Plays a story with trouble.
fn play(shared: &Shared, seed: u64, story: Story, trouble: &Trouble) -> Result<Played> {
    pintle_simulated::run(async {
        let told = tokio::time::timeout(DEADLINE, tell(shared, seed, story, trouble)).await;
        let played = told.unwrap_or_else(|_| bail!("not finished after {DEADLINE:?} of virtual time"));
        played.with_context(|| format!("{}, {trouble:?} (SEED={seed:x})", story.name))
    })
}

async fn tell(shared: &Shared, seed: u64, story: Story, trouble: &Trouble) -> Result<Played> {
    let begun = tokio::time::Instant::now();
    let simulation = Simulation::start(shared, seed).await?;
    let mut struck = trouble.arm(simulation.cluster.faults());
    let mut cast = Cast { simulation: &simulation, story, hosts: Vec::new() };
    cast.start_host(if trouble.has_standby() { ELECTED } else { ALONE }).await?;
    if trouble.has_standby() {
        // The first one leads before another one asks.
        tokio::time::sleep(Duration::from_secs(5)).await;
        cast.start_host(ELECTED).await?;
    }
    let user = User::new(&simulation.cluster.server, &simulation.client).with_patience(DEADLINE);
    let telling = (story.tell)(&user);
    tokio::pin!(telling);
    tokio::select! {
        biased;
        ended = &mut telling => ended?,
        () = turns_true(&mut struck) => {
            trouble.strike(&mut cast).await?;
            telling.await?;
        }
    }
    let writes = rest(&simulation).await;
    ensure!((story.is_done)(&simulation.cluster.server), "the cluster left its final state");
    (story.check)(&simulation.cluster.server.history())?;
    for host in cast.hosts {
        host.stop().await?;
    }
    // The cluster ends with its runtime.
    let struck = *struck.borrow();
    Ok(Played { writes, struck, time: begun.elapsed() })
}

/// Waits for a value of true, or for the end of the sender. Keeps no borrow of it, which would block the sender.
async fn turns_true(receiver: &mut watch::Receiver<bool>) {
    drop(receiver.wait_for(|value| *value).await);
}

/// Waits until the host has come to rest. Returns what it has written.
async fn rest(simulation: &Simulation<'_>) -> Vec<Arc<WriteRecord>> {
    let writes = || {
        let mut history = simulation.cluster.server.history();
        history.retain(|write| write.user_agent.contains(HOST) && write.resource != "leases");
        history
    };
    loop {
        let before = writes().len();
        tokio::time::sleep(REST).await;
        let now = writes();
        if now.len() == before {
            return now;
        }
    }
}

/// Plays stories with troubles that `troubles` makes of a seed and of the writes of the undisturbed story: with every second one, of which
/// the seed decides, or with all of them where `SCENARIOS=all`.
fn play_all(what: &str, troubles: impl Fn(&[Arc<WriteRecord>], u64) -> Vec<Trouble>) -> Result<()> {
    let shared = Shared::new()?;
    let begun = Instant::now();
    let undisturbed = all(&STORIES, |story| play(&shared, shared.seed, *story, &Trouble::None));
    let mut jobs = Vec::new();
    for (story, undisturbed) in STORIES.into_iter().zip(undisturbed) {
        let writes = undisturbed?.writes;
        ensure!(!writes.is_empty(), "{}: the host wrote nothing", story.name);
        let seeds = (0..).map(|n| shared.seed.wrapping_add(n));
        let troubles = troubles(&writes, shared.seed).into_iter().zip(seeds);
        let played = troubles.filter(|(_, seed)| all_are_asked_for() || seed % 2 == 0);
        jobs.extend(played.map(|(trouble, seed)| (story, trouble, seed)));
    }
    let results = all(&jobs, |(story, trouble, seed)| play(&shared, *seed, *story, trouble));
    let n = results.len();
    let time: Duration = results.iter().flatten().map(|played| played.time).sum();
    let n_struck = results.iter().flatten().filter(|played| played.struck).count();
    let wrong: Vec<String> = results.into_iter().filter_map(|one| one.err().map(|why| format!("{why:#}"))).collect();
    let hours = time.as_secs_f64() / 3600.0;
    writeln!(
        std::io::stderr(),
        "{what}: {n} points, of which {n_struck} took effect, {hours:.1} hours of virtual time in {:.0?} (SEED={:x})",
        begun.elapsed(),
        shared.seed
    )?;
    ensure!(wrong.is_empty(), "{} of {n} stories broke a rule:\n{}", wrong.len(), wrong.join("\n"));
    // With another seed, a story can have fewer writes than the one that the points are of.
    ensure!(10 * n_struck >= 9 * n, "only {n_struck} of {n} troubles took effect");
    Ok(())
}

/// The numbers of writes, from 1.
fn numbers(writes: &[Arc<WriteRecord>]) -> impl Iterator<Item = u64> {
    1..=writes.len() as u64
}

#[test]
fn a_crash_after_any_write_loses_nothing_and_does_nothing_twice() -> Result<()> {
    play_all("crashes", |writes, _| numbers(writes).map(Trouble::Crash).collect())
}

#[test]
fn another_host_takes_over_after_any_write() -> Result<()> {
    // The first writes are those of the election.
    play_all("hand-overs", |writes, _| numbers(writes).step_by(3).map(|n| Trouble::HandOver(n + 3)).collect())
}

/// The hosts release their Leases by time alone: none writes beside the other.
#[test]
fn a_leader_without_a_network_leaves_its_work_to_another_host() -> Result<()> {
    play_all("partitions", |writes, _| {
        let seconds = |n| if n % 24 < 12 { 12 } else { 40 };
        numbers(writes).step_by(6).map(|n| Trouble::Partition(n + 3, seconds(n))).collect()
    })
}

/// What a host asked for before it lost the network is about the objects that it saw, not about those that another host has made since.
/// Creations are left out: one that comes late is one too many, and the host deletes it.
#[test]
fn a_request_that_comes_after_another_host_has_taken_over_harms_nothing() -> Result<()> {
    play_all("late requests", |writes, _| {
        let mut verbs: BTreeMap<String, u64> = BTreeMap::new();
        for write in writes.iter().filter(|write| write.verb != WriteVerb::Create) {
            *verbs.entry(format!("{:?}", write.verb).to_lowercase()).or_default() += 1;
        }
        verbs.into_iter().flat_map(|(verb, n)| (1..=n).map(move |n| Trouble::Stuck(verb.clone(), n))).collect()
    })
}

/// Each write fails in one way, which the seed selects; in the long run all meet.
#[test]
fn a_failure_of_any_write_loses_nothing_and_does_nothing_twice() -> Result<()> {
    play_all("failed writes", |writes, seed| {
        let failures = failures();
        let of = |n: u64| {
            let place = (seed / 2 + n / 2) as usize % failures.len();
            let (when, failure) = failures[place].clone();
            Trouble::Writes(n, 1 + n % 3, when, failure)
        };
        numbers(writes).map(of).collect()
    })
}

#[test]
fn watches_that_end_or_are_late_lose_nothing() -> Result<()> {
    let ends = [WatchEnd::Close, WatchEnd::Drop, WatchEnd::Gone];
    play_all("watches", |writes, seed| {
        let end = |n: u64| ends[seed.wrapping_add(n) as usize % ends.len()];
        let ended = numbers(writes).step_by(4).map(|n| Trouble::Watches(n + 20, end(n)));
        let kinds: BTreeSet<&str> =
            writes.iter().map(|write| &*write.resource).filter(|kind| *kind != "events").collect();
        let kinds = kinds.into_iter().map(|kind| Some(kind.to_owned())).chain([None]);
        let late = kinds.flat_map(|kind| [2, 10, 45].map(|seconds| Trouble::Late(kind.clone(), seconds)));
        ended.chain(late).collect()
    })
}
