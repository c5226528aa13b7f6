//! Components that import WASI 0.2: the results, their determinism, and the limits.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use std::sync::Arc;

use expect_test::{Expect, expect};
use pintle_core::ports::guest::{FaultKind, Guest, Run};
use pintle_wasm::{WASI_INTERFACES, inspect};
use serde_json::json;

use crate::support::{ENGINE, TestView, component, fault, loaded, loaded_with, outcome, run, run_with, text};

/// The lines of a run, which must not be a fault.
fn lines(guest: &dyn Guest, name: &str) -> Vec<String> {
    lines_of(run(guest, name))
}

fn lines_of(mut run: Run) -> Vec<String> {
    let lines = run.log.drain(..).map(|line| format!("{}: {}", line.level, line.message)).collect();
    outcome(run);
    lines
}

#[track_caller]
fn check(name: &str, expect: Expect) {
    expect.assert_eq(&lines(&*loaded("wasi"), name).join("\n"));
}

#[track_caller]
fn check_fault(name: &str, kind: FaultKind, message: &str) {
    assert_eq!(fault(run(&*loaded("wasi"), name)), (Some(kind), message.to_owned()));
}

fn pooled() -> Arc<dyn Guest> {
    loaded_with("wasi", |manifest| manifest["instances"] = json!("pooled"))
}

#[test]
fn a_component_may_import_every_interface_of_the_list() {
    let imports = inspect("wasi", component("wasi")).unwrap().imports;
    let names = |import: &String| import.split_once('@').map(|(name, _)| name.to_owned());
    let of_guest: Vec<String> = imports.iter().filter_map(names).filter(|name| name.starts_with("wasi:")).collect();
    for interface in WASI_INTERFACES {
        // No function returns errors, terminals or sockets, so a guest need not import their types.
        let unused = ["wasi:http/outgoing-handler", "wasi:sockets/tcp", "wasi:sockets/udp"].contains(&interface.name);
        assert!(unused || of_guest.iter().any(|name| name == interface.name), "{} {of_guest:?}", interface.name);
    }
    assert!(of_guest.iter().all(|name| WASI_INTERFACES.iter().any(|interface| interface.name == name)), "{of_guest:?}");
}

#[test]
fn any_patch_version_of_wasi_0_2_is_linked() {
    for patch in ["0", "6", "12", "40"] {
        let component = text(&format!(
            r#"(component
                (import "wasi:random/insecure-seed@0.2.{patch}" (instance
                    (export "insecure-seed" (func (result (tuple u64 u64))))))
                (core module $m (func (export "f")))
                (core instance $i (instantiate $m))
                (func (export "reconcile") (canon lift (core func $i "f")))
            )"#
        ));
        let error = ENGINE.load("plugin.wasm", &component).err().expect("a reconcile without parameters").to_string();
        assert!(error.contains("type-checking export func `reconcile`"), "{error}");
    }
}

