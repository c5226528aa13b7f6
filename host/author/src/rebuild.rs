//! `pintle dev --plugin`: rebuilds and swaps a running plugin whenever its author saves it.
//!
//! *Flow*: a save -> the language's tools (for a folder of sources) -> component -> the plugin with its name is swapped, or
//! loaded.
//!
//! *Invariants*: 1. a failed build or a rejected component leaves the running version in place;
//! 2. the saved version runs, however its runs end, because authors debug the version on disk.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use pintle_build::{Built, Language};
use pintle_oci::{Evidence, read_component};
use pintle_sources::control::{Control, Wanted};
use pintle_sources::folder::{FolderWatch, Stamp};
use pintle_sources::wire::Overrides;

use crate::definitions::Definitions;
use crate::drift::DriftCheck;

/// A followed plugin: sources or a component.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Followed {
    /// A folder with `manifest.yaml` and sources.
    Source(PathBuf),
    /// A component.
    File(PathBuf),
}

/// A version that is never rolled back because of faults or errors. The bound on its deletions stays.
const KEPT: Overrides = Overrides { max_faults: Some(u32::MAX), max_error_percent: Some(u32::MAX), ..Overrides::NONE };

/// Wakes after a change.
#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    Source(String),
    File(Option<Stamp>),
}

impl Followed {
    /// The plugin at a path.
    ///
    /// # Errors
    /// One line with the missing file.
    pub fn new(path: &Path) -> anyhow::Result<Self> {
        let shown = path.display();
        let there = std::fs::metadata(path).with_context(|| format!("read --plugin {shown}"))?;
        // Notifications contain absolute paths.
        let path = std::path::absolute(path).with_context(|| format!("find out where {shown} is"))?;
        if !there.is_dir() {
            return Ok(Self::File(path));
        }
        if !path.join("manifest.yaml").is_file() {
            bail!("--plugin {shown} has no manifest.yaml: name the folder of a plugin, or a component");
        }
        Language::of(&path).with_context(|| format!("--plugin {shown}"))?;
        Ok(Self::Source(path))
    }

    /// Its path, absolute.
    pub fn path(&self) -> &Path {
        match self {
            Self::Source(path) | Self::File(path) => path,
        }
    }

    /// Swaps the plugin after each save, and reports it in one line. `renewed` gets the line as an error if it does not
    /// build or load. Applies its definitions first, and reports when they differ from the types. Never returns.
    pub async fn follow(
        self,
        control: Arc<Control>,
        mut definitions: Definitions,
        report: impl Fn(&str),
        renewed: impl Fn(Result<(), &str>),
    ) {
        let mut watch = match &self {
            Self::Source(folder) => FolderWatch::new(folder),
            Self::File(file) => FolderWatch::of_entries(file.parent().unwrap_or(file)),
        };
        let mut crds = FolderWatch::of_entries(definitions.folder());
        let (mut before, mut has_run) = (None, false);
        let mut drift = DriftCheck::of_project(self.path());
        loop {
            let applied = definitions.sync().await;
            applied.iter().for_each(|line| report(line));
            // A component has no types. Invalid sources are reported by their build.
            let mut is_comparable = has_run && !applied.is_empty();
            match self.state() {
                Ok(now) if before.as_ref() != Some(&now) => {
                    before = Some(now);
                    match self.renew(&control).await {
                        Ok(done) => {
                            has_run = true;
                            is_comparable = true;
                            report(&done);
                            renewed(Ok(()));
                        }
                        Err(why) => {
                            is_comparable = false;
                            let failed = failed(self.path(), has_run, &why);
                            report(&failed);
                            renewed(Err(&failed));
                        }
                    }
                }
                Ok(_) => {}
                // A file that is being replaced exists again soon.
                Err(why) => tracing::debug!(path = %self.path().display(), "{why:#}"),
            }
            if is_comparable && matches!(self, Self::Source(_)) {
                drift.start();
            }
            loop {
                tokio::select! {
                    () = watch.changed() => break,
                    () = crds.changed() => break,
                    line = drift.news() => report(&line),
                }
            }
        }
    }

    fn state(&self) -> anyhow::Result<State> {
        match self {
            Self::Source(folder) => Ok(State::Source(pintle_build::inputs::of_folder(folder)?)),
            Self::File(file) => match Stamp::at(file) {
                Some(stamp) => Ok(State::File(Some(stamp))),
                None => bail!("it is gone"),
            },
        }
    }

