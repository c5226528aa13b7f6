//! Recorded outcomes of kube-controller-manager: one file for each scenario in `recorded/`.
//!
//! ```text
//! long tier:    run kube-controller-manager -> equal to the record, or (RECORD=1) written as the record
//! default tier: record + run Pintle         -> equal, or a diff
//! ```
//!
//! A record is JSON with a line for each object, event, step and observed value.
//!
//! Invariant: a record names the version of Kubernetes that it was made with, and the format in which it is written. A record of another
//! version or format is not used. A scenario whose steps change is recorded again by hand: its record differs from what Pintle does then.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use super::{Outcomes, Scenario, snapshot};
use crate::workspace_dir;

/// The command that records again what has changed.
pub const COMMAND: &str = "cargo xtask record";

/// The format of the records. It changes when an outcome is written in another way.
const FORMAT: u32 = 2;

/// How many levels of a record have a line for each member: the record, the outcome, its parts and their members.
const N_OPENED: usize = 4;

/// The records of these scenarios. One that is missing or outdated is an outcome that failed, with the command that records it.
pub fn outcomes(scenarios: &[Scenario]) -> Outcomes {
    let read = |scenario: &Scenario| {
        let outcome = read(scenario).map_err(|why| format!("{why:#}; to record it again, run `{COMMAND}`\n"));
        (scenario.name, outcome)
    };
    scenarios.iter().map(read).collect()
}

/// The recorded outcome of a scenario.
///
/// # Errors
/// There is no record, or it is of another version of Kubernetes or another format.
pub fn read(scenario: &Scenario) -> Result<Value> {
    let file = file(scenario);
    let text = fs::read_to_string(&file).with_context(|| format!("there is no record {}", file.display()))?;
    let mut record: Value = serde_json::from_str(&text).with_context(|| format!("parse {}", file.display()))?;
    let kubernetes = kubernetes();
    if record["kubernetes"] != kubernetes || record["format"] != FORMAT {
        bail!(
            "{} is a record of Kubernetes {} in format {}, and not of {kubernetes} in format {FORMAT}",
            file.display(),
            record["kubernetes"],
            record["format"]
        );
    }
    Ok(record["outcome"].take())
}

/// Writes the records of these scenarios, and removes the files of others if `all` of them are here.
///
/// # Errors
/// Some scenarios did not finish, and the others are recorded; or a file cannot be written.
pub fn write(scenarios: &[Scenario], outcomes: &Outcomes, all: bool) -> Result<()> {
    let folder = folder();
    let kubernetes = kubernetes();
    fs::create_dir_all(&folder).context("make the folder of the records")?;
    let mut failed = Vec::new();
    for scenario in scenarios {
        let outcome = match outcomes.get(scenario.name) {
            Some(Ok(outcome)) => snapshot::without_chance(outcome, scenario.chance),
            Some(Err(why)) => {
                failed.push(format!("{}: {why}", scenario.name));
                continue;
            }
            None => bail!("{} was not run", scenario.name),
        };
        let record = json!({"scenario": scenario.name, "kubernetes": kubernetes, "format": FORMAT, "outcome": outcome});
        fs::write(file(scenario), lines(&record, N_OPENED) + "\n").context("write a record")?;
    }
    if all {
        let known: Vec<PathBuf> = scenarios.iter().map(file).collect();
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            if !known.contains(&path) {
                fs::remove_file(&path).with_context(|| format!("remove {}", path.display()))?;
            }
        }
    }
    ensure!(failed.is_empty(), "not recorded:\n{}", failed.join("\n"));
    Ok(())
}

/// JSON with a line for each member of the first levels. What is below these levels is in one line.
fn lines(value: &Value, n_levels: usize) -> String {
    let inner = |value: &Value| lines(value, n_levels - 1).replace('\n', "\n  ");
    let (brackets, members): (_, Vec<String>) = match value {
        Value::Object(fields) if n_levels > 0 => {
            (["{", "}"], fields.iter().map(|(name, value)| format!("{}: {}", json!(name), inner(value))).collect())
        }
        Value::Array(items) if n_levels > 0 => (["[", "]"], items.iter().map(inner).collect()),
        _ => return value.to_string(),
    };
    let [open, close] = brackets;
    if members.is_empty() {
        return format!("{open}{close}");
    }
    format!("{open}\n  {}\n{close}", members.join(",\n  "))
}

fn folder() -> PathBuf {
    workspace_dir().join("tests/src/scenarios/recorded")
}

/// The file of the record of a scenario.
pub(super) fn file(scenario: &Scenario) -> PathBuf {
    folder().join(format!("{}.json", scenario.name.replace([' ', ','], "-").replace("--", "-")))
}

/// The version of kube-controller-manager that tests run.
fn kubernetes() -> String {
    format!("v{}", pintle_core::kubernetes::VERSION)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenarios::list;

    #[test]
    fn each_scenario_has_a_record_of_its_own_that_is_up_to_date() -> Result<()> {
        let all = list::all();
        let mut files: Vec<PathBuf> = all.iter().map(file).collect();
        files.sort();
        files.dedup();
        assert_eq!(files.len(), all.len(), "two scenarios share a file");
        let outdated: Vec<String> = all.iter().filter_map(|s| read(s).err().map(|why| format!("{why:#}"))).collect();
        assert!(outdated.is_empty(), "run `{COMMAND}`:\n{}", outdated.join("\n"));
        assert_eq!(fs::read_dir(folder())?.count(), all.len(), "run `{COMMAND}`: records of scenarios that are gone");
        Ok(())
    }
}
