//! Types of Kubernetes kinds, in the languages of the SDKs, from CustomResourceDefinitions and OpenAPI documents.
//!
//! *Flow*: [`generate`]: texts -> [`source`] (kinds and the locations of their schemas) -> [`lower`] (schemas to
//! [`model`], the language-independent form) -> one printer for each language.
//!
//! *Invariants*: no I/O; the same texts give the same result; no text of a schema can end a comment or a string in the
//! result.
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
    /// Whether a text without kinds is an error. Other files of a folder may have none.
    pub must_define: bool,
}

/// A language, and the file format.
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
    /// Type declarations only: `*.d.ts`.
    Declarations,
    /// A module.
    Python,
}

/// What to generate.
#[derive(Clone, Debug)]
pub struct Options<'a> {
    /// Kinds as `group/version/Kind`, `version/Kind`, or `Kind` for each served version. Empty: every kind in each
    /// served version.
    pub kinds: &'a [String],
    /// Only this version of the kinds, even if it is not served.
    pub version: Option<&'a str>,
    /// The language.
    pub target: Target,
}

/// The reason why there are no types. All errors must be fixed in the sources, or in the request.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum TypesError {
    /// A text is neither YAML nor JSON.
    #[error("{name}: {why}")]
    Syntax {
        /// Name of the text.
        name: String,
        /// The parser's message, with line and column.
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
    /// A requested kind is not defined.
    #[error("there is no {wanted}; the sources define {known}")]
    NoKind {
        /// The requested kind.
        wanted: String,
        /// The defined ones.
        known: String,
    },
    /// A kind is defined twice.
    #[error("{kind} is defined twice: {first}; {second}")]
    Twice {
        /// The kind.
        kind: String,
        /// Location of a definition.
        first: String,
        /// Location of the other.
        second: String,
    },
    /// Two documents have different schemas with the same name.
    #[error(
        "two schemas of the same name differ: {first}; {second}; use documents of the same server, or one at a time"
    )]
    Differs {
        /// Location of a schema.
        first: String,
        /// Location of the other.
        second: String,
    },
    /// Part of a schema is invalid.
    #[error("{place}: {why}")]
    Schema {
        /// File, document and path.
        place: String,
        /// The error.
        why: String,
    },
}

impl TypesError {
    fn schema(place: &str, path: &str, why: &str) -> Self {
        Self::Schema { place: format!("{place}: {path}"), why: why.to_owned() }
    }
}

/// The text of a file with the types of the requested kinds.
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
