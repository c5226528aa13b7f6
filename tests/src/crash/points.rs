//! Crashes after each write of a story.
//!
//! ```text
//! undisturbed story -> number of writes -> a story with a crash after each -> rules of the verdict
//! ```
//!
//! Invariant: two stories differ only by status updates and events, so every story has at least as many writes as an undisturbed one
//! has of other kinds. A crash up to that write must happen; a later one may find that the story has ended.

use std::io::Write as _;

use anyhow::{Context, Result, ensure};
use futures::{StreamExt, TryStreamExt};

use super::{Story, StoryRun};

/// Stories at once; each has a host of its own.
const N_AT_ONCE: usize = 3;

/// Kills the process of the host after each write of a story, in a story of its own, and lets its successor finish.
///
/// # Errors
/// A story broke a rule or did not end; the message names the write.
pub async fn crash_everywhere(story: Story) -> Result<()> {
    let (n_writes, n_certain) = undisturbed(story).await?;
    writeln!(std::io::stderr(), "{}: crashes after each of {n_writes} writes", story.name)?;
    let stories = (1..=n_writes).map(|n| async move {
        let crashed = crash_after(n, story).await.with_context(|| format!("crash after write {n} of {n_writes}"))?;
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
