//! A fake of the caches, as a controller sees them.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures::future::BoxFuture;
use parking_lot::Mutex;
use pintle_cache::{Delta, Enqueued, RunContext};
use pintle_core::object::id::{Key, Kind, ObjectKey};
use pintle_core::policy::pending::PendingWrite;
use pintle_core::policy::selection::Selected;
use pintle_core::ports::api::{ApiError, ApiResource, Detail, ListWatchTarget};
use pintle_core::ports::view::View;
use pintle_testing::{FakeView, pod, resource};
use tokio::sync::watch;

use crate::controller::cache::keys_of_first;
use crate::controller::{Mappable, PluginCache};

/// The keys that changes map to.
type Rules = dyn Fn(&Delta) -> Vec<Enqueued> + Send + Sync;

/// A fake of the caches.
pub(crate) struct FakeCache {
    /// None by default.
    pub(crate) rules: Mutex<Option<Arc<Rules>>>,
    pub(crate) synced: watch::Sender<bool>,
    /// The newest resourceVersion that the caches show.
    pub(crate) version: AtomicU64,
    pub(crate) all_keys: Mutex<Vec<Key>>,
    /// Objects of an initial list.
    pub(crate) objects: Mutex<Vec<Delta>>,
    /// Arguments of `refreshed`; the kind `Later` is known from the first call on.
    pub(crate) refreshed: Mutex<Vec<Duration>>,
    /// Whether the watch shows what is written.
    pub(crate) selects: Mutex<Selected>,
    /// The next call of `sees` panics.
    pub(crate) is_fragile: AtomicBool,
    /// The next call of `reopen` panics.
    pub(crate) is_fragile_to_reopen: AtomicBool,
    /// Arguments of `reopen`.
    pub(crate) reopened: Mutex<Vec<Kind>>,
    /// Of all runs.
    pub(crate) views: Mutex<Vec<Weak<dyn View>>>,
}

impl FakeCache {
    /// Synced caches that show every write at once.
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            rules: Mutex::default(),
            synced: watch::Sender::new(true),
            version: AtomicU64::new(u64::MAX),
            all_keys: Mutex::default(),
            objects: Mutex::default(),
            refreshed: Mutex::default(),
            selects: Mutex::default(),
            is_fragile: AtomicBool::new(false),
            is_fragile_to_reopen: AtomicBool::new(false),
            reopened: Mutex::default(),
            views: Mutex::default(),
        })
    }
}

impl PluginCache for FakeCache {
    fn synced(&self) -> BoxFuture<'_, ()> {
        Box::pin(async { drop(self.synced.subscribe().wait_for(|synced| *synced).await) })
    }

    fn is_synced(&self) -> bool {
        *self.synced.borrow()
    }

    fn view(&self, context: RunContext) -> Arc<dyn View> {
        let RunContext {
            now,
            uptime,
            config,
            state,
            attempt,
            failures,
            answers,
            max_read_bytes: _,
            max_work: _,
            account: _,
        } = context;
        let state = state.into_iter().collect();
        let view: Arc<dyn View> =
            Arc::new(FakeView { now, uptime, config, state, attempt, failures, answers, ..FakeView::default() });
        self.views.lock().push(Arc::downgrade(&view));
        view
    }

    fn uid(&self, _: &Kind, object: &ObjectKey) -> Option<String> {
        Some(format!("uid-{}", object.name))
    }

    fn keys(&self, batch: &[Delta], enough: usize) -> (usize, Vec<Enqueued>) {
        let rules = self.rules.lock().clone();
        keys_of_first(batch, enough, |delta| rules.as_ref().map_or_else(Vec::new, |rules| rules(delta)))
    }

    fn mappable(&self, batch: &[Delta]) -> Vec<Mappable> {
        let one = |delta: &Delta| Mappable {
            kind: delta.kind.clone(),
            object: ObjectKey::default(),
            old: None,
            new: Some("{}".into()),
            initial: delta.initial,
        };
        batch.iter().map(one).collect()
    }

    fn all_as_new(&self, kind: &Kind) -> Vec<Delta> {
        self.objects.lock().iter().filter(|delta| delta.kind == *kind).cloned().collect()
    }

    fn kinds(&self) -> Vec<Kind> {
        let kinds: BTreeSet<Kind> = self.objects.lock().iter().map(|delta| delta.kind.clone()).collect();
        kinds.into_iter().collect()
    }

    fn all_keys(&self) -> Vec<Key> {
        self.all_keys.lock().clone()
    }

    fn n_keys(&self) -> usize {
        self.all_keys.lock().len()
    }

    fn sees(&self, write: &PendingWrite) -> bool {
        assert!(!self.is_fragile.swap(false, Ordering::Relaxed), "boom");
        let shown = self.version.load(Ordering::Relaxed);
        // Objects that the API server does not show have no version; they are never in this cache.
        write.resource_version.parse().unwrap_or(0) <= shown
    }

    fn selects(&self, _: &PendingWrite) -> Selected {
        *self.selects.lock()
    }

    fn reopen(&self, kind: &Kind) {
        assert!(!self.is_fragile_to_reopen.swap(false, Ordering::Relaxed), "boom");
        self.reopened.lock().push(kind.clone());
    }

    fn list_watch_target(&self, kind: &Kind, namespace: &str) -> Option<ListWatchTarget> {
        (*kind == pod()).then(|| ListWatchTarget {
            kind: pod(),
            plural: "pods".into(),
            namespace: Some(namespace.to_owned()),
            label_selector: None,
            field_selector: None,
            detail: Detail::Metadata,
        })
    }

    fn resource(&self, kind: &Kind) -> Option<Arc<ApiResource>> {
        let known = match &*kind.name {
            "Unknown" => false,
            "Later" => !self.refreshed.lock().is_empty(),
            _ => true,
        };
        known.then(|| resource(kind))
    }

    fn refreshed(&self, max_age: Duration) -> BoxFuture<'_, Result<Vec<String>, ApiError>> {
        self.refreshed.lock().push(max_age);
        Box::pin(async { Ok(vec!["example.com/v1".to_owned()]) })
    }

    fn cached_bytes(&self) -> u64 {
        0
    }
}
