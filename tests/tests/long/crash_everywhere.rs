//! The host is killed after each single write of a rollout, and its successor finishes the rollout without surplus.

use anyhow::Result;
use pintle_tests::crash::{Points, Strategy, crash_at};

#[tokio::test(flavor = "multi_thread")]
async fn a_host_killed_after_any_write_of_a_rolling_update_is_succeeded_without_surplus() -> Result<()> {
    crash_at(Points::All, Strategy::Rolling).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_killed_after_any_write_of_a_recreation_is_succeeded_without_surplus() -> Result<()> {
    crash_at(Points::All, Strategy::Recreate).await
}
