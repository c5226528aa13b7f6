//! `pintle dev`: compares the definitions in `crds` with the types after each save, in the background.

use std::path::Path;
use std::sync::Arc;

use pintle_build::Project;
use tokio::task::JoinHandle;

use crate::crds::{self, DIFF_LINES};

/// Compares the definitions with the types. Returns a line if they differ, or cannot be compared.
type Compare = Arc<dyn Fn() -> Option<String> + Send + Sync>;

/// The comparison of one project.
pub(crate) struct DriftCheck {
    compare: Compare,
    running: Option<JoinHandle<Option<String>>>,
    /// Whether something changed during a comparison.
    is_outdated: bool,
    /// The last report.
    last: Option<String>,
}

impl DriftCheck {
    /// The check of the project in a folder.
    pub(crate) fn of_project(folder: &Path) -> Self {
        let folder = folder.to_owned();
        Self::new(Arc::new(move || {
            let project = Project::open(&folder, None);
            project.and_then(|project| crds::check(&project, DIFF_LINES)).err().map(|error| format!("{error:#}"))
        }))
    }

    fn new(compare: Compare) -> Self {
        Self { compare, running: None, is_outdated: false, last: None }
    }

    /// Compares now, or again after the running comparison.
    pub(crate) fn start(&mut self) {
        if self.running.is_some() {
            self.is_outdated = true;
            return;
        }
        let compare = self.compare.clone();
        self.running = Some(tokio::task::spawn_blocking(move || compare()));
    }

    /// Waits for a new result, and returns it as a line. Never returns if no comparison is running.
    ///
    /// # Cancel safety
    /// The comparison continues, and the next call waits for it.
    pub(crate) async fn news(&mut self) -> String {
        loop {
            let Some(running) = &mut self.running else { return std::future::pending().await };
            let found =
                running.await.unwrap_or_else(|panic| Some(format!("the definitions were not compared: {panic}")));
            self.running = None;
            if std::mem::take(&mut self.is_outdated) {
                self.start();
            }
            if found != self.last {
                self.last.clone_from(&found);
                return found.unwrap_or_else(|| "the definitions in crds match the types again".to_owned());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

    use futures::FutureExt as _;
    use parking_lot::Mutex;

    use super::*;

    #[tokio::test]
    async fn a_difference_and_its_end_are_reported_once() {
        let found = Arc::new(Mutex::new(None));
        let shared = found.clone();
        let mut check = DriftCheck::new(Arc::new(move || shared.lock().clone()));
        assert_eq!(check.news().now_or_never(), None, "nothing was compared");
        let is_silent = async |check: &mut DriftCheck| {
            check.start();
            // The next result is the one after this comparison.
            while !check.running.as_ref().is_none_or(JoinHandle::is_finished) {
                tokio::task::yield_now().await;
            }
            check.news().now_or_never().is_none()
        };
        assert!(is_silent(&mut check).await, "no difference");
        *found.lock() = Some("differs".to_owned());
        check.start();
        assert_eq!(check.news().await, "differs");
        assert!(is_silent(&mut check).await, "the same difference");
        *found.lock() = Some("differs elsewhere".to_owned());
        check.start();
        assert_eq!(check.news().await, "differs elsewhere");
        *found.lock() = None;
        check.start();
        assert_eq!(check.news().await, "the definitions in crds match the types again");
        assert!(is_silent(&mut check).await, "still no difference");
    }

    #[tokio::test]
    async fn a_change_during_a_comparison_leads_to_exactly_one_more() {
        let (go, wait) = mpsc::channel::<()>();
        let (wait, n_runs) = (Mutex::new(wait), Arc::new(AtomicUsize::new(0)));
        let counted = n_runs.clone();
        let mut check = DriftCheck::new(Arc::new(move || {
            let n = counted.fetch_add(1, Ordering::SeqCst) + 1;
            wait.lock().recv().ok()?;
            Some(format!("run {n}"))
        }));
        for _ in 0..3 {
            check.start();
        }
        // A caller that does not wait loses nothing.
        assert_eq!(check.news().now_or_never(), None);
        go.send(()).unwrap();
        go.send(()).unwrap();
        assert_eq!(check.news().await, "run 1", "saves in a row do not keep a difference back");
        assert_eq!(check.news().await, "run 2");
        assert_eq!(check.news().now_or_never(), None);
        assert_eq!(n_runs.load(Ordering::SeqCst), 2);
    }
}
