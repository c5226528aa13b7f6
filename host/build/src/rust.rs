//! Rust: cargo builds a core module that declares its WIT world.

use anyhow::{Context, ensure};

use crate::project::Project;
use crate::toolchain::{Compiling, compile};
use crate::{assemble, check, file_of, packages, process};

/// Builds the plugin in the target folder of its workspace.
pub(crate) fn build(project: &Project) -> anyhow::Result<Vec<u8>> {
    let folder = &project.folder;
    let there = process::succeeds(process::cargo(folder).arg("--version"));
    ensure!(there, "there is no cargo: install Rust (https://rustup.rs) and put it on PATH");
    let packages = packages(folder)?;
    let package = packages.by_manifest.get(&folder.join("Cargo.toml"));
    let package = package.with_context(|| format!("{} defines no package", folder.display()))?;
    let how = Compiling { work: &packages.target, sources: (&packages.root, &project.name), install: false };
    let module = compile(folder, &[package], &how)?.join(file_of(package));
    let core = std::fs::read(&module)
        .with_context(|| format!("read {} (is crate-type of {package} [\"cdylib\"]?)", module.display()))?;
    check::module(&core, project.language)?;
    assemble(&core, &project.manifest).with_context(|| format!("make a component of {}", folder.display()))
}
