//! Builds plugins and test guests into components.
//!
//! *Flow*: a folder with `manifest.yaml` and `Cargo.toml` -> core module (cargo) -> component (`pintle-build`)
//! -> `target/plugins/<name of the plugin>.wasm`, or `target/guests/<name of the folder>.wasm`.
//!
//! *Invariants*
//! 1. A component with unchanged inputs is not built again: a digest of them is stored next to it (`.inputs`).
//! 2. Concurrent calls, also of several processes, wait for each other.
//! 3. A component appears under its name atomically.
//!
//! A folder without `manifest.yaml` is a library that the others may share.

mod inputs;

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use pintle_build::{Compiling, compile as compile_packages, packages};

pub use pintle_build::{assemble, manifest_json};

/// A set of components.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Set {
    /// `plugins/*`, to `target/plugins`.
    Plugins,
    /// `tests/guests/*`, to `target/guests`.
    TestGuests,
}

impl Set {
    fn sources(self) -> PathBuf {
        crate::root().join(match self {
            Self::Plugins => "plugins",
            Self::TestGuests => "tests/guests",
        })
    }

    /// Folder of the built components.
    pub fn output(self) -> PathBuf {
        crate::root().join(match self {
            Self::Plugins => "target/plugins",
            Self::TestGuests => "target/guests",
        })
    }
}

/// A built component.
#[derive(Clone, Debug)]
pub struct Component {
    /// Name of the plugin; for test guests, of the folder.
    pub name: String,
    /// The file.
    pub path: PathBuf,
    /// Whether this call built it.
    pub rebuilt: bool,
}

/// The folder of a component.
pub(crate) struct Source {
    pub(crate) folder: PathBuf,
    folder_name: String,
    /// Stem of the output file.
    pub(crate) name: String,
    /// As JSON.
    pub(crate) manifest: Vec<u8>,
}

/// Builds every component of a set with changed inputs, and removes those without a source.
///
/// # Errors
/// If there is no toolchain, a guest does not compile, or a manifest is invalid.
pub fn build(set: Set) -> anyhow::Result<Vec<Component>> {
    build_named(&[set], &[])
}

/// As [`build`], for several sets and only the named components (all, if no name is given).
///
/// # Errors
/// As for [`build`]; also if a name is unknown.
pub fn build_named(sets: &[Set], names: &[String]) -> anyhow::Result<Vec<Component>> {
    let work = crate::root().join("target/wasm");
    fs::create_dir_all(&work).with_context(|| format!("create {}", work.display()))?;
    let lock = File::create(work.join(".lock")).context("create the lock of the guest build")?;
    lock.lock().context("lock the guest build")?;

    let mut found = Vec::new();
    for set in sets {
        found.push((*set, sources(*set)?));
    }
    for name in names {
        let known = |source: &Source| source.folder_name == *name || source.name == *name;
        if !found.iter().any(|(_, sources)| sources.iter().any(known)) {
            let all = found.iter().flat_map(|(_, sources)| sources).map(|source| source.folder_name.as_str());
            bail!("no guest is called {name:?}; there are {}", all.collect::<Vec<_>>().join(", "));
        }
    }
    let mut built = Vec::new();
    for (set, mut sources) in found {
        if names.is_empty() {
            remove_others(&set.output(), &sources)?;
        } else {
            sources.retain(|source| names.contains(&source.folder_name) || names.contains(&source.name));
        }
        built.extend(build_set(set, &sources, &work)?);
    }
    Ok(built)
}

pub(crate) fn sources(set: Set) -> anyhow::Result<Vec<Source>> {
    let mut sources = Vec::new();
    let folder = set.sources();
    let Ok(entries) = fs::read_dir(&folder) else { return Ok(sources) };
    for entry in entries {
        let folder = entry.with_context(|| format!("read {}", folder.display()))?.path();
        let manifest = folder.join("manifest.yaml");
        if !folder.join("Cargo.toml").is_file() || !manifest.is_file() {
            continue;
        }
        let folder_name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let (manifest, name) = manifest_json(&manifest)?;
        let name = if set == Set::Plugins { name } else { folder_name.clone() };
        sources.push(Source { folder, folder_name, name, manifest });
    }
    sources.sort_by(|a, b| a.name.cmp(&b.name));
    if let Some(pair) = sources.windows(2).find(|pair| pair[0].name == pair[1].name) {
        bail!("{} and {} have manifests of the same name", pair[0].folder.display(), pair[1].folder.display());
    }
    Ok(sources)
}

