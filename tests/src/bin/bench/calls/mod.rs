//! What one run of a built-in plugin takes when its object has ten children and its status is right, or nearly: the table has the mutations.
//!
//! Each plugin has a case with ten children, which `pintle test --runs` runs again and again: the sandbox, the caches and the reads of a
//! host, without an API server.

mod cases;
mod credentials;
mod guards;
mod services;

use std::process::Command;

use anyhow::{Context, Result, ensure};
use pintle_tests::workspace_dir;
use serde_json::{Value, json};

use crate::arguments::Args;
use crate::report::{median, write};

const N_CHILDREN: usize = 10;
const N_RUNS: usize = 2_000;

/// Prints medians of the rounds and writes them to `calls.json`.
pub(crate) fn calls(args: &Args) -> Result<()> {
    let desk = args.desk()?;
    let folder = tempfile::tempdir()?;
    let mut records = Vec::new();
    println!("\n{:<62} {:>15} {:>14} {:>11}", "a run with ten children", "one instance", "own instance", "mutations");
    for (plugin, case) in cases::all().into_iter().chain(guards::all()).chain(services::all()) {
        let cases = folder.path().join(plugin);
        std::fs::create_dir(&cases)?;
        std::fs::write(cases.join("ten.yaml"), format!("{case}\n---\n"))?;
        let (mut pooled, mut fresh, mut n_mutations) = (Vec::new(), Vec::new(), 0);
        for round in 0..args.rounds() {
            let mut test = Command::new(desk);
            test.arg("test").arg(workspace_dir().join(format!("target/plugins/{plugin}.wasm")));
            test.arg("--cases").arg(&cases).args(["--update", "-o", "json", "--runs"]).arg(N_RUNS.to_string());
            let output = test.output().with_context(|| format!("start {}", desk.display()))?;
            let errors = String::from_utf8_lossy(&output.stderr);
            ensure!(output.status.success(), "{plugin}: {errors}{}", String::from_utf8_lossy(&output.stdout));
            let report: Value = serde_json::from_slice(&output.stdout).context("read the report")?;
            let microseconds = |field: &str| {
                let seconds = report["endurance"][field].as_f64();
                seconds.map(|seconds| seconds * 1e6).with_context(|| format!("{plugin}: no {field}"))
            };
            pooled.push(microseconds("liveMedianSeconds")?);
            fresh.push(microseconds("freshMedianSeconds")?);
            let steps = report["cases"][0]["seen"]["steps"].as_array().into_iter().flatten();
            n_mutations = steps.map(|step| step["mutations"].as_array().map_or(0, Vec::len)).sum();
            eprintln!("round {} {plugin}: {:.0?} {:.0?}", round + 1, pooled.last(), fresh.last());
        }
        let (pooled, fresh) = (median(pooled), median(fresh));
        println!("{plugin:<62} {pooled:>12.0} us {fresh:>11.0} us {n_mutations:>11}");
        records.push(json!({
            "plugin": plugin, "children": N_CHILDREN, "pooled_microseconds": pooled, "fresh_microseconds": fresh,
            "mutations": n_mutations,
        }));
    }
    write("calls.json", &records)
}
