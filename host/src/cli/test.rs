//! Arguments of `pintle test`.

use std::path::PathBuf;

use clap::Args;

use crate::cli::Output;

/// Arguments of `pintle test`.
///
/// A case is a folder with `input.yaml` (a key, and the objects that the caches hold) and `expected.yaml` (what is to be done).
#[derive(Debug, Args)]
pub struct TestArgs {
    /// Folder of the plugin, which is built, or a component file.
    #[arg(value_name = "FOLDER|FILE", default_value = ".")]
    pub plugin: PathBuf,

    /// Folder of the cases, if it is not `cases` in the plugin's folder.
    #[arg(long, value_name = "FOLDER")]
    pub cases: Option<PathBuf>,

    /// Only cases with this in their name.
    #[arg(long, value_name = "TEXT")]
    pub filter: Option<String>,

    /// Write `expected.yaml` anew wherever the outcome is another one. Read what it wrote.
    #[arg(long)]
    pub update: bool,

    /// Then run the cases in turn on one instance, so many runs in all, and tell how its memory grows.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub runs: Option<u32>,

    /// Instead of running them, write the manifest and the cases to this file as one JSON document, for test programs in languages
    /// that do not read YAML.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["update", "runs"])]
    pub export: Option<PathBuf>,

    /// Form of the answer.
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub output: Output,
}
