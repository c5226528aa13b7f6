//! Recorded outcomes of kube-controller-manager: one file for each scenario in `recorded/`.
//!
//! ```text
//! long tier:    run kube-controller-manager -> equal to the record, or (RECORD=1) written as the record
//! default tier: record + run Pintle         -> equal, or a diff
//! ```
//!
//! Invariant: a record carries the fingerprint of what it was made from: the version of Kubernetes, the source of the scenario with that
//! of the module around it, and the sources of the recorder. A record with another fingerprint is not used.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{Outcomes, Scenario, snapshot};
use crate::workspace_dir;

/// The command that records again what has changed.
pub const COMMAND: &str = "cargo xtask record";

/// What decides how an outcome is written down, relative to `tests/src/scenarios`.
const RECORDER: [&str; 5] = ["history.rs", "passage.rs", "refused.rs", "snapshot.rs", "stage.rs"];

/// The folder of the scenarios. Those in a folder below it take steps from the module of that folder too.
const LIST: &str = "tests/src/scenarios/list";

/// The module whose version is that of kube-controller-manager.
const KUBERNETES: &str = "k8s.io/kubernetes";

/// The records of these scenarios. One that is missing or outdated is an outcome that failed, with the command that records it.
pub fn outcomes(scenarios: &[Scenario]) -> Outcomes {
    let read = |scenario: &Scenario| {
        let outcome = read(scenario).map_err(|why| format!("{why:#}; to record it again, run `{COMMAND}`\n"));
        (scenario.name, outcome)
    };
    scenarios.iter().map(read).collect()
}

/// Whether the record of a scenario is there and was made from what there is now.
///
/// # Errors
/// It is not; the message says which of the two.
pub fn read(scenario: &Scenario) -> Result<Value> {
    let file = file(scenario);
    let text = fs::read_to_string(&file).with_context(|| format!("there is no record {}", file.display()))?;
    let mut record: Value = serde_json::from_str(&text).with_context(|| format!("parse {}", file.display()))?;
    if record["fingerprint"] != fingerprint(scenario)? {
        bail!(
            "the record {} is outdated: the version of Kubernetes, the scenario or the recorder has changed",
            file.display()
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
        let record = json!({"scenario": scenario.name, "fingerprint": fingerprint(scenario)?, "outcome": outcome});
        fs::write(file(scenario), format!("{record:#}\n")).context("write a record")?;
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

fn folder() -> PathBuf {
    workspace_dir().join("tests/src/scenarios/recorded")
}

fn file(scenario: &Scenario) -> PathBuf {
    folder().join(format!("{}.json", scenario.name.replace([' ', ','], "-").replace("--", "-")))
}

fn fingerprint(scenario: &Scenario) -> Result<String> {
    let go_mod = fs::read_to_string(workspace_dir().join("tests/controlplane/go.mod")).context("read go.mod")?;
    let version = go_mod.lines().find_map(|line| line.trim().strip_prefix(KUBERNETES));
    let mut hash = Sha256::new();
    hash.update(version.context("go.mod names no version of Kubernetes")?.trim());
    let recorder = RECORDER.map(|source| Path::new("tests/src/scenarios").join(source));
    for source in recorder.into_iter().chain(sources(scenario)?) {
        let text = fs::read(workspace_dir().join(&source)).with_context(|| format!("read {}", source.display()))?;
        hash.update(text.len().to_le_bytes());
        hash.update(text);
    }
    Ok(hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect())
}

/// The files that contain the steps of a scenario, relative to the root of the workspace.
fn sources(scenario: &Scenario) -> Result<Vec<PathBuf>> {
    let source = PathBuf::from(scenario.source);
    let Some(folder) = source.parent().filter(|folder| *folder != Path::new(LIST)) else { return Ok(vec![source]) };
    let module = [folder.with_extension("rs"), folder.join("mod.rs")];
    let module = module.into_iter().find(|file| workspace_dir().join(file).is_file());
    let module = module.with_context(|| format!("{} has no file of its module", folder.display()))?;
    Ok(vec![source, module])
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

    #[test]
    fn scenarios_of_different_sources_have_different_fingerprints() -> Result<()> {
        let all = list::all();
        let other = Scenario { source: "tests/src/scenarios/list/mod.rs", ..all[0] };
        assert_ne!(fingerprint(&all[0])?, fingerprint(&other)?);
        Ok(())
    }

    #[test]
    fn the_module_of_a_folder_is_a_source_of_its_scenarios() -> Result<()> {
        let all = list::all();
        let of = |source: &'static str| sources(&Scenario { source, ..all[0] });
        for (source, module) in [
            ("tests/src/scenarios/list/jobs/pods.rs", "tests/src/scenarios/list/jobs/mod.rs"),
            ("tests/src/scenarios/list/stateful/claims.rs", "tests/src/scenarios/list/stateful.rs"),
        ] {
            assert_eq!(of(source)?, [source, module].map(PathBuf::from));
        }
        let alone = "tests/src/scenarios/list/deployment.rs";
        assert_eq!(of(alone)?, [PathBuf::from(alone)]);
        Ok(())
    }
}
