//! Tests of the sandbox with the components of `tests/guests`.

mod contract;
mod loading;
mod newest;
mod sandbox;
mod support;
mod wasi;
