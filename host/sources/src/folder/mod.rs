//! The plugin folder: `NAME.wasm`, an optional `NAME.yaml` with the operator's spec, and `NAME.wasm.sig` if signatures
//! are required.
//!
//! ```text
//! (own thread: notices ──> FolderWatch ──> scan) ──> SourceController ──> Control
//! ```
//!
//! A new component is loaded, a changed one swapped in, a changed spec applied to the same component, and a removed one
//! unloaded.
//!
//! Invariants:
//! 1. The file's name is the plugin's name, so that two files are never one plugin.
//! 2. Rejected files are retried only after a change: a partially written file is rejected, the complete one is a
//!    change.
//! 3. A folder that is unreadable or unresponsive changes nothing, and delays nothing else.
//! 4. A plugin with a misnamed spec, `NAME.yml`, is rejected.
//! 5. Files that users other than root and the host's user may change are rejected.

mod access;
mod lookout;
mod scan;
mod watch;

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use pintle_oci::{Evidence, MAX_COMPONENT_BYTES, detached};
use tokio::sync::watch as signal;
use tokio::time::Instant;

use self::lookout::Lookout;

pub use self::access::{check_folder, read_own};
pub use self::scan::parse_spec;
pub use self::scan::{Files, Stamp, claimed, from_value, read_own_spec, read_spec, scan};
pub use self::watch::FolderWatch;
use crate::control::{Control, PluginSource, Wanted};
use crate::controller::{Source, SourceController, until};
use crate::file_work::FileWork;
use crate::wire::{Overrides, Refusal, reason};

/// Follows the plugin folder while it is polled.
pub struct PluginFolder {
    folder: PathBuf,
    control: Arc<Control>,
    /// Ticks when something in the folder has changed.
    changed: signal::Sender<u64>,
    plugins: SourceController<FolderSource>,
    /// Whether the last scan failed.
    is_unreadable: bool,
}

impl PluginFolder {
    /// `changed` ticks when something in the folder has changed.
    pub fn new(folder: PathBuf, control: Arc<Control>, changed: signal::Sender<u64>) -> Self {
        let source = FolderSource { control: control.clone(), files: FileWork::default() };
        let plugins = SourceController::new(source, control.clone());
        Self { folder, control, changed, plugins, is_unreadable: false }
    }

    /// Never returns.
    pub async fn follow(mut self) {
        let (folder, with_signatures) = (self.folder.clone(), self.control.demands_signatures());
        let mut lookout = Lookout::start(&self.folder, move || scan(&folder, with_signatures));
        let mut freed = self.control.freed();
        let mut retry = None;
        loop {
            tokio::select! {
                seen = lookout.seen() => {
                    if seen.has_changed {
                        self.changed.send_modify(|n| *n += 1);
                    }
                    retry = self.pass(seen.result);
                    continue;
                }
                () = until(retry) => retry = None,
                // This holds the control, so the sender exists.
                _ = freed.changed() => {}
                Some(done) = self.plugins.ended() => self.plugins.end(done),
            }
            lookout.look();
        }
    }

    /// Starts due tasks. Returns when the next retry is due.
    fn pass(&mut self, found: io::Result<BTreeMap<String, Files>>) -> Option<Instant> {
        let found = match found {
            Ok(found) => found,
            Err(error) => {
                if !std::mem::replace(&mut self.is_unreadable, true) {
                    let folder = self.folder.display();
                    tracing::warn!(%folder, "the plugin folder cannot be read; its plugins continue to run: {error}");
                }
                return None;
            }
        };
        self.is_unreadable = false;
        for (name, files) in &found {
            self.control.in_folder(name, files.component.is_some());
        }
        self.plugins.pass(found.into_iter().map(|(name, files)| (name, Some(files))).collect())
    }
}

struct FolderSource {
    control: Arc<Control>,
    files: FileWork,
}

impl Source for FolderSource {
    type Wanted = Files;

    const SOURCE: PluginSource = PluginSource::Folder;

    /// The component, or the spec without one.
    fn label(&self, _: &str, files: &Files) -> String {
        let path = files.component.as_ref().or(files.spec.as_ref()).or(files.misnamed.as_ref()).map(|(path, _)| path);
        path.map(|path| path.display().to_string()).unwrap_or_default()
    }

    fn apply(&self, name: &str, files: Files) -> BoxFuture<'static, Result<String, Refusal>> {
        apply(self.control.clone(), self.files.clone(), name.to_owned(), files).boxed()
    }
}

/// Reads the files of a plugin and applies them.
async fn apply(control: Arc<Control>, work: FileWork, name: String, files: Files) -> Result<String, Refusal> {
    if let Some((path, _)) = files.misnamed {
        // It may restrict the plugin.
        let text = format!("{} is not read; rename it to {name}.yaml", path.display());
        return Err(Refusal::new(reason::INVALID, text));
    }
    let spec = match files.spec {
        Some((path, _)) => {
            let file = path.clone();
            work.run(&path, move || read_own_spec(&file)).await.map(Some)
        }
        None => Ok(None),
    };
    let disables = matches!(&spec, Ok(Some(spec)) if spec.disabled);
    if disables {
        // First, because disabling the running plugin must not depend on the component.
        control.disable_for(PluginSource::Folder, &name);
    }
    let Some((component, _)) = files.component else {
        if !disables {
            // The component may have been removed.
            control.release(PluginSource::Folder, &name).await?;
        }
        return Err(Refusal::new(reason::INVALID, format!("there is no {name}.wasm beside {name}.yaml")));
    };
    let spec = spec?.unwrap_or_default();
    let (origin, file) = (component.display().to_string(), component.clone());
    let reading = work.run(&component, move || {
        let bytes = read_own(&file, MAX_COMPONENT_BYTES)?;
        Ok((bytes, Evidence::Shown(detached(&file)?)))
    });
    let (bytes, evidence) = reading.await?;
    let wanted = Wanted { origin, bytes, spec: Some(spec), overrides: &Overrides::NONE, evidence };
    let report = control.apply(PluginSource::Folder, &name, wanted).await?;
    tracing::info!(plugin = name, result = ?report.result, "applied from the plugin folder");
    Ok(report.to.map(|to| to.digest).unwrap_or_default())
}

#[cfg(test)]
mod tests;
