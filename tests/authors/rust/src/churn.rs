//! Reads the world again and again while the allocator is busy, and looks whether what was read is what was there.

use std::collections::BTreeMap;

use pintle_sdk::api::meta::ObjectMeta;
use pintle_sdk::{Error, Key, Lister, Outcome, Query};
use serde::Deserialize;

/// How often everything is read in one run.
const N_ROUNDS: usize = 2;

#[derive(Default, Deserialize)]
#[serde(default)]
struct ConfigMap {
    metadata: ObjectMeta,
    /// `text`: the object's name, so many `times`.
    data: BTreeMap<String, String>,
}

pintle_sdk::resource!(ConfigMap, "", "v1", "ConfigMap");

#[derive(Deserialize)]
struct Config {
    word: String,
}

pub(crate) fn run(key: &Key, lister: &impl Lister) -> Result<Outcome, Error> {
    let mut heap = Heap::default();
    let mut n_checked = 0;
    for round in 0..N_ROUNDS {
        heap.churn(round);
        let all: Vec<ConfigMap> = lister.list(&Query::namespace(&key.namespace))?;
        for map in &all {
            heap.churn(map.data.len() + n_checked);
            let one: ConfigMap =
                lister.get(&key.namespace, &map.metadata.name)?.ok_or_else(|| wrong("an object is gone"))?;
            for read in [map, &one] {
                let times = read.data["times"].parse().unwrap_or(0);
                if read.data["text"] != read.metadata.name.repeat(times) {
                    return Err(wrong(&read.metadata.name));
                }
                n_checked += 1;
            }
        }
        let config: Config = lister.config()?;
        if lister.state("word") != Some(config.word) {
            return Err(wrong("state or configuration"));
        }
        heap.check()?;
    }
    Ok(Outcome::new().keep("checked", n_checked.to_string()))
}

fn wrong(what: &str) -> Error {
    Error::terminal(format!("corrupt: {what}"))
}

/// Blocks of many sizes, of which every other one is freed, so that what the host hands over lands between those that live.
#[derive(Default)]
struct Heap {
    live: Vec<Vec<u8>>,
}

impl Heap {
    fn churn(&mut self, seed: usize) {
        for i in 0..64 {
            let size = (seed * 31 + i * 97) % 1500 + 1;
            self.live.push(vec![(size % 251) as u8; size]);
        }
        let mut at = 0;
        self.live.retain(|_| {
            at += 1;
            at % 2 == 0
        });
    }

    fn check(&self) -> Result<(), Error> {
        let is_whole = |block: &Vec<u8>| block.iter().all(|byte| usize::from(*byte) == block.len() % 251);
        if self.live.iter().all(is_whole) { Ok(()) } else { Err(wrong("a block of the heap")) }
    }
}
