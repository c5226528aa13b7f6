//! The Pod garbage collector: deletes Pods that no other controller deletes. A tick checks all of them every 20
//! seconds:
//!
//! | pass | Pods | reason in the metrics |
//! | --- | --- | --- |
//! | 1 | ended ones, the oldest beyond a threshold, evicted ones first | `terminated` |
//! | 2 | terminating ones on Nodes that are not ready and have the taint `out-of-service` | `out-of-service` |
//! | 3 | those on Nodes that have been missing for 40 seconds, and are missing at the API server | `orphaned` |
//! | 4 | terminating ones without a Node | `unscheduled` |
//!
//! A Pod that has not ended is set to Failed first, so that its owner counts it.
//!
//! *Source*: Kubernetes' `pkg/controller/podgc`. All 25 rows of `gc_controller_test.go` are cases, named after their test and number:
//! `TestGCTerminated` 8, `TestGCOrphaned` 11, `TestGCUnscheduledTerminating` 2, `TestGCTerminating` 3,
//! `TestGCInspectingPatchedPodBeforeDeletion` 1. It differs in three ways:
//! - a Pod found by two passes is deleted by the first one, and counted once; upstream's second deletion fails with
//!   `NotFound`;
//! - deletions carry the uid, so that a later Pod of the same name survives;
//! - a run deletes at most 5,000 Pods, and the next one follows immediately.

mod doomed;
mod quarantine;
mod reconcile;
mod types;

pub use reconcile::reconcile;

pintle_sdk::export!(reconcile);
