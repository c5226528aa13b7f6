//! The taint eviction controller: deletes Pods that do not tolerate the `NoExecute` taints of their Node, and those that
//! tolerate them for some time once that time has passed.
//!
//! *Flow*: key of a Pod -> how long may it stay on its Node ([`stay`])? -> a timer in the state -> the condition
//! `DisruptionTarget`, and the deletion. A change of a Node's taints runs all of its Pods.
//!
//! *Invariants*
//! 1. Time runs from the moment at which this host sees that a Pod may stay for some time, by the clock that nobody
//!    sets: a stepped wall clock evicts nobody, and after a take-over every Pod has its whole time again.
//! 2. A running timer is neither extended nor shortened; it is removed when the Pod may stay without end. A Pod that may
//!    not stay at all goes immediately.
//! 3. A timer belongs to a uid: a later Pod of the same name starts without it.
//!
//! *Source*: Kubernetes' `pkg/controller/tainteviction`. All rows and steps of the 12 tests of
//! `taint_eviction_test.go` are cases, named after their test; those of `timed_workers_test.go` are about Go's timers.
//!
//! *Not as upstream*
//! - Patch and deletion carry the uid, and the conditions are those of the cache. Upstream reads the Pod first.
//! - A deletion that fails is tried again until it succeeds. Upstream gives up after five tries within 50 ms.
//! - A Pod that this controller has marked, and that terminates, is not deleted again when other taints follow.
//! - When a Pod is replaced by another one with its name, its timer is cancelled. Upstream keeps it if it sees both changes
//!   at once.
//! - Times do not wrap around: a Pod that tolerates a taint for more than 292 years stays.
//! - `taint_eviction_controller_pod_deletion_duration_seconds` is in seconds, up to the beginning of the writes. In
//!   Kubernetes 1.37, its values are a billion times as large.

mod reconcile;
mod stay;
mod timer;
mod types;

pub use reconcile::reconcile;

pintle_sdk::export!(reconcile);
