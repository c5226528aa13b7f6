//! The long tier of tests, and its shares, one of which CI runs at a time.
//!
//! A share is a list of items, each a test of `tests/tests/long` or a check of this program, that together take five
//! minutes by their recorded times. The commit selects the share, so that each item runs every few commits.

use std::collections::BTreeSet;
use std::process::Command;

use anyhow::ensure;
use xtask::{process, root};

use crate::runner::{Times, expected};

/// Time limit of a share. A longer item has its own share.
const SHARE_SECONDS: f64 = 300.0;

/// A check that is too slow for every change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Check {
    /// The documentation of the host builds without warnings.
    Documentation,
    /// Licences, bans and sources of dependencies.
    Dependencies,
    /// The documentation site renders, and its links and its search work.
    Site,
    /// Lints of test guests, which no other test compiles for this machine.
    Guests,
}

impl Check {
    /// All of them.
    pub(crate) const ALL: [Check; 4] = [Self::Documentation, Self::Dependencies, Self::Site, Self::Guests];

    /// As in the recorded times.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Documentation => "check::documentation",
            Self::Dependencies => "check::dependencies",
            Self::Site => "check::site",
            Self::Guests => "check::guests",
        }
    }
}

/// The items of the long tier to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Long {
    /// None.
    None,
    /// The share selected by the commit.
    Share,
    /// All.
    All,
}

impl Long {
    /// The names of the selected items of `all`, and a line about them.
    ///
    /// # Errors
    /// A share is requested, and there are no items.
    pub(crate) fn select(self, all: &BTreeSet<String>, times: &Times) -> anyhow::Result<(BTreeSet<String>, String)> {
        match self {
            Self::None => Ok((BTreeSet::new(), "not asked for: --long runs it, --share a part of it".to_owned())),
            Self::All => Ok((all.clone(), format!("all {} items", all.len()))),
            Self::Share => {
                let shares = shares(all, times);
                ensure!(!shares.is_empty(), "the long tier is empty");
                let commit = process::output(Command::new("git").current_dir(root()).args(["rev-parse", "HEAD"]));
                let n = commit.map_or(0, |commit| share_of(&commit, shares.len()));
                let items: Vec<&str> = shares[n].iter().map(String::as_str).collect();
                let line =
                    format!("share {} of {}, which the commit selects: {}", n + 1, shares.len(), items.join(", "));
                Ok((shares[n].clone(), line))
            }
        }
    }
}

/// Every item once: the longest first, each in the first share with enough room.
fn shares(all: &BTreeSet<String>, times: &Times) -> Vec<BTreeSet<String>> {
    let seconds = |item: &str| expected(times, item);
    let mut items: Vec<&String> = all.iter().collect();
    items.sort_by(|a, b| seconds(b).total_cmp(&seconds(a)));
    let mut shares: Vec<(f64, BTreeSet<String>)> = Vec::new();
    for item in items {
        let needed = seconds(item);
        match shares.iter_mut().find(|(taken, _)| taken + needed <= SHARE_SECONDS) {
            Some((taken, share)) => {
                *taken += needed;
                share.insert(item.clone());
            }
            None => shares.push((needed, BTreeSet::from([item.clone()]))),
        }
    }
    shares.into_iter().map(|(_, share)| share).collect()
}

/// The share selected by the digits of a commit's name.
fn share_of(commit: &str, n_shares: usize) -> usize {
    let digits = commit.get(..8).and_then(|digits| u32::from_str_radix(digits, 16).ok()).unwrap_or(0);
    digits as usize % n_shares
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(list: &[&str]) -> BTreeSet<String> {
        list.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn every_item_is_in_one_share_of_five_minutes() {
        let times: Times = [("a", 400.0), ("b", 200.0), ("c", 150.0), ("d", 100.0), ("e", 90.0)]
            .map(|(n, s)| (n.to_owned(), s))
            .into();
        let all = names(&["a", "b", "c", "d", "e"]);
        let shares = shares(&all, &times);
        assert_eq!(shares, [names(&["a"]), names(&["b", "d"]), names(&["c", "e"])]);
        let (items, line) = Long::All.select(&all, &times).unwrap();
        assert_eq!((items, line.as_str()), (all.clone(), "all 5 items"));
        let (share, line) = Long::Share.select(&all, &times).unwrap();
        assert!(shares.contains(&share), "{line}");
        assert!(Long::None.select(&all, &times).unwrap().0.is_empty());
    }

    #[test]
    fn an_item_without_a_recorded_time_has_a_share() {
        let all = names(&["new"]);
        assert_eq!(shares(&all, &Times::new()), [all]);
    }

    #[test]
    fn every_share_is_selected_by_some_commit() {
        let selected: Vec<usize> = (0..20).map(|n| share_of(&format!("{n:08x}ab"), 20)).collect();
        assert_eq!(selected, (0..20).collect::<Vec<_>>());
        assert_eq!(share_of("not a commit", 20), 0);
    }
}
