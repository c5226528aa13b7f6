//! Breaks one rule of the contract at a time; the name of the key's object says which.

#[allow(missing_docs, clippy::all, reason = "generated")]
mod bindings {
    wit_bindgen::generate!({ world: "controller", path: "../../../wit" });
}

use std::cell::{Cell, RefCell};
use std::hint::black_box;

use bindings::pintle::controller::log::{self, Level};
use bindings::pintle::controller::types::{
    Action, Create, Key, Kind, Moment, Mutation, Observation, Order, Outcome, ReconcileError, Retry, StateWrite, Step,
};
use bindings::pintle::controller::view::{Lister, Query};

thread_local! {
    static CALLS: Cell<u32> = const { Cell::new(0) };
    static KEPT: RefCell<Vec<Lister>> = const { RefCell::new(Vec::new()) };
    static LEAKED: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

struct Faulty;

bindings::export!(Faulty with_types_in bindings);

impl bindings::Guest for Faulty {
    fn reconcile(key: Key, lister: Lister) -> Result<Outcome, ReconcileError> {
        let calls = CALLS.get() + 1;
        CALLS.set(calls);
        let mut outcome = Outcome {
            needs: vec![],
            steps: vec![],
            requeue_after_ms: None,
            state: vec![],
            observations: vec![],
            wake: vec![],
            run_labels: vec![],
            error: None,
        };
        let name = key.object.name.as_str();
        match name {
            // How often this instance has been called.
            "calls" => outcome.requeue_after_ms = Some(calls),
            "loop" => loop {
                black_box(calls);
            },
            "grow" => leak(usize::MAX),
            "leak" => leak(6),
            "recurse" => outcome.requeue_after_ms = Some(recurse(calls)),
            "recurse-with-arrays" => {
                black_box(recurse_with_arrays(black_box(0)));
            }
            "panic" => panic!("as asked"),
            "write-out-of-bounds" => {
                // SAFETY: none. The sandbox is what is tried.
                unsafe { std::ptr::write_volatile(0xffff_fff0 as *mut u8, 1) }
            }
            "host-calls" => loop {
                black_box(lister.attempt());
            },
            "reads" => loop {
                black_box(lister.list(&key.kind, &query()));
            },
            // Waits for an object, without end.
            "await" => while lister.get(&key.kind, &key.object).is_none() {},
            "long-argument" => drop(lister.state(&"x".repeat(1 << 20))),
            "too-long-argument" => drop(lister.state(&"x".repeat((1 << 20) + 1))),
            "huge-argument" => drop(lister.state(&"x".repeat(4 << 20))),
            "keep-lister" => KEPT.with_borrow_mut(|kept| kept.push(lister)),
            "use-kept-lister" => {
                KEPT.with_borrow(|kept| black_box(kept[0].now()));
            }
            "drop-kept-lister" => {
                KEPT.with_borrow_mut(Vec::clear);
                // The own lister must still work.
                outcome.requeue_after_ms = Some(lister.attempt());
            }
            "log-flood" => {
                for i in 0..1000 {
                    log::write(Level::Info, &format!("line {i}"));
                }
            }
            "long-line" => log::write(Level::Info, &"x".repeat(1 << 20)),
            "log-no-text" => log::write(Level::Info, no_text()),
            "log-no-text-over-the-limit" => {
                for _ in 0..1000 {
                    log::write(Level::Info, "text");
                }
                log::write(Level::Info, no_text());
            }
            "most-mutations" => outcome.steps = vec![step(10)],
            "too-many-mutations" => outcome.steps = vec![step(5), step(6)],
            "big-output" => outcome.state = vec![state(65_530)],
            "too-big-output" => outcome.state = vec![state(1 << 16)],
            "huge-output" => outcome.state = (0..100_000).map(|_| state(0)).collect(),
            "negative-number" => outcome.requeue_after_ms = Some(-5_i32 as u32),
            "negative-retry" => {
                return Err(ReconcileError::Retry(Retry { message: String::new(), after_ms: Some(u32::MAX) }));
            }
            "endless-message" => return Err(ReconcileError::Terminal("x".repeat(60_000))),
            "undeclared-metric" => outcome.observations = vec![observation()],
            "not-watched" => {
                lister.list(&kind("Secret"), &query());
            }
            "bad-selector" => {
                lister.list(&kind("Pod"), &Query { label_selector: Some("a in b".into()), ..query() });
            }
            other => panic!("no fault is called {other}"),
        }
        Ok(outcome)
    }
}

fn leak(n_mib: usize) {
    for _ in 0..n_mib {
        LEAKED.with_borrow_mut(|leaked| leaked.push(black_box(vec![1; 1 << 20])));
    }
}

/// Needs the engine's stack only. The addition after the call keeps the compiler from making a loop of it.
fn recurse(depth: u32) -> u32 {
    if depth == 0 { 0 } else { recurse(depth.wrapping_add(1)).wrapping_mul(31).wrapping_add(depth ^ 0x55) }
}

#[allow(unconditional_recursion, reason = "the fault that is tried")]
fn recurse_with_arrays(depth: u64) -> u64 {
    let frame = black_box([depth; 16]);
    recurse_with_arrays(depth + 1) + frame[black_box(3)]
}

fn no_text() -> &'static str {
    // SAFETY: none. The sandbox is what is tried.
    unsafe { std::str::from_utf8_unchecked(black_box(&[0xff])) }
}

fn kind(name: &str) -> Kind {
    Kind { group: String::new(), version: "v1".into(), name: name.into() }
}

fn query() -> Query {
    Query { namespace: None, label_selector: None, owner: None, index: None, whole: false }
}

fn state(n_bytes: usize) -> StateWrite {
    StateWrite { name: "s".into(), value: Some("x".repeat(n_bytes)) }
}

fn observation() -> Observation {
    Observation { metric: "nobody_declared_this".into(), labels: vec![], value: 1.0, at: Moment::Now }
}

fn step(n_mutations: usize) -> Step {
    let create = Create { kind: kind("Pod"), namespace: "a".into(), object: "{}".into(), subresource: None };
    let mutation = Mutation { action: Action::Create(create), on_success: None, on_failure: None, tolerate: vec![] };
    Step { order: Order::Sequential, mutations: vec![mutation; n_mutations], always: false }
}
