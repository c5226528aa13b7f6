//! The configuration file of `pintle run`, and the effective configuration of a host.
//!
//! *Flow*: [`parse`] parses the command line. With `--config`, [`read`] reads the file, [`arguments`] translates its
//! fields into arguments, and the command line is parsed again with both. [`effective`] shows the result in the format
//! of the file; [`schema`] is its JSON Schema.
//!
//! *Invariants*:
//! 1. A field corresponds to a flag, and has the flag's parser, default and description ([`fields`]).
//! 2. Command-line flags override fields, and fields override environment variables. Maps (`featureGates`, settings of
//!    controllers) are merged by key.
//! 3. Relative paths are relative to the folder of the file.
//!
//! *Source*: `kubelet --config` (KubeletConfiguration), whose flags override its file in the same way.

pub(crate) mod arguments;
pub(crate) mod effective;
pub(crate) mod fields;
pub(crate) mod read;
pub mod schema;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use clap::error::ErrorKind;
use clap::{ArgMatches, Command};
use pintle_core::text::several;

use self::arguments::{Argument, OfFile};
use self::effective::Effective;
use self::read::File;
use crate::builtins::Catalogue;
use crate::cli::{self, CommandLine};
use crate::{output, rbac};

/// An invalid command line or file.
#[derive(Debug)]
pub enum Refusal {
    /// The command line, and its error.
    Usage(clap::Error, Vec<OsString>),
    /// The file.
    File(anyhow::Error),
}

impl Refusal {
    /// Prints it; returns the exit code of the process, which is success if help was requested.
    ///
    /// `missing`: the binary that has the commands missing in this command line.
    pub fn report(&self, missing: Option<&str>) -> ExitCode {
        match self {
            Self::Usage(why, given) => output::usage(why, given, missing),
            Self::File(why) => {
                output::error(why);
                ExitCode::FAILURE
            }
        }
    }
}

/// Parses a command line, starting with the program, and the file of `--config`.
///
/// # Errors
/// [`Refusal`]; a retry helps only after a change of the command line or the file.
pub fn parse<C: CommandLine>(given: impl IntoIterator<Item = OsString>) -> Result<C, Refusal> {
    let given: Vec<OsString> = given.into_iter().collect();
    let mut command = C::command();
    let first = command.try_get_matches_from_mut(&given);
    let file = match &first {
        Ok(matches) => named(matches),
        // What is missing may be in the file.
        Err(why) if why.kind() == ErrorKind::MissingRequiredArgument => {
            let lenient = C::command().ignore_errors(true).try_get_matches_from(&given);
            lenient.ok().and_then(|matches| named(&matches))
        }
        Err(_) => None,
    };
    let Some((name, of_command, file)) = file else {
        let matches = first.map_err(|why| Refusal::Usage(why, given))?;
        return cli(&command, &matches, OfFile::default());
    };
    let run = command.find_subcommand("run").cloned().unwrap_or_default();
    let fields = fields::all(&run, Catalogue::carried());
    let file = File::read(Path::new(&file)).map_err(Refusal::File)?;
    let mut arguments =
        arguments::translate(&file, &fields, &run).map_err(|problems| Refusal::File(wrong(&file.name, &problems)))?;
    let target = command.find_subcommand(&name).cloned().unwrap_or_default();
    let target = without_cluster(&name, target);
    let merged = arguments::merge(&given, &of_command, &target, &mut arguments);
    let of_file = OfFile { name: file.name, arguments };
    let matches = command.try_get_matches_from_mut(merged).map_err(|why| of_both(&why, &of_file, &fields))?;
    cli(&command, &matches, of_file)
}

/// The command with `--config`, its arguments, and the file.
fn named(matches: &ArgMatches) -> Option<(String, ArgMatches, OsString)> {
    let (name, matches) = matches.subcommand()?;
    Some((name.to_owned(), matches.clone(), arguments::named(matches)?.to_owned()))
}

/// The cluster of `pintle rbac` is set by its own flags only: without any, it prints roles.
fn without_cluster(name: &str, command: Command) -> Command {
    if name == "run" {
        return command;
    }
    let args: Vec<_> = command
        .get_arguments()
        .filter(|arg| !matches!(arg.get_long(), Some("kubeconfig" | "context")))
        .cloned()
        .collect();
    args.into_iter().fold(Command::new("rbac"), Command::arg)
}

fn cli<C: CommandLine>(command: &Command, matches: &ArgMatches, of_file: OfFile) -> Result<C, Refusal> {
    let mut cli = C::from_arg_matches(matches).map_err(|why| Refusal::Usage(why, Vec::new()))?;
    if let Some(plugins) = cli.plugins() {
        plugins.effective = Arc::new(Effective::of(command, matches));
    }
    match cli.of_host() {
        Some(cli::Command::Run(args)) => {
            args.of_file = Arc::new(of_file);
            args.of_roles = rbac::arguments(command, matches);
        }
        Some(cli::Command::Rbac(args)) => args.of_file = Arc::new(of_file),
        _ => {}
    }
    Ok(cli)
}

fn wrong(name: &str, problems: &[String]) -> anyhow::Error {
    anyhow::anyhow!("{name}: {}", several(problems))
}

/// An error of the command line and the file together: a required value is in neither.
fn of_both(why: &clap::Error, of_file: &OfFile, fields: &[fields::Field]) -> Refusal {
    let text = output::refused(why, &[]);
    let missing: Vec<Argument> = fields
        .iter()
        .map(|field| Argument { field: field.shown(), flag: field.flag().to_owned(), value: String::new() })
        .collect();
    let remark = arguments::remark(&text, &of_file.name, &missing);
    Refusal::File(anyhow::anyhow!(
        "{}: {text}{}",
        of_file.name,
        remark.map_or_else(String::new, |remark| format!("; {remark}"))
    ))
}
