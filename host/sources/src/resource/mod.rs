//! The `ControllerPlugin` resource: the plugins of the host, declared in the cluster.
//!
//! ```text
//! Caches ──ControllerPlugins, ConfigMaps──> Watcher ──> SourceController ──> Control
//!                              │               └──────────results──────────> status
//! ```
//!
//! Invariants:
//! 1. What is not known (the cache is not synced, the server is unreachable) changes nothing: only a resource that is seen to be gone
//!    unloads its plugin.
//! 2. A spec is carried out once; again only if it, or the component that it names, has changed.
//! 3. A component that may change without a decision of the operator (a ConfigMap, a tag) is rejected, unless a digest, a key or the
//!    operator of the host says otherwise. What only a signature admits is not older than what was applied last.
//! 4. A status is written only if it differs from the one that is there, with the resourceVersion that it was made for, and at most
//!    once a second for each resource.
//! 5. Only resources of the host's class exist for it.
//!
//! Without the definition in the cluster there is nothing to do; it is noticed when it appears.

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
