//! Failed runs in the admin API.

use pintle_runtime::failures::{FailedRun, RecordedFailure};
use serde_json::Value;

use crate::wire::{Failure, FailureKey, FailureList, LoggedLine, Refusal, SavedFailure, reason};

/// The input of a failed run, as a case.
#[derive(Debug)]
pub struct SavedRun {
    /// The input of the case.
    pub input: Value,
    /// Number of masked values.
    pub n_masked: usize,
    /// Sentences: what the run read and the case lacks.
    pub left_out: Vec<String>,
}

/// Converts a failed run to a case. The flag requests the values of Secrets and of settings from files, which are masked
/// otherwise.
pub type SaveRun = fn(&FailedRun, bool) -> anyhow::Result<SavedRun>;

pub(super) fn list(kept: &[RecordedFailure]) -> FailureList {
    FailureList { items: kept.iter().map(shown).collect() }
}

/// One failed run, with its input.
///
/// # Errors
/// The run does not exist (any more), or its input cannot be written.
pub(super) fn saved(kept: &[RecordedFailure], id: &str, secrets: bool, save: SaveRun) -> Result<SavedFailure, Refusal> {
    let Some(kept) = kept.iter().find(|kept| kept.id.to_string() == id) else {
        return Err(Refusal::new(reason::NOT_FOUND, format!("there is no failure {id}, or it was dropped")));
    };
    let SavedRun { input, n_masked, left_out } =
        save(&kept.run, secrets).map_err(|why| Refusal::new(reason::INTERNAL, format!("{why:#}")))?;
    let log = kept.run.log.iter();
    let log = log.map(|line| LoggedLine { level: line.level.to_owned(), message: line.message.clone() }).collect();
    Ok(SavedFailure { failure: shown(kept), input, log, masked: n_masked, left_out })
}

fn shown(kept: &RecordedFailure) -> Failure {
    let run = &kept.run;
    let key = &run.identity.key;
    Failure {
        id: kept.id,
        key: FailureKey {
            queue: key.queue.to_string(),
            kind: key.kind.to_string(),
            namespace: key.object.namespace.to_string(),
            name: key.object.name.to_string(),
        },
        failure: run.identity.failure.as_str().to_owned(),
        message: run.identity.message.clone(),
        times: kept.n_times,
        first: run.now.clone(),
        last: kept.last.clone(),
        attempt: run.attempt,
        version: run.manifest.version.clone(),
        digest: run.identity.digest.clone(),
        objects: run.read_set.objects.len(),
    }
}
