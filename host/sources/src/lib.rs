//! Plugin sources: the origins of a running host's plugins.
//!
//! ```text
//! admin    (Unix socket, HTTP) ──┐
//! folder   (NAME.wasm)         ──┼──> control ──> manager of pintle-runtime
//! resource (ControllerPlugin)  ──┘
//! ```
//!
//! [`plugin_sources`] opens all three. [`wire`] has the JSON types of the admin API, for both of its ends.
//!
//! Invariants:
//! 1. [`control`] decides which source owns a name, and whether a component may run: no source bypasses it.
//! 2. A failing source leaves running plugins unchanged.
//!
//! Not here: the components that a host starts with, and the admin API client (`pintle-client`).

pub mod admin;
mod claims;
pub mod control;
mod controller;
mod file_work;
pub mod folder;
mod followed;
pub mod plugin_sources;
pub mod resource;
pub mod wire;

pub use self::claims::Claims;
pub use self::followed::{FollowedFile, MAX_SETTING_BYTES, read_setting};
pub use self::plugin_sources::{Options, PluginSources, Running, apply_crd, install_crd};
pub use self::resource::Signature;
