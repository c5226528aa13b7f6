//! Pintle: wasm.
