//! Adapter to a Kubernetes API server: the only user of the `kube` client.
//!
//! *Flow*: the runtime asks through `pintle_core::ports::api`; requests are built here ([`path`]), sent by the `kube` client (which
//! knows kubeconfigs, TLS and credentials), and answers come back as JSON text. Only the envelope of an answer is
//! parsed (a list's items, a watch's frames, a write's metadata), never the objects.
//!
//! A connection is the host's own, or that of a plugin's service account ([`account`]).
//!
//! *Invariants*: every failure is classified here, once ([`error`]); a write is sent again only when the server said
//! that it did nothing.
//!
//! *Not here*: relisting, backoff and caches (`pintle-runtime`).

mod account;
mod connect;
mod discover;
mod error;
mod path;
mod read;
mod write;

pub use connect::{ConnectError, Connection, Source};
