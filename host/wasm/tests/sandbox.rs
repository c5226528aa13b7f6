//! Guests that break a rule: the resulting fault, and that it affects only the run.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures::future::{Either, join_all, poll_fn, select};
use pintle_core::contract::outcome::ReconcileError;
use pintle_core::ports::guest::{FaultKind, Guest, Run};
use serde_json::json;
use tokio::task::JoinHandle;

use crate::support::{self, Meeting, RUNTIME, TestView, fault, key, loaded, loaded_with, outcome, run, run_with};

const OUT_OF_BOUNDS: &str = "an access past the end of the memory: a wild pointer, or a stack that is full \
    (wasm trap: out of bounds memory access)";

fn passed(deadline_ms: u32) -> String {
    format!(
        "the deadline of {deadline_ms} ms has passed (limits.deadlineMs of the manifest): an endless loop, or too much work \
         for one run"
    )
}

/// Runs one fault; the plugin must work as before afterwards.
#[track_caller]
fn check(name: &str, kind: FaultKind, message: &str) {
    let guest = loaded("faulty");
    let view = TestView { objects: vec!["x".repeat(2000).into()], ..TestView::default() };
    assert_eq!(fault(run_with(&*guest, name, view)), (Some(kind), message.to_owned()));
    assert_eq!(outcome(run(&*guest, "calls")).requeue_after, Some(Duration::from_millis(1)));
}

#[test]
fn an_endless_loop_ends_at_the_deadline() {
    let started = Instant::now();
    let fault = fault(run(&*another("loops-once", 300), "loop"));
    assert_eq!(fault, (Some(FaultKind::Deadline), passed(300)));
    assert!(started.elapsed() >= Duration::from_millis(300));
    outcome(run(&*another("loops-once", LONG), "calls"));
}

#[test]
fn endless_loops_leave_time_for_others_on_the_same_thread() {
    let guest = loaded("faulty");
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let [loop_key, calls_key] = ["loop", "calls"].map(key);
        let two = |key| join_all([(); 2].map(|()| guest.reconcile(key, Arc::new(TestView::default()))));
        match select(two(&loop_key), two(&calls_key)).await {
            Either::Left(_) => panic!("the loops have ended first"),
            Either::Right((runs, _)) => assert!(runs.iter().all(|run| run.result.is_ok())),
        }
    });
}

/// A deadline that no call meets, in milliseconds.
const LONG: u32 = 300_000;

/// A separate plugin with the behaviour of `faulty`.
fn another(name: &str, deadline_ms: u32) -> Arc<dyn Guest> {
    loaded_with("faulty", |manifest| {
        manifest["name"] = json!(name);
        manifest["limits"]["deadlineMs"] = json!(deadline_ms);
    })
}

/// Starts a call, and counts its ticks: an endless loop continues with each tick that it gets.
fn started(guest: &Arc<dyn Guest>, name: &'static str, n_ticks: &Arc<AtomicUsize>) -> JoinHandle<Run> {
    let (guest, n_ticks) = (guest.clone(), n_ticks.clone());
    tokio::spawn(async move {
        let key = key(name);
        let mut call = guest.reconcile(&key, Arc::new(TestView::default()));
        let ticks = poll_fn(|context| {
            n_ticks.fetch_add(1, Ordering::Relaxed);
            call.as_mut().poll(context)
        });
        ticks.await
    })
}

#[test]
fn endless_loops_of_a_plugin_delay_no_call_of_another() {
    const N_LOOPS: usize = 16;
    let (loops, quick) = (another("loops", LONG), another("quick", LONG));
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    // A separate task, because the futures of one task run one after the other.
    let calling = runtime.spawn(async move {
        let [of_loops, of_quick] = [(); 2].map(|()| Arc::new(AtomicUsize::new(0)));
        for _ in 0..N_LOOPS {
            drop(started(&loops, "loop", &of_loops));
        }
        for _ in 0..20 {
            outcome(started(&quick, "calls", &of_quick).await.unwrap());
        }
        [of_loops, of_quick].map(|n_ticks| n_ticks.load(Ordering::Relaxed))
    });
    let [of_loops, of_quick] = runtime.block_on(calling).unwrap();
    // Once all have begun, the loops share ticks as if there was one loop. A tick of each between two quick calls would
    // be many more.
    assert!(of_loops < 4 * (N_LOOPS + of_quick), "{of_loops} ticks of the loops, {of_quick} of the quick calls");
}

