//! `--ready-file` and `--stop-with-stdin`: `pintle dev` as part of a test program.
//!
//! Invariants:
//! 1. The file appears atomically, when the host is ready and each plugin has been built and loaded once, or one has
//!    failed.
//! 2. It is removed when the run ends.

use std::io::{Read as _, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use parking_lot::Mutex;
use pintle_runtime::manager::Manager;
use serde_json::{Value, json};
use tokio::sync::{Notify, oneshot};

use crate::cli::DevArgs;

/// Polling interval for the host's readiness, which sends no notification.
const PAUSE: Duration = Duration::from_millis(20);

/// The first result of each plugin under development.
pub(super) struct Started {
    /// By number; the error of those that are not running.
    results: Mutex<Vec<Option<Result<(), String>>>>,
    changed: Notify,
}

impl Started {
    pub(super) fn new(n_plugins: usize) -> Self {
        Self { results: Mutex::new(vec![None; n_plugins]), changed: Notify::new() }
    }

    /// Records the result of a save.
    pub(super) fn report(&self, n: usize, result: Result<(), &str>) {
        let mut results = self.results.lock();
        if let Some(first) = results.get_mut(n) {
            first.get_or_insert_with(|| result.map_err(str::to_owned));
        }
        drop(results);
        self.changed.notify_one();
    }

    /// All results so far, or the first error.
    fn result(&self) -> Option<Result<(), String>> {
        let results = self.results.lock();
        if let Some(Err(why)) = results.iter().flatten().find(|result| result.is_err()) {
            return Some(Err(why.clone()));
        }
        results.iter().all(Option::is_some).then_some(Ok(()))
    }

    async fn all(&self) -> Result<(), String> {
        loop {
            if let Some(result) = self.result() {
                return result;
            }
            self.changed.notified().await;
        }
    }
}

/// The ready file. Dropping it removes the file.
pub(super) struct Ready {
    path: PathBuf,
    is_written: bool,
}

impl Ready {
    /// # Errors
    /// The file exists: a waiting program would read that of another run.
    pub(super) fn new(path: &Path) -> anyhow::Result<Self> {
        let path = std::path::absolute(path).context("find the file of --ready-file")?;
        if std::fs::symlink_metadata(&path).is_ok() {
            bail!("{} exists, and would say that this run is ready: name a new file with --ready-file", path.display());
        }
        Ok(Self { path, is_written: false })
    }

    /// Writes the file when everything is running, and keeps it. Never returns.
    pub(super) async fn write_when(mut self, mut about: Value, started: Arc<Started>, manager: Arc<Manager>) {
        if let Err(why) = started.all().await {
            about["error"] = why.into();
        } else {
            while manager.readiness().is_err() {
                tokio::time::sleep(PAUSE).await;
            }
        }
        match self.write(&about) {
            Ok(()) => self.is_written = true,
            Err(why) => tracing::error!("{why:#}"),
        }
        // Until the run ends.
        std::future::pending().await
    }

    fn write(&self, about: &Value) -> anyhow::Result<()> {
        let shown = self.path.display();
        let folder = self.path.parent().unwrap_or(Path::new("/"));
        let written = || -> std::io::Result<()> {
            let mut file = tempfile::NamedTempFile::new_in(folder)?;
            file.write_all(about.to_string().as_bytes())?;
            file.persist_noclobber(&self.path).map_err(|why| why.error)?;
            Ok(())
        };
        written().with_context(|| format!("write {shown}; name another file with --ready-file"))
    }
}

impl Drop for Ready {
    fn drop(&mut self) {
        if self.is_written {
            // Another process may have removed it.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// The information about a run for programs.
pub(super) fn about(args: &DevArgs, server: &str, serving: SocketAddr, socket: Option<&Path>) -> Value {
    json!({
        "pid": std::process::id(),
        "server": server,
        "kubeconfig": std::path::absolute(&args.kubeconfig).unwrap_or_else(|_| args.kubeconfig.clone()),
        "serving": format!("http://{serving}"),
        "adminSocket": socket.map(|path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned())),
    })
}

/// Resolves when standard input ends; never unless requested.
pub(super) async fn stdin_ends(is_asked: bool) {
    if !is_asked {
        return std::future::pending().await;
    }
    let (end, ended) = oneshot::channel::<()>();
    // A thread that the runtime does not wait for, because its read cannot be interrupted.
    std::thread::spawn(move || {
        let mut buffer = [0; 256];
        let mut stdin = std::io::stdin().lock();
        while stdin.read(&mut buffer).is_ok_and(|n| n > 0) {}
        drop(end);
    });
    // The other end only drops.
    let _ = ended.await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_result_of_each_plugin_counts() {
        let started = Started::new(2);
        assert_eq!(started.result(), None);
        started.report(1, Ok(()));
        assert_eq!(started.result(), None);
        started.report(0, Ok(()));
        assert_eq!(started.result(), Some(Ok(())));
        // Later saves do not count.
        started.report(0, Err("broken"));
        assert_eq!(started.result(), Some(Ok(())));
        assert_eq!(Started::new(0).result(), Some(Ok(())));
    }

    #[test]
    fn a_plugin_that_does_not_run_ends_the_wait_for_the_others() {
        let started = Started::new(2);
        started.report(1, Err("no"));
        assert_eq!(started.result(), Some(Err("no".to_owned())));
    }

    #[test]
    fn the_file_of_another_run_is_an_error_and_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ready");
        let mut ready = Ready::new(&path).unwrap();
        ready.write(&json!({"pid": 1})).unwrap();
        ready.is_written = true;
        let why = Ready::new(&path).err().unwrap().to_string();
        assert!(why.contains("exists") && why.contains("--ready-file"), "{why}");
        assert!(path.exists());
        drop(ready);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
