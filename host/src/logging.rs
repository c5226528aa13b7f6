//! Structured logs on standard error.

use std::io::IsTerminal as _;

use anyhow::Context as _;
use tracing_subscriber::EnvFilter;

use crate::cli::{LogArgs, LogFormat};

/// What a library says of its own trouble with folders that are gone already.
const NOISE: &str = "notify=warn";

/// Installs the log for the whole process.
///
/// # Errors
/// The filter does not parse, or a log is installed already.
pub(crate) fn install(args: &LogArgs) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(format!("{NOISE},{}", args.log)).with_context(|| {
        format!("--log {:?} is not a filter: use error, warn, info, debug, trace, or info,TARGET=debug", args.log)
    })?;
    let colours = std::io::stderr().is_terminal();
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(colours);
    let installed = match args.log_format {
        LogFormat::Text => builder.with_target(false).try_init(),
        LogFormat::Json => builder.json().try_init(),
    };
    installed.map_err(|why| anyhow::anyhow!("install the log: {why}"))
}

/// Only what plugins warn of, for commands that answer on standard output.
///
/// # Errors
/// A log is installed already.
pub(crate) fn quiet() -> anyhow::Result<()> {
    install(&LogArgs { log: "off,pintle::plugin=warn".to_owned(), log_format: LogFormat::Text })
}
