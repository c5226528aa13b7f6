//! The horizontal Pod autoscaler: scales workloads by metrics of their Pods, of other objects, and from outside of the
//! cluster.
//!
//! *Flow*: the target's scale, and the metrics of its previous selector -> its selector and Pods -> the proposal of
//! each metric, the highest of which counts -> windows and limits -> the scale, then the status. A key runs once in a
//! period, and immediately when it is new or its spec changes.
//!
//! | file | subject | upstream |
//! | --- | --- | --- |
//! | `reconcile` | one run, and the desired replicas | `reconcileAutoscaler` |
//! | `context` | inputs and decisions of a run, and why it stops | |
//! | `scale` | the scale of the target, and changes of it | `scaleForResourceMappings` |
//! | `overlap` | the Pods of the target, and other autoscalers that share them | `hpa_selector_store.go` |
//! | `compute` | the proposal of each metric | `computeReplicasForMetrics` |
//! | `metrics` | requests for metrics | `metrics/client.go` |
//! | `replica_calculator` | from values to replicas | `replica_calculator.go` |
//! | `behavior` | windows and limits | `normalizeDesiredReplicas` |
//! | `memory`, `writes` | state between runs; writes and metrics of a run | |
//!
//! 1. A decision is always within the limits of the object.
//! 2. A change is stored as sent. The next run checks whether it failed: a conflict is retried immediately with the
//!    current scale, at most five times, any other failure is reported in the status. Only changes that did not fail
//!    count for the policies.
//! 3. User input never ends a run with an error, so that the key keeps running. Texts that cannot be part of a path are
//!    not requested.
//!
//! *Source*: Kubernetes' `pkg/controller/podautoscaler`, 1.37. Deliberate differences:
//! - without the feature gate `HPAGeneration`, the status has no generation; a change of the spec takes effect
//!   immediately nevertheless;
//! - for several autoscalers of the same Pods, the message names the current one and the first other one; upstream
//!   names any two;
//! - if an autoscaler is deleted during its run, the writes, which have its uid, end the run, not an error before them.

mod behavior;
mod compute;
mod context;
mod memory;
mod metrics;
mod overlap;
mod reconcile;
mod replica_calculator;
mod scale;
mod types;
mod writes;

pub use reconcile::reconcile;

pintle_sdk::export!(reconcile);