#[test]
fn waits_for_cpu_slots_do_not_count_against_the_deadline() {
    let guest = another("loops-four-times", 100);
    let started = Instant::now();
    let key = key("loop");
    let runs = RUNTIME.block_on(join_all((0..4).map(|_| guest.reconcile(&key, Arc::new(TestView::default())))));
    assert!(runs.iter().all(|run| run.result.as_ref().is_err_and(|fault| fault.kind == FaultKind::Deadline)));
    // One at a time, except for the first ticks of each.
    assert!(started.elapsed() > Duration::from_millis(250), "{:?}", started.elapsed());
}

#[test]
fn memory_beyond_the_limit_is_refused() {
    let guest = loaded("faulty");
    let run = run(&*guest, "grow");
    assert!(run.usage.memory_bytes <= 16 << 20);
    let (kind, message) = fault(run);
    assert_eq!(kind, Some(FaultKind::Memory));
    assert!(
        message.ends_with("bytes of memory are more than the limit of 16777216 (limits.memoryBytes of the manifest)"),
        "{message}"
    );
}

#[test]
fn memory_within_the_limit_is_granted() {
    let run = run(&*loaded("faulty"), "leak");
    assert!((6 << 20..16 << 20).contains(&run.usage.memory_bytes));
    outcome(run);
}

#[test]
fn deep_recursion_ends_at_the_stack_limit() {
    check(
        "recurse",
        FaultKind::Memory,
        "stack overflow: functions called one another too deeply, or recursed without end (wasm trap: call stack exhausted)",
    );
    // Compilers put part of the stack at the start of linear memory, so that an overflow is out of bounds.
    check("recurse-with-arrays", FaultKind::Trap, OUT_OF_BOUNDS);
}

#[test]
fn a_panic_is_a_trap() {
    check(
        "panic",
        FaultKind::Trap,
        "the plugin ended the run with no error in its log: abort(), or a check of the language's own runtime (wasm trap: wasm \
         `unreachable` instruction executed)",
    );
}

#[test]
fn an_access_out_of_bounds_is_a_trap() {
    check("write-out-of-bounds", FaultKind::Trap, OUT_OF_BOUNDS);
}

#[test]
fn host_calls_and_bytes_read_are_limited() {
    check(
        "host-calls",
        FaultKind::HostCall,
        "more calls of the lister than the limit allows (limits.hostCalls of the manifest)",
    );
    check(
        "reads",
        FaultKind::HostCall,
        "the lister was asked for more bytes than the limit allows (limits.readBytes of the manifest)",
    );
}

#[test]
fn the_arguments_of_host_calls_are_limited() {
    outcome(run(&*loaded("faulty"), "long-argument"));
    let of = |n: usize| format!("the arguments of a call of the lister have {n} bytes, more than 1048576");
    check("too-long-argument", FaultKind::HostCall, &of((1 << 20) + 1));
    check("huge-argument", FaultKind::HostCall, "the arguments of a host call are too large to be copied");
}

#[test]
fn what_may_be_copied_is_the_same_for_each_call_of_a_pooled_instance() {
    let guest = pooled();
    for _ in 0..30 {
        outcome(run(&*guest, "big-output"));
        outcome(run(&*guest, "long-argument"));
    }
    assert_eq!(fault(run(&*guest, "huge-output")).0, Some(FaultKind::Output));
}

#[test]
fn lines_over_the_limit_are_not_even_looked_at() {
    let guest = loaded("faulty");
    let (kind, why) = fault(run(&*guest, "log-no-text"));
    assert!(kind.is_some() && why.contains("utf-8"), "{kind:?} {why}");
    outcome(run(&*guest, "log-no-text-over-the-limit"));
}

