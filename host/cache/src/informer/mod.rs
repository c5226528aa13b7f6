//! An informer lists and watches one kind in one scope and keeps its store current, for all plugins that watch it.
//!
//! Flow: API server -> frames -> objects (outside the lock) -> store (under the lock, in batches) -> listeners.
//!
//! Invariants:
//! 1. Only the informer's task changes its store; a list becomes visible as a whole.
//! 2. A listener first receives all objects as `initial`, then every change, in order, after the store shows it.
//! 3. During an outage of the API server or a new list, the old objects stay.
//!
//! Not here: which informers exist (`caches`), the next step (`machine`).

pub(crate) mod machine;
pub(crate) mod plan;
mod task;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;
use pintle_core::object::id::Kind;
use pintle_core::object::texts::Projection;
use pintle_core::ports::api::ApiReader;
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;

use self::plan::{Demand, FieldDemand};
use crate::discovery::DiscoveryRequests;
use crate::reader::ObjectReader;
use crate::store::set::{StoreId, StoreSet};
use crate::supervisor::Supervisor;
use crate::types::{CachesConfig, ChangeHandler};

/// State shared by all informers.
pub(crate) struct Env {
    pub(crate) reader: Arc<dyn ApiReader>,
    pub(crate) config: CachesConfig,
    pub(crate) stores: StoreSet,
    /// Shared by the discovery task and its callers.
    pub(crate) requests: Arc<DiscoveryRequests>,
    pub(crate) supervisor: Arc<Supervisor>,
    /// Changes when the server answers again after an outage.
    pub(crate) back: watch::Sender<u64>,
}

/// The objects that an informer reads; each scope has at most one informer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Scope {
    pub(crate) kind: Kind,
    pub(crate) plural: String,
    pub(crate) namespace: Option<String>,
    pub(crate) label_selector: Option<String>,
    pub(crate) field_selector: Option<String>,
}

/// All informers.
pub(crate) type Informers = HashMap<Scope, Informer>;

/// One subscription's use of one informer.
pub(crate) struct Listener {
    pub(crate) handler: Arc<dyn ChangeHandler>,
    demand: Arc<Demand>,
    /// Minimum generation of the plan under which the store must be filled to satisfy the demand.
    pub(crate) generation: u64,
    /// Reads the declared fields.
    pub(crate) fields: ObjectReader,
    /// Reads whole objects, if they are declared.
    pub(crate) whole: Option<ObjectReader>,
    /// Whether its subscription is complete: from then on it receives changes.
    registered: AtomicBool,
    /// Whether it has received the initial list.
    synced: AtomicBool,
    /// Whether the server has rejected the list for long, and the kind is optional for this listener.
    skipped: AtomicBool,
    /// Whether it can do without a kind that the server refuses to list.
    pub(crate) optional: bool,
    /// Whether it has left, and receives nothing more.
    cancelled: AtomicBool,
    /// Called once the listener is ready.
    pub(crate) on_ready: Box<dyn Fn() + Send + Sync>,
}

impl Listener {
    /// The reader for the most that is declared.
    pub(crate) fn fullest(&self) -> &ObjectReader {
        self.whole.as_ref().unwrap_or(&self.fields)
    }

    pub(crate) fn is_skipped(&self) -> bool {
        self.skipped.load(Ordering::Acquire)
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.synced.load(Ordering::Acquire) || self.skipped.load(Ordering::Acquire)
    }
}

/// Counters of one informer, for metrics.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) lists: AtomicU64,
    pub(crate) watches: AtomicU64,
    pub(crate) failures: AtomicU64,
    pub(crate) frames: AtomicU64,
    pub(crate) skipped: AtomicU64,
}

/// A running informer. Dropping it stops it and frees its store.
pub(crate) struct Informer {
    shared: Arc<Shared>,
    env: Arc<Env>,
    task: AbortHandle,
}

/// State that the informer's task shares with its users.
pub(crate) struct Shared {
    pub(crate) scope: Scope,
    pub(crate) store: StoreId,
    pub(crate) counts: Counts,
    state: Mutex<Interests>,
    /// The message of the server's refusal to list the kind, since the last list.
    refusal: Mutex<Option<String>>,
    /// Requests a new watch, because the current one seems to be silent or late.
    reopen: AtomicBool,
    /// Wakes the task after a change of demands, or a request to reopen the watch.
    changed: Notify,
}

impl Shared {
    /// The message of the server's refusal to list the kind; absent while the list may soon succeed.
    pub(crate) fn refusal(&self) -> Option<String> {
        self.refusal.lock().clone()
    }
}

struct Interests {
    demand: FieldDemand,
    listeners: Vec<Arc<Listener>>,
}

