//! Waiting for a condition with a deadline: the only way in which these tests let time pass.

use std::fmt::Display;
use std::time::Duration;

use anyhow::{Result, bail};
use tokio::time::Instant;

/// How long to wait after the first look. Short, because most conditions come true within milliseconds.
const FIRST_PAUSE: Duration = Duration::from_millis(5);

/// How long to wait between two looks at most. Looks cost processor time that what is waited for needs.
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// Calls `look` until it answers `Ok(Some(value))`, and returns the value.
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
    mut look: impl AsyncFnMut() -> Result<Option<T>>,
) -> Result<T> {
    let until = Instant::now() + deadline;
    let mut last = String::from("condition not met");
    let mut pause = FIRST_PAUSE;
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
        pause = (pause * 3 / 2).min(LONGEST_PAUSE);
    }
}
