//! Recorded outcomes of kube-controller-manager: in `recorded/`, one file for each file of scenarios.
//!
//! ```text
//! long tier:    run kube-controller-manager -> equal to the record, or (RECORD=1) written as the record
//! default tier: record + run Pintle         -> equal, or a diff
//! ```
//!
//! A record is JSON with a line for each object, event, step and observed value.
//!
//! Invariant: a file names the version of Kubernetes that its records were made with, and the format in which they are written. Records of
//! another version or format are not used. A scenario whose steps change is recorded again by hand: its record differs from what Pintle does then.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Map, Value, json};

use super::{Outcomes, Scenario, list, snapshot};
use crate::workspace_dir;

/// The command that records again what has changed.
pub const COMMAND: &str = "cargo xtask record";

/// The format of the records. It changes when an outcome is written in another way.
const FORMAT: u32 = 3;

/// How many levels of a file have a line for each member: the file, the outcomes, an outcome, its parts and their members.
const N_OPENED: usize = 5;

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
    let record = records(&file)?.shift_remove(scenario.name);
    record.with_context(|| format!("there is no record of it in {}", file.display()))
}

/// The records of a file, by scenario.
fn records(file: &Path) -> Result<Map<String, Value>> {
    let text = fs::read_to_string(file).with_context(|| format!("there are no records {}", file.display()))?;
    let mut records: Value = serde_json::from_str(&text).with_context(|| format!("parse {}", file.display()))?;
    let kubernetes = kubernetes();
    if records["kubernetes"] != kubernetes || records["format"] != FORMAT {
        bail!(
            "{} has records of Kubernetes {} in format {}, and not of {kubernetes} in format {FORMAT}",
            file.display(),
            records["kubernetes"],
            records["format"]
        );
    }
    let Value::Object(records) = records["outcomes"].take() else { bail!("{} has no outcomes", file.display()) };
    Ok(records)
}

/// Writes the records of these scenarios, and removes those of scenarios that are gone.
///
/// # Errors
/// Some scenarios did not finish, and the others are recorded; or a file cannot be written.
pub fn write(scenarios: &[Scenario], outcomes: &Outcomes) -> Result<()> {
    fs::create_dir_all(folder()).context("make the folder of the records")?;
    let mut files: BTreeMap<PathBuf, Vec<Scenario>> = BTreeMap::new();
    for scenario in list::all() {
        files.entry(file(&scenario)).or_default().push(scenario);
    }
    let mut failed = Vec::new();
    for (file, all) in &files {
        let is_chosen = |scenario: &Scenario| scenarios.iter().any(|chosen| chosen.name == scenario.name);
        if !all.iter().any(is_chosen) {
            continue;
        }
        // Those of another version are left out: they are not used.
        let mut before = records(file).unwrap_or_default();
        let mut records = Map::new();
        for scenario in all {
            let name = scenario.name;
            let record = match outcomes.get(name).filter(|_| is_chosen(scenario)) {
                Some(Ok(outcome)) => Some(snapshot::without_chance(outcome, scenario.chance)),
                Some(Err(why)) => {
                    failed.push(format!("{name}: {why}"));
                    before.shift_remove(name)
                }
                None => before.shift_remove(name),
            };
            records.extend(record.map(|record| (name.to_owned(), record)));
        }
        let records = json!({"kubernetes": kubernetes(), "format": FORMAT, "outcomes": records});
        fs::write(file, lines(&records, N_OPENED) + "\n").context("write records")?;
    }
    for entry in fs::read_dir(folder())? {
        let path = entry?.path();
        if !files.contains_key(&path) {
            fs::remove_file(&path).with_context(|| format!("remove {}", path.display()))?;
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

/// The file with the record of a scenario.
pub(super) fn file(scenario: &Scenario) -> PathBuf {
    let source = scenario.source.rsplit_once("/list/").map_or(scenario.source, |(_, file)| file);
    folder().join(source.replace('/', "-")).with_extension("json")
}

/// The version of kube-controller-manager that tests run.
fn kubernetes() -> String {
    format!("v{}", pintle_core::kubernetes::VERSION)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_scenario_has_a_record_that_is_up_to_date() -> Result<()> {
        let all = list::all();
        let outdated: Vec<String> = all.iter().filter_map(|s| read(s).err().map(|why| format!("{why:#}"))).collect();
        assert!(outdated.is_empty(), "run `{COMMAND}`:\n{}", outdated.join("\n"));
        let mut n_records = 0;
        for entry in fs::read_dir(folder())? {
            n_records += records(&entry?.path())?.len();
        }
        assert_eq!(n_records, all.len(), "run `{COMMAND}`: records of scenarios that are gone");
        Ok(())
    }
}
