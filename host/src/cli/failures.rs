//! Arguments of `pintle plugin failures`.

use std::path::PathBuf;

use clap::Args;

use super::plugin::OutputArgs;

/// Arguments of `pintle plugin failures`.
#[derive(Debug, Args)]
pub struct FailuresArgs {
    /// Name of the plugin.
    #[arg(value_name = "NAME")]
    pub name: String,

    /// Only runs of the object of this name: `web`, or `default/web`.
    #[arg(long, value_name = "[NAMESPACE/]NAME")]
    pub key: Option<String>,

    /// Save each run as a case that `pintle test --cases FOLDER` plays: a folder of its own with `input.yaml`, which holds what the
    /// run saw, and `failure.txt`. A run that is saved there already is left as it is.
    #[arg(long, value_name = "FOLDER")]
    pub save: Option<PathBuf>,

    /// Show values of Secrets, and of settings that come from files, instead of asterisks.
    #[arg(long, requires = "save")]
    pub secrets: bool,

    #[command(flatten)]
    #[allow(missing_docs, reason = "documented at its type")]
    pub output: OutputArgs,
}
