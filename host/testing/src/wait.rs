//! Waiting for a condition with a deadline: the only way for tests to wait.

use std::fmt::Display;
use std::ops::Range;
use std::time::Duration;

use anyhow::{Result, bail};
use tokio::time::Instant;

/// Timeout for anything on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(300);

/// Pause after the first check. Short, because most conditions become true within milliseconds.
const FIRST_PAUSE: Duration = Duration::from_millis(5);

/// Longest pause between two checks. Checks cost processor time that the awaited work needs.
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// Calls `look` until it returns `Ok(Some(value))`, and returns the value.
///
/// `Ok(None)` and `Err` both mean "not yet"; the last error is part of the message when the deadline
/// passes.
///
/// # Errors
/// The deadline passed. The message holds `description` and the last error.
///
/// # Cancel safety
/// Dropping the future drops the look in flight.
pub async fn eventually<T>(
    deadline: Duration,
    description: impl Display,
    look: impl AsyncFnMut() -> Result<Option<T>>,
) -> Result<T> {
    wait(deadline, FIRST_PAUSE..LONGEST_PAUSE, description, look).await
}

/// [`eventually`] for a condition on the paused clock, where checks cost no time and a test continues soon after the
/// condition holds.
///
/// # Panics
/// It does not hold within 1,000 s.
pub async fn until(what: &str, condition: impl Fn() -> bool) {
    let look = async || Ok(condition().then_some(()));
    let pause = Duration::from_millis(10);
    wait(Duration::from_secs(1_000), pause..pause, what, look).await.unwrap();
}

async fn wait<T>(
    deadline: Duration,
    pauses: Range<Duration>,
    description: impl Display,
    mut look: impl AsyncFnMut() -> Result<Option<T>>,
) -> Result<T> {
    let until = Instant::now() + deadline;
    let mut last = String::from("condition not met");
    let mut pause = pauses.start;
    loop {
        match tokio::time::timeout_at(until, look()).await {
            Ok(Ok(Some(value))) => return Ok(value),
            Ok(Ok(None)) => {}
            Ok(Err(error)) => last = format!("{error:#}"),
            Err(_) => bail!("waited {deadline:?} for {description}: {last}"),
        }
        if Instant::now() + pause >= until {
            bail!("waited {deadline:?} for {description}: {last}");
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 3 / 2).min(pauses.end);
    }
}
