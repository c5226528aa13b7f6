//! The host is killed after single writes of a rollout, and its successor finishes the rollout without surplus.
//!
//! A sample; `long/crash_everywhere.rs` has all writes.

use anyhow::Result;
use pintle_tests::crash::{Points, Strategy, crash_at};

const SAMPLE: Points = Points::Sample(4);

#[tokio::test(flavor = "multi_thread")]
async fn a_host_killed_after_a_write_of_a_rolling_update_is_succeeded_without_surplus() -> Result<()> {
    crash_at(SAMPLE, Strategy::Rolling).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_killed_after_a_write_of_a_recreation_is_succeeded_without_surplus() -> Result<()> {
    crash_at(SAMPLE, Strategy::Recreate).await
}
