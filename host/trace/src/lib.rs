//! Traces of runs over OTLP: the only user of OpenTelemetry.
//!
//! ```text
//! runtime ──TracedRun──> spans ──bounded queue──> batches (a thread of the SDK) ──gRPC──> collector
//!                                  └── full: dropped and counted        └── failed: dropped, counted and logged once
//! ```
//!
//! *Invariants*:
//! 1. [`RunTracer`](pintle_core::ports::trace::RunTracer) never waits: spans that do not fit into the queue are
//!    dropped.
//! 2. A run is exported with all its spans or not at all.
//! 3. At most [`MAX_QUEUE`] spans are in memory. Their texts are bounded, in one line and printable.
//! 4. Spans contain no content of objects, no messages of an API server and no text of plugins;
//!    `pintle_core::ports::trace` has none.
//!
//! Not here: recording a run (`pintle-runtime`'s `traces`), flags (`pintle`).
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
