//! Random histories: what a user does to objects of one kind, with kube-controller-manager and with Pintle at the same time.
//!
//! ```text
//! seed -> plan: steps -> taken on two control planes, each step when both are quiet -> quiet again -> equal states and events?
//!                  no -> taken again several times: did kube-controller-manager end once as Pintle did?
//!                                                                    no -> the shortest plan that still differs
//! ```
//!
//! kube-controller-manager does not always end in the same way: it chooses one of several Pods or budgets by the order of a map, and what
//! it records depends on which of its caches is first. Pintle must end in a way in which kube-controller-manager ends, too.
//!
//! `SEED` in the environment repeats a run; without it each run has its own seed, which it prints. `HISTORIES` is how many of each kind.
//!
//! Invariants:
//! 1. A plan is data, and each step can be taken in any state: what is not there is left alone. So steps can be left out.
//! 2. Nothing depends on time: no node runs Pods, the user writes what becomes of them.

mod autoscalers;
mod budgets;
mod cron_jobs;
mod daemon_sets;
mod deployments;
mod garbage;
mod jobs;
mod namespaces;
mod plan;
mod play;
mod refusals;
mod stateful_sets;

use std::io::Write as _;

use anyhow::{Context as _, Result, ensure};
use futures::StreamExt as _;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use pintle_tests::scenarios::sample::given_seed;
use plan::{Kind, Plan};
use play::{Arena, Difference, Outcome};

/// How many histories of a kind a run has.
const N_HISTORIES: usize = 24;

/// How many histories are played at once: each mostly waits.
const N_AT_ONCE: usize = 12;

/// How often a plan is taken again that ended differently.
const N_AGAIN: usize = 8;

/// How many differences are made shorter and shown.
const N_SHOWN: usize = 3;

/// Plays histories of a kind.
async fn compare(kind: &'static Kind) -> Result<()> {
    let seed = given_seed()?.unwrap_or_else(rand::random);
    let n_histories = match std::env::var("HISTORIES") {
        Ok(n) => n.parse().with_context(|| format!("HISTORIES={n} is not a number"))?,
        Err(_) => N_HISTORIES,
    };
    let mut err = std::io::stderr();
    writeln!(err, "{}: {n_histories} histories (SEED={seed:x})", kind.name)?;
    let arena = Arena::start(kind.has_metrics).await?;
    let plans: Vec<Plan> = (0..n_histories as u64).map(|n| Plan::new(kind, seed.wrapping_add(n))).collect();
    let n_steps: usize = plans.iter().map(|plan| plan.steps.len()).sum();
    let played = futures::stream::iter(&plans)
        .map(|plan| {
            let arena = &arena;
            async move { (plan, play(arena, plan).await) }
        })
        .buffer_unordered(N_AT_ONCE)
        .collect::<Vec<_>>()
        .await;
    let (mut n_writes, mut n_chance, mut different) = ([0; 2], 0, Vec::new());
    for (plan, result) in played {
        let (outcome, verdict) = result.with_context(|| format!("{plan}"))?;
        (n_writes[0], n_writes[1]) = (n_writes[0] + outcome.n_writes[0], n_writes[1] + outcome.n_writes[1]);
        match verdict {
            Verdict::Equal => {}
            Verdict::Chance => n_chance += 1,
            Verdict::Different(difference) => {
                writeln!(err, "{plan}\n{difference}")?;
                different.push((plan, difference));
            }
        }
    }
    writeln!(
        err,
        "{}: {} of {n_histories} histories equal, {n_chance} of them to another try of kube-controller-manager, {n_steps} steps; {} writes \
         by kube-controller-manager and the user, {} by Pintle and the user",
        kind.name,
        n_histories - different.len(),
        n_writes[0],
        n_writes[1],
    )?;
    let n_different = different.len();
    let shown = futures::future::try_join_all(
        different.into_iter().take(N_SHOWN).map(|(plan, difference)| shorten(&arena, plan.clone(), difference)),
    );
    let shown: Vec<String> =
        shown.await?.into_iter().map(|(plan, difference)| format!("{plan}\n{difference}")).collect();
    arena.stop().await;
    ensure!(n_different == 0, "{n_different} of {n_histories} differ (SEED={seed:x}):\n{}", shown.join("\n"));
    Ok(())
}

