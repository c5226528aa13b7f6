//! Output to the terminal.

use std::io::{self, Write as _};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use pintle_core::text::{printable, printable_json, printable_lines};
use serde::Serialize;

use crate::flags::upstream;

/// Writes one line to standard output. A closed pipe (`pintle ... | head`) is not an error.
///
/// # Errors
/// Standard output is not writable.
pub fn line(text: &str) -> anyhow::Result<()> {
    match writeln!(io::stdout(), "{}", printable_lines(text)) {
        Err(why) if why.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result.context("write to standard output"),
    }
}

/// Writes a JSON document to standard output.
///
/// # Errors
/// Standard output is not writable.
pub fn json(value: &impl Serialize) -> anyhow::Result<()> {
    let text = serde_json::to_string_pretty(value).context("write JSON")?;
    line(&printable_json(&text))
}

/// Writes an error with its causes to standard error, in one line.
pub fn error(why: &anyhow::Error) {
    // Without standard error there is no place left for errors.
    let _ = writeln!(io::stderr(), "pintle: {}", printable(&one_line(why), usize::MAX));
}

/// Writes a line of progress to standard error, where it does not mix with the answer.
pub fn progress(text: &str) {
    // Without standard error there is no place left for progress.
    let _ = writeln!(io::stderr(), "{}", printable_lines(text));
}

/// Prints what the parser returns instead of a command: help and version unchanged, an error in one line.
pub fn usage(why: &clap::Error) -> ExitCode {
    let asked = !why.use_stderr();
    if asked || why.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        // Without a terminal there is no place left for messages.
        let _ = why.print();
        return if asked { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    let _ = writeln!(io::stderr(), "pintle: {}", refused(why));
    ExitCode::FAILURE
}

fn refused(why: &clap::Error) -> String {
    not_yet(why).unwrap_or_else(|| mistake(&why.to_string()))
}

/// Reports a flag of kube-controller-manager whose controller is not built yet.
fn not_yet(why: &clap::Error) -> Option<String> {
    match (why.kind(), why.get(ContextKind::InvalidArg)) {
        (ErrorKind::UnknownArgument, Some(ContextValue::String(flag))) => upstream::refusal(flag),
        _ => None,
    }
}

/// The error and the remedy, without the usage summary that follows.
fn mistake(text: &str) -> String {
    let lines =
        text.lines().take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more information"));
    let lines: Vec<&str> = lines.map(str::trim).filter(|line| !line.is_empty()).collect();
    let text = lines.join("; ");
    format!("{}; see --help", text.strip_prefix("error: ").unwrap_or(&text))
}

/// An error with its causes, nothing twice.
pub(crate) fn one_line(why: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in why.chain() {
        let cause = cause.to_string();
        if text.contains(&cause) {
            continue;
        }
        if !text.is_empty() {
            text.push_str(": ");
        }
        text.push_str(&cause);
    }
    text
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[test]
    fn a_flag_of_a_controller_that_is_not_built_yet_is_rejected_with_its_name() {
        let refused = |argument: &str| {
            let why = crate::cli::Cli::try_parse_from(["pintle", "run", argument, "5"]).unwrap_err();
            super::refused(&why)
        };
        let (flag, controller) = upstream::any();
        let expected =
            format!("--{flag} is a flag of {controller}, which is not part of this Pintle yet; leave it out");
        assert_eq!(refused(&format!("--{flag}")), expected);
        assert_eq!(refused(&format!("--{flag}=5")), expected);
        assert!(refused("--widgets").starts_with("unexpected argument '--widgets' found"));
    }

    #[test]
    fn an_error_is_one_line_that_says_nothing_twice() {
        let why = anyhow::anyhow!("no such file").context("read a.wasm: no such file").context("load plugin");
        assert_eq!(one_line(&why), "load plugin: read a.wasm: no such file");
    }
}
