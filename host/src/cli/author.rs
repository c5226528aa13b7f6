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

    /// Output file. Default: NAME.wasm in the folder, with the plugin's name.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// Language of the plugin. Default: detected from its files: Cargo.toml, go.mod, package.json (with tsconfig.json: ts),
    /// pyproject.toml, or *.c.
    #[arg(long, value_name = "LANGUAGE", value_parser = language())]
    pub lang: Option<Language>,
}

/// Arguments of `pintle new`.
#[derive(Debug, Args)]
pub struct NewArgs {
    /// Name of the plugin: lowercase letters, digits and `-`.
    #[arg(value_name = "NAME")]
    pub name: String,

    /// Language of the plugin.
    #[arg(long, value_name = "LANGUAGE", value_parser = language())]
    pub lang: Language,

    /// Folder to create. Default: the plugin's name, in the current folder. Existing files are never overwritten.
    #[arg(long, value_name = "FOLDER")]
    pub dir: Option<PathBuf>,
}

/// Arguments of `pintle package`.
#[derive(Debug, Args)]
pub struct PackageArgs {
    /// Folder of a plugin, which is built, or a component file.
    #[arg(value_name = "FOLDER|FILE", default_value = ".")]
    pub plugin: PathBuf,

    /// Output file.
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
}
