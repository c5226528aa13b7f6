//! Types of Kubernetes kinds, in the languages of the SDKs, from CustomResourceDefinitions and OpenAPI documents.
//!
//! *Flow*: [`generate`]: texts -> [`source`] (kinds and where their schemas are) -> [`lower`] (schemas to [`model`], the form that
//! has no language) -> one printer for each language.
//!
//! *Invariants*: no I/O; the same texts give the same result; no text of a schema can end a comment or a string of the result.
//!
//! *Not here*: files, folders and clusters, which the binary reads.

mod docs;
mod go;
mod lower;
mod model;
mod names;
mod python;
mod rust;
mod source;
mod typescript;

use source::Sources;

/// A text with definitions.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// Its name in errors; its last segment appears in the generated file.
    pub name: &'a str,
    /// YAML, perhaps several documents, or JSON.
    pub text: &'a str,
    /// Whether it is an error if it defines no kind. Other files of a folder may.
    pub must_define: bool,
}

/// A language, and the form of the file in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A module.
    Rust,
    /// A file of this package.
    Go {
        /// Name of the package.
        package: String,
    },
    /// A module.
    TypeScript,
    /// Declarations of types alone: `*.d.ts`.
    Declarations,
    /// A module.
    Python,
}

/// What to generate.
#[derive(Clone, Debug)]
pub struct Options<'a> {
    /// Kinds as `group/version/Kind`, `version/Kind`, or `Kind` for each version that is served. None: every kind in each version that is
    /// served.
    pub kinds: &'a [String],
    /// Only this version of the kinds, also if it is not served.
    pub version: Option<&'a str>,
    /// The language.
    pub target: Target,
}

/// Why there are no types. All of it is to be fixed in the sources, or in what is asked of them.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum TypesError {
    /// A text is neither YAML nor JSON.
    #[error("{name}: {why}")]
    Syntax {
        /// Name of the text.
        name: String,
        /// What the parser says, with line and column.
        why: String,
    },
    /// No text defines a kind.
    #[error(
        "{name}: no kind is defined here; expected a CustomResourceDefinition or an OpenAPI document of Kubernetes"
    )]
    NoDefinition {
        /// Name of the text, or of all.
        name: String,
    },
    /// A kind is asked for that is not defined.
    #[error("there is no {wanted}; the sources define {known}")]
    NoKind {
        /// What is asked for.
        wanted: String,
        /// What there is.
        known: String,
    },
    /// A kind is defined twice.
    #[error("{kind} is defined twice: {first}; {second}")]
    Twice {
        /// The kind.
        kind: String,
        /// Place of a definition.
        first: String,
        /// Place of the other.
        second: String,
    },
    /// Two documents have different schemas of the same name.
    #[error(
        "two schemas of the same name differ: {first}; {second}; use documents of the same server, or one at a time"
    )]
    Differs {
        /// Place of a schema.
        first: String,
        /// Place of the other.
        second: String,
    },
    /// Part of a schema is not what it must be.
    #[error("{place}: {why}")]
    Schema {
        /// File, document and path.
        place: String,
        /// What is wrong.
        why: String,
    },
}

impl TypesError {
    fn schema(place: &str, path: &str, why: &str) -> Self {
        Self::Schema { place: format!("{place}: {path}"), why: why.to_owned() }
    }
}

/// The text of a file with the types of the kinds that are asked for.
///
/// # Errors
/// See [`TypesError`].
pub fn generate(inputs: &[Input<'_>], options: &Options<'_>) -> Result<String, TypesError> {
    let sources = Sources::read(inputs)?;
    let wanted = sources.select(options.kinds, options.version)?;
    let model = lower::lower(&wanted, &sources.components)?;
    Ok(match &options.target {
        Target::Rust => rust::print(&model),
        Target::Go { package } => go::print(&model, package),
        Target::TypeScript => typescript::print(&model, false),
        Target::Declarations => typescript::print(&model, true),
        Target::Python => python::print(&model),
    })
}
