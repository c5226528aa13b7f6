//! Pintle: runtime.

pub mod caches;
mod discovery;
mod informer;
mod store;
mod view;