/// Removes output of earlier builds of renamed or removed plugins.
fn remove_others(output: &Path, sources: &[Source]) -> anyhow::Result<()> {
    let Ok(entries) = fs::read_dir(output) else { return Ok(()) };
    for entry in entries {
        let path = entry?.path();
        let ours = path.extension().is_some_and(|e| e == "wasm" || e == "inputs");
        let wanted = sources.iter().any(|source| path.file_stem().is_some_and(|stem| stem == source.name.as_str()));
        if ours && !wanted {
            fs::remove_file(&path).with_context(|| format!("remove {}", path.display()))?;
        }
    }
    Ok(())
}

fn build_set(set: Set, sources: &[Source], work: &Path) -> anyhow::Result<Vec<Component>> {
    let output = set.output();
    fs::create_dir_all(&output).with_context(|| format!("create {}", output.display()))?;
    let shared = inputs::shared(&set.sources())?;
    let mut digests = Vec::new();
    let mut components = Vec::new();
    for source in sources {
        let digest = inputs::of_guest(&shared, &source.folder)?;
        let path = output.join(&source.name).with_extension("wasm");
        let recorded = fs::read_to_string(path.with_extension("inputs")).unwrap_or_default();
        let rebuilt = !path.exists() || recorded != inputs::with_lock(&digest, &set.sources());
        digests.push(digest);
        components.push(Component { name: source.name.clone(), path, rebuilt });
    }
    let stale: Vec<usize> = (0..sources.len()).filter(|i| components[*i].rebuilt).collect();
    if stale.is_empty() {
        return Ok(components);
    }

    let modules = compile(set, stale.iter().map(|i| &sources[*i]), work)?;
    for (i, core) in stale.into_iter().zip(modules) {
        let bytes = assemble(&core, &sources[i].manifest)
            .with_context(|| format!("make a component of {}", sources[i].folder.display()))?;
        write_whole(&components[i].path, &bytes)?;
        // Cargo may have just written the lock file.
        let digest = inputs::with_lock(&digests[i], &set.sources());
        write_whole(&components[i].path.with_extension("inputs"), digest.as_bytes())?;
    }
    Ok(components)
}

/// The core modules of these guests, in order.
fn compile<'s>(set: Set, sources: impl Iterator<Item = &'s Source>, work: &Path) -> anyhow::Result<Vec<Vec<u8>>> {
    let sources: Vec<&Source> = sources.collect();
    let packages = packages(&set.sources())?.by_manifest;
    let package = |source: &Source| {
        let found = packages.get(&source.folder.join("Cargo.toml"));
        found.with_context(|| format!("{} is not a package of its workspace", source.folder.display()))
    };
    let names = sources.iter().map(|source| Ok(package(source)?.as_str())).collect::<anyhow::Result<Vec<_>>>()?;
    // One folder for all guest workspaces, so that the library and common dependencies are built once.
    let how = Compiling { work, sources: (&crate::root(), "pintle"), install: true };
    let modules = compile_packages(&set.sources(), &names, &how)?;
    let read = |source: &Source| {
        let module = modules.join(pintle_build::file_of(package(source)?));
        fs::read(&module).with_context(|| {
            format!("read {} (is crate-type of {} [\"cdylib\"]?)", module.display(), source.folder.display())
        })
    };
    sources.iter().map(|source| read(source)).collect()
}

fn write_whole(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let partial = path.with_extension("partial");
    fs::write(&partial, bytes).with_context(|| format!("write {}", partial.display()))?;
    fs::rename(&partial, path).with_context(|| format!("write {}", path.display()))
}
