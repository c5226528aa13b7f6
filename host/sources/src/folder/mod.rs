//! The plugin folder: `NAME.wasm`, beside it `NAME.yaml` with what the operator says of it, and `NAME.wasm.sig` where signatures are
//! asked for.
//!
//! ```text
//! notices ──> FolderWatch ──> scan ──> what differs ──> Control
//! ```
//!
//! A new component is loaded, a changed one swapped in, a changed spec applied to the same component, and a removed one unloaded.
//!
//! Invariants:
//! 1. The file's name is the plugin's, so that no two files stand for one plugin.
//! 2. Files that could not be taken are tried again once they have changed, and not before: half a file is refused, the whole
//!    one is another file.
//! 3. A folder that cannot be read changes nothing.

mod scan;
mod watch;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use pintle_oci::{Evidence, detached, read_component};
use tokio::sync::watch as signal;
use tokio::task::JoinSet;
use tokio::time::Instant;

pub use self::scan::parse_spec;
pub use self::scan::{Files, Stamp, from_value, read_spec, scan};
pub use self::watch::FolderWatch;
use crate::control::{Control, Wanted, Way};
use crate::wire::{Overrides, Refusal, reason};

/// Follows the plugin folder for as long as it is polled.
pub struct PluginFolder {
    folder: PathBuf,
    control: Arc<Control>,
    /// Ticks when something in the folder has changed.
    changed: signal::Sender<u64>,
    /// Name -> the files that were taken or refused last.
    seen: BTreeMap<String, Files>,
    /// Name -> what its problem is filed under, of those that have to give way.
    shadowed: BTreeMap<String, String>,
    /// When to try again what may go better then.
    retries: BTreeMap<String, Instant>,
    /// Names of which something is under way.
    under_way: BTreeSet<String>,
    tasks: JoinSet<Done>,
    /// The folder could not be read the last time.
    lost: bool,
}

/// What has come of one plugin's files.
struct Done {
    name: String,
    /// Absent if the files are gone.
    files: Option<Files>,
    result: Result<(), Refusal>,
}

impl PluginFolder {
    /// `changed` ticks when something in the folder has changed.
    pub fn new(folder: PathBuf, control: Arc<Control>, changed: signal::Sender<u64>) -> Self {
        Self {
            folder,
            control,
            changed,
            seen: BTreeMap::new(),
            shadowed: BTreeMap::new(),
            retries: BTreeMap::new(),
            under_way: BTreeSet::new(),
            tasks: JoinSet::new(),
            lost: false,
        }
    }

