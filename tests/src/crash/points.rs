//! Crashes after single writes of a story: after each of them, or after a few that a seed selects.
//!
//! ```text
//! undisturbed story -> number of writes -> points -> a story with a crash at each -> rules of the verdict
//! ```
//!
//! Invariant: two stories differ only by status updates and events, so every story has at least as many writes as an undisturbed one
//! has of other kinds. A crash up to that write must happen; a later one may find that the story has ended.

use std::hash::{BuildHasher as _, RandomState};
use std::io::Write as _;

use anyhow::{Context, Result, ensure};
use futures::{StreamExt, TryStreamExt};
use rand::SeedableRng as _;
use rand::rngs::StdRng;

use super::{Story, StoryRun};

/// Stories at once; each has a host of its own.
const N_AT_ONCE: usize = 3;

/// After which writes the host is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Points {
    /// After each.
    All,
    /// After this many, selected by `SEED` in the environment or a random seed.
    Sample(usize),
}

/// Kills the host after each of these writes of a story, in a story of its own, and lets its successor finish.
///
/// # Errors
/// A story broke a rule or did not end; the message names the write and the seed.
pub async fn crash_at(points: Points, story: Story) -> Result<()> {
    let (n_writes, n_certain) = undisturbed(story).await?;
    let seed = seed()?;
    let chosen = choose(points, n_writes, seed)?;
    writeln!(std::io::stderr(), "{}: crashes after writes {chosen:?} of {n_writes}, SEED={seed}", story.name)?;
    let stories = chosen.into_iter().map(|n| async move {
        let crashed = crash_after(n, story).await;
        let crashed = crashed.with_context(|| format!("crash after write {n} of {n_writes}, SEED={seed}"))?;
        ensure!(crashed || n > n_certain, "the host got past write {n} alive; every story has {n_certain} writes");
        Ok(())
    });
    futures::stream::iter(stories).buffer_unordered(N_AT_ONCE).try_collect().await
}

/// The writes of the host when nothing happens to it: all, and those that every story has.
async fn undisturbed(story: Story) -> Result<(u64, u64)> {
    let mut run = StoryRun::start(story).await?;
    run.run_undisturbed().await?;
    run.finish().await?;
    Ok((run.n_host_writes(), run.n_certain_writes()))
}

/// Returns whether the host got as far as its `n`-th write.
async fn crash_after(n: u64, story: Story) -> Result<bool> {
    let mut run = StoryRun::start(story).await?;
    let crash = run.crash_after(n);
    let crashed = run.run(crash).await?;
    run.finish().await?;
    Ok(crashed)
}

fn seed() -> Result<u64> {
    match std::env::var("SEED") {
        Ok(text) => text.parse().with_context(|| format!("SEED={text:?} is not a number")),
        Err(_) => Ok(RandomState::new().hash_one(()) >> 32),
    }
}

/// Numbers from 1 to `n_writes`, in order.
fn choose(points: Points, n_writes: u64, seed: u64) -> Result<Vec<u64>> {
    let Points::Sample(n) = points else { return Ok((1..=n_writes).collect()) };
    let length = usize::try_from(n_writes)?;
    let indexes = rand::seq::index::sample(&mut StdRng::seed_from_u64(seed), length, n.min(length));
    let mut chosen: Vec<u64> = indexes.into_iter().map(|index| index as u64 + 1).collect();
    chosen.sort_unstable();
    Ok(chosen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_decided_by_its_seed_and_stays_within_the_story() -> Result<()> {
        let sample = choose(Points::Sample(8), 30, 7)?;
        assert_eq!((sample.len(), &sample), (8, &choose(Points::Sample(8), 30, 7)?));
        assert!(sample.iter().all(|n| (1..=30).contains(n)) && sample.is_sorted(), "{sample:?}");
        assert_ne!(sample, choose(Points::Sample(8), 30, 8)?);
        assert_eq!(choose(Points::Sample(8), 3, 7)?, [1, 2, 3]);
        assert_eq!(choose(Points::All, 3, 7)?, [1, 2, 3]);
        Ok(())
    }
}
