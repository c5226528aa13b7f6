//! Attacks by the mapping of changes to keys.

use std::hint::black_box;

use crate::bindings::exports::pintle::controller::mapping;
use crate::bindings::pintle::controller::types::{Key, Kind, ObjectKey, Wake};
use crate::bindings::pintle::controller::view::Lister;
use crate::{Hostile, attack_of, requirements, select};

/// Most keys of one change.
const MAX_KEYS: usize = 10_000;

impl mapping::Guest for Hostile {
    fn keys_of(kind: Kind, _: Option<String>, new: Option<String>, lister: Lister) -> Vec<Wake> {
        keys(&kind, new.as_deref(), &lister).into_iter().map(|key| Wake { key, after_ms: None }).collect()
    }
}

fn keys(kind: &Kind, new: Option<&str>, lister: &Lister) -> Vec<Key> {
    let attack = attack_of(lister);
    let key = |name: String| Key {
        queue: attack.clone(),
        kind: kind.clone(),
        object: ObjectKey { namespace: "hostile".into(), name },
    };
    let version = new.map(version_of).unwrap_or_default();
    let invented = |n: usize| (0..n).map(|i| key(format!("{version}-{i}"))).collect();
    match attack.as_str() {
        // Other keys for each change, which the queue forgets once they have run.
        "mapping-churn" => invented(100),
        // The same with keys that the queue remembers, as large as a key may be.
        "mapping-crowd" => {
            let padding = "x".repeat(900);
            (0..MAX_KEYS).map(|i| key(format!("{version}-{i}-{padding}"))).collect()
        }
        "mapping-flood" => invented(MAX_KEYS + 1),
        "mapping-giant-list" => {
            let object = || ObjectKey { namespace: String::new(), name: String::new() };
            let kind = || Kind { group: String::new(), version: String::new(), name: String::new() };
            (0..300_000).map(|_| Key { queue: String::new(), kind: kind(), object: object() }).collect()
        }
        // No object can have them.
        "mapping-long-names" => (0..8).map(|i| key(format!("{i}{}", "x".repeat(1_000_000)))).collect(),
        "mapping-loop" => loop {
            black_box(kind);
        },
        "mapping-reads" => loop {
            let object = ObjectKey { namespace: String::new(), name: String::new() };
            select(&Key { queue: String::new(), kind: kind.clone(), object }, lister, &requirements(64));
        },
        "mapping-trap" => panic!("as asked"),
        "mapping-undeclared-queue" => vec![Key { queue: "other".into(), ..key("k0".into()) }],
        _ => Vec::new(),
    }
}

/// The resourceVersion of an object, which is another one after each change.
fn version_of(object: &str) -> &str {
    let version = object.split_once(r#""resourceVersion":""#).and_then(|(_, rest)| rest.split_once('"'));
    version.map_or("", |(version, _)| version)
}
