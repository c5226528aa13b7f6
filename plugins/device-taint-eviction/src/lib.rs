//! The device taint eviction controller: deletes Pods that use devices with `NoExecute` taints which their claims do not
//! tolerate, or tolerate for some time. It reports in the status of DeviceTaintRules what they evict.
//!
//! | queue | key | task |
//! | --- | --- | --- |
//! | `device-taint-eviction-controller` | Pod | [`pod`]: when is it evicted? Wait until then; mark and delete it |
//! | `device-taint-eviction-controller` | DeviceTaintRule | [`status`]: the condition `EvictionInProgress` |
//! | `device_taint_eviction_claims` | ResourceClaim | [`claims`]: run the Pods that use it, as taints of its devices changed |
//! | `device_taint_eviction_evicted` | Pod | [`evicted`]: count it for the rules that have evicted it |
//!
//! *Flow* of a Pod: its claims that are reserved for it ([`claims`]) -> taints of their devices, by slices and by rules, and
//! the tolerations of the allocation ([`taints`]) -> the earliest time -> the state -> condition and deletion.
//!
//! *Invariants*
//! 1. The time of eviction is that of the taint plus the tolerated time. It is computed once for each of these times, as
//!    time that is left; from then on the clock that nobody sets decides.
//! 2. The state of a Pod belongs to its uid. Its event and its deletion are about this uid.
//! 3. The status of a rule is written at most every ten seconds, unless its spec changes.
//!
//! *Source*: Kubernetes' `pkg/controller/devicetainteviction`. Of `device_taint_eviction_test.go`, the 55 rows of
//! `TestController`, the four of `TestEviction`, and the steps of `TestDeviceTaintRule`, `TestCancelEviction`,
//! `TestParallelPodDeletion` and `TestRetry` are cases, with the key of the Pod or the rule. Rows whose events change only
//! what is cached have the last state alone.
//!
//! *Not as upstream*
//! - Conditions are those of the cache; patch and deletion carry the uid. Upstream reads the Pod first. The event "Marking
//!   for deletion" follows the first write instead of preceding it.
//! - A Pod that is gone when it should be evicted is not counted as evicted by a rule.
//! - Upstream cancels and repeats an eviction, with events, for a slice that is replaced. Here a run sees the last state.
//! - A taint without `timeAdded`, which the API server always sets, evicts nobody.
//! - The transition time of a rule's condition may be in the future, if clocks differ. It then delays no update.
//! - DeviceTaintRules are those of `resource.k8s.io/v1`.

mod claims;
mod evicted;
mod pod;
mod reconcile;
mod status;
mod taints;
mod types;

pub use reconcile::reconcile;

pintle_sdk::export!(reconcile);
