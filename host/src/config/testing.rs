//! For tests: the fields of a binary with the built-in controllers of the repository.

use std::sync::LazyLock;

use clap::{Command, CommandFactory as _};

use super::fields::{self, Field};
use crate::builtins::{Catalogue, testing};
use crate::cli::Cli;
use crate::flags::controllers::argument;

static CATALOGUE: LazyLock<Catalogue> = LazyLock::new(|| Catalogue::new(testing::manifests()));

pub(crate) fn catalogue() -> &'static Catalogue {
    &CATALOGUE
}

/// The command `pintle run`. A test binary may have no controllers.
pub(crate) fn run_command() -> Command {
    let command = Cli::command();
    let run = command.find_subcommand("run").unwrap().clone();
    let new = CATALOGUE
        .flags()
        .iter()
        .filter(|carried| run.get_arguments().all(|arg| arg.get_long() != Some(carried.flag.name.as_str())));
    let new: Vec<_> = new.map(argument).collect();
    run.args(new)
}

pub(crate) fn fields() -> Vec<Field> {
    fields::all(&run_command(), &CATALOGUE)
}
