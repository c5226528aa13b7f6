//! One script of API behaviours, played on the embedded server and on the real kube-apiserver.
//!
//! ```text
//! cases/*.http -> script -> run on each server -> normalize -> equal, or a diff
//! ```
//!
//! Invariants:
//! 1. The real server is the truth: nothing here says what the answers are.
//! 2. A case depends on no other: it has a namespace of its own, and names of cluster-wide objects
//!    start with the name of that namespace.
//! 3. Both servers see the same requests, so what is not normalized must be equal to the letter.
//!
//! Not here: behaviour that no controller, kubectl or test of a plugin can see.

pub mod manifests;
pub mod normalize;
pub mod run;
pub mod script;

use std::fmt::Write;
use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};
use similar::TextDiff;

use crate::api::ApiClient;
use script::Case;

/// One difference between the servers.
#[derive(Debug)]
pub struct Difference {
    /// The title of the case.
    pub title: String,
    /// Where the case stands.
    pub place: String,
    /// What differs, as a unified diff from the real server (`-`) to the embedded one (`+`).
    pub diff: String,
}

/// All cases of the script, in the order of their files. `BEHAVIOUR=text` in the environment keeps
/// those whose title or file holds the text.
///
/// # Errors
/// A file cannot be read or parsed, two cases have one title, or there is no case.
pub fn cases() -> Result<Vec<Case>> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src/behaviour/cases");
    let mut files: Vec<PathBuf> = std::fs::read_dir(&folder)
        .context("read the folder of cases")?
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<_>>()?;
    files.sort();
    let mut cases: Vec<Case> = Vec::new();
    for file in files {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let text = std::fs::read_to_string(&file).with_context(|| format!("read {name}"))?;
        for case in script::parse(&name, &text)? {
            if let Some(twin) = cases.iter().find(|c| c.title == case.title) {
                bail!("{} and {} have one title", twin.place, case.place);
            }
            cases.push(case);
        }
    }
    let filter = std::env::var("BEHAVIOUR").unwrap_or_default();
    cases.retain(|c| c.title.contains(&filter) || c.place.contains(&filter));
    ensure!(!cases.is_empty(), "BEHAVIOUR={filter:?}: no case has this in its title or file");
    Ok(cases)
}

/// Plays all cases on both servers and returns the differences. The transcripts of both stay in
/// `target/behaviour`, for reading what a server really said.
///
/// A case that cannot be played to its end on the real server is an error of the script, and counts
/// as a difference.
///
/// # Errors
/// The transcripts cannot be written.
pub async fn compare(cases: &[Case], real: &ApiClient, embedded: &ApiClient) -> Result<Vec<Difference>> {
    let folder = crate::target_dir().join("behaviour");
    let mut differences = Vec::new();
    for (i, case) in cases.iter().enumerate() {
        let ns = format!("case-{}", i + 1);
        let (wanted, got) = tokio::join!(run::play(real, case, &ns), run::play(embedded, case, &ns));
        let failed = wanted.is_err();
        let text = |played: Result<String>| played.unwrap_or_else(|e| format!("{e:#}\n"));
        let (wanted, got) = (text(wanted), text(got));
        for (server, transcript) in [("real", &wanted), ("embedded", &got)] {
            let folder = folder.join(server);
            std::fs::create_dir_all(&folder).context("make target/behaviour")?;
            let name = format!("{}.txt", case.title.replace(['/', ' '], "-"));
            std::fs::write(folder.join(name), transcript).context("write a transcript")?;
        }
        if failed || wanted != got {
            let diff = TextDiff::from_lines(&wanted, &got);
            let diff = match failed {
                true => format!("cannot be played on the real server: {wanted}"),
                false => diff.unified_diff().context_radius(4).to_string(),
            };
            differences.push(Difference { title: case.title.clone(), place: case.place.clone(), diff });
        }
    }
    Ok(differences)
}

/// The differences as a report for people.
pub fn report(n_cases: usize, differences: &[Difference]) -> String {
    let mut out = String::new();
    for d in differences {
        let _ = writeln!(out, "=== {} ({})\n{}", d.title, d.place, d.diff);
    }
    for d in differences {
        let _ = writeln!(out, "differs: {} ({})", d.title, d.place);
    }
    let _ = writeln!(out, "{} of {n_cases} cases differ (- real, + embedded)", differences.len());
    out
}
