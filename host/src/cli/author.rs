//! Arguments of the commands for authors of plugins.

use std::path::PathBuf;

use clap::Args;
use clap::builder::PossibleValuesParser;
use clap::builder::TypedValueParser as _;
use pintle_build::Language;

/// A language by its word.
fn language() -> impl clap::builder::TypedValueParser<Value = Language> {
    PossibleValuesParser::new(Language::ALL.map(Language::word)).try_map(|word| word.parse::<Language>())
}

/// Arguments of `pintle build`.
#[derive(Debug, Args)]
pub struct BuildArgs {
    /// Folder of the plugin, with manifest.yaml and its sources.
    #[arg(value_name = "FOLDER", default_value = ".")]
    pub folder: PathBuf,

    /// Where to write the component. By default NAME.wasm in the folder, by the plugin's name.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// What the plugin is written in. By default its files tell: Cargo.toml, go.mod, package.json (with tsconfig.json: ts),
    /// pyproject.toml, or *.c.
    #[arg(long, value_name = "LANGUAGE", value_parser = language())]
    pub lang: Option<Language>,
}
