//! Adapter to a Kubernetes API server, based on the `kube` client.
//!
//! *Flow*: the runtime calls the traits of `pintle_core::ports::api`. This crate builds the requests ([`path`]) and
//! sends them with the `kube` client, which handles kubeconfigs, TLS and credentials. Answers are returned as JSON
//! text: only the envelope is parsed (a list's items, a watch's frames, a write's metadata), never the objects.
//!
//! A connection authenticates as the host or as a plugin's service account ([`account`]). Credentials, certificates and
//! proxies are read from files that may change ([`settings`]); [`transport`] opens the connections and detects dead
//! ones.
//!
//! *Invariants*: every failure is classified here, once ([`error`]); a write is repeated only after the server reported
//! that it did nothing.
//!
//! *Not here*: relisting, backoff and caches (`pintle-cache`).

mod account;
mod connect;
mod discover;
mod error;
mod limit;
mod path;
mod read;
mod review;
mod route;
mod settings;
mod transport;
mod write;

pub use connect::Connection;
pub use route::{Dial, Route};
pub use settings::{ConnectError, Source};
pub use transport::Limits;
