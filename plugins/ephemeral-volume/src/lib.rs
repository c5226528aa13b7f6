//! The ephemeral volume controller: creates the PersistentVolumeClaims of ephemeral volumes, with the Pod as their
//! owner.
//!
//! *Source*: Kubernetes' `pkg/controller/volume/ephemeral`, and `storage/ephemeral` of component-helpers. All seven
//! rows of `controller_test.go` are cases, named after them; the row `create-conflict`, whose request fails, is also a
//! quota scenario, because a case shows only the requested writes.
//!
//! One difference: upstream reports a claim of another owner without a request. Here the request is sent, and its
//! failure records that event: the key fails and is retried with backoff, and the API server decides whether the claim
//! has been deleted in the meantime.

mod reconcile;
mod types;

pub use reconcile::{keys_of, reconcile};

pintle_sdk::export!(reconcile, mapping = keys_of);
