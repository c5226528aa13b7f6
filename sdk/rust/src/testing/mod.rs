//! Native tests of plugins: single runs against files, and many runs on a simulated [`Cluster`].
//!
//! A case is a file with two YAML documents: the input, a line `---`, and the expected outcome.
//!
//! ```no_run
//! # use pintle_sdk::{Error, Key, Lister, Outcome};
//! # fn reconcile(key: &Key, lister: &impl Lister) -> Result<Outcome, Error> { Ok(Outcome::new()) }
//! // tests/cases.rs, run with `cargo test`; `UPDATE_EXPECT=1 cargo test` rewrites the expected outcomes.
//! pintle_sdk::testing::check_cases(env!("CARGO_MANIFEST_DIR"), reconcile);
//! ```
//!
//! `check_cases` reads `manifest.yaml` and every `*.yaml` of `cases/`. The lister of a case returns what the host would
//! return: only watched kinds, only projected fields, only declared indexes; anything else fails the case. The input
//! has
//!
//! - `key`: `kind`, `namespace`, `name`, and `queue` if it is not the manifest's first;
//! - `now`: 2026-01-01T00:00:00Z if absent;
//! - `objects`: the cache. A missing uid becomes `uid-NAME`, a missing resourceVersion `1`;
//! - `live`: the objects of the API server, for needs; the same as `objects` if absent;
//! - `raw`: path -> body, for needs of raw paths; any other path is not found;
//! - `discovery`: the answer to a need for discovery: `resources` (those below if absent), `failed` (group versions),
//!   or an `error`;
//! - `config` (the manifest's defaults if absent), `state`, `attempt`, `failures`, `resources`;
//! - `settle`, with a third document, for `pintle test`, which carries the outcomes out. It is ignored here.
//!
//! YAML anchors and merge keys (`<<: *pod`) work. The case runs until all needs are answered. For an outcome beyond the
//! limits of the manifest, the result is the [part](Outcome::within) of the first run; one that the host would still
//! reject fails the test.
//!
//! The expected outcome shows updates as the difference to the cached object (in the form of a merge patch), and
//! consecutive equal mutations once, with `times`. It is compared as a value: the order of an object's members does not
//! matter.

mod cluster;
#[cfg(feature = "dev-cluster")]
pub mod dev;
mod fixture;
mod manifest;
mod render;

pub use cluster::{Cluster, Fault, Plugin, Run, Write, seeds};
pub use fixture::{Fixture, FixtureLister};
pub use render::{outcome_to_yaml, result_to_yaml};

use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::outcome::Outcome;
use crate::types::Key;

/// Runs every case below `folder/cases` with `folder/manifest.yaml` and compares the outcomes.
///
/// # Panics
/// If there is no case, or one has another outcome than expected.
pub fn check_cases(folder: impl AsRef<Path>, reconcile: impl Fn(&Key, &FixtureLister) -> Result<Outcome, Error>) {
    let folder = folder.as_ref();
    check_cases_in(folder.join("cases"), folder.join("manifest.yaml"), reconcile);
}

/// Runs every case of a folder with a manifest from elsewhere: for cases that several plugins share.
///
/// # Panics
/// As [`check_cases`].
pub fn check_cases_in(
    cases_folder: impl AsRef<Path>,
    manifest: impl AsRef<Path>,
    reconcile: impl Fn(&Key, &FixtureLister) -> Result<Outcome, Error>,
) {
    let manifest = read(manifest.as_ref());
    let cases = case_files(cases_folder.as_ref());
    let update = std::env::var_os("UPDATE_EXPECT").is_some();
    let mut failed = Vec::new();
    for case in &cases {
        let text = read(case);
        let (input, rest) = text.split_once("\n---\n").unwrap_or((text.trim_end(), ""));
        // A third document is the end of a case that settles, for `pintle test`.
        let (expected, end) = rest.split_once("\n---\n").map_or((rest, None), |(expected, end)| (expected, Some(end)));
        let fixture = Fixture::parse(&manifest, input).unwrap_or_else(|error| panic!("{}: {error}", case.display()));
        let actual = fixture.run(&reconcile);
        if is_same(expected, &actual) {
            continue;
        }
        let end = end.map(|end| format!("---\n{end}")).unwrap_or_default();
        let whole = format!("{input}\n---\n{actual}{end}");
        if update {
            expect_test::expect_file![case].assert_eq(&whole);
        } else {
            failed.push((case, whole));
        }
    }
    if let Some((case, whole)) = failed.first() {
        let names: Vec<_> = failed.iter().filter_map(|(case, _)| case.file_stem()?.to_str()).collect();
        eprintln!("{} of {} cases differ: {}", failed.len(), cases.len(), names.join(", "));
        expect_test::expect_file![case].assert_eq(whole);
    }
}

/// The files of a folder, by name.
fn case_files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("read {}: {error}", folder.display()));
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    if let Some(old) = paths.iter().find(|path| path.join("input.yaml").exists()) {
        let name = old.display();
        panic!(
            "{name} is a folder, but a case is one file: write input.yaml, a line `---` and expected.yaml to {name}.yaml"
        );
    }
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "yaml"));
    paths.sort();
    assert!(!paths.is_empty(), "no cases in {}", folder.display());
    paths
}

/// Whether both are equal, ignoring the order of object members.
fn is_same(expected: &str, actual: &str) -> bool {
    let value = |text| serde_norway::from_str::<serde_json::Value>(text).ok();
    value(expected).is_some_and(|expected| value(actual) == Some(expected))
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("read {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::is_same;

    #[test]
    fn what_is_expected_is_compared_as_a_value() {
        assert!(is_same("steps: []\nasked: [{a: 1, b: 2}]\n", "asked:\n- b: 2\n  a: 1\nsteps: []\n"));
        assert!(!is_same("steps: [1, 2]\n", "steps: [2, 1]\n"));
        assert!(!is_same("steps: []\n", "steps: []\nretry: later\n"));
        assert!(!is_same("steps: [\n", "steps: [\n"));
    }
}
