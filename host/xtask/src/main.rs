//! `cargo xtask`: build and test chores.

mod checks;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use xtask::guests::{self, Set};

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
    /// Check formatting and lints of every workspace; warnings are errors.
    Lint,
    /// Build the documentation of the host; warnings are errors.
    Doc,
    /// Check licences, sources and advisories of dependencies (needs cargo-deny).
    Deny,
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
        Chore::Lint => checks::lint(),
        Chore::Doc => checks::doc(),
        Chore::Deny => checks::deny(),
    }
}
