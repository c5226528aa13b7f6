//! Structured logs on standard error.

use std::io::IsTerminal as _;

use anyhow::Context as _;
use tracing_subscriber::EnvFilter;

use crate::cli::{LogArgs, LogFormat};

/// Target of a library that warns about folders that no longer exist.
const NOISE: &str = "notify=warn";

/// Installs the log for the process.
///
/// # Errors
/// The filter is not valid, or a log is already installed.
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

/// Installs a log for commands that print to standard output: only warnings of plugins.
///
/// # Errors
/// A log is already installed.
pub(crate) fn quiet() -> anyhow::Result<()> {
    install(&LogArgs { log: "off,pintle::plugin=warn".to_owned(), log_format: LogFormat::Text })
}
