//! Reasons why the sandbox does not start, or rejects a component.

use std::path::PathBuf;

use pintle_core::contract::manifest::{CONTRACT_VERSIONS, LimitError, ManifestError};
use pintle_core::policy::file_access::ChangedBy;

use crate::contract;

/// The engine cannot be created.
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
    /// The folder for compiled code cannot be created or read.
    #[error("use {} for compiled code", folder.display())]
    CacheFolder {
        /// The folder.
        folder: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// Another user could replace a parent folder.
    #[error(
        "use {} for compiled code, which the host would run: {}: {why}, or name another folder with --cache-dir",
        folder.display(),
        ancestor.display()
    )]
    CacheAncestor {
        /// The folder.
        folder: PathBuf,
        /// The parent folder.
        ancestor: PathBuf,
        /// Who can change it.
        why: ChangedBy,
    },
    /// Other users could write code into the folder that the host would run.
    #[error("{} must be a folder that belongs to user {user} and is closed to others (chmod 700) to hold compiled code", folder.display())]
    CacheNotPrivate {
        /// The folder.
        folder: PathBuf,
        /// The user id of the host.
        user: u32,
    },
}

impl EngineError {
    /// Whether the folder for compiled code is the cause: using another folder, or none, helps.
    pub fn is_of_cache(&self) -> bool {
        matches!(self, Self::CacheFolder { .. } | Self::CacheAncestor { .. } | Self::CacheNotPrivate { .. })
    }
}

/// A component that cannot be loaded. A retry does not help.
#[derive(Debug, thiserror::Error)]
#[error("{name}: {problem}")]
pub struct LoadError {
    /// Name or path of the component, as given.
    pub name: String,
    /// The problem.
    pub problem: LoadProblem,
}

/// The problem of a component.
#[derive(Debug, thiserror::Error)]
pub enum LoadProblem {
    /// The bytes are not WebAssembly.
    #[error("this is not WebAssembly; name the file of a component, which `pintle build FOLDER` creates from a plugin")]
    NotWasm,
    /// The bytes are a core module.
    #[error(
        "this is a core WebAssembly module, not a component (build it with `pintle build`, or convert it with `wasm-tools component new`)"
    )]
    CoreModule,
    /// The bytes end early, or are not a valid component.
    #[error("the component is damaged: {0}")]
    Damaged(String),
    /// One of its sizes exceeds the host's bound, which limits the cost of compiling and holding a component.
    #[error("the component is too large: {found} {what}; the maximum is {limit}")]
    TooLarge {
        /// The size that exceeds its bound.
        what: &'static str,
        /// The component's value.
        found: u64,
        /// The bound.
        limit: u64,
    },
    /// Its initial memory exceeds its limit.
    #[error(
        "the component declares a memory of {declared} bytes, more than its limit of {limit} (limits.memoryBytes of the manifest)"
    )]
    Memory {
        /// The initial memory.
        declared: u64,
        /// The limit.
        limit: u64,
    },
    /// It has no custom section `pintle:manifest`.
    #[error(
        "the component has no manifest (custom section {:?} at its top level); add it with `pintle package FILE --manifest \
         manifest.yaml -o OUTPUT`",
        pintle_core::contract::manifest::SECTION
    )]
    NoManifest,
    /// It has several manifests.
    #[error("the component has {0} manifests")]
    SeveralManifests(usize),
    /// The manifest is invalid. The message contains the field.
    #[error("{0}")]
    Manifest(ManifestError),
    /// It requests more than the operator's maximum.
    #[error("{0}")]
    Limits(LimitError),
    /// It imports something that the host does not provide.
    #[error(
        "component imports {}, which this host does not offer; allowed are {}, and interfaces of WASI 0.2{}",
        imports.join(", "),
        allowed_imports(),
        crate::wasi::advice(imports)
    )]
    UnknownImports {
        /// The imports outside the contract.
        imports: Vec<String>,
    },
    /// It is not a controller for this version of the contract.
    #[error("component exports no function {:?} (it exports {})", crate::contract::RECONCILE, some(exports))]
    NoReconcile {
        /// Its exports.
        exports: Vec<String>,
    },
    /// The manifest has `to: plugin`, but the component exports no mapping function.
    #[error("the manifest maps changes with `to: plugin`, but the component does not export {}", contract::MAPPING)]
    NoMapping,
    /// The component was built for another version of the contract.
    #[error(
        "the component was built for contract {} ({interface}), and this host supports {}: build it again with the SDK of this host",
        contract::version_of(interface).map_or("", contract::short),
        CONTRACT_VERSIONS.join(", ")
    )]
    OtherContract {
        /// An interface that the component imports or exports.
        interface: String,
    },
    /// Its imports or exports have the right names but other types.
    #[error("component does not fit the contract: {0}")]
    WrongTypes(String),
    /// It does not compile: invalid code, or a WebAssembly feature that is off.
    #[error("component does not compile: {0}")]
    Compile(String),
}

fn allowed_imports() -> String {
    [contract::LOG, contract::TYPES, contract::VIEW].join(", ")
}

fn some(names: &[String]) -> String {
    if names.is_empty() { "nothing".into() } else { names.join(", ") }
}
