//! The one place where bytes become machine code.

#![allow(unsafe_code, reason = "wasmtime cannot tell whether serialized code was made by itself; the caller can")]

use std::path::Path;

use wasmtime::Engine;
use wasmtime::component::Component;

/// Maps compiled code: what is never run takes no memory, and hosts on one machine share the rest. wasmtime checks that it is for
/// this version, these settings and this machine, but not the code itself.
pub(super) fn component(engine: &Engine, compiled: &Path) -> wasmtime::Result<Component> {
    // SAFETY: the bytes must come from `Component::serialize`, and must not change while they are mapped. The file is in a folder that
    // only this user can write to, where only this crate puts files. The caller has compared its digest with the one recorded when
    // it was written. It is put there as a whole by a rename, and never written again.
    unsafe { Component::deserialize_file(engine, compiled) }
}
