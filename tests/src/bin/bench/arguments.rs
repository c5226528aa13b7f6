//! What the benchmark is called with.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{CommandFactory, FromArgMatches as _};
use pintle_tests::scenarios::Subject;

use crate::report::Implementation;
use crate::{deployments, workloads};

/// Measures Pintle and kube-controller-manager side by side on fresh real control planes, and what authors wait for.
#[derive(clap::Parser)]
#[command(name = "bench")]
pub(crate) struct Args {
    /// The build of Pintle for clusters.
    #[arg(long, value_name = "PATH")]
    pintle: PathBuf,
    /// The build of Pintle for desks, which `calls` and `authors` measure.
    #[arg(long, value_name = "PATH")]
    desk: Option<PathBuf>,
    /// Another build of Pintle, measured in the same rounds.
    #[arg(long, value_name = "PATH")]
    before: Option<PathBuf>,
    /// How often each scenario is measured; the tables have medians.
    #[arg(long, value_name = "N", default_value = "3")]
    rounds: NonZeroUsize,
    /// Measures only scenarios with this text in their names.
    #[arg(long, value_name = "WORD", value_parser = word)]
    only: Option<String>,
    /// How many Pods there are when memory is measured.
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    pub(crate) cached_pods: usize,
    /// The wait before memory is read, so that both have given back what their first list took: Go collects garbage at least every two
    /// minutes, and gives pages back to the system after that.
    #[arg(long, value_name = "SECONDS", default_value_t = 150)]
    settle: u64,
}

/// The names of all scenarios.
fn names() -> Vec<&'static str> {
    let of_deployments = deployments::SCENARIOS.iter().map(|(name, _)| *name);
    let of_workloads = workloads::SCENARIOS.iter().map(|(name, _)| *name);
    of_deployments.chain(["memory"]).chain(of_workloads).chain(["standby", "calls", "authors"]).collect()
}

fn word(word: &str) -> Result<String, String> {
    match names().iter().any(|name| name.contains(word)) {
        true => Ok(word.to_owned()),
        false => Err(format!("no scenario has it in its name: {}", names().join(", "))),
    }
}

impl Args {
    /// Those of the process. Ends it if they are wrong.
    pub(crate) fn parse() -> Args {
        let command = <Self as CommandFactory>::command().after_help(format!("Scenarios: {}", names().join(", ")));
        Self::from_arg_matches(&command.get_matches()).unwrap_or_else(|error| error.exit())
    }

    pub(crate) fn rounds(&self) -> usize {
        self.rounds.get()
    }

    pub(crate) fn settle(&self) -> Duration {
        Duration::from_secs(self.settle)
    }

    /// Whether a scenario is measured.
    pub(crate) fn wants(&self, name: &str) -> bool {
        self.only.as_ref().is_none_or(|word| name.contains(word.as_str()))
    }

    /// The build with the commands for authors.
    pub(crate) fn desk(&self) -> Result<&Path> {
        self.desk.as_deref().context("`calls` and `authors` need --desk, the path of the build for desks")
    }

    /// Each build of Pintle, and the others. Another one begins in each round, so that none always meets the machine in the same state.
    pub(crate) fn turns(&self, round: usize, others: &[Implementation]) -> Vec<Implementation> {
        let before = self.before.as_ref().map(|_| Implementation::Before);
        let mut all: Vec<_> =
            [Implementation::Pintle].into_iter().chain(before).chain(others.iter().copied()).collect();
        let first = round % all.len();
        all.rotate_left(first);
        all
    }

    /// The program of an implementation, if it is one.
    pub(crate) fn subject(&self, implementation: Implementation) -> Result<Option<Subject>> {
        Ok(match implementation {
            Implementation::Pintle => Some(Subject::Pintle(self.pintle.clone())),
            Implementation::Before => Some(Subject::Pintle(self.before.clone().context("there is no other build")?)),
            Implementation::KubeControllerManager => Some(Subject::KubeControllerManager),
            Implementation::Bare => None,
        })
    }
}