#[test]
fn instances_are_gone_after_a_fault_and_kept_only_by_pooled_plugins() {
    for (guest, n_kept) in [(loaded("faulty"), 0), (pooled(), 1)] {
        outcome(run(&*guest, "calls"));
        assert_eq!(guest.n_instances(), n_kept);
        assert_eq!(guest.instance_bytes() > 0, n_kept > 0);
        for name in ["panic", "grow", "recurse", "too-big-output"] {
            fault(run(&*guest, name));
            // A fault in the answer alone leaves the instance usable.
            let n_kept = if name == "too-big-output" { n_kept } else { 0 };
            assert_eq!(guest.n_instances(), n_kept, "after {name}");
            assert_eq!(guest.instance_bytes() > 0, n_kept > 0, "after {name}");
        }
    }
    for instances in ["fresh", "pooled"] {
        let guest = loaded_with("faulty", |manifest| {
            manifest["instances"] = json!(instances);
            manifest["limits"]["deadlineMs"] = json!(50);
        });
        assert_eq!(fault(run(&*guest, "loop")).0, Some(FaultKind::Deadline));
        assert_eq!((guest.n_instances(), guest.instance_bytes()), (0, 0));
    }
}

#[test]
fn the_limits_of_the_operator_bind() {
    let limits = |json| serde_json::from_value::<pintle_core::contract::manifest::Limits>(json).unwrap();
    let max_limits = limits(json!({"deadlineMs": LONG, "memoryBytes": 16 << 20, "mutations": 10, "logLines": 3}));
    let config = pintle_wasm::WasmConfig { max_limits, ..pintle_wasm::WasmConfig::default() };
    let engine = pintle_wasm::WasmEngine::new(config).unwrap();
    let load = |given| engine.load_with("faulty", support::component("faulty"), &limits(given));
    // The manifest requests 5 lines.
    assert_eq!(
        load(json!({})).err().unwrap().to_string(),
        "faulty: limits.logLines: 5 is more than the maximum of 3; request less, or raise the maximum with `--max-limits \
         logLines=NUMBER`"
    );
    assert!(load(json!({"logLines": 3, "mutations": 11})).is_err());
    let guest = load(json!({"logLines": 3, "deadlineMs": 50})).unwrap();
    assert_eq!(fault(run(&*guest, "loop")).1, passed(50));
    let guest = load(json!({"logLines": 3, "mutations": 4})).unwrap();
    assert_eq!((guest.limits().log_lines, guest.limits().mutations), (3, 4));
    assert_eq!(fault(run(&*guest, "most-mutations")).1, "the outcome has 10 mutations, more than the limit of 4");
}

