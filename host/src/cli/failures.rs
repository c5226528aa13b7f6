//! Arguments of `pintle plugin failures`.

use std::path::PathBuf;

use clap::Args;
use clap_complete::engine::ArgValueCompleter;

use super::plugin::OutputArgs;
use crate::complete;

/// Arguments of `pintle plugin failures`.
#[derive(Debug, Args)]
pub struct FailuresArgs {
    /// Name of the plugin, or its alias. Default: all plugins.
    #[arg(value_name = "NAME", add = ArgValueCompleter::new(complete::plugins))]
    pub name: Option<String>,

    /// Show only runs for this object: `web` or `default/web`.
    #[arg(long, value_name = "[NAMESPACE/]NAME")]
    pub key: Option<String>,

    /// Save each run as a case for `pintle test --cases FOLDER`: a file with what the run read, and how it failed as comments. Runs that
    /// were saved before are left unchanged.
    #[arg(long, value_name = "FOLDER", requires = "name")]
    pub save: Option<PathBuf>,

    /// Show values of Secrets and of settings from files. By default they are masked.
    #[arg(long, requires = "save")]
    pub secrets: bool,

    #[command(flatten)]
    #[allow(missing_docs, reason = "documented at its type")]
    pub output: OutputArgs,
}
