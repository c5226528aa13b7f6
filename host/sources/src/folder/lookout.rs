//! Watches and reads the plugin folder on a separate thread, which may block indefinitely if the folder is on a network
//! mount.

use std::io;
use std::path::Path;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::timeout;

use super::watch::FolderWatch;

/// Time without a result until an unresponsive folder is reported. It is read every 10 s.
const SILENCE: Duration = Duration::from_secs(30);

/// Result of a scan.
pub(super) struct Seen<T> {
    pub(super) result: io::Result<T>,
    /// Whether the folder may have changed since the last scan.
    pub(super) has_changed: bool,
}

/// Handle of the thread, which ends when this is dropped and the folder responds.
pub(super) struct Lookout<T> {
    folder: String,
    ask: mpsc::Sender<()>,
    seen: mpsc::Receiver<Seen<T>>,
    is_silent: bool,
}

impl<T: Send + 'static> Lookout<T> {
    /// Starts a thread that reads the folder with `scan`: immediately, on changes, and on request.
    pub(super) fn start(folder: &Path, mut scan: impl FnMut() -> io::Result<T> + Send + 'static) -> Self {
        let (ask, mut asked) = mpsc::channel(1);
        let (send, seen) = mpsc::channel(1);
        let path = folder.to_owned();
        let work = async move {
            let mut watch = FolderWatch::new(&path);
            let mut has_changed = false;
            loop {
                if send.send(Seen { result: scan(), has_changed }).await.is_err() {
                    return;
                }
                has_changed = tokio::select! {
                    request = asked.recv() => match request {
                        Some(()) => false,
                        None => return,
                    },
                    () = watch.changed() => true,
                };
            }
        };
        let started = std::thread::Builder::new().name("plugin-folder".to_owned()).spawn(move || {
            match tokio::runtime::Builder::new_current_thread().enable_all().build() {
                Ok(runtime) => runtime.block_on(work),
                Err(error) => tracing::error!(%error, "the plugin folder cannot be watched"),
            }
        });
        if let Err(error) = started {
            tracing::error!(%error, "the plugin folder cannot be watched");
        }
        Self { folder: folder.display().to_string(), ask, seen, is_silent: false }
    }

    /// Requests another scan.
    pub(super) fn look(&self) {
        // A pending request has the same result.
        let _ = self.ask.try_send(());
    }

    /// The next scan. Reports an unresponsive folder.
    ///
    /// # Cancel safety
    /// No scan is lost.
    pub(super) async fn seen(&mut self) -> Seen<T> {
        if !self.is_silent {
            match timeout(SILENCE, self.seen.recv()).await {
                Ok(Some(seen)) => return seen,
                Ok(None) => ended(),
                Err(_) => {
                    self.is_silent = true;
                    tracing::warn!(
                        folder = self.folder,
                        "the plugin folder has not answered for {SILENCE:?}; its plugins continue to run"
                    );
                }
            }
        }
        match self.seen.recv().await {
            Some(seen) => {
                self.is_silent = false;
                tracing::info!(folder = self.folder, "the plugin folder answers again");
                seen
            }
            None => ended(),
        }
    }
}

/// The task's supervisor reports it.
fn ended() -> ! {
    unreachable!("the thread of the plugin folder ends only after this end of it, unless it panics")
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    /// A folder whose scans the test answers.
    fn lookout(folder: &Path) -> (Lookout<u32>, Sender<u32>) {
        let (answer, answers): (_, Receiver<u32>) = channel();
        (Lookout::start(folder, move || answers.recv().map_err(io::Error::other)), answer)
    }

    #[tokio::test]
    async fn a_folder_that_does_not_answer_keeps_no_thread_of_the_runtime() {
        let folder = tempfile::tempdir().unwrap();
        let (mut lookout, answer) = lookout(folder.path());
        // This runtime has one thread, and the scan is blocked in the meantime.
        assert!(timeout(Duration::from_millis(100), lookout.seen()).await.is_err());
        lookout.look();
        answer.send(5).unwrap();
        let seen = lookout.seen().await;
        assert_eq!((seen.result.unwrap(), seen.has_changed), (5, false));
        answer.send(6).unwrap();
        assert_eq!(lookout.seen().await.result.unwrap(), 6, "a request is not lost");
    }

    #[tokio::test]
    async fn a_change_is_seen_without_a_request() {
        let folder = tempfile::tempdir().unwrap();
        let (mut lookout, answer) = lookout(folder.path());
        for n in [1, 2] {
            answer.send(n).unwrap();
        }
        assert_eq!(lookout.seen().await.result.unwrap(), 1);
        std::fs::write(folder.path().join("a.wasm"), "").unwrap();
        let seen = lookout.seen().await;
        assert_eq!((seen.result.unwrap(), seen.has_changed), (2, true));
    }
}
