//! The `ControllerPlugin` resource: what runs in the host, said in the cluster.
//!
//! ```text
//! Caches ──ControllerPlugins, ConfigMaps──> Watcher ──what differs──> Control
//!                                              └──────what became of it──> status
//! ```
//!
//! Invariants:
//! 1. What is not known (the cache is not filled, the server is away) changes nothing: only a resource that is seen to be gone
//!    takes its plugin away.
//! 2. A spec is carried out once; again only if it, or the component that it names, has changed.
//! 3. A status is written only if it differs from the one that is there, with the resourceVersion that it was made for, and at most
//!    once a second for each resource.
//!
//! Without the definition in the cluster there is nothing to do; it is noticed when it appears.

pub mod crd;
mod source;
mod spec;
mod status;
mod watcher;

pub use self::watcher::{Parts, WRITER, Watcher};
