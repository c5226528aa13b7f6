//! Copies one value of a ConfigMap to another one: the well-behaved neighbour of the attacks.

use pintle_sdk::{Error, Key, Lister, Mutation, ObjectKey, Outcome, PatchType, Step};
use serde_json::{Value, json};

/// Sets `data.echo` to `data.n`.
///
/// # Errors
/// If the object is not JSON.
pub fn reconcile(key: &Key, lister: &impl Lister) -> Result<Outcome, Error> {
    let object = ObjectKey::new(&*key.namespace, &*key.name);
    let Some(text) = lister.get_json(&key.kind, &object) else { return Ok(Outcome::new()) };
    let data = serde_json::from_str::<Value>(&text).map_err(|why| Error::retry(why.to_string()))?["data"].take();
    if data["n"].is_null() || data["n"] == data["echo"] {
        return Ok(Outcome::new());
    }
    let patch = Mutation::patch(&key.kind, object, PatchType::Merge, json!({"data": {"echo": data["n"]}}));
    Ok(Outcome::new().step(Step::sequential([patch])))
}

pintle_sdk::export!(reconcile);
