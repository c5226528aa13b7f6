//! The one place where bytes become machine code.

#![allow(unsafe_code, reason = "wasmtime cannot tell whether serialized code was made by itself; the caller can")]

use wasmtime::Engine;
use wasmtime::component::Component;

/// Loads compiled code. wasmtime checks that it is for this version, these settings and this machine, but not the code itself.
pub(super) fn component(engine: &Engine, compiled: &[u8]) -> wasmtime::Result<Component> {
    // SAFETY: the bytes must come from `Component::serialize`. The caller read them from a folder that only this user can
    // write to, where only this crate puts files, and compared their digest with the one recorded when they were written.
    unsafe { Component::deserialize(engine, compiled) }
}
