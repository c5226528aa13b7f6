//! `cargo xtask`: build and test chores.

mod checks;
mod chores;
mod generate;
mod languages;
mod new_plugin;
mod packages;
mod runner;
mod tiers;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand, ValueEnum};
use generate::Group;
use pintle_core::kubernetes;
use tiers::Long;
use xtask::follow;
use xtask::guests::{self, Set};
use xtask::release::{self, Target};

/// Build and test chores.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Args {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Build the plugins and the test guests into components, if their sources have changed.
    Guests {
        /// Only these: names of folders below plugins/ or tests/guests/, or of plugins.
        names: Vec<String>,
        /// Leave the test guests out.
        #[arg(long)]
        plugins_only: bool,
    },
    /// Write every generated file of the repository out of its sources, and print those that have changed.
    Generate {
        /// Only these groups of files.
        groups: Vec<Group>,
        /// Write nothing, and fail with a list of the files that are old.
        #[arg(long)]
        check: bool,
    },
    /// Install what the SDKs of other languages than Rust need to be built and tested.
    Languages,
    /// Create the folder of a built-in controller, with a manifest, code and a case.
    NewPlugin {
        /// Name of the folder: lowercase letters, digits and dashes.
        name: String,
    },
    /// Build the binary with its built-in components.
    Build {
        /// Optimised.
        #[arg(long)]
        release: bool,
    },
    /// Build what is published of a version: archives of static binaries, the chart, checksums.
    Release {
        /// Folder for the files; target/release-VERSION by default.
        #[arg(long, value_name = "FOLDER")]
        out: Option<PathBuf>,
        /// Only for this one; all that this machine can build for by default. Repeatable.
        #[arg(long = "target", value_name = "TRIPLE")]
        targets: Vec<Target>,
        /// Take this binary instead of building one.
        #[arg(long, value_name = "FILE", requires = "targets")]
        binary: Option<PathBuf>,
    },
    /// Set up, build, and play the main job on the embedded cluster.
    Demo,
    /// Run the tests of the default tier; with --long all tests.
    Test {
        /// Run the long tier too: tutorials from empty caches, recordings, all crash points, and what else takes minutes.
        #[arg(long, conflicts_with = "share")]
        long: bool,
        /// Run the share of the long tier that the commit selects, as CI does.
        #[arg(long)]
        share: bool,
        /// Which scenarios run on the real control plane and on the embedded cluster; all with --long.
        #[arg(long, value_name = "WHICH", default_value = "sample")]
        scenarios: Scenarios,
        /// Run only parts with one of these words in their name.
        #[arg(long = "only", value_name = "WORD")]
        only: Vec<String>,
        /// Write the times of the files of tests to tests/times.toml, for a run with nothing beside it.
        #[arg(long)]
        record_times: bool,
    },
    /// Record the outcomes of kube-controller-manager that the scenarios are compared with.
    Record {
        /// Record only scenarios with these words in their name.
        scenario: Option<String>,
    },
    /// Follow another version of Kubernetes: set it, write what follows from it, and print what a person must look at.
    Upstream {
        /// For example 1.37.2.
        version: String,
        /// Compare with this version instead of the one that is followed.
        #[arg(long, value_name = "VERSION", default_value = kubernetes::VERSION)]
        since: String,
    },
    /// Measure Pintle and kube-controller-manager side by side on a real control plane, and what authors wait for.
    Bench {
        /// Arguments of the benchmark; `-- --help` lists them.
        #[arg(last = true)]
        args: Vec<String>,
    },
    /// Check formatting and lints of every workspace; warnings are errors.
    Lint,
    /// Build the documentation of the host's code; warnings are errors.
    Doc,
    /// Build the documentation site in target/docs, check its links and its search, and print its path.
    Docs,
    /// Check bans, licences and sources of dependencies.
    Deny {
        /// Advisories too, which fetches their database.
        #[arg(long)]
        advisories: bool,
    },
}

/// Which scenarios run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Scenarios {
    /// At least one of each controller, then those of what has changed and a rotating share of the others, within a budget of minutes.
    Sample,
    /// Every one.
    All,
}

fn main() -> ExitCode {
    match run(Args::parse().chore) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(chore: Chore) -> anyhow::Result<()> {
    match chore {
        Chore::Guests { names, plugins_only } => {
            let sets: &[Set] = if plugins_only { &[Set::Plugins] } else { &[Set::Plugins, Set::TestGuests] };
            for component in guests::build_named(sets, &names)? {
                let note = if component.rebuilt { "built" } else { "unchanged" };
                eprintln!("{note:>9}  {}", component.path.display());
            }
            Ok(())
        }
        Chore::Generate { groups, check } => generate::run(&groups, check),
        Chore::Languages => languages::install(),
        Chore::NewPlugin { name } => new_plugin::create(&xtask::root(), &name),
        Chore::Build { release } => {
            eprintln!("built {}", chores::build(release)?.display());
            Ok(())
        }
        Chore::Release { out, targets, binary } => {
            let out = out.unwrap_or_else(|| chores::target().join(format!("release-{}", release::VERSION)));
            for file in release::release(&release::Options { out, targets, binary })? {
                println!("{}", file.display());
            }
            Ok(())
        }
        Chore::Demo => chores::demo(),
        Chore::Test { long, share, scenarios, only, record_times } => {
            let all_scenarios = long || scenarios == Scenarios::All;
            let long = match (long, share) {
                (true, _) => Long::All,
                (false, true) => Long::Share,
                (false, false) => Long::None,
            };
            chores::test(&chores::Selection { long, all_scenarios, only, record_times })
        }
        Chore::Record { scenario } => chores::record(scenario.as_deref()),
        Chore::Upstream { version, since } => {
            print!("{}", follow::follow(&version, &since)?);
            Ok(())
        }
        Chore::Bench { args } => chores::bench(&args),
        Chore::Lint => checks::lint(),
        Chore::Doc => checks::doc(),
        Chore::Docs => {
            println!("{}", xtask::docs::build()?.join("index.html").display());
            Ok(())
        }
        Chore::Deny { advisories } => checks::deny(advisories),
    }
}
