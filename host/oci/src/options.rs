//! Options of an operator: how to connect to registries, and which keys to trust.

use std::path::PathBuf;

/// Connection options for registries.
#[derive(Clone, Debug, Default)]
pub struct ConnectOptions {
    /// Registries (`HOST` or `HOST:PORT`) without TLS.
    pub plain_http: Vec<String>,
    /// Token servers on other hosts than their registries, which may receive the credentials.
    pub token_servers: Vec<String>,
    /// Certificate authorities in PEM, trusted in addition to those of the system.
    pub ca_file: Option<PathBuf>,
}

/// Connection options for registries, and trusted keys.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Public keys in PEM (ECDSA on P-256). If there are any, only components signed by one of them are trusted.
    pub verify_keys: Vec<PathBuf>,
    /// Connection options.
    pub connect: ConnectOptions,
}
