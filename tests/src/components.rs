//! Components for tests: those of the plugins and of `tests/guests`, and the same with another manifest.

use anyhow::{Context, Result};
pub use pintle_build::section::{manifest_of, with_manifest};
use xtask::guests::{self, Set};

/// The component of a built-in plugin, by its name.
///
/// # Errors
/// There is none, or the plugins do not build.
pub fn plugin(name: &str) -> Result<Vec<u8>> {
    read(Set::Plugins, name)
}

/// The component of a folder of `tests/guests`.
///
/// # Errors
/// There is none, or the guests do not build.
pub fn guest(folder: &str) -> Result<Vec<u8>> {
    read(Set::TestGuests, folder)
}

fn read(set: Set, name: &str) -> Result<Vec<u8>> {
    let built = guests::build(set)?;
    let path =
        built.iter().map(|component| &component.path).find(|path| path.file_stem().is_some_and(|stem| stem == name));
    let path = path.with_context(|| format!("there is no component {name:?}"))?;
    std::fs::read(path).with_context(|| format!("read {}", path.display()))
}
