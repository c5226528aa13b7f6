//! Pintle and kube-controller-manager side by side on fresh real control planes: `cargo xtask bench`.
//!
//! `standby` is another table: the time from the Lease to the first write of a process that stood by (`target/bench/standby.json`).
//! `authors` is another table: what an author waits for in each language, and the sizes of components (`target/bench/authors.json`).
//! `calls` is another table: what a run of each built-in plugin takes with ten children (`target/bench/calls.json`).
//! Controllers of other workloads have a table of the same shape (`target/bench/workloads.json`), in which `pods_per_second` counts what
//! `unit` names.
//!
//! Prints a table of medians with ratios, and writes `target/bench/controllers.json`: a list of records
//! `{"scenario","implementation","unit","pods_per_second","seconds","cpu_seconds","rss_bytes","writes"}`. `seconds` is how long a
//! deleted namespace takes to go; it is 0 where none is deleted, as `pods_per_second` is where none are made, and `writes` where none are
//! counted.

mod arguments;
mod authors;
mod calls;
mod deployments;
mod memory;
mod objects;
mod report;
mod rounds;
mod running;
mod standby;
mod workloads;

use std::process::ExitCode;

use anyhow::Result;

use crate::arguments::Args;

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("bench: {why:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<()> {
    let args = Args::parse();
    deployments::deployments(&args).await?;
    workloads::workloads(&args).await?;
    if args.wants("standby") {
        standby::standby(&args).await?;
    }
    if args.wants("calls") {
        calls::calls(&args)?;
    }
    if args.wants("authors") { authors::authors(&args) } else { Ok(()) }
}
