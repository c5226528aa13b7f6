//! The plugin under test: its component, and guests with fresh and reused instances.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow};
use pintle_build::Project;
use pintle_core::contract::manifest::{Instances, Manifest};
use pintle_core::ports::guest::Guest;
use pintle_wasm::{Inspection, WasmConfig, WasmEngine};
use serde_json::Value;

use crate::crds::{self, DIFF_LINES};

/// Compiled code of larger components from folders is cached for the next test: they contain a run-time library, which
/// rarely changes. Smaller ones compile faster than the cache file is read.
const KEPT_BYTES: usize = 1 << 20;

/// A built or loaded component.
pub(crate) struct Plugin {
    folder: Option<PathBuf>,
    origin: String,
    pub(crate) bytes: Vec<u8>,
    pub(crate) found: Inspection,
    /// How long the build took; absent for a file.
    pub(crate) built_in: Option<Duration>,
}

impl Plugin {
    /// Builds the plugin of a folder, or reads a component file.
    ///
    /// # Errors
    /// The plugin does not build, this host does not load the component, or the definitions differ from the types.
    pub(crate) fn open(path: &Path) -> anyhow::Result<Self> {
        let origin = path.display().to_string();
        let (bytes, folder, built_in) = if path.is_dir() {
            let started = Instant::now();
            let project = Project::open(path, None)?;
            crds::check(&project, DIFF_LINES)?;
            let built = pintle_build::build(&project)?;
            (built.bytes, Some(path.to_owned()), Some(started.elapsed()))
        } else {
            (std::fs::read(path).with_context(|| format!("read {origin}"))?, None, None)
        };
        let found = pintle_wasm::inspect(&origin, &bytes)?;
        Ok(Self { folder, origin, bytes, found, built_in })
    }

    /// The author's folder, if the plugin is one.
    pub(crate) fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    pub(crate) fn manifest(&self) -> &Arc<Manifest> {
        &self.found.manifest
    }

    /// The manifest in the component.
    pub(crate) fn raw_manifest(&self) -> Value {
        serde_json::to_value(&**self.manifest()).unwrap_or_default()
    }

    /// Compiles it.
    ///
    /// # Errors
    /// It does not load.
    pub(crate) fn guests(&self) -> anyhow::Result<Guests> {
        let cache = cache_folder().filter(|_| is_kept(self.folder.is_some(), self.bytes.len()));
        let engine = engine(cache)?;
        let guests = engine.load_each(&self.origin, &self.bytes, &[Instances::Fresh, Instances::Pooled])?;
        let [fresh, live] = <[_; 2]>::try_from(guests).map_err(|_| anyhow!("not two guests"))?;
        Ok(Guests { fresh, live })
    }
}

/// The cache folder of compiled code: from the environment, or the user's.
fn cache_folder() -> Option<PathBuf> {
    let named = std::env::var_os("PINTLE_CACHE_DIR").map(PathBuf::from);
    named.or_else(|| pintle_wasm::user_cache(|name| std::env::var_os(name)))
}

fn is_kept(is_of_folder: bool, n_bytes: usize) -> bool {
    is_of_folder && n_bytes > KEPT_BYTES
}

/// An engine that caches compiled code in a folder.
fn engine(cache_dir: Option<PathBuf>) -> anyhow::Result<WasmEngine> {
    let keep_functions = cache_dir.is_some();
    let kept = WasmEngine::new(WasmConfig { cache_dir, keep_functions, ..WasmConfig::default() });
    // The folder may be unusable, and the cache is optional.
    let made = kept.or_else(|why| {
        tracing::debug!("compiled code is not kept: {:#}", anyhow::Error::from(why));
        WasmEngine::new(WasmConfig::default())
    });
    made.context("start the sandbox")
}

/// The plugin, with both kinds of instances whatever its manifest requests.
pub(crate) struct Guests {
    /// An instance for each run.
    pub(crate) fresh: Arc<dyn Guest>,
    /// One instance for successive runs.
    pub(crate) live: Arc<dyn Guest>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_of_large_components_of_folders_is_kept() {
        assert!(is_kept(true, KEPT_BYTES + 1));
        assert!(!is_kept(true, KEPT_BYTES) && !is_kept(false, KEPT_BYTES + 1));
        let folder = tempfile::tempdir().unwrap();
        let cache = folder.path().join("cache");
        engine(Some(cache.clone())).unwrap();
        assert!(cache.is_dir());
    }

    #[test]
    fn a_cache_folder_that_cannot_be_used_stops_no_test() {
        let file = tempfile::NamedTempFile::new().unwrap();
        engine(Some(file.path().to_owned())).unwrap();
    }
}
