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

/// Arguments of `pintle new`.
#[derive(Debug, Args)]
pub struct NewArgs {
    /// Name of the plugin: lower-case letters, digits and `-`.
    #[arg(value_name = "NAME")]
    pub name: String,

    /// What to write it in.
    #[arg(long, value_name = "LANGUAGE", value_parser = language())]
    pub lang: Language,

    /// Folder to make; by default one of that name, here. Nothing is written over.
    #[arg(long, value_name = "FOLDER")]
    pub dir: Option<PathBuf>,
}

/// Arguments of `pintle package`.
#[derive(Debug, Args)]
pub struct PackageArgs {
    /// Folder of a plugin, which is built, or a component that is there.
    #[arg(value_name = "FOLDER|FILE", default_value = ".")]
    pub plugin: PathBuf,

    /// Where to write the component.
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
}
