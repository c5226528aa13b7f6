//! The only place where bytes become machine code.

#![allow(unsafe_code, reason = "wasmtime cannot verify that it serialized the code; the caller can")]

use std::path::Path;

use wasmtime::Engine;
use wasmtime::component::Component;

/// Maps compiled code: pages that never run take no memory, and hosts on one machine share the rest. wasmtime checks
/// that the code is for this version, these settings and this machine, but not the code itself.
pub(super) fn component(engine: &Engine, compiled: &Path) -> wasmtime::Result<Component> {
    // SAFETY: the bytes must come from `Component::serialize` and must not change while they are mapped. The folder and
    // the file belong to this user and are writable only for it, and only this crate writes files to it. The path leads
    // to the file that the caller holds open, whose digest it has compared with the one recorded at the write. A rename
    // creates the file as a whole, and it never changes later.
    unsafe { Component::deserialize_file(engine, compiled) }
}
