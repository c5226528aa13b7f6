//! Playing a script of kubectl commands on a cluster.

use std::path::PathBuf;

use anyhow::{Context, Result};
use similar::TextDiff;

use super::script::{Step, parse};
use super::session::{Printed, Session};

/// What is played on both clusters.
pub const SCRIPT: &str = "script.txt";
/// What only the embedded cluster is asked.
pub const EMBEDDED: &str = "embedded.txt";

/// The file of a script.
pub fn path(file: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src/kubectl").join(file)
}

/// The steps of a script.
///
/// # Errors
/// The file cannot be read or parsed.
pub fn script(file: &str) -> Result<Vec<Step>> {
    parse(&std::fs::read_to_string(path(file)).with_context(|| format!("read {file}"))?)
}

/// Plays the steps in order, all of them whatever happens.
///
/// # Errors
/// The shell of the session cannot be used.
pub async fn play(kubeconfig: PathBuf, steps: &[Step]) -> Result<Vec<Printed>> {
    let mut session = Session::new(&kubeconfig)?;
    let mut printed = Vec::new();
    for step in steps {
        printed.push(session.play(step).await.with_context(|| format!("line {}: {}", step.line, step.action.shown()))?);
    }
    Ok(printed)
}

/// A unified diff of two outputs.
pub fn diff(before: &[String], after: &[String]) -> String {
    let (before, after) = (before.join("\n") + "\n", after.join("\n") + "\n");
    TextDiff::from_lines(&before, &after).unified_diff().context_radius(3).to_string()
}
