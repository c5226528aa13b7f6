//! Watches a folder for changes.
//!
//! Uses file system events where supported, and periodic polling for the rest (network file systems, a folder that was
//! itself replaced).

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use notify::event::{AccessKind, AccessMode};
use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout, timeout_at};

use super::scan::Stamp;

/// Files are usually written in several pieces, and a component comes with its spec: changes within this time count as
/// one.
const QUIET: Duration = Duration::from_millis(100);
/// Longest delay in a folder that keeps changing.
const LONGEST: Duration = Duration::from_secs(1);
/// Polling interval without events.
const AGAIN: Duration = Duration::from_secs(10);

/// Watches a folder for changes.
pub struct FolderWatch {
    folder: PathBuf,
    mode: RecursiveMode,
    heard: Arc<Notify>,
    watcher: Option<RecommendedWatcher>,
    /// The folder that is being watched.
    of: Option<Stamp>,
    /// Polling interval without events.
    again: Duration,
}

impl FolderWatch {
    /// Watches the folder and everything below it.
    pub fn new(folder: &Path) -> Self {
        Self::with(folder, RecursiveMode::Recursive)
    }

    /// Watches the entries of the folder, without its subfolders.
    pub fn of_entries(folder: &Path) -> Self {
        Self::with(folder, RecursiveMode::NonRecursive)
    }

    fn with(folder: &Path, mode: RecursiveMode) -> Self {
        let heard = Arc::new(Notify::new());
        let mut watch = Self { folder: folder.to_owned(), mode, heard, watcher: None, of: None, again: AGAIN };
        watch.renew();
        watch
    }

    /// Waits for a change followed by a quiet period, or for the polling interval.
    ///
    /// # Cancel safety
    /// A change that was not returned yet is returned by the next call.
    pub async fn changed(&mut self) {
        if timeout(self.again, self.heard.notified()).await.is_err() {
            self.renew();
            return;
        }
        let end = Instant::now() + LONGEST;
        while timeout_at(end.min(Instant::now() + QUIET), self.heard.notified()).await.is_ok() {}
        // The rest of a change that is cut off here is reported as another change.
        self.renew();
    }

    /// Watches the current folder, if it was replaced.
    fn renew(&mut self) {
        let now = Stamp::at(&self.folder);
        if self.watcher.is_some() && same_folder(now, self.of) {
            return;
        }
        self.of = now;
        let (heard, again) = (self.heard.clone(), self.again);
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            // An error may be a lost event.
            if event.is_ok_and(|event| !changes(event.kind)) {
                return;
            }
            heard.notify_one();
        });
        let watching = watcher.and_then(|mut watcher| {
            watcher.watch(&self.folder, self.mode)?;
            Ok(watcher)
        });
        self.watcher = match watching {
            Ok(watcher) => Some(watcher),
            Err(why) => {
                if self.watcher.is_some() || now.is_some() {
                    tracing::warn!(
                        folder = %self.folder.display(),
                        "the system does not tell of changes in the folder ({why}); looking every {again:?}"
                    );
                }
                None
            }
        };
    }
}

/// Whether an event is a change rather than a read.
fn changes(kind: EventKind) -> bool {
    match kind {
        EventKind::Access(AccessKind::Close(AccessMode::Write)) => true,
        EventKind::Access(_) => false,
        _ => true,
    }
}

fn same_folder(a: Option<Stamp>, b: Option<Stamp>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => a.same_place(&b),
        (a, b) => a.is_none() && b.is_none(),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Reached only if the event does not arrive.
    const PATIENCE: Duration = Duration::from_secs(300);

    #[tokio::test]
    async fn renames_links_and_writes_are_heard_of() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("plugins");
        fs::create_dir_all(folder.join("..one")).unwrap();
        fs::write(folder.join("..one/a.wasm"), "1").unwrap();
        std::os::unix::fs::symlink("..one", folder.join("..data")).unwrap();
        std::os::unix::fs::symlink("..data/a.wasm", folder.join("a.wasm")).unwrap();
        let mut watch = FolderWatch { again: Duration::MAX, ..FolderWatch::new(&folder) };

        fs::write(root.path().join("new"), "2").unwrap();
        fs::rename(root.path().join("new"), folder.join("b.wasm")).unwrap();
        timeout(PATIENCE, watch.changed()).await.expect("a rename is heard of");

        // As a kubelet does.
        let before = Stamp::at(&folder.join("a.wasm"));
        fs::create_dir(folder.join("..two")).unwrap();
        fs::write(folder.join("..two/a.wasm"), "22").unwrap();
        std::os::unix::fs::symlink("..two", folder.join("..data_tmp")).unwrap();
        fs::rename(folder.join("..data_tmp"), folder.join("..data")).unwrap();
        timeout(PATIENCE, watch.changed()).await.expect("the swap of a link is heard of");
        assert_ne!(Stamp::at(&folder.join("a.wasm")), before);

        fs::write(folder.join("b.wasm"), "3").unwrap();
        timeout(PATIENCE, watch.changed()).await.expect("a write is heard of");
    }

    #[test]
    fn reading_is_no_change() {
        use notify::event::{CreateKind, ModifyKind, RemoveKind, RenameMode};
        for kind in [AccessKind::Read, AccessKind::Open(AccessMode::Any), AccessKind::Close(AccessMode::Read)] {
            assert!(!changes(EventKind::Access(kind)), "{kind:?}");
        }
        for kind in [
            EventKind::Access(AccessKind::Close(AccessMode::Write)),
            EventKind::Create(CreateKind::File),
            EventKind::Modify(ModifyKind::Name(RenameMode::To)),
            EventKind::Remove(RemoveKind::Any),
            EventKind::Any,
        ] {
            assert!(changes(kind), "{kind:?}");
        }
    }
}
