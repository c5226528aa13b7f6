//! The plugin under test: its component, and guests of it with instances of either kind.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use pintle_build::section;
use pintle_core::guest::Guest;
use pintle_core::manifest::{Instances, Manifest};
use pintle_wasm::{Inspection, WasmConfig, WasmEngine};
use serde_json::Value;

/// A component that has been built or read.
pub(crate) struct Plugin {
    folder: Option<PathBuf>,
    origin: String,
    pub(crate) bytes: Vec<u8>,
    pub(crate) found: Inspection,
    /// How long the build took; absent for a file.
    pub(crate) built_in: Option<Duration>,
    engine: WasmEngine,
}

impl Plugin {
    /// Builds the plugin of a folder, or reads a component file.
    ///
    /// # Errors
    /// It does not build, or is no component that this host loads.
    pub(crate) fn open(path: &Path) -> anyhow::Result<Self> {
        let origin = path.display().to_string();
        let (bytes, folder, built_in) = if path.is_dir() {
            let started = Instant::now();
            let built = pintle_build::plugin(path)?;
            (built.bytes, Some(path.to_owned()), Some(started.elapsed()))
        } else {
            (std::fs::read(path).with_context(|| format!("read {origin}"))?, None, None)
        };
        let found = pintle_wasm::inspect(&origin, &bytes)?;
        let engine = WasmEngine::new(WasmConfig::default())?;
        Ok(Self { folder, origin, bytes, found, built_in, engine })
    }

    /// The author's folder, if that is what was named.
    pub(crate) fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    pub(crate) fn manifest(&self) -> &Arc<Manifest> {
        &self.found.manifest
    }

    /// The manifest as the component carries it.
    pub(crate) fn raw_manifest(&self) -> Value {
        serde_json::to_value(&**self.manifest()).unwrap_or_default()
    }

    /// The plugin with instances of this kind, whatever its manifest says.
    ///
    /// # Errors
    /// It does not load.
    pub(crate) fn guest(&self, instances: Instances) -> anyhow::Result<Arc<dyn Guest>> {
        if self.manifest().instances == instances {
            return Ok(self.engine.load(&self.origin, &self.bytes)?);
        }
        let word = serde_json::to_value(instances)?;
        let other = section::with_manifest(&self.bytes, |manifest| manifest["instances"] = word)?;
        Ok(self.engine.load(&self.origin, &other)?)
    }
}
