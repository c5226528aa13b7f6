//! `pintle build`.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Context as _;
use pintle_build::{Built, Project};

use crate::cli::author::BuildArgs;
use crate::output;

pub(crate) fn build(args: &BuildArgs) -> anyhow::Result<()> {
    let begun = Instant::now();
    let project = Project::open(&args.folder, args.lang)?;
    let Built { name, bytes } = component(&project)?;
    let file = args.output.clone().unwrap_or_else(|| default_output(&args.folder, &name));
    write(&file, &bytes)?;
    let (language, size, took) = (project.language, bytes.len(), begun.elapsed());
    output::line(&format!("{}: {name}, {language}, {size} bytes, built in {:.1} s", file.display(), took.as_secs_f64()))
}

/// Builds a plugin, and looks at the component as a host does that loads it.
pub(super) fn component(project: &Project) -> anyhow::Result<Built> {
    let built = pintle_build::build(project)?;
    pintle_wasm::inspect(&built.name, &built.bytes)?;
    Ok(built)
}

/// `.` in front of a name says nothing.
fn default_output(folder: &Path, name: &str) -> PathBuf {
    folder.strip_prefix(".").unwrap_or(folder).join(format!("{name}.wasm"))
}

/// The file appears whole or not at all: a host may be watching it.
pub(super) fn write(file: &Path, bytes: &[u8]) -> anyhow::Result<()> {
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
