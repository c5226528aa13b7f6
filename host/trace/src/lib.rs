//! Traces of runs over OTLP: the only user of OpenTelemetry.
//!
//! ```text
//! runtime ──TracedRun──> spans ──bounded queue──> batches (a thread of the SDK) ──gRPC──> collector
//!                                  └── full: dropped and counted        └── failed: dropped, counted and logged once
//! ```
//!
//! *Invariants*:
//! 1. [`RunTracer`](pintle_core::ports::trace::RunTracer) never waits: what does not fit into the queue is dropped.
//! 2. A run is exported with all its spans or not at all.
//! 3. At most [`MAX_QUEUE`] spans are in memory. Texts in them are bounded, in one line and printable.
//! 4. No content of an object, no message of an API server and no text of a plugin is in a span; `pintle_core::ports::trace` has none.
//!
//! Not here: what a run notes (`pintle-runtime`'s `traces`), flags (`pintle`).
//!
//! *Source*: names follow OpenTelemetry's semantic conventions where they have one (`http.*`, `error.type`, `url.path`, `service.*`,
//! `k8s.*`); sampling and defaults follow `TracingConfiguration` of kube-apiserver and kubelet.

mod endpoint;
mod export;
pub mod reference;
mod resource;
mod spans;
mod tracer;

pub use endpoint::{Endpoint, EndpointError};
pub use export::MAX_QUEUE;
pub use tracer::{OpenError, Tracer, TracerConfig};
