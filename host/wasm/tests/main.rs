//! Tests of the sandbox with the components of `tests/guests`.

mod contract;
mod loading;
mod next;
mod sandbox;
mod support;
mod wasi;
