//! A fault affects its key: the cost for the key, and no cost for other keys.

use super::*;
use pintle_core::lifecycle::{Phase, SwapResult};
use pintle_core::policy::queue::LONGEST_HOLD;

fn trap() -> GuestResult {
    Err(PluginFault { kind: FaultKind::Trap, message: "unreachable".into() })
}

/// The time of each run, with its key.
type Runs = Arc<Mutex<Vec<(Instant, String)>>>;

/// A plugin that faults for names that start with `bad`, and takes a second for names that start with `bad-slow`.
fn picky(version: &str) -> (FakeGuest, Runs) {
    let runs = Runs::default();
    let log = runs.clone();
    let manifest = manifest(|m| {
        m["version"] = version.into();
        m["queues"][0]["concurrency"] = 2.into();
    });
    let guest = FakeGuest::asynchronous(manifest, move |key, view| {
        let name = key.object.name.to_string();
        log.lock().push((Instant::now(), name.clone()));
        let is_flaky = name == "flaky" && view.attempt() == 0;
        Box::pin(async move {
            if name.starts_with("bad-slow") {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            match name.starts_with("bad") {
                true => trap(),
                false if is_flaky => Ok(Err(ReconcileError::Retry { message: "not yet".into(), after: None })),
                false => done(),
            }
        })
    });
    (guest, runs)
}

fn count(runs: &Runs, name: &str) -> usize {
    runs.lock().iter().filter(|(_, other)| other == name).count()
}

#[tokio::test(start_paused = true)]
async fn changes_of_an_object_that_faults_do_not_shorten_its_backoff() {
    let (guest, runs) = picky("1.0.0");
    let fixture = Fixture::new(guest, FakeWriter::agreeable());
    fixture.start();
    for _ in 0..6_000 {
        fixture.add(&["bad"]);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    // Twelve runs until the backoff reaches half a minute, then two per minute.
    let n_runs = count(&runs, "bad");
    assert!((25..=36).contains(&n_runs), "{n_runs} runs in ten minutes");
    // A fix takes effect when the hold ends.
    let gap = |runs: &[(Instant, String)]| runs.windows(2).map(|pair| pair[1].0 - pair[0].0).max().unwrap();
    assert!(gap(&runs.lock()) <= LONGEST_HOLD + Duration::from_millis(100), "{:?}", gap(&runs.lock()));
}

#[tokio::test(start_paused = true)]
async fn a_thousand_objects_that_fault_and_change_all_the_time_delay_no_other_key() {
    let (guest, runs) = picky("1.0.0");
    let fixture = Fixture::new(guest, FakeWriter::agreeable());
    fixture.start();
    let bad: Vec<String> = (0..1_000).map(|i| format!("attacker/bad{i}")).collect();
    let bad: Vec<&str> = bad.iter().map(String::as_str).collect();
    for second in 0..120 {
        fixture.add(&bad);
        let added = Instant::now();
        fixture.add(&[&format!("victim/good{second}")]);
        tokio::time::sleep(Duration::from_secs(1)).await;
        let ran = runs.lock().iter().find(|(_, name)| *name == format!("good{second}")).map(|(at, _)| *at);
        assert!(ran.unwrap() - added < Duration::from_millis(10), "in second {second}: {:?}", ran.unwrap() - added);
    }
    let status = fixture.controller.status();
    assert_eq!((status.phase, status.n_faulting_keys), (Phase::Running, 1_000));
    assert_eq!((status.faulting_keys.len(), status.faulting_keys[0].message.as_str()), (20, "trap: unreachable"));
    // The retry of another key is not delayed either: faults do not use the rate limit that retries share.
    let added = Instant::now();
    fixture.add(&["victim/flaky"]);
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert_eq!(count(&runs, "flaky"), 2, "{:?} later", added.elapsed());
}

#[tokio::test(start_paused = true)]
async fn slow_faults_leave_workers_to_other_keys() {
    let (guest, runs) = picky("1.0.0");
    let fixture = Fixture::new(guest, FakeWriter::agreeable());
    fixture.start();
    let bad: Vec<String> = (0..100).map(|i| format!("attacker/bad-slow{i}")).collect();
    fixture.add(&bad.iter().map(String::as_str).collect::<Vec<_>>());
    // Their first runs are like any others. Then one of the two workers stays free of them.
    tokio::time::sleep(Duration::from_secs(60)).await;
    for i in 0..60 {
        let (added, name) = (Instant::now(), format!("good{i}"));
        fixture.add(&[&format!("victim/{name}")]);
        tokio::time::sleep(Duration::from_secs(1)).await;
        let ran = runs.lock().iter().find(|(_, other)| *other == name).map(|(at, _)| *at);
        assert!(ran.unwrap() - added < Duration::from_millis(10), "in second {i}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_event_of_a_fault_is_about_the_object_and_repeated_ones_are_counted_in_it() {
    let (guest, runs) = picky("1.0.0");
    let fixture = Fixture::new(guest, FakeWriter::agreeable());
    fixture.put(&["bad"]);
    fixture.start();
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert!(count(&runs, "bad") > 10);
    let bodies = fixture.events.bodies();
    let (created, counted): (Vec<_>, Vec<_>) = bodies.iter().partition(|body| body["involvedObject"].is_object());
    assert_eq!(created.len(), 1, "{bodies:?}");
    assert_eq!(created[0]["involvedObject"]["uid"], "uid-bad");
    assert_eq!(
        created[0]["message"],
        "plugin widgets 1.0.0: trap: unreachable; the plugin tries this object again after a backoff, other objects are not \
         affected"
    );
    assert!(counted.last().is_some_and(|last| last["count"].as_u64() > Some(2)), "{bodies:?}");
}

#[tokio::test(start_paused = true)]
async fn an_object_that_faults_with_every_version_does_not_prevent_an_upgrade() {
    let (guest, _) = picky("1.0.0");
    let fixture = Fixture::new(guest, FakeWriter::agreeable());
    fixture.put(&["a/bad1", "a/bad2", "a/bad3", "b/bad4", "a/good1", "b/good2"]);
    fixture.start();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let (guest, runs) = picky("2.0.0");
    fixture.swap(guest).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert!(count(&runs, "bad1") > 2);
    assert_eq!(fixture.last_swap(), (SwapResult::Proven, "Requested".into()));
    // The next version faults for keys that the previous one served.
    let log = Arc::new(Mutex::new(Vec::new()));
    fixture.put(&["b/good3"]);
    fixture.swap(swapping::noting("3.0.0", &log, |_, _| trap())).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(fixture.last_swap(), (SwapResult::RolledBack, "FaultsInProbation".into()));
}
