//! Kubernetes' objects, as far as controllers read them.
//!
//! The types are partial: a field that no controller here needs is not decoded, which is most of the cost of a read.
//! So they must not be written back as a whole; see [`Document`](crate::document::Document) and patches.
//! Every field may be missing (a projection leaves out what the manifest does not name) and then has its zero value.
//!
//! For a kind of your own, derive `Deserialize` with `#[serde(default, rename_all = "camelCase")]` and use
//! [`resource!`](crate::resource).

pub mod apps;
pub mod core;
pub mod meta;
