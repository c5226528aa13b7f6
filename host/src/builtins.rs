//! The components that the binary carries.

/// File name (without `.wasm`) and bytes of each built-in component; see `build.rs`.
pub(crate) static BUILTINS: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/builtins.rs"));