    /// Builds and swaps the plugin; returns a message with both durations.
    async fn renew(&self, control: &Control) -> anyhow::Result<String> {
        let begun = Instant::now();
        let (name, bytes, verb) = match self.clone() {
            Self::Source(folder) => {
                let building = tokio::task::spawn_blocking(move || pintle_build::plugin(&folder));
                let Built { name, bytes } = building.await.context("build the plugin")??;
                (Some(name), bytes, "rebuilt")
            }
            Self::File(file) => (None, tokio::task::spawn_blocking(move || read_component(&file)).await??, "read"),
        };
        let took = begun.elapsed();
        let begun = Instant::now();
        let origin = self.path().display().to_string();
        // The component comes from the command line.
        let wanted = Wanted { origin, bytes, spec: None, overrides: &KEPT, evidence: Evidence::Own };
        let name = match name {
            Some(name) => name,
            None => control.name_of(&wanted).await?,
        };
        let report = control.put(&name, wanted).await?;
        let swapped = if report.from.is_some() { "swapped in" } else { "loaded in" };
        Ok(format!("{name}: {verb} in {}, {swapped} {}", shown(took), shown(begun.elapsed())))
    }
}

fn shown(took: Duration) -> String {
    if took < Duration::from_secs(1) {
        format!("{} ms", took.as_millis())
    } else {
        format!("{:.1} s", took.as_secs_f64())
    }
}

/// The message for a failed save. `has_run`: whether a version of the plugin is running.
fn failed(path: &Path, has_run: bool, why: &anyhow::Error) -> String {
    let running = if has_run { "the running version stays" } else { "no version runs yet" };
    format!("{}: {running}: {why:#}", path.display())
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use pintle_core::lifecycle::Spec;
    use pintle_core::lifecycle::probation::{Before, Ended, Probation, Record};
    use pintle_core::object::id::{Key, Kind, ObjectKey};

    use super::*;

    #[test]
    fn only_plugins_and_components_are_watched() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        let why = |path: &Path| {
            let why = format!("{:#}", Followed::new(path).unwrap_err());
            why.replace(&root.path().display().to_string(), "$DIR")
        };
        assert_eq!(why(&at("none")), "read --plugin $DIR/none: No such file or directory (os error 2)");
        std::fs::write(at("a.wasm"), "").unwrap();
        assert_eq!(Followed::new(&at("a.wasm")).unwrap(), Followed::File(at("a.wasm")));
        assert_eq!(why(root.path()), "--plugin $DIR has no manifest.yaml: name the folder of a plugin, or a component");
        std::fs::write(at("manifest.yaml"), "").unwrap();
        let wrong = why(root.path());
        assert!(wrong.starts_with("--plugin $DIR: $DIR is not a plugin in a language that can be built"), "{wrong}");
        std::fs::write(at("go.mod"), "").unwrap();
        assert_eq!(Followed::new(root.path()).unwrap(), Followed::Source(root.path().to_owned()));
    }

    #[test]
    fn what_was_saved_stays_whatever_its_runs_end_with() {
        let mut spec = Spec::default();
        KEPT.put_over(&mut spec);
        let key = |i: usize| Key {
            queue: "q".into(),
            kind: Kind::new("", "v1", "Pod"),
            object: ObjectKey::new(&format!("ns-{}", i % 3), &i.to_string()),
        };
        let keys: Vec<Key> = (0..50).map(key).collect();
        let now = tokio::time::Instant::now().into_std();
        for ended in [Ended::Fault, Ended::Error] {
            let before = Before::new(Record::default(), HashSet::new(), &keys);
            let mut probation = Probation::begin(spec.strategy.probation.clone(), before, now);
            for key in keys.iter().chain(&keys) {
                assert_eq!(probation.ran(key, ended, "", now), None);
            }
        }
    }

    #[test]
    fn a_failed_build_says_whether_a_version_runs() {
        let failed = |has_run| failed(Path::new("a"), has_run, &anyhow::anyhow!("why"));
        assert_eq!([failed(false), failed(true)], ["a: no version runs yet: why", "a: the running version stays: why"]);
    }

    #[test]
    fn times_are_shown_in_fitting_units() {
        assert_eq!([shown(Duration::from_millis(7)), shown(Duration::from_millis(1_250))], ["7 ms", "1.2 s"]);
    }
}
