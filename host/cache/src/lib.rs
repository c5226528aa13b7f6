//! The shared caches of the host: objects watched by plugins, kept once for all plugins.
//!
//! ```text
//! ApiReader ──list, watch──> informer ──> store ──> snapshot ──> view of a run
//!     └──discover──> resources   └──changes──> ChangeHandler
//! ```
//!
//! Invariants:
//! 1. Only the informer of a kind changes its store; a relist becomes visible all at once.
//! 2. Handlers receive a change after snapshots show it.
//! 3. A subscription sees the projections that its manifest declares, no matter which other plugins watch the kind and
//!    share its texts.
//!
//! The entry point is [`Caches`].
//!
//! Not here: the API server (`pintle-kube`), the scheduling of keys (`pintle-runtime`).

mod backoff;
mod bindings;
mod caches;
mod discovery;
mod informer;
mod reader;
mod resources;
mod restarts;
mod snapshot;
mod store;
mod subscription;
mod supervisor;
mod types;
mod view;

pub use caches::{Caches, InformerStats};
pub use snapshot::Snapshot;
pub use subscription::Subscription;
pub use supervisor::{Supervisor, panic_text};
pub use types::{CachesConfig, ChangeHandler, Delta, Enqueued, MAX_WORK, RunContext};
