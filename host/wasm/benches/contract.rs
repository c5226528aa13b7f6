//! Costs of parts of the contract and of WASI: the same sources for a target with and without WASI.
//!
//! The samples to compare are interleaved, and each number is the median of many, because the load of the machine
//! changes within a second.
#![allow(clippy::unwrap_used, missing_docs, reason = "a benchmark")]

#[path = "../tests/support/mod.rs"]
#[allow(dead_code, reason = "the tests use the rest")]
mod support;

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pintle_core::contract::outcome::{Answers, Outcome};
use pintle_core::ports::guest::Guest;
use serde_json::json;
use support::{ENGINE, RUNTIME, TestView, component, key, run_with, with_manifest, without_manifest};
use xtask::{process, toolchains};

/// Samples per row.
const N_SAMPLES: usize = 401;
/// Minimum time of a sample.
const SAMPLE: Duration = Duration::from_micros(500);
/// The guest: its package, and its folder below `tests/guests`.
const COSTS: &str = "costs";

/// A plugin with `instances` of a kind.
fn load(component: &[u8], instances: &str) -> Arc<dyn Guest> {
    let mut manifest: serde_json::Value =
        serde_json::from_str(&pintle_wasm::inspect(COSTS, support::component(COSTS)).unwrap().manifest_json).unwrap();
    manifest["instances"] = json!(instances);
    ENGINE.load(COSTS, &with_manifest(component, &manifest.to_string())).unwrap()
}

/// A measurement: a guest, the key's name, and the answers in the view.
struct Row {
    name: &'static str,
    guest: Arc<dyn Guest>,
    key: &'static str,
    view: Arc<TestView>,
    times: Vec<Duration>,
}

impl Row {
    fn new(name: &'static str, guest: &Arc<dyn Guest>, key: &'static str) -> Self {
        Self::with(name, guest, key, TestView::default())
    }

    fn with(name: &'static str, guest: &Arc<dyn Guest>, key: &'static str, view: TestView) -> Self {
        Self { name, guest: guest.clone(), key, view: Arc::new(view), times: Vec::new() }
    }

    fn call(&self) -> Outcome {
        self.view.asked.lock().unwrap().clear();
        let run = RUNTIME.block_on(self.guest.reconcile(&key(self.key), self.view.clone()));
        run.result.unwrap().unwrap().into_inner()
    }

    /// The mean time of a call, over `n` calls.
    fn sample(&mut self, n: u32) {
        let started = Instant::now();
        for _ in 0..n {
            black_box(self.call());
        }
        self.times.push(started.elapsed() / n);
    }

    /// The median in microseconds.
    fn median(&self) -> f64 {
        median(self.times.iter().map(Duration::as_secs_f64)) * 1e6
    }
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Samples all rows in turn.
fn measure(rows: &mut [Row]) {
    let n = |row: &Row| {
        let started = Instant::now();
        let mut n = 0_u32;
        while started.elapsed() < SAMPLE {
            black_box(row.call());
            n += 1;
        }
        n
    };
    let n_calls: Vec<u32> = rows.iter().map(n).collect();
    for round in 0..N_SAMPLES {
        // Alternate the order.
        let order: Vec<usize> =
            if round % 2 == 0 { (0..rows.len()).collect() } else { (0..rows.len()).rev().collect() };
        for i in order {
            rows[i].sample(n_calls[i]);
        }
    }
}

/// Prints pairs of rows, each with the median ratio of samples taken at the same time.
fn compare(title: &str, pairs: [[Row; 2]; 4]) {
    println!("\n{title}");
    for mut pair in pairs {
        measure(&mut pair);
        let [before, after] = &pair;
        let samples = before.times.iter().zip(&after.times);
        let ratio = median(samples.map(|(before, after)| after.as_secs_f64() / before.as_secs_f64()));
        println!("  {:32} {:9.2} us {:9.2} us  ratio {ratio:.3}", before.name, before.median(), after.median());
    }
}

/// A view with an answer to the guest's first need.
fn answered(guest: &Arc<dyn Guest>) -> TestView {
    let asked = support::outcome(run_with(&**guest, "live", TestView::default()));
    let text: Arc<str> =
        json!({"metadata": {"name": "web", "namespace": "a"}, "spec": {"nodeName": "n1"}}).to_string().into();
    let answers: Answers = asked.needs.into_iter().map(|need| (need, Ok(text.clone()))).collect();
    TestView { answers, ..TestView::default() }
}

/// The guest, built by the stock toolchain for the WASI target.
fn with_wasi() -> Vec<u8> {
    toolchains::rust().unwrap();
    let root = xtask::root();
    let target = root.join("target/toolchains/guests");
    let mut cargo = process::cargo(&root.join("tests/guests"));
    cargo.args(["build", "--release", "--locked", "--target", toolchains::RUST_TARGET, "-p", COSTS]);
    process::run(cargo.env("CARGO_TARGET_DIR", &target)).unwrap();
    std::fs::read(target.join(toolchains::RUST_TARGET).join("release/costs.wasm")).unwrap()
}

fn main() {
    let plain = without_manifest(component(COSTS));
    let wasi = with_wasi();
    let [fresh, pooled] = ["fresh", "pooled"].map(|instances| load(&plain, instances));
    let [fresh_wasi, pooled_wasi] = ["fresh", "pooled"].map(|instances| load(&wasi, instances));

    compare(
        "the same plugin without WASI, and with it",
        [
            [Row::new("nothing, fresh", &fresh, "nothing"), Row::new("", &fresh_wasi, "nothing")],
            [Row::new("nothing, pooled", &pooled, "nothing"), Row::new("", &pooled_wasi, "nothing")],
            [Row::new("reads and a patch, fresh", &fresh, "patch"), Row::new("", &fresh_wasi, "patch")],
            [Row::new("reads and a patch, pooled", &pooled, "patch"), Row::new("", &pooled_wasi, "patch")],
        ],
    );
    for (name, guest, component) in [("without WASI", &fresh, &plain), ("with WASI", &fresh_wasi, &wasi)] {
        let memory = run_with(&**guest, "patch", TestView::default()).usage.memory_bytes;
        println!("  {name:32} {:9} KiB of linear memory, component of {} KiB", memory >> 10, component.len() >> 10);
    }
    println!("\nparts of the contract, pooled");
    let mut rows = vec![
        Row::new("nothing", &pooled, "nothing"),
        Row::new("one wake", &pooled, "wake-1"),
        Row::new("1,000 wakes", &pooled, "wake-1000"),
        Row::new("needs, the first call", &pooled, "live"),
        Row::with("needs, the second call", &pooled, "live", answered(&pooled)),
    ];
    measure(&mut rows);
    for row in rows {
        println!("  {:32} {:9.2} us", row.name, row.median());
    }
}
