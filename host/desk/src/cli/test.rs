//! Arguments of `pintle test`.

use std::path::PathBuf;

use clap::Args;

use pintle::output::Output;

/// Arguments of `pintle test`.
///
/// A case is a YAML file with two documents: the input (a key and the objects in the caches) and the expected outcome. A case with
/// `settle` in its input has a third one: what carrying out its outcomes leads to.
#[derive(Debug, Args)]
pub struct TestArgs {
    /// Folder of the plugin, which is built, or a component file.
    #[arg(value_name = "FOLDER|FILE", default_value = ".")]
    pub plugin: PathBuf,

    /// Folder of the cases. Default: `cases` in the plugin's folder.
    #[arg(long, value_name = "FOLDER")]
    pub cases: Option<PathBuf>,

    /// A folder of CustomResourceDefinitions, against which field paths of the manifest are checked. Default: `crds` in the plugin's
    /// folder, or beside the component file.
    #[arg(long, value_name = "FOLDER")]
    pub crds: Option<PathBuf>,

    /// Run only cases whose names contain this text.
    #[arg(long, value_name = "TEXT")]
    pub filter: Option<String>,

    /// Update the expected outcome of every case whose outcome differs. Review the changes.
    #[arg(long)]
    pub update: bool,

    /// Then run the cases in turn on one instance, this many runs in total, and report its memory growth.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub runs: Option<u32>,

    /// Also carry out the cases without `settle` on an embedded API server until the plugin writes nothing more, and report it. The
    /// report does not fail a case.
    #[arg(long)]
    pub settle: bool,

    /// Run each case once, and write it to NAME.json in this folder: the key, the answer to each read of the run, the manifest, and the
    /// expected outcome. The SDKs run `reconcile` natively with such a file, under a debugger.
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["update", "runs", "settle"])]
    pub export: Option<PathBuf>,

    /// Output format.
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub output: Output,
}
