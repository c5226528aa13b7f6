//! Collections in the guest while it asks the host, two thousand runs on one instance: what is read is what was there, the outcome stays
//! the same, and memory stays flat.
//!
//! `churn` of the projects in `tests/authors` says how collections are made certain, and how those are counted that end during a call.

use anyhow::{Context, Result};
use pintle_tests::authors;
use serde_json::{Value, json};

use super::write_case;

pub(crate) const CASE: &str = "churn";
/// In the configuration and in the state.
pub(crate) const WORD: &str = "a word that is long enough to be allocated by itself, with ünïcödé in it";

const N_RUNS: u64 = 2_000;
/// Objects that are read; each is read twice in each round.
const N_OBJECTS: u64 = 5;
const N_ROUNDS: u64 = 2;
/// Of the runs, so many have at least one collection during a call.
const COLLECTED_RUNS: usize = 200;
/// Languages with a collector.
const COLLECTED: [&str; 4] = ["go", "ts", "js", "python"];
/// By which a linear memory grows at least. Allocators take more at once, and one such step is no leak.
const STEP_BYTES: u64 = 4 << 20;
/// How every run writes their number.
const COUNTED: &str = "collections during calls: ";

/// Objects of many sizes, whose texts say themselves what they must be.
fn objects() -> Vec<Value> {
    let object = |i: u64| {
        let name = format!("item-{i:02}");
        let times = i * i * 37 % 400 + 1;
        let text = name.repeat(usize::try_from(times).unwrap_or_default());
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "default", "name": name},
            "data": {"text": text, "times": times.to_string()},
        })
    };
    (0..N_OBJECTS).map(object).collect()
}

#[test]
fn collections_during_calls_of_the_host_corrupt_nothing_and_leave_memory_flat() -> Result<()> {
    let cases = tempfile::tempdir()?;
    let expected = json!({"steps": [], "state": {"checked": (2 * N_OBJECTS * N_ROUNDS).to_string()}});
    write_case(cases.path(), CASE, &json!({}), &objects(), Some(&expected))?;
    println!(
        "language  runs  values checked  collections during calls  KiB after the first, {}, {N_RUNS} runs",
        N_RUNS / 4
    );
    for author in authors::built()? {
        let language = author.language;
        let answer = authors::test(&author.component, cases.path(), &["--runs", &N_RUNS.to_string(), "-o", "json"])?;
        assert!(answer.is_good(), "{language}: {}{}", answer.output, answer.errors);
        let told: Value = serde_json::from_str(&answer.output)?;
        let cost = &told["endurance"];
        assert_eq!((&cost["problem"], &cost["runs"]), (&Value::Null, &json!(N_RUNS)), "{language}");
        let bytes = |name: &str| cost[name].as_u64().with_context(|| format!("{language}: no {name}"));
        let (first, warm, last) = (bytes("memoryBytesFirst")?, bytes("memoryBytesWarm")?, bytes("memoryBytesLast")?);
        let count = |line: &str| line.split_once(COUNTED)?.1.split(' ').next()?.parse::<u64>().ok();
        let counts: Vec<u64> = answer.errors.lines().filter_map(count).collect();
        let n_collections: u64 = counts.iter().sum();
        let n_checked = N_RUNS * 2 * N_OBJECTS * N_ROUNDS;
        println!(
            "{language:8}  {N_RUNS}  {n_checked:>14}  {:>24}  {} {} {}",
            if COLLECTED.contains(&language) { n_collections.to_string() } else { "no collector".to_owned() },
            first >> 10,
            warm >> 10,
            last >> 10
        );
        if COLLECTED.contains(&language) {
            assert!(counts.len() as u64 >= N_RUNS, "{language}: {} runs have told", counts.len());
            let n_collected = counts.iter().filter(|n| **n > 0).count();
            assert!(n_collected >= COLLECTED_RUNS, "{language}: {n_collected} runs had a collection during a call");
        }
        assert!(last <= warm + STEP_BYTES, "{language} grows from {warm} to {last} bytes");
    }
    Ok(())
}
