//! Scales workloads by the metrics of their Pods, of other objects, and from outside of the cluster.
//!
//! *Flow*: the target's scale, and the metrics of the selector that it had before -> its selector and Pods -> what each metric asks for,
//! the most of which counts -> windows and limits -> the scale, then the status. A key runs once in a period, and at once when it is new
//! or its spec changes.
//!
//! | file | subject | upstream |
//! | --- | --- | --- |
//! | `reconcile` | one run, and how many replicas there should be | `reconcileAutoscaler` |
//! | `context` | what a run starts from and has decided so far, and why it stops | |
//! | `scale` | the scale of the target, and changes of it | `scaleForResourceMappings` |
//! | `overlap` | the Pods of the target, and other autoscalers that have them | `hpa_selector_store.go` |
//! | `compute` | what each metric asks for | `computeReplicasForMetrics` |
//! | `metrics` | requests for metrics | `metrics/client.go` |
//! | `replica_calculator` | from values to replicas | `replica_calculator.go` |
//! | `behavior` | windows and limits | `normalizeDesiredReplicas` |
//! | `memory`, `writes` | what is kept between runs, and what a run writes and counts | |
//!
//! 1. What is decided is never outside of the limits of the object.
//! 2. A change is remembered as sent. The next run learns whether it was refused: a conflict is repeated at once with the present scale,
//!    at most five times, any other refusal is reported in the status. Only what was not refused counts for the policies.
//! 3. Nothing that users write ends a run with an error, so that the key goes on. Texts that could not be part of a path are not asked for.
//!
//! *Source*: Kubernetes' `pkg/controller/podautoscaler`, 1.37. On purpose:
//! - without the feature gate `HPAGeneration`, the status has no generation; a change of the spec has its effect at once nevertheless;
//! - of two or more autoscalers of the same Pods, the text names the one that runs and the first other one; upstream names any two;
//! - an autoscaler that is deleted during its run ends it by its writes, which have its uid, and not by an error before them.

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
