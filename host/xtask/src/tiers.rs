//! The long tier of tests, and the shares of it that CI runs one at a time.
//!
//! *Invariant*: every test of `tests/tests/long` is in exactly one share (`every_long_test_is_in_one_share`). The commit selects the
//! share, so that each test runs every few landings.

use std::process::Command;

use xtask::{process, root};

/// A share of the long tier. Shares take about the same time.
#[derive(Debug)]
pub(crate) struct Share {
    /// Groups that run one after the other, each in a process. A group lists parts of names of tests, which run side by side.
    pub(crate) tests: &'static [&'static [&'static str]],
    /// Checks of this program.
    pub(crate) checks: &'static [Check],
}

/// A check that is too slow for every change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Check {
    /// The documentation of the host builds without warnings.
    Documentation,
    /// Licences, bans and sources of dependencies.
    Dependencies,
}

pub(crate) const SHARES: [Share; 14] = [
    Share { tests: &[&["tutorials::the_page_for_rust", "tutorials::the_page_for_c_"]], checks: &[] },
    Share {
        tests: &[&["tutorials::the_page_for_go", "tutorials::the_page_for_python"], &["kubectl_real::"]],
        checks: &[],
    },
    Share {
        tests: &[
            &["tutorials::the_page_for_typescript", "tutorials::the_page_for_javascript", "tutorials::every_step"],
            &["snippets::", "types::"],
        ],
        checks: &[Check::Documentation],
    },
    Share { tests: &[&["recordings::"], &["behaviour_itself::"]], checks: &[Check::Dependencies] },
    Share { tests: &[&["languages::", "test_programs::"], &["webapp::"]], checks: &[] },
    Share { tests: &[&["mistakes::"], &["hostile_objects::"]], checks: &[] },
    Share { tests: &[&["silence::"], &["trouble::"]], checks: &[] },
    Share { tests: &[&["together::"], &["monitoring::"]], checks: &[] },
    Share { tests: &[&["takeover::"], &["storm::"]], checks: &[] },
    Share { tests: &[&["crash_everywhere::"]], checks: &[] },
    Share {
        tests: &[
            &["kinds::an_author_in_go", "kinds::an_author_in_c_"],
            &["kinds::an_author_in_typescript", "kinds::an_author_in_javascript"],
            &["kinds::an_author_in_rust", "kinds::an_author_in_python"],
            &["kinds::a_", "kinds::without_"],
        ],
        checks: &[],
    },
    Share { tests: &[&["tutorials::the_page_for_an_own_kind"], &["toolchains::"]], checks: &[] },
    Share { tests: &[&["contention::two_"], &["contention::three_"], &["contention::hosts_"]], checks: &[] },
    Share { tests: &[&["install::chart::"], &["install::the_page"]], checks: &[] },
];

/// Which of the long tests run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Long {
    /// None.
    None,
    /// One share, counted from 0.
    Share(usize),
    /// All.
    All,
}

impl Long {
    /// The share that the commit selects; the first one outside of a repository.
    pub(crate) fn of_commit() -> Self {
        let commit = process::output(Command::new("git").current_dir(root()).args(["rev-parse", "HEAD"]));
        Self::Share(commit.map_or(0, |commit| share_of(&commit)))
    }

    /// The shares that run.
    pub(crate) fn shares(self) -> &'static [Share] {
        match self {
            Self::None => &[],
            Self::Share(n) => &SHARES[n..=n],
            Self::All => &SHARES,
        }
    }
}

/// The share that the digits of a commit's name select.
fn share_of(commit: &str) -> usize {
    let digits = commit.get(..8).and_then(|digits| u32::from_str_radix(digits, 16).ok()).unwrap_or(0);
    digits as usize % SHARES.len()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use anyhow::Context as _;

    use super::*;

    /// The names of the tests below a folder of modules, as libtest has them.
    fn names(folder: &Path, module: &str, found: &mut Vec<String>) -> anyhow::Result<()> {
        for entry in std::fs::read_dir(folder)? {
            let path = entry?.path();
            let stem = path.file_stem().unwrap_or_default().to_string_lossy();
            let module = if stem == "main" { module.to_owned() } else { format!("{module}{stem}::") };
            if path.is_dir() {
                names(&path, &module, found)?;
                continue;
            }
            let text = std::fs::read_to_string(&path)?;
            let mut lines = text.lines().map(str::trim);
            while let Some(line) = lines.next() {
                if line == "#[test]" || line.starts_with("#[tokio::test") {
                    let name = lines.next().and_then(|line| line.split_once("fn ")?.1.split('(').next());
                    found.push(format!("{module}{}", name.context("an attribute without a test")?));
                }
            }
        }
        Ok(())
    }

    #[test]
    fn every_long_test_is_in_one_share() -> anyhow::Result<()> {
        let mut found = Vec::new();
        names(&root().join("tests/tests/long"), "", &mut found)?;
        assert!(found.len() > 20, "only {found:?}");
        let parts: Vec<&str> = SHARES.iter().flat_map(|share| share.tests).copied().flatten().copied().collect();
        for name in &found {
            let n = parts.iter().filter(|part| name.contains(**part)).count();
            assert_eq!(n, 1, "{name} is in {n} shares");
        }
        for part in parts {
            assert!(found.iter().any(|name| name.contains(part)), "there is no test {part}");
        }
        Ok(())
    }

    #[test]
    fn every_share_is_selected_by_some_commit() {
        let selected: Vec<usize> = (0..SHARES.len()).map(|n| share_of(&format!("{n:08x}ab"))).collect();
        assert_eq!(selected, (0..SHARES.len()).collect::<Vec<_>>());
        assert_eq!(share_of("not a commit"), 0);
    }
}
