//! The legacy token cleaner: a daily tick deletes unused tokens of ServiceAccounts that previous versions of Kubernetes
//! generated.
//!
//! *Flow*: a token in `secrets` of its ServiceAccount, without a Pod that refers to it, and unused for the period ->
//! the label `kubernetes.io/legacy-token-invalid-since`, with which the API server rejects the token -> a deletion, a
//! period later.
//!
//! *Invariants*
//! 1. Nothing is written until the API server has tracked uses for the whole period, since the day in the ConfigMap
//!    `kube-apiserver-legacy-service-account-token-tracking`.
//! 2. A deletion has the resourceVersion as a condition: any change since the read, such as a use, is a conflict.
//!
//! *Source*: Kubernetes' `pkg/controller/serviceaccount/legacy_serviceaccount_token_cleaner.go`, and
//! `VisitPodSecretNames` of `pkg/api/v1/pod/util.go`. All 21 rows of `TestLegacyServiceAccountTokenCleanUp`
//! (`legacy_serviceaccount_token_cleaner_test.go`) are cases.

mod days;
mod pods;
mod reconcile;
mod types;

pub use reconcile::reconcile;

pintle_sdk::export!(reconcile);
