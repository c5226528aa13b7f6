//! What operators see of plugins: what a component is and requests, the RBAC roles for it, and a run that failed, as a case.
//!
//! ```text
//! component ──> inspected   what it watches and writes, and its ControllerPlugin
//! manifests ──> rbac        roles for what they request
//! failed run ─> cases       what the run saw, in the form of `pintle test`
//! ```
//!
//! *Not here*: anything that only authors use (`pintle-author`), and the arguments of commands (`host/src`).

pub mod cases;
mod inspected;
mod outside;
pub mod rbac;

pub use self::inspected::{Inspected, Resource};
