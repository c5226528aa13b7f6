//! The ServiceCIDR controller: sets the condition `Ready`, and protects ServiceCIDRs with the finalizer
//! `networking.k8s.io/service-cidr-finalizer`, until no Service has an address that only they contain.
//!
//! *Flow*: key of a ServiceCIDR -> is an address in no other one? -> patches of the finalizer and the condition.
//!
//! *Invariant*: the finalizer stays for ten seconds after the deletion began. API servers that have not seen the
//! deletion may allocate addresses of the range until then.
//!
//! *Source*: Kubernetes' `pkg/controller/servicecidrs`. Of `servicecidrs_controller_test.go`, all 13 rows of
//! `TestControllerSync` and 10 of 11 rows of `TestController_canDeleteCIDR` are cases; in the other one, the
//! ServiceCIDR is not in the cache. The rest is about the mapping of changes to keys: here an address enqueues all
//! ServiceCIDRs, upstream those whose range contains it.

mod reconcile;
mod types;

pub use reconcile::reconcile;

pintle_sdk::export!(reconcile);
