//! The ResourceQuota controller: counts the usage of ResourceQuotas by the objects of their namespace, and writes it to
//! their status. The API server admits objects by this status, and adds admitted objects to it.
//!
//! *Flow*: key of a ResourceQuota -> usage of the objects of each kind (`plugin_quota`) -> update of the status, if it
//! differs.
//!
//! | queue | quotas |
//! | --- | --- |
//! | `resourcequota_primary` | possibly with less usage: an object was deleted or has ended; all, every five minutes |
//! | `resourcequota_priority` | new and changed ones: a quota without its status limits nothing |
//! | `resource_quota_controller_resource_changes` | possibly with more usage: an object was created |
//!
//! *Invariants*
//! 1. A status write carries the resourceVersion of the quota that was read, so that it cannot undo a later count of
//!    the API server.
//! 2. The API server counts an object before it creates it. A run in between sees the count without the object, and
//!    reduces the count. A run after the creation counts the object again; such a run never reduces a count. When no
//!    more changes follow, no count is too low.
//! 3. A resource that cannot be counted, because no kind has its name or an object does not fit its type, keeps its
//!    value.
//!
//! *Source*: Kubernetes' `pkg/controller/resourcequota`, and `DefaultUpdateFilter` of `pkg/quota/v1/install`. All 16
//! rows of `TestSyncResourceQuota` (`resource_quota_controller_test.go`) are cases; instead of a list that fails, they
//! have a Pod that does not fit its type. The rows of `TestAddQuota` are a story of `plugins/tests`. The rest is about
//! the discovery of kinds, which is the host's.
//!
//! *Not as upstream*
//! - Upstream runs no quota after a creation, so that a reduced count (invariant 2) stays until the next full count.
//! - A deletion runs each quota of the namespace, after a tenth of a second in which others may follow. Upstream runs
//!   those that limit the deleted kind.
//! - A quota that limits nothing is not written. Upstream sends an update without changes in each run.

mod queue;
mod reconcile;
mod types;
mod usage;

pub use queue::keys_of;
pub use reconcile::reconcile;

pintle_sdk::export!(reconcile, mapping = keys_of);
