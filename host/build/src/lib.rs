//! Builds plugins, in any supported language, into components.
//!
//! *Flow*: a folder with `manifest.yaml` and sources -> its language -> that language's tools -> a component that
//! includes the manifest and imports only the contract. Rust and Go build core modules, which are wrapped here; the
//! tools of the others build components.
//!
//! *Not here*: the folders to build, and where components are stored (`cargo xtask guests`, `pintle build`,
//! `pintle dev --plugin`).

pub mod check;
mod component;
mod contract;
pub mod crds;
mod go;
pub mod inputs;
mod js;
mod kept;
mod language;
pub mod process;
mod project;
mod pure;
mod python;
mod rust;
mod scaffold;
mod toolchain;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::ensure;

pub use component::{add_manifest, assemble, manifest_json};
pub use language::Language;
use pintle_core::contract::manifest::Manifest;
pub use pintle_core::contract::manifest::schema as manifest_schema;
pub use project::{Contract, Project};
pub use scaffold::{CustomKind, Scaffold};
pub use toolchain::{Compiling, compile};

/// A built component.
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

/// Reads the packages of a folder's workspace with cargo.
///
/// # Errors
/// If there is none, or its manifest is invalid.
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

/// The file name of a package's output.
pub fn file_of(package: &str) -> String {
    format!("{}.wasm", package.replace('-', "_"))
}

/// Builds the plugin of one folder, in any supported language. Compiler output goes to standard error.
///
/// # Errors
/// A tool is missing (the message names the installation), the plugin does not compile, its manifest is invalid, or the result is
/// not a component that a host accepts.
pub fn plugin(folder: &Path) -> anyhow::Result<Built> {
    build(&Project::open(folder, None)?)
}

/// As [`plugin`], for an opened folder.
///
/// # Errors
/// As for [`plugin`].
pub fn build(project: &Project) -> anyhow::Result<Built> {
    check::manifest(project)?;
    let manifest = Manifest::parse(&project.manifest)?;
    for warning in pure::warnings(&project.folder, project.language).into_iter().chain(check::unwatched(&manifest)) {
        eprintln!("{warning}");
    }
    let bytes = match project.language {
        Language::Rust => rust::build(project),
        Language::Go => go::build(project),
        Language::JavaScript | Language::TypeScript => js::build(project),
        Language::Python => python::build(project),
    }?;
    let version = project.contract()?.version()?;
    check::component(&bytes, project.language, project.world, &version)?;
    Ok(Built { name: project.name.clone(), bytes })
}