    /// Does not end.
    pub async fn follow(mut self) {
        let mut watch = FolderWatch::new(&self.folder);
        let mut freed = self.control.freed();
        loop {
            self.pass();
            let retry = self.retries.values().min().copied();
            let alarm = async {
                match retry {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = alarm => {}
                () = watch.changed() => self.changed.send_modify(|n| *n += 1),
                // The control is ours: it cannot be gone.
                _ = freed.changed() => {}
                Some(done) = self.tasks.join_next() => self.end(done),
            }
        }
    }

    /// Begins what is to be done.
    fn pass(&mut self) {
        let found = match scan(&self.folder, self.control.demands_signatures()) {
            Ok(found) => found,
            Err(why) => {
                if !std::mem::replace(&mut self.lost, true) {
                    let folder = self.folder.display();
                    tracing::warn!(%folder, "the plugin folder cannot be read, its plugins run on: {why}");
                }
                return;
            }
        };
        self.lost = false;
        let gone: Vec<String> = self.seen.keys().filter(|name| !found.contains_key(*name)).cloned().collect();
        for name in gone {
            if self.is_due(&name) {
                self.begin(name, None);
            }
        }
        let gone: Vec<String> = self.shadowed.keys().filter(|name| !found.contains_key(*name)).cloned().collect();
        for name in gone {
            self.control.in_folder(&name, false);
            self.no_longer_shadowed(&name);
        }
        for (name, files) in found {
            self.control.in_folder(&name, files.component.is_some());
            if let Some(other) = self.control.claimed_above(Way::Folder, &name) {
                // Forgotten, so that it is taken as soon as the other one is gone.
                self.seen.remove(&name);
                let source = source(&files);
                self.control.problem(&source, &name, &other.stands_above(&name, Way::Folder));
                self.shadowed.insert(name, source);
                continue;
            }
            self.no_longer_shadowed(&name);
            let changed = self.seen.get(&name) != Some(&files);
            if changed || (self.retries.contains_key(&name) && self.is_due(&name)) {
                self.begin(name, Some(files));
            }
        }
    }

    fn is_due(&self, name: &str) -> bool {
        self.retries.get(name).is_none_or(|at| *at <= Instant::now())
    }

    fn no_longer_shadowed(&mut self, name: &str) {
        if let Some(source) = self.shadowed.remove(name) {
            self.control.solved(&source);
        }
    }

    /// Takes these files, or lets go of those that were there. Whatever has changed meanwhile is seen by the next pass.
    fn begin(&mut self, name: String, files: Option<Files>) {
        if !self.under_way.insert(name.clone()) {
            return;
        }
        self.retries.remove(&name);
        let control = self.control.clone();
        self.tasks.spawn(async move {
            let result = match &files {
                Some(files) => take(&control, &name, files).await,
                None => control.release(Way::Folder, &name).await,
            };
            Done { name, files, result }
        });
    }

    fn end(&mut self, done: Result<Done, tokio::task::JoinError>) {
        let Done { name, files, result } = match done {
            Ok(done) => done,
            Err(why) => {
                // Its name stays under way: it would fail again.
                tracing::error!(%why, "following the plugin folder failed for one plugin");
                return;
            }
        };
        self.under_way.remove(&name);
        let now = files.as_ref().map(source);
        let retry = result.as_ref().err().and_then(Refusal::retry_after);
        if let Some(after) = retry {
            self.retries.insert(name.clone(), Instant::now() + after);
        }
        let before = match files {
            Some(files) => self.seen.insert(name.clone(), files),
            // Kept, to let go of them again.
            None if retry.is_some() => None,
            None => self.seen.remove(&name),
        };
        let before = before.as_ref().map(source);
        if let Some(before) = before.filter(|before| now.as_ref() != Some(before)) {
            self.control.solved(&before);
        }
        match (result, now) {
            (Ok(()), Some(source)) => self.control.solved(&source),
            (Ok(()), None) => {}
            (Err(why), _) if why.is_busy() => {}
            (Err(why), source) => {
                self.control.problem(&source.unwrap_or_else(|| self.folder.display().to_string()), &name, &why);
            }
        }
    }
}

/// What problems are filed under: the component, or the spec that stands alone.
fn source(files: &Files) -> String {
    let path = files.component.as_ref().or(files.spec.as_ref()).map(|(path, _)| path);
    path.map(|path| path.display().to_string()).unwrap_or_default()
}

/// Reads the files of a plugin and carries out what they say.
async fn take(control: &Control, name: &str, files: &Files) -> Result<(), Refusal> {
    let Some((component, _)) = files.component.clone() else {
        // The component may have been there before, and is gone.
        control.release(Way::Folder, name).await?;
        return Err(Refusal::new(reason::INVALID, format!("there is no {name}.wasm beside {name}.yaml")));
    };
    let spec_file = files.spec.clone().map(|(path, _)| path);
    let reading = tokio::task::spawn_blocking(move || {
        let bytes = read_component(&component)?;
        let spec = spec_file.map(|file| read_spec(&file)).transpose()?;
        let evidence = Evidence::Shown(detached(&component)?);
        Ok::<_, Refusal>((component.display().to_string(), bytes, spec.unwrap_or_default(), evidence))
    });
    let (origin, bytes, spec, evidence) =
        reading.await.map_err(|why| Refusal::new(reason::UNREADABLE, why.to_string()))??;
    let wanted = Wanted { origin, bytes, spec: Some(spec), overrides: &Overrides::NONE, evidence };
    let report = control.apply(Way::Folder, name, wanted).await?;
    tracing::info!(plugin = name, result = ?report.result, "taken from the plugin folder");
    Ok(())
}

#[cfg(test)]
mod tests;
