//! The `ControllerPlugin` resource: the plugins of the host, declared in the cluster.
//!
//! ```text
//! Caches ──ControllerPlugins, ConfigMaps──> Watcher ──> SourceController ──> Control
//!                              │               └──────────results──────────> status
//! ```
//!
//! Invariants:
//! 1. Missing information (the cache is not synced, the server is unreachable) changes nothing: only an observed
//!    deletion of a resource unloads its plugin.
//! 2. A spec is applied once; again only if it, or its component, has changed.
//! 3. A component that may change without a decision of the operator (a ConfigMap, a tag) is rejected, unless a digest,
//!    a key or the operator of the host allows it. If only a signature admits it, it must not be older than the last
//!    applied one.
//! 4. A status is written only if it differs from the current one, with the resourceVersion that it is based on, and at
//!    most once a second for each resource.
//! 5. Resources of other classes are ignored.
//!
//! Without the definition in the cluster there is nothing to do; the host detects when it is created.

pub mod crd;
mod floors;
mod pins;
mod proven;
mod source;
mod spec;
mod status;
mod watcher;

pub use self::spec::{DEFAULT_CLASS, class_of};
pub use self::status::{Signature, WritersOfPlugins};
pub use self::watcher::{Parts, WRITER, Watcher};
