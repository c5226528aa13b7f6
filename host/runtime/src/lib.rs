//! The tokio shell of the Pintle host: shared caches, controllers, writes, events, metrics.
//!
//! ```text
//! ApiReader ──> caches ──changes──> controller (per plugin) ──> Guest
//!                                       └──> writer, recorder ──> ApiWriter
//! ```
//!
//! Everything is entered through [`manager::Manager`]. What decides without waiting is in `pintle-core`.
//!
//! Not here: the API server (`pintle-kube`), the sandbox (`pintle-wasm`); they are known by the traits of `pintle-core` only.

mod controller;
pub mod failures;
pub mod manager;
mod metrics;
mod recorder;
mod writer;

pub use writer::denials;

/// Ways to what is private, for the fuzz targets alone.
#[doc(hidden)]
pub mod fuzzing {
    use crate::writer::edit::Members;

    /// A text of an object in which a member, and one of its `metadata`, are set to strings.
    ///
    /// # Errors
    /// The text is not one object, or is ambiguous.
    pub fn with_metadata(text: &str, member: &str, value: &str, of_metadata: &str, to: &str) -> Result<String, String> {
        let mut members = Members::parse(text)?;
        members.set_string(member, value);
        members.edit("metadata", |metadata| metadata.set_string(of_metadata, to))?;
        Ok(members.text())
    }
}

/// What a panic said, for the log.
fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or_default()
}
