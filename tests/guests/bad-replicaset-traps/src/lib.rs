//! The ReplicaSet controller, which works as it should, and traps from its 50th run on.

use pintle_sdk::{Error, Key, Lister, Outcome};

/// Runs that go well.
const GOOD_RUNS: u32 = 49;

/// As the built-in plugin, but for what the crate says.
///
/// # Errors
/// As there.
pub fn reconcile(key: &Key, lister: &impl Lister) -> Result<Outcome, Error> {
    let n_before = lister.state("runs").and_then(|text| text.parse().ok()).unwrap_or(0);
    assert!(n_before < GOOD_RUNS, "as asked");
    let outcome = plugin_lib::replicaset::reconcile::<plugin_lib::replicaset::ReplicaSet>(key, lister)?;
    Ok(outcome.keep("runs", (n_before + 1).to_string()))
}

pintle_sdk::export!(reconcile);
