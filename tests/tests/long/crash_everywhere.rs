//! The host is killed after each single write of a story, and its successor brings it to its end: nothing is lost, nothing is done twice.

use anyhow::Result;
use pintle_tests::crash::{crash_everywhere, cron, daemon, job, rollout, stateful};

#[tokio::test(flavor = "multi_thread")]
async fn a_host_killed_after_any_write_of_a_rolling_update_is_succeeded_without_surplus() -> Result<()> {
    crash_everywhere(rollout::ROLLING).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_killed_after_any_write_of_a_recreation_is_succeeded_without_surplus() -> Result<()> {
    crash_everywhere(rollout::RECREATION).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_killed_after_any_write_of_an_indexed_job_counts_each_pod_once() -> Result<()> {
    crash_everywhere(job::INDEXED).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_killed_after_any_write_of_a_stateful_set_keeps_the_order_and_the_claims() -> Result<()> {
    crash_everywhere(stateful::ROLLOUT).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_killed_after_any_write_of_a_daemon_set_keeps_a_ready_pod_on_each_node() -> Result<()> {
    crash_everywhere(daemon::SURGE).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_killed_after_any_write_of_a_cron_job_starts_each_job_once() -> Result<()> {
    crash_everywhere(cron::FIRE).await
}
