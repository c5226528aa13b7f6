//! Reconciles the plugins of the host with one source: applies new and changed ones, releases deleted ones, and retries
//! failures that may be temporary. The plugin folder and the `ControllerPlugin` resources are two listers of it.
//!
//! ```text
//! lister ──name -> desired state──> SourceController ──apply, release──> Control
//! ```
//!
//! Invariants:
//! 1. A desired state is applied once; again only when it has changed, when its retry is due, or when a source of
//!    higher precedence has released its name.
//! 2. One task at a time for each name.
//! 3. A rejection is a problem of the [`Control`] until the desired state changes or is reached.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::BoxFuture;
use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;

use crate::control::{Control, PluginSource};
use crate::wire::{Refusal, reason};

/// The desired state of a source, and how to apply it.
pub(crate) trait Source {
    /// The desired state of one name. Equal values are applied once.
    type Wanted: Clone + PartialEq + Send + 'static;

    /// Its place in the precedence of sources.
    const SOURCE: PluginSource;

    /// The label of its problems.
    fn label(&self, name: &str, wanted: &Self::Wanted) -> String;

    /// Applies the desired state; returns the digest of the running component.
    fn apply(&self, name: &str, wanted: Self::Wanted) -> BoxFuture<'static, Result<String, Refusal>>;
}

/// The plugins of one source.
pub(crate) struct SourceController<S: Source> {
    pub(crate) source: S,
    control: Arc<Control>,
    by_name: BTreeMap<String, Entry<S::Wanted>>,
    tasks: JoinSet<Done<S::Wanted>>,
}

struct Entry<W> {
    /// The last applied or rejected state (`None`: a release), and the digest or the reason.
    last: Option<(Option<W>, Result<String, Refusal>)>,
    /// When to retry the same state.
    retry: Option<Instant>,
    is_busy: bool,
    /// The label of its problem.
    label: String,
}

impl<W> Default for Entry<W> {
    fn default() -> Self {
        Self { last: None, retry: None, is_busy: false, label: String::new() }
    }
}

/// The result of one task.
pub(crate) struct Done<W> {
    name: String,
    wanted: Option<W>,
    result: Result<String, Refusal>,
}

impl<S: Source> SourceController<S> {
    /// Releases names that the source has claimed already if the first pass does not contain them.
    pub(crate) fn new(source: S, control: Arc<Control>) -> Self {
        let claimed = control.claimed_by(S::SOURCE).into_iter().map(|name| (name, Entry::default()));
        Self { source, by_name: claimed.collect(), control, tasks: JoinSet::new() }
    }

    /// Starts due tasks. A name with `None` is left alone, because its desired state is unknown. Returns when the next
    /// retry is due.
    pub(crate) fn pass(&mut self, wanted: BTreeMap<String, Option<S::Wanted>>) -> Option<Instant> {
        let gone: Vec<String> = self.by_name.keys().filter(|name| !wanted.contains_key(*name)).cloned().collect();
        for name in gone {
            self.start_if_due(name, None);
        }
        for (name, wanted) in wanted {
            if wanted.is_some() {
                self.start_if_due(name, wanted);
            }
        }
        self.by_name.values().filter(|entry| !entry.is_busy).filter_map(|entry| entry.retry).min()
    }

    fn start_if_due(&mut self, name: String, wanted: Option<S::Wanted>) {
        let label = wanted.as_ref().map(|wanted| self.source.label(&name, wanted));
        let entry = self.by_name.entry(name.clone()).or_default();
        if entry.is_busy {
            return;
        }
        if let Some(label) = label.filter(|label| *label != entry.label) {
            self.control.solved(&std::mem::replace(&mut entry.label, label));
        }
        let barred = wanted.as_ref().and_then(|_| self.control.barred(S::SOURCE, &name));
        if let Some(refusal) = barred {
            self.control.problem(&entry.label, &name, &refusal);
            entry.last = Some((wanted, Err(refusal)));
            entry.retry = None;
            return;
        }
        let is_due = match &entry.last {
            Some((last, result)) if *last == wanted => match (entry.retry, result) {
                (Some(at), _) => at <= Instant::now(),
                (None, Err(refusal)) => refusal.reason == reason::CLAIMED,
                (None, Ok(_)) => false,
            },
            _ => true,
        };
        if !is_due {
            return;
        }
        entry.retry = None;
        entry.is_busy = true;
        let control = self.control.clone();
        let applying = wanted.clone().map(|wanted| self.source.apply(&name, wanted));
        self.tasks.spawn(async move {
            let result = match applying {
                Some(applying) => applying.await,
                None => control.release(S::SOURCE, &name).await.map(|()| String::new()),
            };
            Done { name, wanted, result }
        });
    }

    /// The next finished task; `None` if none is running.
    ///
    /// # Cancel safety
    /// No result is lost.
    pub(crate) async fn ended(&mut self) -> Option<Result<Done<S::Wanted>, JoinError>> {
        self.tasks.join_next().await
    }

    /// Records a result.
    pub(crate) fn end(&mut self, done: Result<Done<S::Wanted>, JoinError>) {
        let Done { name, wanted, result } = match done {
            Ok(done) => done,
            Err(error) => {
                // Its name stays busy, because it would fail again.
                tracing::error!(%error, "applying a plugin of the {} failed", S::SOURCE.name());
                return;
            }
        };
        let Some(entry) = self.by_name.get_mut(&name) else { return };
        entry.is_busy = false;
        entry.retry = result.as_ref().err().and_then(Refusal::retry_after).map(|after| Instant::now() + after);
        match &result {
            Ok(_) => self.control.solved(&entry.label),
            Err(refusal) if refusal.is_busy() => {}
            Err(refusal) => self.control.problem(&entry.label, &name, refusal),
        }
        if wanted.is_none() && entry.retry.is_none() {
            self.by_name.remove(&name);
        } else {
            entry.last = Some((wanted, result));
        }
    }

    /// The running digest of a name, or why the desired state was rejected; `None` while it is being applied.
    pub(crate) fn result(&self, name: &str) -> Option<&Result<String, Refusal>> {
        let entry = self.by_name.get(name).filter(|entry| !entry.is_busy)?;
        entry.last.as_ref().filter(|(wanted, _)| wanted.is_some()).map(|(_, result)| result)
    }
}

/// Waits until this instant; without one, forever.
pub(crate) async fn until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
