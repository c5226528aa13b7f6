//! The plugin under test: its component, and guests of it with instances of either kind.

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
use crate::sandbox::sandbox;

/// A component that has been built or read.
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
            let built = pintle_build::build(&project, sandbox())?;
            (built.bytes, Some(path.to_owned()), Some(started.elapsed()))
        } else {
            (std::fs::read(path).with_context(|| format!("read {origin}"))?, None, None)
        };
        let found = pintle_wasm::inspect(&origin, &bytes)?;
        Ok(Self { folder, origin, bytes, found, built_in })
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

    /// Compiles it.
    ///
    /// # Errors
    /// It does not load.
    pub(crate) fn guests(&self) -> anyhow::Result<Guests> {
        let engine = WasmEngine::new(WasmConfig::default())?;
        let guests = engine.load_each(&self.origin, &self.bytes, &[Instances::Fresh, Instances::Pooled])?;
        let [fresh, live] = <[_; 2]>::try_from(guests).map_err(|_| anyhow!("not two guests"))?;
        Ok(Guests { fresh, live })
    }
}

/// The plugin, with instances of either kind whatever its manifest says.
pub(crate) struct Guests {
    /// An instance for each run.
    pub(crate) fresh: Arc<dyn Guest>,
    /// One instance for runs one after the other.
    pub(crate) live: Arc<dyn Guest>,
}
