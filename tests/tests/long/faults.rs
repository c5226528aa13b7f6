//! The API server fails in each way that the fault script knows, and a rollout ends as if nothing had been.

use std::time::Duration;

use anyhow::Result;
use pintle_sim::FaultScript;
use pintle_sim::faults::{Failure, RequestMatch, WatchEnd, When};
use pintle_tests::crash::rollout::ROLLING;
use pintle_tests::crash::{HOST, StoryRun};

/// Every how many writes of the host a fault comes; the numbers have no common factor with the steps of a rollout.
const EVERY: u64 = 7;
/// More than a story has writes.
const LIMIT: u64 = 200;
/// The write of a story at which the server goes away; the second time is three times as late.
const AWAY_AT: u64 = 14;
/// For how long.
const AWAY_FOR: Duration = Duration::from_secs(2);

/// Requests of the host.
fn host(verb: &str, resource: Option<&str>) -> RequestMatch {
    RequestMatch {
        verb: Some(verb.to_owned()),
        resource: resource.map(str::to_owned),
        user_agent: Some(HOST.to_owned()),
        ..RequestMatch::default()
    }
}

async fn rolls_out_with(arm: impl FnOnce(&StoryRun)) -> Result<()> {
    let mut rollout = StoryRun::start(ROLLING).await?;
    arm(&rollout);
    rollout.run_undisturbed().await?;
    rollout.finish().await
}

/// Some writes of the host fail so.
async fn rolls_out_when_writes_fail(when: When, failure: Failure) -> Result<()> {
    rolls_out_with(|rollout| {
        for n in (1..LIMIT).step_by(EVERY as usize) {
            rollout.faults().fail(host("write", None), n, 1, when, failure.clone());
        }
    })
    .await
}

/// Something happens to the server right after every so many writes of the cluster.
async fn rolls_out_while(every: u64, fault: impl Fn(&FaultScript) + Send + Sync + 'static) -> Result<()> {
    rolls_out_with(|rollout| {
        let script = rollout.faults().clone();
        let faults = script.clone();
        script.observe(move |write| {
            if write.n % every == 0 {
                fault(&faults);
            }
        });
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn conflicts_are_tried_again() -> Result<()> {
    rolls_out_when_writes_fail(When::Before, Failure::status(409)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_asks_for_patience_gets_it() -> Result<()> {
    rolls_out_when_writes_fail(When::Before, Failure::too_many_requests(1)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn internal_errors_before_a_write_are_tried_again() -> Result<()> {
    rolls_out_when_writes_fail(When::Before, Failure::status(500)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn internal_errors_after_a_write_do_not_repeat_it() -> Result<()> {
    rolls_out_when_writes_fail(When::After, Failure::status(500)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_dropped_before_a_write_are_made_anew() -> Result<()> {
    rolls_out_when_writes_fail(When::Before, Failure::DropConnection).await
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_dropped_after_a_write_do_not_repeat_it() -> Result<()> {
    rolls_out_when_writes_fail(When::After, Failure::DropConnection).await
}

#[tokio::test(flavor = "multi_thread")]
async fn late_answers_are_waited_for() -> Result<()> {
    rolls_out_when_writes_fail(When::After, Failure::Delay(Duration::from_millis(300))).await
}

#[tokio::test(flavor = "multi_thread")]
async fn watches_that_end_in_order_are_opened_again() -> Result<()> {
    rolls_out_while(EVERY, |script| script.end_watches(None, WatchEnd::Close)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn watches_that_break_are_opened_again() -> Result<()> {
    rolls_out_while(EVERY, |script| script.end_watches(None, WatchEnd::Drop)).await
}

/// Seldom, for each new list is waited for longer than the one before.
#[tokio::test(flavor = "multi_thread")]
async fn watches_that_are_too_old_lead_to_a_new_list() -> Result<()> {
    rolls_out_while(EVERY * 6, |script| script.end_watches(None, WatchEnd::Gone)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn late_events_lead_to_nothing_twice() -> Result<()> {
    rolls_out_with(|rollout| drop(rollout.faults().delay_watches(None, Duration::from_millis(150)))).await
}

#[tokio::test(flavor = "multi_thread")]
async fn late_events_of_pods_alone_lead_to_nothing_twice() -> Result<()> {
    rolls_out_with(|rollout| drop(rollout.faults().delay_watches(Some("pods"), Duration::from_millis(300)))).await
}

#[tokio::test(flavor = "multi_thread")]
async fn late_events_of_replica_sets_alone_lead_to_nothing_twice() -> Result<()> {
    rolls_out_with(|rollout| drop(rollout.faults().delay_watches(Some("replicasets"), Duration::from_millis(300))))
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn events_that_come_twice_change_nothing() -> Result<()> {
    rolls_out_with(|rollout| rollout.faults().duplicate_events(None)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_away_for_seconds_is_waited_for() -> Result<()> {
    rolls_out_with(|rollout| {
        for n in [AWAY_AT, AWAY_AT * 3] {
            let script = rollout.faults().clone();
            let runtime = tokio::runtime::Handle::current();
            rollout.faults().after_write(rollout.cluster.n_writes() + n, move |_| {
                script.down();
                runtime.spawn(async move { script.down_for(AWAY_FOR).await });
            });
        }
    })
    .await
}

/// The host cannot know of such a Pod from the answer, nor from its cache for a while.
#[tokio::test(flavor = "multi_thread")]
async fn a_pod_whose_creation_is_answered_by_nothing_and_seen_late_is_not_created_again() -> Result<()> {
    for failure in [Failure::DropConnection, Failure::status(500), Failure::status(504)] {
        rolls_out_with(|rollout| {
            rollout.faults().delay_watches(Some("pods"), Duration::from_millis(400));
            rollout.faults().fail(host("create", Some("pods")), 1, LIMIT, When::After, failure.clone());
        })
        .await?;
    }
    Ok(())
}

/// The host learns of what it writes from its watches alone, and late.
#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_is_never_answered_and_sees_everything_late_does_nothing_twice() -> Result<()> {
    rolls_out_with(|rollout| {
        rollout.faults().delay_watches(None, Duration::from_millis(150));
        rollout.faults().fail(host("write", None), 1, u64::MAX, When::After, Failure::DropConnection);
    })
    .await
}
