//! The ReplicaSet controller, which makes a Pod that nobody asked for whenever it has nothing else to do.

use pintle_sdk::{Error, Key, Kind, Lister, Mutation, Outcome, Step};

const POD: Kind = Kind::new("", "v1", "Pod");
const SURPLUS: &str = r#"{"metadata": {"generateName": "surplus-"}, "spec": {"containers": [{"name": "c", "image": "registry.example/c:1"}]}}"#;

/// As the built-in plugin, but for what the crate says.
///
/// # Errors
/// As there.
pub fn reconcile(key: &Key, lister: &impl Lister) -> Result<Outcome, Error> {
    let outcome = plugin_lib::replicaset::reconcile::<plugin_lib::replicaset::ReplicaSet>(key, lister)?;
    if !outcome.steps.is_empty() {
        return Ok(outcome);
    }
    Ok(outcome.step(Step::sequential([Mutation::create(&POD, &*key.namespace, SURPLUS)])))
}

pintle_sdk::export!(reconcile);
