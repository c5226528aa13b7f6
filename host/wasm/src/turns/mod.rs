//! Turns at the processors: a call waits here until it may run, and again after each tick once it is slow.
//!
//! *Flow*: `Member::begin` -> [`Turn`] -> the guest runs -> ticks -> `Turn::pass` -> the guest runs -> ... -> drop.
//!
//! Not here: who is next (`rules`), what interrupts a guest (`crate::ticker`, `crate::guest`).

mod rules;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::oneshot;

use rules::{CallId, PluginId, Rules};

/// All turns of an engine.
#[derive(Debug)]
pub(crate) struct Turns {
    inner: Mutex<Inner>,
    last_call: AtomicU64,
}

#[derive(Debug)]
struct Inner {
    rules: Rules,
    plugins: HashMap<Arc<str>, Registered>,
    /// Who waits for a turn.
    waiting: HashMap<CallId, oneshot::Sender<()>>,
    last_plugin: PluginId,
    /// Calls that have just been given a turn; empty between steps.
    given: Vec<CallId>,
}

#[derive(Debug)]
struct Registered {
    id: PluginId,
    /// Versions of the plugin that are loaded.
    n_members: usize,
}

/// A version of a plugin. The versions of a plugin share its turns.
#[derive(Debug)]
pub(crate) struct Member {
    turns: Arc<Turns>,
    name: Arc<str>,
    plugin: PluginId,
}

/// The turn of one call. Dropping it ends the call.
#[derive(Debug)]
pub(crate) struct Turn {
    turns: Arc<Turns>,
    id: CallId,
    waited_nanos: AtomicU64,
}

impl Turns {
    /// For so many processors, and so many calls at once.
    pub(crate) fn new(n_processors: usize, max_calls: usize) -> Arc<Self> {
        let inner = Inner {
            rules: Rules::new(n_processors.saturating_sub(1), max_calls),
            plugins: HashMap::new(),
            waiting: HashMap::new(),
            last_plugin: 0,
            given: Vec::new(),
        };
        Arc::new(Self { inner: Mutex::new(inner), last_call: AtomicU64::new(0) })
    }

    /// Adds a version of a plugin that may have `bound` calls at once. The bound of the first version that is loaded holds.
    pub(crate) fn member(self: &Arc<Self>, name: &Arc<str>, bound: usize) -> Member {
        let mut inner = self.inner.lock();
        let inner = &mut *inner;
        let plugin = inner.plugins.entry(name.clone()).or_insert_with(|| {
            inner.last_plugin += 1;
            inner.rules.add_plugin(inner.last_plugin, bound);
            Registered { id: inner.last_plugin, n_members: 0 }
        });
        plugin.n_members += 1;
        Member { turns: self.clone(), name: name.clone(), plugin: plugin.id }
    }

    /// Takes a step, and wakes whom it gives a turn. If the call `waits` and is not among them, the receiver will tell it.
    fn step(
        &self,
        id: CallId,
        waits: bool,
        step: impl FnOnce(&mut Rules, &mut Vec<CallId>),
    ) -> Option<oneshot::Receiver<()>> {
        let mut inner = self.inner.lock();
        let Inner { rules, waiting, given, .. } = &mut *inner;
        step(rules, given);
        let mut woken = Vec::new();
        let mut is_given = false;
        for call in given.drain(..) {
            is_given |= call == id;
            woken.extend(waiting.remove(&call));
        }
        let receiver = if waits && !is_given {
            let (sender, receiver) = oneshot::channel();
            waiting.insert(id, sender);
            Some(receiver)
        } else {
            waiting.remove(&id);
            None
        };
        drop(inner);
        for sender in woken {
            // Who does not wait any more ends its call, which gives the turn to somebody else.
            let _ = sender.send(());
        }
        receiver
    }
}

impl Member {
    /// Waits for the first turn of a call.
    ///
    /// # Cancel safety
    /// The place in the line is given up.
    pub(crate) async fn begin(&self) -> Arc<Turn> {
        let id = self.turns.last_call.fetch_add(1, Ordering::Relaxed);
        let turn = Arc::new(Turn { turns: self.turns.clone(), id, waited_nanos: AtomicU64::new(0) });
        let wait = self.turns.step(id, true, |rules, given| rules.begin(id, self.plugin, given));
        if let Some(wait) = wait {
            // It is dropped unsent only with the engine.
            let _ = wait.await;
        }
        turn
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let mut inner = self.turns.inner.lock();
        let inner = &mut *inner;
        if let Some(plugin) = inner.plugins.get_mut(&self.name) {
            plugin.n_members -= 1;
            if plugin.n_members == 0 {
                inner.rules.remove_plugin(plugin.id);
                inner.plugins.remove(&self.name);
            }
        }
    }
}

impl Turn {
    /// Lets others have their turn, and waits for the next one of this call.
    ///
    /// # Cancel safety
    /// The call is without a turn then, and must end.
    pub(crate) async fn pass(self: Arc<Self>) {
        let id = self.id;
        match self.turns.step(id, true, |rules, given| rules.pass(id, given)) {
            // Nobody else wants the turn; but the thread's other tasks have theirs.
            None => tokio::task::yield_now().await,
            Some(wait) => {
                let since = Instant::now();
                let _ = wait.await;
                let waited = u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX);
                self.waited_nanos.fetch_add(waited, Ordering::Relaxed);
            }
        }
    }

    /// Time that [`Turn::pass`] has waited for turns, which is no fault of the guest.
    pub(crate) fn waited(&self) -> Duration {
        Duration::from_nanos(self.waited_nanos.load(Ordering::Relaxed))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let id = self.id;
        self.turns.step(id, false, |rules, given| rules.end(id, given));
    }
}

#[cfg(test)]
mod tests;
