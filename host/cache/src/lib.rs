//! The shared caches of the host: what plugins watch, kept once for all of them.
//!
//! Not here: the API server (`pintle-kube`), which keys run when (`pintle-runtime`).

mod caches;
mod discovery;
mod informer;
mod store;
mod view;

pub use caches::{
    Caches, CachesConfig, ChangeHandler, Delta, Enqueued, InformerStats, RunContext, Snapshot, Subscription,
};
