//! Flags of the HTTPS port, with the names, defaults and meaning of kube-controller-manager.
//!
//! Source: k8s.io/apiserver/pkg/server/options (`serving.go`, `authentication.go`, `authorization.go`).

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args};
use pintle_serve::policy::access::AllowedPaths;

use crate::flags;

/// The ports of `pintle run`.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Serving")]
pub struct ServeArgs {
    /// Port of HTTPS, with authentication and authorization; 0 means none.
    #[arg(long, value_name = "PORT", default_value_t = 10257)]
    pub secure_port: u16,

    /// Address of HTTPS. An unspecified address (0.0.0.0 or ::) means all addresses of both families.
    #[arg(long, value_name = "IP", default_value = "0.0.0.0")]
    pub bind_address: IpAddr,

    /// Address of plain HTTP without authentication, on loopback, for /metrics and probes; none by default.
    #[arg(long, value_name = "ADDRESS", value_parser = flags::loopback)]
    pub serve: Option<SocketAddr>,

    /// Let other processes listen on the same port (SO_REUSEPORT).
    #[arg(
        long, value_name = "BOOL", default_value_t = false, default_missing_value = "true", num_args = 0..=1,
        require_equals = true, action = ArgAction::Set
    )]
    pub permit_port_sharing: bool,

    /// Has no effect: the port is always taken over from connections that have ended (SO_REUSEADDR).
    #[arg(
        long, value_name = "BOOL", default_value_t = false, default_missing_value = "true", num_args = 0..=1,
        require_equals = true, action = ArgAction::Set
    )]
    pub permit_address_sharing: bool,

    /// Certificate of the HTTPS port in PEM, its intermediate authorities after it. Read again when it changes. Without it, and without
    /// --cert-dir, the host makes a self-signed one in memory.
    #[arg(long, value_name = "FILE", requires = "tls_private_key_file")]
    pub tls_cert_file: Option<PathBuf>,

    /// Private key of --tls-cert-file in PEM.
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    pub tls_private_key_file: Option<PathBuf>,

    /// Folder of kube-controller-manager.crt and kube-controller-manager.key; a self-signed pair is made there if both are missing.
    /// --tls-cert-file takes precedence.
    #[arg(long, value_name = "FOLDER")]
    pub cert_dir: Option<PathBuf>,

    /// Oldest version of TLS: VersionTLS12 or VersionTLS13.
    #[arg(long, value_name = "VERSION", default_value = "VersionTLS12", value_parser = flags::tls_version)]
    pub tls_min_version: String,

    /// Cipher suites of TLS 1.2, in the names of kube-controller-manager; all by default. Those of TLS 1.3 are always on.
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = flags::cipher_suite)]
    pub tls_cipher_suites: Vec<String>,

    /// Key exchanges, by their number in TLS: 23 (P-256), 24 (P-384), 29 (X25519); all by default.
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = flags::curve)]
    pub tls_curve_preferences: Vec<String>,

    /// Serve HTTP/1.1 only.
    #[arg(
        long, value_name = "BOOL", default_value_t = false, default_missing_value = "true", num_args = 0..=1,
        require_equals = true, action = ArgAction::Set
    )]
    pub disable_http2_serving: bool,

    /// Requests of one HTTP/2 connection at once; 0 means 64.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=10_000))]
    pub http2_max_streams_per_connection: u32,

    /// Kubeconfig for TokenReviews. Default: the host's own connection.
    #[arg(long, value_name = "FILE")]
    pub authentication_kubeconfig: Option<PathBuf>,

    /// Do not read the authorities of clients from the ConfigMap kube-system/extension-apiserver-authentication where no file is named.
    #[arg(
        long, value_name = "BOOL", default_value_t = false, default_missing_value = "true", num_args = 0..=1,
        require_equals = true, action = ArgAction::Set
    )]
    pub authentication_skip_lookup: bool,

    /// Start although that ConfigMap cannot be read; clients then need tokens.
    #[arg(
        long, value_name = "BOOL", default_value_t = false, default_missing_value = "true", num_args = 0..=1,
        require_equals = true, action = ArgAction::Set
    )]
    pub authentication_tolerate_lookup_failure: bool,

    /// How long answers to TokenReviews are remembered.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = flags::duration)]
    pub authentication_token_webhook_cache_ttl: Duration,

    /// Kubeconfig for SubjectAccessReviews. Default: the host's own connection.
    #[arg(long, value_name = "FILE")]
    pub authorization_kubeconfig: Option<PathBuf>,

    /// Paths that everybody may read. `*` at the end matches every continuation.
    #[arg(
        long, value_name = "LIST", value_delimiter = ',', default_value = "/healthz,/readyz,/livez",
        value_parser = flags::allowed_path
    )]
    pub authorization_always_allow_paths: Vec<String>,

    /// How long permissions are remembered.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = flags::duration)]
    pub authorization_webhook_cache_authorized_ttl: Duration,

    /// How long refusals are remembered.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = flags::duration)]
    pub authorization_webhook_cache_unauthorized_ttl: Duration,

    /// Authorities of clients' certificates, in PEM. A client's common name is its user, its organizations are its groups.
    #[arg(long, value_name = "FILE")]
    pub client_ca_file: Option<PathBuf>,

    /// Authorities of front proxies' certificates, in PEM. A front proxy passes on users in headers.
    #[arg(long, value_name = "FILE")]
    pub requestheader_client_ca_file: Option<PathBuf>,

    /// Common names of front proxies; any by default.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub requestheader_allowed_names: Vec<String>,

    /// Headers with the name of the user.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "x-remote-user", value_parser = flags::header)]
    pub requestheader_username_headers: Vec<String>,

    /// Headers with the uid of the user; none by default.
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = flags::header)]
    pub requestheader_uid_headers: Vec<String>,

    /// Headers with the groups of the user.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "x-remote-group", value_parser = flags::header)]
    pub requestheader_group_headers: Vec<String>,

    /// Beginnings of the names of headers with other facts about the user.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "x-remote-extra-", value_parser = flags::header)]
    pub requestheader_extra_headers_prefix: Vec<String>,

    /// Metrics that are not served, by their names, for example `workqueue_depth`.
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = flags::metric)]
    pub disabled_metrics: Vec<String>,

    /// Has no effect: no metric is hidden. Only the previous version of Kubernetes is valid.
    #[arg(long, value_name = "VERSION", value_parser = flags::previous_version)]
    pub show_hidden_metrics_for_version: Option<String>,

    /// `false` only: there are no profiling endpoints.
    #[arg(
        long, value_name = "BOOL", default_value = "false", default_missing_value = "true", num_args = 0..=1,
        require_equals = true, value_parser = flags::no_profiling
    )]
    pub profiling: bool,

    /// `false` only: there are no profiling endpoints.
    #[arg(
        long, value_name = "BOOL", default_value = "false", default_missing_value = "true", num_args = 0..=1,
        require_equals = true, value_parser = flags::no_profiling
    )]
    pub contention_profiling: bool,
}

impl ServeArgs {
    /// Paths that need no authorization.
    pub(crate) fn always_allowed(&self) -> AllowedPaths {
        // Each path was parsed before.
        AllowedPaths::new(self.authorization_always_allow_paths.iter().map(String::as_str)).unwrap_or_default()
    }
}
