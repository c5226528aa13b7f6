//! The long tier of tests, and the shares of it that CI runs one at a time.
//!
//! *Invariant*: every module of `tests/tests/long` is in exactly one share (`every_long_test_is_in_one_share`). The commit selects the
//! share, so that each test runs every few landings.

use std::process::Command;

use xtask::{process, root};

/// A share of the long tier. Shares take about the same time.
#[derive(Debug)]
pub(crate) struct Share {
    /// Modules of `tests/tests/long`.
    pub(crate) tests: &'static [&'static str],
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

pub(crate) const SHARES: [Share; 4] = [
    Share { tests: &["tutorials"], checks: &[] },
    Share { tests: &["behaviour_itself", "languages", "recordings", "storm", "webapp"], checks: &[] },
    Share { tests: &["kubectl_real", "mistakes", "together"], checks: &[] },
    Share {
        tests: &["crash_everywhere", "snippets", "takeover"],
        checks: &[Check::Documentation, Check::Dependencies],
    },
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
    use super::*;

    #[test]
    fn every_long_test_is_in_one_share() -> anyhow::Result<()> {
        let main = std::fs::read_to_string(root().join("tests/tests/long/main.rs"))?;
        let mut modules: Vec<&str> =
            main.lines().filter_map(|line| line.strip_prefix("mod ")?.strip_suffix(';')).collect();
        modules.sort_unstable();
        let mut shared: Vec<&str> = SHARES.iter().flat_map(|share| share.tests).copied().collect();
        shared.sort_unstable();
        assert_eq!(modules, shared);
        Ok(())
    }

    #[test]
    fn every_share_is_selected_by_some_commit() {
        let commits = ["00000000ab", "00000001ab", "00000002ab", "00000003ab"];
        assert_eq!(commits.map(share_of), [0, 1, 2, 3]);
        assert_eq!(share_of("not a commit"), 0);
    }
}
