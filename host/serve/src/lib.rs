//! The HTTPS port of a host: probes, metrics, and pages for operators, with the paths and formats of kube-controller-manager.
//!
//! ```text
//! connection ──> listener (bounds) ──> TLS ──> site ──> access: who is it, and may it? ──> checks, pages
//!                                       │                  └─ TokenReview, SubjectAccessReview (remembered)
//!                                       └─ certificates and authorities from files that may change
//! ```
//!
//! Invariants:
//! 1. Without permission nothing is served, except on the paths that are always allowed.
//! 2. Everything that a client can make large or slow is bounded: connections, headers, handshakes, idle time, reviews,
//!    pages.
//! 3. Probes never wait for reviews or pages.
//!
//! Not here: decisions without I/O ([`policy`]), requests to the API server (`pintle-kube`), contents of pages.
//!
//! Source: k8s.io/apiserver/pkg/server (secure serving, delegated authentication and authorization), k8s.io/controller-manager/app/serve.go.

mod access;
mod certificates;
mod checks;
mod clients;
mod listener;
mod options;
pub mod page;
pub mod policy;
mod quiet;
mod site;
mod tls;

pub use self::access::{Access, AccessOptions};
pub use self::certificates::TlsError;
pub use self::checks::{Check, Checks, Controllers};
pub use self::listener::{Bind, Server};
pub use self::options::{cipher_suites, curves, min_version};
pub use self::site::{About, Pages, Scope, Site};
pub use self::tls::{CertificateSource, ClientAuthorities, Tls, TlsOptions};
