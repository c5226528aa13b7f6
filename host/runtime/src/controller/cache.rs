//! The caches as a controller uses them: a subscription in the host, a fake in the controller's tests.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use pintle_cache::{Caches, Delta, Enqueued, RunContext, Subscription};
use pintle_core::lifecycle::kinds::MissingKind;
use pintle_core::object::id::{Key, Kind, ObjectKey};
use pintle_core::policy::pending::PendingWrite;
use pintle_core::policy::rules::RuleCache;
use pintle_core::policy::selection::Selected;
use pintle_core::ports::api::{ApiError, ApiResource, ListWatchTarget};
use pintle_core::ports::view::View;

/// A change for the plugin's own mapping; the objects are its projections.
#[derive(Clone, Debug)]
pub(crate) struct Mappable {
    pub(crate) kind: Kind,
    pub(crate) object: ObjectKey,
    pub(crate) old: Option<Arc<str>>,
    pub(crate) new: Option<Arc<str>>,
    pub(crate) initial: bool,
}

/// The caches as one plugin sees them.
pub(crate) trait PluginCache: Send + Sync {
    /// Waits until the first lists are complete.
    fn synced(&self) -> BoxFuture<'_, ()>;
    fn is_synced(&self) -> bool;
    /// Kinds whose first list is incomplete.
    fn unsynced(&self) -> Vec<Kind> {
        Vec::new()
    }
    /// Kinds that the manifest names and of which there is no complete list, absent ones included.
    fn missing(&self) -> Vec<MissingKind> {
        Vec::new()
    }
    /// A snapshot of all kinds.
    fn view(&self, context: RunContext) -> Arc<dyn View>;
    /// The same snapshot through this cache and through another one.
    fn views(
        &self,
        context: RunContext,
        other: &dyn PluginCache,
        others: RunContext,
    ) -> (Arc<dyn View>, Arc<dyn View>) {
        (self.view(context), other.view(others))
    }
    /// The underlying subscription, if any.
    fn subscription(&self) -> Option<&Subscription> {
        None
    }
    /// The uid of a cached object.
    fn uid(&self, kind: &Kind, object: &ObjectKey) -> Option<String>;
    /// The keys that the first of these changes map to, by the manifest's rules, and the number of those changes: at least one, and
    /// all unless there are `enough` keys before.
    fn keys(&self, batch: &[Delta], enough: usize) -> (usize, Vec<Enqueued>);
    /// The changes that the plugin maps itself.
    fn mappable(&self, batch: &[Delta]) -> Vec<Mappable>;
    /// The declared fields of the objects that these changes, all of one kind, lead to, as JSON texts.
    fn texts(&self, _batch: &[Delta]) -> Vec<Arc<str>> {
        Vec::new()
    }
    /// All cached objects of a kind, as changes of an initial list.
    fn all_as_new(&self, kind: &Kind) -> Vec<Delta>;
    /// The kinds whose objects are cached.
    fn kinds(&self) -> Vec<Kind>;
    /// Keys of all objects that are keys themselves.
    fn all_keys(&self) -> Vec<Key>;
    /// How many [`all_keys`](Self::all_keys) are.
    fn n_keys(&self) -> usize;
    /// How many objects the plugin's watches keep in the caches.
    fn n_objects(&self) -> usize {
        0
    }
    /// How many cached objects are controlled by an object of a kind that the manifest names.
    fn n_owned(&self) -> usize {
        0
    }
    /// How many cached objects of a kind there are in a namespace; in all if it is empty.
    fn n_in(&self, _kind: &Kind, _namespace: &str) -> usize {
        0
    }
    /// Whether the caches show the write, or something later.
    fn sees(&self, write: &PendingWrite) -> bool;
    /// Whether the selectors of the watch let it show the written object.
    fn selects(&self, write: &PendingWrite) -> Selected;
    /// Has the watch of a kind reopened where it was, because it seems to be silent or late.
    fn reopen(&self, kind: &Kind);
    /// How informers read this kind in this namespace; `None` if none does.
    fn list_watch_target(&self, kind: &Kind, namespace: &str) -> Option<ListWatchTarget>;
    fn resource(&self, kind: &Kind) -> Option<Arc<ApiResource>>;
    /// Waits until discovery is at most `max_age` old; returns the group versions that did not answer.
    fn refreshed(&self, max_age: Duration) -> BoxFuture<'_, Result<Vec<String>, ApiError>>;
    fn cached_bytes(&self) -> u64;
}