impl Informer {
    /// Starts an informer; it is idle until the first listener joins.
    pub(crate) fn start(env: &Arc<Env>, scope: Scope) -> Self {
        let demand = FieldDemand::new(scope.kind.clone());
        let store = env.stores.add(demand.plan().0);
        let shared = Arc::new(Shared {
            scope,
            store,
            counts: Counts::default(),
            state: Mutex::new(Interests { demand, listeners: Vec::new() }),
            refusal: Mutex::default(),
            reopen: AtomicBool::new(false),
            changed: Notify::new(),
        });
        let (of_task, task_env) = (shared.clone(), env.clone());
        let task = async move {
            let start = |is_restart| task::run(of_task.clone(), task_env.clone(), is_restart);
            task_env.supervisor.run("informer", start).await;
        };
        let task = tokio::spawn(task).abort_handle();
        Self { shared, env: env.clone(), task }
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Adds a listener with its demand. It receives nothing before [`Informer::register`].
    pub(crate) fn join(&self, demand: &Arc<Demand>, new: NewListener) -> Arc<Listener> {
        let mut state = self.shared.state.lock();
        let listener = Arc::new(Listener {
            handler: new.handler,
            generation: state.demand.claim(demand.clone()),
            fields: ObjectReader::new(Projection::Fields(demand.fields.clone())),
            whole: demand.whole.then(|| ObjectReader::new(Projection::Whole)),
            demand: demand.clone(),
            registered: AtomicBool::new(false),
            synced: AtomicBool::new(false),
            skipped: AtomicBool::new(false),
            optional: new.optional,
            cancelled: AtomicBool::new(false),
            on_ready: new.on_ready,
        });
        state.listeners.push(listener.clone());
        drop(state);
        self.shared.changed.notify_one();
        listener
    }

    /// Sends the objects to a joined listener, and all changes from then on.
    pub(crate) fn register(&self, listener: &Listener) {
        if !listener.registered.swap(true, Ordering::AcqRel) {
            self.shared.changed.notify_one();
        }
    }

    /// Reopens the watch at its version.
    pub(crate) fn reopen(&self) {
        self.shared.reopen.store(true, Ordering::Release);
        self.shared.changed.notify_one();
    }

    /// Removes a listener; returns true if it was the last one.
    pub(crate) fn leave(&self, listener: &Arc<Listener>) -> bool {
        listener.cancelled.store(true, Ordering::Release);
        let mut state = self.shared.state.lock();
        let before = state.listeners.len();
        state.listeners.retain(|ours| !Arc::ptr_eq(ours, listener));
        if state.listeners.len() < before {
            state.demand.release(&listener.demand);
        }
        state.listeners.is_empty()
    }
}

impl Drop for Informer {
    fn drop(&mut self) {
        self.task.abort();
        self.env.stores.remove(self.shared.store);
    }
}

/// Parameters of [`Informer::join`].
pub(crate) struct NewListener {
    pub(crate) handler: Arc<dyn ChangeHandler>,
    pub(crate) optional: bool,
    pub(crate) on_ready: Box<dyn Fn() + Send + Sync>,
}

#[cfg(test)]
mod tests {
    use pintle_core::policy::rules::Delta;
    use pintle_testing::{FakeServer, pod};
    use serde_json::json;

    use super::*;

    #[derive(Default)]
    struct Count(AtomicU64);

    impl ChangeHandler for Count {
        fn on_changes(&self, batch: &Arc<[Delta]>) {
            self.0.fetch_add(batch.len() as u64, Ordering::SeqCst);
        }

        fn on_progress(&self, _: &Kind) {}
    }

    /// Before that, the subscription has no table, and could not assign the objects to a watch.
    #[tokio::test(start_paused = true)]
    async fn a_list_that_is_complete_before_the_subscription_is_waits_for_it() {
        let config = CachesConfig::default();
        let server = FakeServer::new();
        server.put("pods", "ns", "a", json!({}));
        let env = Env {
            reader: server,
            config,
            stores: StoreSet::default(),
            requests: Arc::default(),
            supervisor: Supervisor::new(),
            back: watch::Sender::new(0),
        };
        let env = Arc::new(env);
        let scope =
            Scope { kind: pod(), plural: "pods".into(), namespace: None, label_selector: None, field_selector: None };
        let informer = Informer::start(&env, scope);
        let heard = Arc::new(Count::default());
        let new = NewListener { handler: heard.clone(), optional: false, on_ready: Box::new(|| {}) };
        let listener = informer.join(&Arc::default(), new);
        // The paused clock advances only when all tasks are idle.
        tokio::time::sleep(CachesConfig::default().stream_quiet_limit / 2).await;
        assert_eq!(env.stores.read(informer.shared().store, |store| store.len()), Some(1));
        assert_eq!((heard.0.load(Ordering::SeqCst), listener.is_ready()), (0, false));
        informer.register(&listener);
        tokio::time::sleep(CachesConfig::default().stream_quiet_limit / 2).await;
        assert_eq!((heard.0.load(Ordering::SeqCst), listener.is_ready()), (1, true));
    }
}
