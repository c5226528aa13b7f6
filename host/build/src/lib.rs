//! Makes components of plugins that are written in Rust.
//!
//! *Flow*: a folder with `manifest.yaml` and `Cargo.toml` -> core module (cargo) -> component, with the manifest in it.
//!
//! *Not here*: which folders, and where the components go (`cargo xtask guests`, `pintle dev --plugin`).

mod component;
pub mod inputs;
pub mod process;
pub mod section;
mod toolchain;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};

pub use component::{assemble, manifest_json};
pub use toolchain::{Compiling, compile};

/// A component that was just built.
#[derive(Clone, Debug)]
pub struct Built {
    /// Name of the plugin.
    pub name: String,
    /// The component.
    pub bytes: Vec<u8>,
}

/// Packages of a workspace.
#[derive(Clone, Debug)]
pub struct Packages {
    /// Path of `Cargo.toml` -> name of the package.
    pub by_manifest: BTreeMap<PathBuf, String>,
    /// The workspace's folder.
    pub root: PathBuf,
    /// Its target folder.
    pub target: PathBuf,
}

/// Asks cargo for the packages of the workspace that a folder is in.
///
/// # Errors
/// If there is none, or its manifest is wrong.
pub fn packages(folder: &Path) -> anyhow::Result<Packages> {
    let mut cargo = process::cargo(folder);
    cargo.args(["metadata", "--no-deps", "--format-version", "1"]);
    let metadata: serde_json::Value = serde_json::from_str(&process::output(&mut cargo)?)?;
    let packages = metadata["packages"].as_array().cloned().unwrap_or_default();
    ensure!(!packages.is_empty(), "{} holds no packages", folder.display());
    let path = |name: &str| PathBuf::from(metadata[name].as_str().unwrap_or_default());
    let package = |package: &serde_json::Value| {
        Some((package["manifest_path"].as_str()?.into(), package["name"].as_str()?.to_owned()))
    };
    Ok(Packages {
        by_manifest: packages.iter().filter_map(package).collect(),
        root: path("workspace_root"),
        target: path("target_directory"),
    })
}

/// The file that cargo makes of a package.
pub fn file_of(package: &str) -> String {
    format!("{}.wasm", package.replace('-', "_"))
}

/// Builds the plugin of one folder, in the target folder of its workspace. What cargo says goes to standard error.
///
/// # Errors
/// If there is no compiler for the target, the plugin does not compile, or its manifest is wrong.
pub fn plugin(folder: &Path) -> anyhow::Result<Built> {
    let folder = folder.canonicalize().with_context(|| format!("read {}", folder.display()))?;
    let (manifest, name) = manifest_json(&folder.join("manifest.yaml"))?;
    let packages = packages(&folder)?;
    let package = packages.by_manifest.get(&folder.join("Cargo.toml"));
    let package = package.with_context(|| format!("{} holds no package of its own", folder.display()))?;
    let how = Compiling { work: &packages.target, sources: (&packages.root, &name), install: false };
    let module = compile(&folder, &[package], &how)?.join(file_of(package));
    let core = std::fs::read(&module)
        .with_context(|| format!("read {} (is crate-type of {package} [\"cdylib\"]?)", module.display()))?;
    let bytes = assemble(&core, &manifest).with_context(|| format!("make a component of {}", folder.display()))?;
    Ok(Built { name, bytes })
}
