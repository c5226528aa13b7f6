//! File access that may block: an unreachable network mount blocks every thread that accesses one of its files.
//!
//! Invariants:
//! 1. Such threads are reserved for this work, and there are at most [`MAX_THREADS`] of them.
//! 2. The wait for a result is bounded.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::wire::{Refusal, reason};

/// Most threads that may wait for files.
const MAX_THREADS: usize = 8;
/// Longest wait for a component of the maximum size on a slow disk.
const DEADLINE: Duration = Duration::from_secs(30);

/// Runs file access on the runtime's threads for blocking calls.
#[derive(Clone)]
pub(crate) struct FileWork {
    threads: Arc<Semaphore>,
    deadline: Duration,
}

impl Default for FileWork {
    fn default() -> Self {
        Self { threads: Arc::new(Semaphore::new(MAX_THREADS)), deadline: DEADLINE }
    }
}

impl FileWork {
    /// Runs `work`, which reads `path`.
    ///
    /// # Errors
    /// The error of `work`, or the file system does not respond; a retry may help then.
    ///
    /// # Cancel safety
    /// The work continues; its result is lost.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        path: &Path,
        work: impl FnOnce() -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Refusal> {
        let threads = self.threads.clone();
        let working = async move {
            // Held by the thread, even after the deadline.
            let permit = threads.acquire_owned().await;
            let task = tokio::task::spawn_blocking(move || {
                let _permit = permit;
                work()
            });
            task.await.map_err(|error| Refusal::new(reason::UNREADABLE, error.to_string()))?
        };
        timeout(self.deadline, working).await.unwrap_or_else(|_| {
            let (path, deadline) = (path.display(), self.deadline);
            Err(Refusal::new(
                reason::NO_ANSWER,
                format!("read {path}: its file system has not answered for {deadline:?}"),
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn a_file_system_that_does_not_answer_keeps_a_limited_number_of_threads() {
        let files = FileWork { deadline: Duration::from_millis(50), ..FileWork::default() };
        let path = Path::new("/mnt/a.wasm");
        let (end, ended) = mpsc::channel::<()>();
        let ended = Arc::new(parking_lot::Mutex::new(ended));
        let (started, starts) = mpsc::channel();
        for _ in 0..MAX_THREADS + 3 {
            let (ended, started) = (ended.clone(), started.clone());
            let hung = files.run(path, move || {
                let _ = started.send(());
                // Until all senders are dropped.
                let _ = ended.lock().recv();
                Ok(())
            });
            let why = hung.await.unwrap_err();
            assert_eq!(why.message, "read /mnt/a.wasm: its file system has not answered for 50ms");
            assert!(why.retry_after().is_some(), "it may answer later");
        }
        drop(started);
        assert_eq!(files.threads.available_permits(), 0);
        drop(end);
        assert_eq!(starts.iter().count(), MAX_THREADS, "no more threads wait");
        // All of them end, and new work can run.
        let files = FileWork { deadline: Duration::MAX, ..files };
        assert_eq!(files.run(path, || Ok(5)).await, Ok(5));
    }
}