#[test]
fn reads_that_are_not_granted_are_faults() {
    check(
        "not-watched",
        FaultKind::Grant,
        "kind v1/Secret is not watched by this plugin; its manifest watches v1/Pod. Add `- {kind: v1/Secret, fields: [...]}` with the \
         fields that are read to `watches`, or `whole: true`",
    );
    check("bad-selector", FaultKind::Output, r#"label selector "a in b" is not valid: no list"#);
}

#[test]
fn mutations_are_limited() {
    assert_eq!(outcome(run(&*loaded("faulty"), "most-mutations")).steps[0].mutations.len(), 10);
    check("too-many-mutations", FaultKind::Output, "the outcome has 11 mutations, more than the limit of 10");
}

#[test]
fn the_size_of_an_outcome_is_limited() {
    outcome(run(&*loaded("faulty"), "big-output"));
    check("too-big-output", FaultKind::Output, "the outcome has 65537 bytes, more than the limit of 65536");
    check("huge-output", FaultKind::Output, "the outcome is too large to be copied");
}

#[test]
fn numbers_that_javascript_would_read_as_negative_are_faults() {
    check("negative-number", FaultKind::Output, "requeue-after-ms is more than 2147483647");
    check("negative-retry", FaultKind::Output, "after-ms is 4294967295, more than 2147483647");
}

#[test]
fn metrics_must_be_declared() {
    check("undeclared-metric", FaultKind::Output, r#"metric "nobody_declared_this" is not declared; declared are "#);
}

#[test]
fn messages_of_declared_errors_are_cut() {
    let error = run(&*loaded("faulty"), "endless-message").result.unwrap().unwrap_err();
    assert_eq!(error, ReconcileError::Terminal("x".repeat(4096)));
}

#[test]
fn a_panic_of_the_host_ends_the_run_only() {
    let guest = loaded("everything");
    let (kind, message) = fault(run_with(&*guest, "reads", TestView { broken: true, ..TestView::default() }));
    assert_eq!(kind, Some(FaultKind::HostCall));
    assert_eq!(message, "the host panicked while it answered: the clock does not advance");
    outcome(run(&*guest, "reads"));
}

#[test]
fn fresh_instances_remember_nothing() {
    let guest = loaded("faulty");
    for _ in 0..3 {
        assert_eq!(outcome(run(&*guest, "calls")).requeue_after, Some(Duration::from_millis(1)));
    }
}

fn pooled() -> Arc<dyn Guest> {
    loaded_with("faulty", |manifest| {
        manifest["instances"] = json!("pooled");
        manifest["queues"][0]["concurrency"] = json!(1);
    })
}

/// A pooled plugin for [`overlap`], whose calls may wait for one another without a limit.
fn patient() -> Arc<dyn Guest> {
    loaded_with("faulty", |manifest| {
        manifest["instances"] = json!("pooled");
        // An operator may configure more workers.
        manifest["queues"][0]["concurrency"] = json!(1);
        manifest["limits"]["hostCalls"] = json!(1_000_000);
    })
}

/// Calls that all begin before the first one ends.
#[track_caller]
fn overlap(guest: &dyn Guest, n_calls: usize) {
    let (key, meeting) = (key("await"), Meeting::of(n_calls));
    let view = || Arc::new(TestView { meeting: Some(meeting.clone()), ..TestView::default() });
    let runs = RUNTIME.block_on(join_all((0..n_calls).map(|_| guest.reconcile(&key, view()))));
    assert!(runs.into_iter().all(|run| run.result.is_ok()));
}

/// The number of calls of the instance that answers.
#[track_caller]
fn calls(guest: &dyn Guest) -> u128 {
    outcome(run(guest, "calls")).requeue_after.unwrap().as_millis()
}

#[test]
fn a_pooled_instance_lives_on_until_it_traps() {
    let guest = pooled();
    assert_eq!([calls(&*guest), calls(&*guest), calls(&*guest)], [1, 2, 3]);
    assert_eq!(fault(run(&*guest, "panic")).0, Some(FaultKind::Trap));
    assert_eq!([calls(&*guest), calls(&*guest)], [1, 2]);
}

#[test]
fn as_many_instances_are_kept_as_calls_have_overlapped() {
    let guest = patient();
    for (n_calls, n_kept) in [(1, 1), (2, 2), (1, 2)] {
        overlap(&*guest, n_calls);
        assert_eq!(guest.n_instances(), n_kept);
    }
}

#[test]
fn a_pooled_instance_that_leaks_is_replaced_before_it_meets_its_limit() {
    let guest = pooled();
    for _ in 0..10 {
        outcome(run(&*guest, "leak"));
    }
    // 6 MiB per call: the second call exceeds half of the limit of 16 MiB, and the third gets a new instance.
    assert_eq!(calls(&*guest), 1);
}

#[test]
fn a_pooled_instance_does_not_keep_the_memory_of_a_large_run() {
    let guest = pooled();
    assert_eq!(calls(&*guest), 1);
    // 6 MiB, which is less than half of the limit.
    outcome(run(&*guest, "leak"));
    assert_eq!(guest.instance_bytes(), 0);
    assert_eq!([calls(&*guest), calls(&*guest)], [1, 2]);
}

#[test]
fn instances_that_no_call_needs_are_dropped() {
    let guest = patient();
    overlap(&*guest, 3);
    assert_eq!(guest.n_instances(), 3);
    for _ in 0..2_000 {
        calls(&*guest);
    }
    assert_eq!(guest.n_instances(), 1);
}

#[test]
fn a_kept_lister_does_not_read_the_next_run() {
    let guest = pooled();
    outcome(run(&*guest, "keep-lister"));
    let (kind, message) = fault(run(&*guest, "use-kept-lister"));
    assert_eq!(
        (kind, &*message),
        (
            Some(FaultKind::Trap),
            "the lister of a finished run was used; a lister is valid until the function that received it returns"
        )
    );
}

#[test]
fn dropping_a_kept_lister_late_harms_nobody() {
    let guest = pooled();
    outcome(run(&*guest, "keep-lister"));
    let view = TestView { attempt: 7, ..TestView::default() };
    let outcome = outcome(run_with(&*guest, "drop-kept-lister", view));
    assert_eq!(outcome.requeue_after, Some(Duration::from_millis(7)));
}

#[test]
fn an_instance_that_forgets_its_listers_is_replaced() {
    let guest = pooled();
    for _ in 0..9_999 {
        outcome(run(&*guest, "keep-lister"));
    }
    assert_eq!(calls(&*guest), 10_000);
    assert_eq!(calls(&*guest), 1);
}

#[test]
fn more_calls_than_permits_wait_for_their_turn() {
    let config = pintle_wasm::WasmConfig { max_calls: 2, ..pintle_wasm::WasmConfig::default() };
    let engine = pintle_wasm::WasmEngine::new(config).unwrap();
    let guest = engine.load("faulty", support::component("faulty")).unwrap();
    let key = key("calls");
    let runs = RUNTIME.block_on(join_all((0..50).map(|_| guest.reconcile(&key, Arc::new(TestView::default())))));
    assert!(runs.into_iter().all(|run| run.result.is_ok()));
}

/// Lines logged by the guest, one per event: level, fields and message.
fn logged(guest: &'static str, name: &str) -> Vec<String> {
    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);
    impl std::io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let lines = Lines::default();
    let writer = lines.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::DEBUG)
        .with_ansi(false)
        .without_time()
        .with_writer(move || writer.clone())
        .finish();
    let guest = loaded(guest);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let view = Arc::new(TestView::default());
    tracing::subscriber::with_default(subscriber, || {
        runtime.block_on(guest.reconcile(&key(name), view)).result.unwrap().unwrap();
    });
    let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
    text.lines().map(|line| line.trim().to_owned()).filter(|line| line.contains("pintle::plugin")).collect()
}

#[test]
fn lines_are_tagged_and_cannot_steer_a_terminal() {
    let about = r#"plugin="everything" key=example.com/v1/Widget a/logs"#;
    let expected = ["DEBUG", "INFO", "WARN", "ERROR"].into_iter().zip(["Debug", "Info", "Warn", "Error"]);
    let expected: Vec<String> = expected
        .map(|(level, name)| format!(r"{level} pintle::plugin: Level::{name} of widgets\n\u{{1b}}[31m {about}"))
        .collect();
    assert_eq!(logged("everything", "logs"), expected);
}

#[test]
fn a_flood_of_lines_is_dropped_and_counted() {
    let lines = logged("faulty", "log-flood");
    assert_eq!(lines.len(), 6, "{lines:?}");
    assert!(lines[4].contains("line 4"));
    assert!(lines[5].contains("log lines over the limit were dropped"));
    assert!(lines[5].contains("n_dropped=995"), "{}", lines[5]);
}

#[test]
fn a_long_line_is_cut() {
    let lines = logged("faulty", "long-line");
    assert_eq!(lines.len(), 1);
    assert!(lines[0].contains("xxx...") && lines[0].len() < 4300, "{}", lines[0].len());
}
