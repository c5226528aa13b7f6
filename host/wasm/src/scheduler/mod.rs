//! CPU scheduling of calls: a call waits here for a CPU slot before it runs, and after each tick once it is slow.
//!
//! *Flow*: `Member::begin` -> [`Slot`] -> the guest runs -> ticks -> `Slot::yield_slot` -> the guest runs -> ... ->
//! drop.
//!
//! Not here: the scheduling policy (`rules`), preemption of a guest (`crate::ticker`, `crate::guest`).

mod rules;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::oneshot;

use rules::{CallId, PluginId, Rules};

pub(crate) use rules::Demand;

/// The CPU scheduler of an engine.
#[derive(Debug)]
pub(crate) struct CpuScheduler {
    state: Mutex<State>,
    last_call: AtomicU64,
}

#[derive(Debug)]
struct State {
    rules: Rules,
    plugins: HashMap<Arc<str>, Registered>,
    /// Calls that wait for a slot.
    waiting: HashMap<CallId, oneshot::Sender<()>>,
    last_plugin: PluginId,
    /// Calls that have just been granted a slot; empty between steps.
    granted: Vec<CallId>,
}

#[derive(Debug)]
struct Registered {
    id: PluginId,
    /// One per loaded version.
    demands: Vec<Demand>,
}

impl Registered {
    /// The smallest number of calls and the largest memory per call, because the next call may be of any version.
    fn demand(&self) -> Demand {
        Demand {
            n_calls: self.demands.iter().map(|demand| demand.n_calls).min().unwrap_or(1),
            call_bytes: self.demands.iter().map(|demand| demand.call_bytes).max().unwrap_or(0),
        }
    }
}

/// A version of a plugin. All versions of a plugin share its slots.
#[derive(Debug)]
pub(crate) struct Member {
    scheduler: Arc<CpuScheduler>,
    name: Arc<str>,
    plugin: PluginId,
    demand: Demand,
}

/// The CPU slot of one call. Dropping it ends the call.
#[derive(Debug)]
pub(crate) struct Slot {
    scheduler: Arc<CpuScheduler>,
    id: CallId,
    waited_nanos: AtomicU64,
}

impl CpuScheduler {
    /// Creates a scheduler for this number of processors, with at most `max_calls` concurrent calls that use at most
    /// `max_bytes` of memory in total.
    pub(crate) fn new(n_processors: usize, max_calls: usize, max_bytes: u64) -> Arc<Self> {
        let state = State {
            rules: Rules::new(n_processors.saturating_sub(1), max_calls, max_bytes),
            plugins: HashMap::new(),
            waiting: HashMap::new(),
            last_plugin: 0,
            granted: Vec::new(),
        };
        Arc::new(Self { state: Mutex::new(state), last_call: AtomicU64::new(0) })
    }

    /// Adds a version of a plugin. The smallest number of calls of the loaded versions applies, and the largest memory
    /// per call.
    pub(crate) fn member(self: &Arc<Self>, name: &Arc<str>, demand: Demand) -> Member {
        let plugin = self.change(|state| {
            let plugin = state.plugins.entry(name.clone()).or_insert_with(|| {
                state.last_plugin += 1;
                state.rules.add_plugin(state.last_plugin, demand);
                Registered { id: state.last_plugin, demands: Vec::new() }
            });
            plugin.demands.push(demand);
            state.rules.set_demand(plugin.id, plugin.demand(), &mut state.granted);
            plugin.id
        });
        Member { scheduler: self.clone(), name: name.clone(), plugin, demand }
    }

    /// Performs a step and wakes the calls that get a slot. Returns a receiver if the call `waits` and got no slot.
    fn step(
        &self,
        id: CallId,
        waits: bool,
        step: impl FnOnce(&mut Rules, &mut Vec<CallId>),
    ) -> Option<oneshot::Receiver<()>> {
        self.change(|State { rules, waiting, granted, .. }| {
            step(rules, granted);
            if waits && !granted.contains(&id) {
                let (sender, receiver) = oneshot::channel();
                waiting.insert(id, sender);
                Some(receiver)
            } else {
                waiting.remove(&id);
                None
            }
        })
    }

    /// Changes the state and wakes the calls that get a slot.
    fn change<R>(&self, change: impl FnOnce(&mut State) -> R) -> R {
        let mut state = self.state.lock();
        let result = change(&mut state);
        let State { waiting, granted, .. } = &mut *state;
        let woken: Vec<_> = granted.drain(..).filter_map(|call| waiting.remove(&call)).collect();
        drop(state);
        for sender in woken {
            // If the receiver was dropped, the call ends, and the scheduler grants its slot to another one.
            let _ = sender.send(());
        }
        result
    }
}

impl Member {
    /// Waits for the first slot of a call.
    ///
    /// # Cancel safety
    /// The call loses its place in the queue.
    pub(crate) async fn begin(&self) -> Arc<Slot> {
        let id = self.scheduler.last_call.fetch_add(1, Ordering::Relaxed);
        let slot = Arc::new(Slot { scheduler: self.scheduler.clone(), id, waited_nanos: AtomicU64::new(0) });
        let wait = self.scheduler.step(id, true, |rules, granted| rules.begin(id, self.plugin, granted));
        if let Some(wait) = wait {
            // The sender is dropped without a message only together with the engine.
            let _ = wait.await;
        }
        slot
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.scheduler.change(|state| {
            let Some(plugin) = state.plugins.get_mut(&self.name) else { return };
            if let Some(place) = plugin.demands.iter().position(|demand| *demand == self.demand) {
                plugin.demands.swap_remove(place);
            }
            if plugin.demands.is_empty() {
                state.rules.remove_plugin(plugin.id);
                state.plugins.remove(&self.name);
            } else {
                state.rules.set_demand(plugin.id, plugin.demand(), &mut state.granted);
            }
        });
    }
}

impl Slot {
    /// Yields the slot to other calls, and waits for the next slot of this call.
    ///
    /// # Cancel safety
    /// The call has no slot afterwards and must end.
    pub(crate) async fn yield_slot(self: Arc<Self>) {
        let id = self.id;
        match self.scheduler.step(id, true, |rules, granted| rules.yield_slot(id, granted)) {
            // No other call waits for the slot; yield to the thread's other tasks.
            None => tokio::task::yield_now().await,
            Some(wait) => {
                let since = Instant::now();
                let _ = wait.await;
                let waited = u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX);
                self.waited_nanos.fetch_add(waited, Ordering::Relaxed);
            }
        }
    }

    /// Time that [`Slot::yield_slot`] has waited. It does not count against the guest's deadline.
    pub(crate) fn waited(&self) -> Duration {
        Duration::from_nanos(self.waited_nanos.load(Ordering::Relaxed))
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let id = self.id;
        self.scheduler.step(id, false, |rules, granted| rules.end(id, granted));
    }
}

#[cfg(test)]
mod tests;