#[test]
fn lines_of_stdout_and_stderr_are_lines_of_the_log() {
    check(
        "output",
        expect![[r#"
        info: one
        warn: careful
        error: two comes later
        info: two
        info: no end"#]],
    );
}

#[test]
fn output_has_the_limits_of_the_log() {
    check(
        "lines",
        expect![[r#"
        info: line 0
        info: line 1
        info: line 2
        info: line 3
        info: line 4"#]],
    );
    let long = lines(&*loaded("wasi"), "long-line");
    assert!(long[0].len() < 4200 && long[0].starts_with("info: xxx"), "{}", long[0].len());
    assert_eq!(long[1..], ["info: next"]);
    // 128 MiB, of which nothing is kept.
    let flood = run(&*loaded("wasi"), "flood");
    assert!(flood.usage.memory_bytes < 8 << 20);
    let flood = lines_of(flood);
    assert_eq!((flood.len(), flood[1].as_str()), (2, "info: after"));
}

#[test]
fn a_write_of_more_than_a_stream_permits_is_a_fault() {
    for name in ["write-too-much", "write-zeroes-too-much"] {
        check_fault(name, FaultKind::Output, "a write of more bytes than the stream permits");
    }
}

#[test]
fn stdin_is_empty() {
    check("stdin", expect!["info: Err(StreamError::Closed) Err(StreamError::Closed) Err(StreamError::Closed)"]);
}

#[test]
fn clocks_show_the_time_of_the_run_and_only_waiting_moves_them() {
    check("times", expect!["info: 1767323045.000006000 1767323045000006000"]);
    check("sleep", expect!["info: 1767326645.000006000 1767326645000006000"]);
    check("sleep-always", expect![""]);
    check(
        "poll",
        expect![[r#"
        info: [1] 1767323046.000006000 1767323046000006000
        info: [1, 2] false 1767323046.000006000 1767323046000006000"#]],
    );
    check_fault("poll-nothing", FaultKind::Output, "wasi:io/poll was called with an empty list");
}

#[test]
fn the_wall_clock_of_a_reused_instance_is_that_of_each_run() {
    let guest = pooled();
    let first = lines(&*guest, "sleep");
    assert_eq!(lines(&*guest, "times"), ["info: 1767323045.000006000 1767326645000006000"]);
    assert_eq!(first, ["info: 1767326645.000006000 1767326645000006000"]);
    assert_eq!(guest.n_instances(), 1);
}

#[test]
fn random_numbers_are_those_of_the_key_and_the_version_of_its_object() {
    let (guest, reused) = (loaded("wasi"), pooled());
    let of = |guest: &dyn Guest, version: Option<u64>| {
        lines_of(run_with(guest, "random", TestView { version, ..TestView::default() })).join("\n")
    };
    let first = of(&*guest, Some(7));
    expect!["info: [1e, b6, 81, 5f] 3db3d8c682bb3f1c [45, f0, 8d, 23] 1c94db3b0b10f0d"].assert_eq(&first);
    assert_eq!(of(&*guest, Some(7)), first, "a retry");
    assert_ne!(of(&*guest, Some(8)), first, "another version of the object");
    assert_ne!(of(&*guest, None), first, "no object");
    assert_eq!([of(&*reused, Some(8)), of(&*reused, Some(7))][1], first, "a reused instance");
    check("seed", expect!["info: (243f6a8885a308d3, 13198a2e03707344)"]);
}

#[test]
fn random_bytes_of_one_call_are_limited() {
    outcome(run(&*loaded("wasi"), "random-most"));
    check_fault(
        "random-too-much",
        FaultKind::HostCall,
        "wasi:random was asked for 1048577 bytes at once, more than 1048576",
    );
}

#[test]
fn there_are_no_files_no_sockets_and_no_environment() {
    check(
        "closed",
        expect![[r#"
        info: (true, true, true) ([], []) None
        info: 0
        info: Err("access-denied") Err("access-denied") Err("access-denied")"#]],
    );
    check_fault(
        "http",
        FaultKind::Trap,
        "the plugin called wasi:http/types@0.2.12#[constructor]fields, but it has no network: it reads through the lister, asks \
         for more with needs, and writes with its outcome",
    );
}

#[test]
fn the_end_of_the_program_is_a_fault_with_its_last_words() {
    check_fault(
        "exit",
        FaultKind::Trap,
        "the plugin called exit with code 1 (wasi:cli/exit); a plugin ends a run by returning an outcome or an error; the last \
         error in its log: Traceback: |   no such thing",
    );
    check_fault(
        "exit-well",
        FaultKind::Trap,
        "the plugin called exit with code 0 (wasi:cli/exit); a plugin ends a run by returning an outcome or an error",
    );
    check_fault(
        "trap",
        FaultKind::Trap,
        "the plugin ended the run; the last error in its log: thread panicked at lib.rs:1 | as asked",
    );
}

#[test]
fn calls_and_handles_are_limited() {
    let counted = run(&*loaded("wasi"), "count");
    assert_eq!(counted.usage.host_calls, 20_001);
    assert_eq!(
        fault(counted),
        (
            Some(FaultKind::HostCall),
            "more calls of WASI and the lister than the limit allows (limits.hostCalls of the manifest)".to_owned()
        )
    );
    for name in ["streams", "timers"] {
        check_fault(name, FaultKind::HostCall, "more than 4096 open streams and timers of WASI");
    }
    outcome(run(&*loaded("wasi"), "streams-and-timers"));
}

#[test]
fn an_instance_that_leaks_handles_is_replaced_before_it_faults() {
    let guest = pooled();
    for i in 1..=9 {
        outcome(run(&*guest, "leak"));
        assert_eq!(guest.n_instances(), usize::from(i % 3 != 0), "after run {i}");
    }
}