/// What is said of one history.
enum Verdict {
    Equal,
    /// kube-controller-manager ended as Pintle did when the plan was taken again.
    Chance,
    Different(Difference),
}

/// Plays a plan, and again if the sides differ.
async fn play(arena: &Arena, plan: &Plan) -> Result<(Outcome, Verdict)> {
    let outcome = arena.play(plan).await?;
    let Some(difference) = outcome.ends.difference() else { return Ok((outcome, Verdict::Equal)) };
    let again = futures::future::try_join_all((0..N_AGAIN).map(|_| arena.play(plan))).await?;
    let is_chance = again.iter().any(|again| again.ends.reference == outcome.ends.ours);
    let verdict = if is_chance { Verdict::Chance } else { Verdict::Different(difference) };
    Ok((outcome, verdict))
}

/// Leaves out steps, many at first, as long as the plan differs.
async fn shorten(arena: &Arena, mut plan: Plan, mut difference: Difference) -> Result<(Plan, Difference)> {
    loop {
        let n_steps = plan.steps.len();
        let sizes = [n_steps / 2, n_steps / 4, 1].into_iter().filter(|size| (1..n_steps).contains(size));
        let parts = sizes.flat_map(|size| (0..=n_steps - size).map(move |first| first..first + size));
        let candidates = parts.map(|part| {
            let mut shorter = plan.clone();
            shorter.steps.drain(part);
            shorter
        });
        let played = futures::future::try_join_all(candidates.map(|plan| async {
            anyhow::Ok(match play(arena, &plan).await?.1 {
                Verdict::Different(difference) => Some((plan, difference)),
                Verdict::Equal | Verdict::Chance => None,
            })
        }));
        let shortest = played.await?.into_iter().flatten().min_by_key(|(plan, _)| plan.steps.len());
        match shortest {
            Some(shorter) => (plan, difference) = shorter,
            None => return Ok((plan, difference)),
        }
    }
}

impl Plan {
    /// The plan of a seed.
    fn new(kind: &'static Kind, seed: u64) -> Plan {
        let mut random = StdRng::seed_from_u64(seed);
        let n_steps = random.random_range(3..=9);
        let mut steps = (kind.begin)(&mut random);
        steps.extend((0..n_steps).map(|_| (kind.step)(&mut random)));
        Plan { kind, seed, steps }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_have_the_same_histories() -> Result<()> {
    compare(&jobs::KIND).await
}

#[tokio::test(flavor = "multi_thread")]
async fn cron_jobs_have_the_same_histories() -> Result<()> {
    compare(&cron_jobs::KIND).await
}

#[tokio::test(flavor = "multi_thread")]
async fn stateful_sets_have_the_same_histories() -> Result<()> {
    compare(&stateful_sets::KIND).await
}

#[tokio::test(flavor = "multi_thread")]
async fn daemon_sets_have_the_same_histories() -> Result<()> {
    compare(&daemon_sets::KIND).await
}

#[tokio::test(flavor = "multi_thread")]
async fn deployments_have_the_same_histories() -> Result<()> {
    compare(&deployments::KIND).await
}

#[tokio::test(flavor = "multi_thread")]
async fn autoscalers_have_the_same_histories() -> Result<()> {
    compare(&autoscalers::KIND).await
}

#[tokio::test(flavor = "multi_thread")]
async fn budgets_have_the_same_histories() -> Result<()> {
    compare(&budgets::KIND).await
}

#[tokio::test(flavor = "multi_thread")]
async fn graphs_of_owners_have_the_same_histories() -> Result<()> {
    compare(&garbage::KIND).await
}

#[tokio::test(flavor = "multi_thread")]
async fn namespaces_have_the_same_histories() -> Result<()> {
    compare(&namespaces::KIND).await
}
