//! Supervises the host's own tasks: a panic is logged and counted, and the task is restarted.
//!
//! Not here: restart delays and liveness ([`crate::restarts`]).

use std::any::Any;
use std::collections::BTreeMap;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use parking_lot::Mutex;
use tokio::time::Instant;
use tracing::error;

use crate::restarts::Restarts;

/// Counts panics of tasks by name, and restarts the tasks.
#[derive(Debug, Default)]
pub struct Supervisor {
    tasks: Mutex<BTreeMap<&'static str, Restarts>>,
}

impl Supervisor {
    /// Creates a supervisor without tasks.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Runs a task until it returns; restarts it after each panic, with `true`.
    ///
    /// # Cancel safety
    /// The same as of the task.
    pub async fn run<F: Future<Output = ()>>(&self, task: &'static str, mut start: impl FnMut(bool) -> F) {
        let mut is_restart = false;
        while let Err(panic) = AssertUnwindSafe(start(is_restart)).catch_unwind().await {
            let delay = self.panicked(task, &*panic);
            tokio::time::sleep(delay).await;
            is_restart = true;
        }
    }

    /// Runs a task that cannot be restarted: after a panic, liveness fails.
    ///
    /// # Cancel safety
    /// The same as of the task.
    pub async fn run_once(&self, task: &'static str, future: impl Future<Output = ()>) {
        if let Err(panic) = AssertUnwindSafe(future).catch_unwind().await {
            error!(task, message = panic_text(&*panic), "the host panicked; restart it to get this task back");
            self.tasks.lock().entry(task).or_default().lost(Instant::now().into_std());
        }
    }

    /// Records a panic that the caller recovers from. Returns the delay before the next try.
    pub fn panicked(&self, task: &'static str, panic: &(dyn Any + Send)) -> Duration {
        let delay = self.tasks.lock().entry(task).or_default().panicked(Instant::now().into_std());
        error!(task, ?delay, message = panic_text(panic), "the host panicked; the task starts again after a delay");
        delay
    }

    /// Number of panics per task that has panicked.
    pub fn panics(&self) -> Vec<(&'static str, u64)> {
        self.tasks.lock().iter().map(|(task, restarts)| (*task, restarts.n_panics())).collect()
    }

    /// The tasks because of which liveness fails.
    pub fn failing(&self) -> Vec<&'static str> {
        let now = Instant::now().into_std();
        let mut tasks = self.tasks.lock();
        tasks.iter_mut().filter_map(|(task, restarts)| restarts.is_failing(now).then_some(*task)).collect()
    }
}

/// The message of a panic.
pub fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_task_that_panics_starts_again_and_fails_if_it_repeats() {
        let supervisor = Supervisor::new();
        let n_starts = AtomicUsize::new(0);
        let start = Instant::now();
        let task = supervisor.run("task", |is_restart| {
            let n = n_starts.fetch_add(1, Ordering::Relaxed);
            async move {
                assert_eq!(is_restart, n > 0);
                assert!(n >= 4, "boom {n}");
            }
        });
        task.await;
        assert_eq!((n_starts.into_inner(), start.elapsed().as_millis()), (5, 1500));
        assert_eq!((supervisor.panics(), supervisor.failing()), (vec![("task", 4)], vec![]));
        supervisor.panicked("task", &"once more");
        assert_eq!(supervisor.failing(), ["task"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_that_runs_once_fails_with_its_first_panic() {
        let supervisor = Supervisor::new();
        supervisor.run_once("good", async {}).await;
        supervisor.run_once("bad", async { panic!("boom") }).await;
        assert_eq!(supervisor.failing(), ["bad"]);
    }
}
