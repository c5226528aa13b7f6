//! No Pod is doubled while watches are silent or late, or connections are dead, with the times of a real host.
//!
//! `cargo test --workspace --test long silence:: -- --nocapture` prints the number of trials and surplus Pods, and the time after
//! which dead connections were noticed.

use std::time::Duration;

use anyhow::{Result, ensure};
use pintle_tests::components;
use pintle_tests::silence::{FAULTS, Times, trials};
use pintle_wasm::{WasmConfig, WasmEngine};

/// ReplicaSets of each round; there is a round for each fault.
const SETS: usize = 34;

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_replica_sets_have_no_surplus_pod_at_any_instant() -> Result<()> {
    let engine = WasmEngine::new(WasmConfig::default())?;
    let guest = engine.load("replicaset-controller", &components::plugin("replicaset-controller")?)?;
    let report = trials(guest, Times::real(), FAULTS.len(), SETS).await?;
    println!("{report}");
    ensure!(report.surplus.is_empty() && report.n_trials >= 200, "{report}");
    ensure!(!report.noticed.is_empty(), "{report}");
    ensure!(report.noticed.iter().all(|noticed| *noticed < Duration::from_secs(45)), "{report}");
    Ok(())
}
