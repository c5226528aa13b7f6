//! The token controller: fills Secrets of the type `kubernetes.io/service-account-token` with a token that does not
//! expire, the certificate authority of the API server, and the namespace. It deletes them with their ServiceAccounts,
//! and removes deleted ones from `secrets` of the ServiceAccount.
//!
//! | file | contents | upstream |
//! | --- | --- | --- |
//! | `reconcile.rs` | the changes for one Secret | `syncSecret`, `syncServiceAccount` |
//! | `populate.rs` | the data of a Secret | `generateTokenIfNeeded` |
//! | `references.rs` | the owner of a deleted Secret, and its reference | `removeSecretReference` |
//!
//! *Invariants*
//! 1. The signing key stays in the host, which signs claims (`sign-jwt`).
//! 2. Before a Secret is written, it is read from the API server. Before it is deleted, the API server confirms that
//!    its ServiceAccount does not exist.
//!
//! *Source*: Kubernetes' `pkg/controller/serviceaccount/tokens_controller.go`, and `LegacyClaims` of
//! `pkg/serviceaccount/legacy.go`. The rows of `TestTokenCreation` (`tokens_controller_test.go`) are cases, except
//! those that add or change a ServiceAccount, which run no key here. Three differences:
//! - a change of a ServiceAccount runs the keys of its tokens, so that there is one queue instead of two with one
//!   label. The ServiceAccount is read from the API server again;
//! - the owner of a Secret is stored under the Secret's name. In upstream, it is part of the key;
//! - a token that could not be signed, and a reference that could not be removed, are retried like other failures.

mod populate;
mod reconcile;
mod references;
mod types;

pub use reconcile::reconcile;

pintle_sdk::export!(reconcile);
