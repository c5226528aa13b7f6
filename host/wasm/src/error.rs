//! Why the sandbox does not start, or does not take a component.

use std::path::PathBuf;

use pintle_core::contract::manifest::{LimitError, ManifestError};

/// The engine cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// wasmtime does not accept the configuration on this machine.
    #[error("start the WebAssembly engine: {0}")]
    Engine(String),
    /// The thread that interrupts guests cannot be started.
    #[error("start the thread that interrupts plugins")]
    Ticker(#[source] std::io::Error),
    /// The threads that compile cannot be started.
    #[error("start the threads that compile plugins: {0}")]
    Compiler(String),
    /// The folder for compiled code cannot be made or looked at.
    #[error("use {} for compiled code", folder.display())]
    CacheFolder {
        /// The folder.
        folder: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// Others could put code into the folder, which the host would run.
    #[error("{} must be a folder that belongs to user {user} and is closed to others (chmod 700) to hold compiled code", folder.display())]
    CacheNotPrivate {
        /// The folder.
        folder: PathBuf,
        /// Who the host runs as.
        user: u32,
    },
}

/// A component cannot be used. Trying again does not help.
#[derive(Debug, thiserror::Error)]
#[error("{name}: {problem}")]
pub struct LoadError {
    /// Name or path of the component, as given.
    pub name: String,
    /// What is wrong.
    pub problem: LoadProblem,
}

/// What is wrong with a component.
#[derive(Debug, thiserror::Error)]
pub enum LoadProblem {
    /// The bytes are something else.
    #[error("this is not WebAssembly")]
    NotWasm,
    /// The bytes are a core module.
    #[error(
        "this is a core WebAssembly module, not a component (build it with `cargo xtask guests`, or make a component of it with wasm-tools)"
    )]
    CoreModule,
    /// The bytes end too early, or are no valid component.
    #[error("the component is damaged: {0}")]
    Damaged(String),
    /// It is larger than the host takes, in one respect: what compiling and holding it costs must be bounded.
    #[error("the component is too large: {found} {what}, at most {limit} are taken")]
    TooLarge {
        /// What there is too much of.
        what: &'static str,
        /// How much.
        found: u64,
        /// How much is taken.
        limit: u64,
    },
    /// It begins with more memory than it may have.
    #[error(
        "the component declares a memory of {declared} bytes, more than its limit of {limit} (limits.memoryBytes of the manifest)"
    )]
    Memory {
        /// What it begins with.
        declared: u64,
        /// What it may have.
        limit: u64,
    },
    /// There is no custom section `pintle:manifest`.
    #[error(
        "the component has no manifest (custom section {:?} at its top level)",
        pintle_core::contract::manifest::SECTION
    )]
    NoManifest,
    /// There is more than one.
    #[error("the component has {0} manifests")]
    SeveralManifests(usize),
    /// The manifest is wrong. The text names the field.
    #[error("{0}")]
    Manifest(ManifestError),
    /// It asks for more than the operator's maximum.
    #[error("{0}")]
    Limits(LimitError),
    /// It asks for something that the host does not have.
    #[error("component imports {}, which this host does not offer; allowed are {}", imports.join(", "), crate::contract::IMPORTS.join(", "))]
    UnknownImports {
        /// What it imports beside the contract.
        imports: Vec<String>,
    },
    /// It is no controller of this version of the contract.
    #[error("component exports no function {:?} (it exports {})", crate::contract::RECONCILE, some(exports))]
    NoReconcile {
        /// What it exports.
        exports: Vec<String>,
    },
    /// `to: plugin` in the manifest, but no function to call.
    #[error(
        "the manifest maps changes with `to: plugin`, but the component does not export {}",
        crate::contract::MAPPING
    )]
    NoMapping,
    /// Imports or exports have the right names, but other types.
    #[error("component does not fit the contract: {0}")]
    WrongTypes(String),
    /// It does not compile: invalid code, or a feature of WebAssembly that the host keeps off.
    #[error("component does not compile: {0}")]
    Compile(String),
}

fn some(names: &[String]) -> String {
    if names.is_empty() { "nothing".into() } else { names.join(", ") }
}
