//! Build and test chores, as a library for `cargo xtask` and tests.

use std::path::{Path, PathBuf};

pub mod bindings;
pub mod cache;
pub mod controlplane;
pub mod docs;
pub mod embedded;
pub mod examples;
pub mod follow;
pub mod guests;
pub mod reference;
pub mod release;
pub mod schema;
pub mod toolchains;
pub mod tools;
pub mod tutorials;
pub mod upstream;

pub use pintle_build::process;

/// Root of the repository.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_path_buf()
}
