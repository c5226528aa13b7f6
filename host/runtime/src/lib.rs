//! The tokio shell of the Pintle host: controllers, writes, events, metrics.
//!
//! ```text
//! ApiReader ──> caches ──changes──> controller (per plugin) ──> Guest
//!                                       └──> writer, recorder ──> ApiWriter
//! ```
//!
//! [`manager::Manager`] is the entry point. `pintle-core` contains all decisions.
//!
//! Not here: the API server (`pintle-kube`) and the sandbox (`pintle-wasm`); this crate uses only their traits in
//! `pintle-core`.

mod controller;
pub mod election;
pub mod failures;
mod large;
pub mod manager;
mod metrics;
pub mod overview;
mod reach;
mod readiness;
mod recorder;
mod throttle;
mod traces;
mod writer;

pub use large::beside_workers;
use pintle_cache::panic_text;
pub use throttle::retry_throttled;
pub use writer::denials;

/// Access to private items for the fuzz targets only.
#[doc(hidden)]
pub mod fuzzing {
    use crate::writer::edit::Members;

    /// Sets a member of an object and a member of its `metadata` to strings; returns the JSON text.
    ///
    /// # Errors
    /// If the text is not one object, or is ambiguous.
    pub fn with_metadata(text: &str, member: &str, value: &str, of_metadata: &str, to: &str) -> Result<String, String> {
        let mut members = Members::parse(text)?;
        members.set_string(member, value);
        members.edit("metadata", |metadata| metadata.set_string(of_metadata, to))?;
        Ok(members.text())
    }
}