/// Maps changes to keys until there are `enough`; returns how many changes those are.
pub(super) fn keys_of_first(
    batch: &[Delta],
    enough: usize,
    map: impl Fn(&Delta) -> Vec<Enqueued>,
) -> (usize, Vec<Enqueued>) {
    let (mut n_changes, mut keys) = (0, Vec::new());
    while let Some(delta) = batch.get(n_changes).filter(|_| keys.len() < enough) {
        keys.extend(map(delta));
        n_changes += 1;
    }
    (n_changes, keys)
}

/// The implementation in the host.
pub(crate) struct Subscribed {
    pub(crate) caches: Arc<Caches>,
    pub(crate) subscription: Subscription,
}

impl PluginCache for Subscribed {
    fn synced(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.subscription.synced())
    }

    fn is_synced(&self) -> bool {
        self.subscription.is_synced()
    }

    fn unsynced(&self) -> Vec<Kind> {
        self.subscription.unsynced()
    }

    fn missing(&self) -> Vec<MissingKind> {
        self.subscription.missing()
    }

    fn view(&self, context: RunContext) -> Arc<dyn View> {
        self.subscription.snapshot().view(context)
    }

    fn views(
        &self,
        context: RunContext,
        other: &dyn PluginCache,
        others: RunContext,
    ) -> (Arc<dyn View>, Arc<dyn View>) {
        match other.subscription() {
            Some(other) => {
                let (own, other) = self.subscription.snapshots(other);
                (own.view(context), other.view(others))
            }
            None => (self.view(context), other.view(others)),
        }
    }

    fn subscription(&self) -> Option<&Subscription> {
        Some(&self.subscription)
    }

    fn uid(&self, kind: &Kind, object: &ObjectKey) -> Option<String> {
        let object = self.subscription.snapshot().object(kind, object)?;
        Some(object.meta.uid.to_string())
    }

    fn keys(&self, batch: &[Delta], enough: usize) -> (usize, Vec<Enqueued>) {
        let snapshot = self.subscription.snapshot();
        keys_of_first(batch, enough, |delta| snapshot.keys(delta))
    }

    fn mappable(&self, batch: &[Delta]) -> Vec<Mappable> {
        let snapshot = self.subscription.snapshot();
        let wanted = batch.iter().filter(|delta| snapshot.wants_mapping(delta));
        wanted
            .map(|delta| {
                let text = |object: &Option<_>| {
                    let object: &Arc<_> = object.as_ref()?;
                    snapshot.projection(&delta.kind, object)
                };
                Mappable {
                    kind: delta.kind.clone(),
                    object: delta.object().cloned().unwrap_or_default(),
                    old: text(&delta.old),
                    new: text(&delta.new),
                    initial: delta.initial,
                }
            })
            .collect()
    }

    fn texts(&self, batch: &[Delta]) -> Vec<Arc<str>> {
        let snapshot = self.subscription.snapshot();
        batch.iter().filter_map(|delta| snapshot.projection(&delta.kind, delta.new.as_ref()?)).collect()
    }

    fn all_as_new(&self, kind: &Kind) -> Vec<Delta> {
        self.subscription.snapshot().all_as_new(kind)
    }

    fn kinds(&self) -> Vec<Kind> {
        self.subscription.snapshot().listed_kinds()
    }

    fn all_keys(&self) -> Vec<Key> {
        self.subscription.all_keys()
    }

    fn n_keys(&self) -> usize {
        self.subscription.n_keys()
    }

    fn n_objects(&self) -> usize {
        self.subscription.n_objects()
    }

    fn n_owned(&self) -> usize {
        self.subscription.n_owned()
    }

    fn n_in(&self, kind: &Kind, namespace: &str) -> usize {
        self.subscription.n_in(kind, namespace)
    }

    fn sees(&self, write: &PendingWrite) -> bool {
        self.subscription.sees(write)
    }

    fn selects(&self, write: &PendingWrite) -> Selected {
        self.subscription.selects(write)
    }

    fn reopen(&self, kind: &Kind) {
        self.subscription.reopen(kind);
    }

    fn list_watch_target(&self, kind: &Kind, namespace: &str) -> Option<ListWatchTarget> {
        self.subscription.list_watch_target(kind, namespace)
    }

    fn resource(&self, kind: &Kind) -> Option<Arc<ApiResource>> {
        self.caches.resource(kind)
    }

    fn refreshed(&self, max_age: Duration) -> BoxFuture<'_, Result<Vec<String>, ApiError>> {
        Box::pin(self.caches.refreshed(max_age))
    }

    fn cached_bytes(&self) -> u64 {
        self.subscription.cached_bytes()
    }
}
