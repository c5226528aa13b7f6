//! Options of an operator: how to connect to registries, and which keys to trust.

use std::path::PathBuf;

/// How to connect to registries.
#[derive(Clone, Debug, Default)]
pub struct ConnectOptions {
    /// Registries (`HOST` or `HOST:PORT`) that are used without TLS. Those on this machine are too, unless `ca_file` is set.
    pub plain_http: Vec<String>,
    /// Certificate authorities in PEM that are trusted besides those of the system.
    pub ca_file: Option<PathBuf>,
}

/// How to connect to registries, and which keys to trust.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Public keys in PEM (ECDSA on P-256). With one or more, only components that one of them has signed are trusted.
    pub verify_keys: Vec<PathBuf>,
    /// How to connect.
    pub connect: ConnectOptions,
}
