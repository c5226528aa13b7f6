//! Arguments of logging.

use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::flags;

/// Logging.
#[derive(Debug, Clone, Args)]
pub struct LogArgs {
    /// What to log: `error`, `warn`, `info`, `debug`, `trace`, or a filter such as `info,pintle_runtime=debug`.
    #[arg(long, value_name = "FILTER", env = "PINTLE_LOG", default_value = "info")]
    pub log: String,

    /// Format of log lines.
    #[arg(long, visible_alias = "logging-format", value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,

    /// How much to log in addition to --log, as in Kubernetes' components: from 4 on debug messages of Pintle, from 8 on also those of
    /// its libraries.
    #[arg(short = 'v', long = "v", value_name = "LEVEL", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=i64::from(i32::MAX)))]
    pub verbosity: u32,

    /// Has no effect: each line is written at once.
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = flags::duration)]
    pub log_flush_frequency: Duration,
}

impl LogArgs {
    /// A log with this filter in this format.
    pub fn new(log: &str, log_format: LogFormat) -> Self {
        Self { log: log.to_owned(), log_format, verbosity: 0, log_flush_frequency: Duration::ZERO }
    }
}

/// Formats of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For humans.
    Text,
    /// One JSON object per line.
    Json,
}
