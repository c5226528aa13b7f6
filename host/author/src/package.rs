//! `pintle build` and `pintle package`: components as files.

use std::path::Path;

use anyhow::Context as _;
use pintle_build::{Built, Project};
use pintle_wasm::Inspection;

/// Builds a plugin, and looks at the component as a host does that loads it.
///
/// # Errors
/// It does not build, or no host would load what was built.
pub fn component(project: &Project) -> anyhow::Result<Built> {
    let built = pintle_build::build(project)?;
    pintle_wasm::inspect(&built.name, &built.bytes)?;
    Ok(built)
}

/// Writes the component of a plugin's folder, which is built, or of a component file, to a file.
///
/// # Errors
/// It does not build, no host would load it, or a file cannot be read or written.
pub fn package(plugin: &Path, output: &Path) -> anyhow::Result<Inspection> {
    let shown = plugin.display().to_string();
    let bytes = if plugin.is_dir() {
        component(&Project::open(plugin, None)?)?.bytes
    } else {
        std::fs::read(plugin).with_context(|| format!("read {shown}"))?
    };
    let found = pintle_wasm::inspect(&shown, &bytes)?;
    write(output, &bytes)?;
    Ok(found)
}

/// Writes a file. It appears whole or not at all: a host may be watching it.
///
/// # Errors
/// It cannot be written.
pub fn write(file: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let in_file = || format!("write {}", file.display());
    let mut whole = tempfile::Builder::new().prefix(".pintle-").tempfile_in(folder).with_context(in_file)?;
    std::io::Write::write_all(&mut whole, bytes).with_context(in_file)?;
    // A temporary file is its owner's alone.
    let readable = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    whole.as_file().set_permissions(readable).with_context(in_file)?;
    whole.persist(file).with_context(in_file)?;
    Ok(())
}
