//! Makes the mistake that the name of its key says. What is told of each: `tests/tests/mistakes.rs`.

mod churn;

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::SystemTime;

use pintle_sdk::api::meta::ObjectMeta;
use pintle_sdk::{Error, Key, Kind, Lister, Mutation, Outcome, Step};
use serde::Deserialize;

const SECRET: Kind = Kind::new("", "v1", "Secret");
pub(crate) const CONFIG_MAP: Kind = Kind::new("", "v1", "ConfigMap");

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Mistake {
    metadata: ObjectMeta,
    spec: Spec,
}

pintle_sdk::resource!(Mistake, "example.com", "v1", "Mistake");

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    /// JSON, or what should be.
    settings: String,
    replicas: i64,
}

/// Makes a mistake.
///
/// # Errors
/// Where the mistake is one.
pub fn reconcile(key: &Key, lister: &impl Lister) -> Result<Outcome, Error> {
    match key.name.as_str() {
        "panic" => third_of(&[1]),
        "clock" => Ok(Outcome::new().keep("now", format!("{:?}", SystemTime::now()))),
        "random" => Ok(Outcome::new().keep("random", RandomState::new().build_hasher().finish().to_string())),
        "global" => Ok(Outcome::new().keep("runs", count().to_string())),
        "bad-json" => parse(key, lister),
        "bad-type" => replicas(key, lister),
        "undeclared-kind" => Ok(create(&SECRET, key)),
        "forgotten-grant" => Ok(delete(&CONFIG_MAP, key)),
        "unwatched" => Ok(Outcome::new().keep(
            "secret",
            lister
                .get_json(&SECRET, &pintle_sdk::ObjectKey { namespace: key.namespace.clone(), name: key.name.clone() })
                .unwrap_or_default(),
        )),
        "loop" => loop_for_ever(),
        "memory" => fill_memory(),
        "deep" => Ok(Outcome::new().keep("depth", depth(&[0; 64], 0).to_string())),
        "churn" => churn::run(key, lister),
        other => Err(Error::terminal(format!("there is no mistake {other}"))),
    }
}

fn third_of(items: &[u32]) -> Result<Outcome, Error> {
    let at = items.len() + 1;
    Ok(Outcome::new().keep("third", items[at].to_string()))
}

fn count() -> u32 {
    static RUNS: AtomicU32 = AtomicU32::new(0);
    RUNS.fetch_add(1, Ordering::Relaxed) + 1
}

fn parse(key: &Key, lister: &impl Lister) -> Result<Outcome, Error> {
    let Some(mistake) = lister.get::<Mistake>(&key.namespace, &key.name)? else { return Ok(Outcome::new()) };
    let settings: serde_json::Value = serde_json::from_str(&mistake.spec.settings).expect("spec.settings is JSON");
    Ok(Outcome::new().keep("settings", settings.to_string()))
}

fn replicas(key: &Key, lister: &impl Lister) -> Result<Outcome, Error> {
    let Some(mistake) = lister.get::<Mistake>(&key.namespace, &key.name)? else { return Ok(Outcome::new()) };
    Ok(Outcome::new().keep("replicas", mistake.spec.replicas.to_string()))
}

fn create(kind: &Kind, key: &Key) -> Outcome {
    let object = serde_json::json!({"metadata": {"name": key.name}});
    Outcome::new().step(Step::sequential([Mutation::create(kind, &key.namespace, object)]))
}

fn delete(kind: &Kind, key: &Key) -> Outcome {
    Outcome::new().step(Step::sequential([Mutation::delete(kind, &key.namespace, &key.name)]))
}

fn loop_for_ever() -> Result<Outcome, Error> {
    let mut n = 1_u64;
    while std::hint::black_box(n) != 0 {
        n |= 1;
    }
    Ok(Outcome::new())
}

fn fill_memory() -> Result<Outcome, Error> {
    let mut all = Vec::new();
    loop {
        all.push(std::hint::black_box(vec![1_u8; 1 << 20]));
    }
}

fn depth(above: &[u64; 64], level: u64) -> u64 {
    if level == u64::MAX {
        return 0;
    }
    let here = [above[0] + level; 64];
    depth(std::hint::black_box(&here), level + 1) + here[63]
}

pintle_sdk::export!(reconcile);
