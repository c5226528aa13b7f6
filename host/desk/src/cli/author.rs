//! Arguments of the commands for plugin authors.

use std::path::PathBuf;

use clap::builder::TypedValueParser as _;
use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Args, ValueEnum};
use pintle_author::package::ConfigMapName;
use pintle_build::Language;

use pintle::output::Output;

/// Parses a language by its name.
pub(super) fn language() -> impl clap::builder::TypedValueParser<Value = Language> {
    let values = Language::ALL.map(|language| PossibleValue::new(language.word()).aliases(language.aliases()));
    PossibleValuesParser::new(values).try_map(|word| word.parse::<Language>())
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

    /// Language of the plugin. Default: detected from its files: Cargo.toml, go.mod, package.json (with tsconfig.json: ts) or
    /// pyproject.toml.
    #[arg(long, value_name = "LANGUAGE", value_parser = language())]
    pub lang: Option<Language>,

    /// Format of the report on standard output.
    #[arg(long, value_enum, default_value_t = Output::Text)]
    pub format: Output,
}

/// Arguments of `pintle schema`.
#[derive(Debug, Args)]
pub struct SchemaArgs {
    /// Files that the schema describes.
    #[arg(value_enum, default_value_t = Document::Manifest)]
    pub document: Document,
}

/// A kind of file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Document {
    /// `manifest.yaml`.
    Manifest,
    /// The input of a test case: the first document of `cases/NAME.yaml`.
    Case,
    /// The configuration of a host: the file of `pintle run --config`.
    Host,
}

impl Document {
    /// Name of its schema.
    pub fn word(self) -> &'static str {
        match self {
            Self::Manifest => "manifest",
            Self::Case => "case",
            Self::Host => "host",
        }
    }
}

/// Arguments of `pintle new`.
#[derive(Debug, Args)]
pub struct NewArgs {
    /// Name of the plugin: lowercase letters, digits and `-`.
    #[arg(value_name = "NAME")]
    pub name: String,

    /// Language of the plugin.
    #[arg(long, value_name = "rust|go|ts|js|python", hide_possible_values = true, value_parser = language())]
    pub lang: Language,

    /// A kind that the plugin defines and reconciles, for example `example.org/v1/Team`: with types in the language, from which
    /// `pintle crds` generates the CustomResourceDefinition, a sample and cases. Without it, the plugin reconciles Services.
    #[arg(long, value_name = "GROUP/VERSION/KIND")]
    pub kind: Option<String>,

    /// Plural of the kind, in lowercase letters. Default: guessed from the kind.
    #[arg(long, value_name = "NAME", requires = "kind")]
    pub plural: Option<String>,

    /// The objects of the kind are in no namespace.
    #[arg(long, requires = "kind")]
    pub cluster_scoped: bool,

    /// Give the kind the fields of the example in the documentation: a list of members, one that leads, a format. Without it, the spec is
    /// one text.
    #[arg(long, requires = "kind")]
    pub example: bool,

    /// Folder to create. Default: the plugin's name, in the current folder. Existing files are never overwritten.
    #[arg(long, value_name = "FOLDER")]
    pub dir: Option<PathBuf>,
}

/// Arguments of `pintle crds`.
#[derive(Debug, Args)]
pub struct CrdsArgs {
    /// Folder of the plugin, with manifest.yaml and its sources.
    #[arg(value_name = "FOLDER", default_value = ".")]
    pub folder: PathBuf,

    /// Write nothing: print the difference between the files and the types, and fail if there is one.
    #[arg(long)]
    pub check: bool,
}

/// Arguments of `pintle package`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  pintle package . -o widgets.wasm
  # A component of any other toolchain
  pintle package component.wasm --manifest manifest.yaml -o widgets.wasm
  pintle package widgets.wasm --config-map pintle/widgets -o widgets.yaml
  # Without --server-side, kubectl keeps a second copy, which is too long for an annotation
  kubectl apply --server-side -f widgets.yaml

For components of more than 1 MiB compressed, push to a registry: `pintle push --help`.")]
pub struct PackageArgs {
    /// Folder of a plugin, which is built, or a component file.
    #[arg(value_name = "FOLDER|FILE", default_value = ".")]
    pub plugin: PathBuf,

    /// Manifest to add to a component file that has none, as other toolchains make them. Field paths are checked, also with the
    /// definitions in the folder `crds` beside the manifest.
    #[arg(long, value_name = "FILE")]
    pub manifest: Option<PathBuf>,

    /// Output file.
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,

    /// Write a ConfigMap with the component, compressed, for `spec.source.configMap` of a ControllerPlugin. Its key is the plugin's name with
    /// `.wasm`. It includes the signature FILE.sig of a component file, if there is one.
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = str::parse::<ConfigMapName>)]
    pub config_map: Option<ConfigMapName>,

    /// Format of the report on standard output.
    #[arg(long, value_enum, default_value_t = Output::Text)]
    pub format: Output,
}
