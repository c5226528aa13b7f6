//! Creates the PersistentVolumeClaims of ephemeral volumes, with the Pod as their owner.
//!
//! *Source*: Kubernetes' `pkg/controller/volume/ephemeral`, and `storage/ephemeral` of component-helpers. All seven rows of
//! `controller_test.go` are cases, named after them; the row `create-conflict`, whose request fails, is the scenario of a quota too,
//! as a case shows only what a run wants.
//!
//! It differs in one way: upstream reports a claim that belongs to somebody else without a request. Here the request is sent, with
//! that event for its refusal: so the key fails and is tried again with a backoff, and the API server decides if the claim has gone
//! meanwhile.

mod reconcile;
mod types;

pub use reconcile::{keys_of, reconcile};

pintle_sdk::export!(reconcile, mapping = keys_of);
