//! The scheduling policy: which calls of which plugins may use a processor. No I/O.
//!
//! A call starts as *quick*. After a few ticks it becomes *slow*: from then on it runs for one tick at a time, and
//! queues with the slow calls of all plugins after each.
//!
//! Invariants:
//! 1. A plugin has at most `width` slots at a time, one fewer than the processors: it never occupies all of them.
//! 2. All plugins together have at most `width` slow slots, and each plugin at most one: a processor stays free for
//!    quick calls.
//! 3. A plugin has at most its own bound of concurrent calls, and all plugins together at most `max_calls`; but a
//!    plugin without a call may always start one, so no plugin can take the last place. The same holds for memory: the
//!    calls of all plugins together reserve at most `max_bytes`, each its maximum.
//! 4. No call waits while a slot is free: each step grants every slot that can be granted.
//! 5. Plugins are served round robin, and the calls of a plugin in arrival order; a plugin's new and slow calls
//!    alternate.
//!
//! Not here: waiting and waking (`super`), the length of a tick.
//!
//! *Source*: a multilevel feedback queue with two levels.

use std::collections::{BTreeMap, VecDeque};

/// A call, by number.
pub(crate) type CallId = u64;
/// A plugin, by number.
pub(crate) type PluginId = u64;

/// Calls with and without slots.
#[derive(Debug)]
pub(crate) struct Rules {
    width: usize,
    max_calls: usize,
    max_bytes: u64,
    n_calls: usize,
    /// Memory reserved by all calls.
    n_bytes: u64,
    n_slow_slots: usize,
    plugins: BTreeMap<PluginId, Plugin>,
    calls: BTreeMap<CallId, Call>,
    /// Plugins with waiting calls, in the order in which they are served.
    order: VecDeque<PluginId>,
}

#[derive(Debug)]
struct Plugin {
    demand: Demand,
    /// Calls that have started and not ended.
    n_calls: usize,
    n_slots: usize,
    has_slow_slot: bool,
    /// Whether the last slot went to a slow call.
    slow_last: bool,
    /// Calls that have not started yet.
    new: VecDeque<CallId>,
    /// Started calls without a slot.
    slow: VecDeque<CallId>,
}

/// Maximum resources of a plugin's calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Demand {
    /// Maximum concurrent calls.
    pub(crate) n_calls: usize,
    /// Maximum memory of one call.
    pub(crate) call_bytes: u64,
}

#[derive(Debug)]
struct Call {
    plugin: PluginId,
    state: State,
    /// Reserved memory, once the call has started.
    n_bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    New,
    QuickSlot,
    SlowWaits,
    SlowSlot,
}

impl Rules {
    pub(crate) fn new(width: usize, max_calls: usize, max_bytes: u64) -> Self {
        Self {
            width: width.max(1),
            max_calls: max_calls.max(1),
            max_bytes,
            n_calls: 0,
            n_bytes: 0,
            n_slow_slots: 0,
            plugins: BTreeMap::new(),
            calls: BTreeMap::new(),
            order: VecDeque::new(),
        }
    }

    /// Adds a plugin. It is allowed at least one call.
    pub(crate) fn add_plugin(&mut self, id: PluginId, demand: Demand) {
        let plugin = Plugin {
            demand,
            n_calls: 0,
            n_slots: 0,
            has_slow_slot: false,
            slow_last: false,
            new: VecDeque::new(),
            slow: VecDeque::new(),
        };
        self.plugins.insert(id, plugin);
    }

    /// Changes the demand for later calls of a plugin. Running calls over a smaller bound are not stopped.
    pub(crate) fn set_demand(&mut self, id: PluginId, demand: Demand, granted: &mut Vec<CallId>) {
        if let Some(plugin) = self.plugins.get_mut(&id) {
            plugin.demand = demand;
        }
        self.grant(granted);
    }

    /// Removes a plugin whose calls have all ended.
    pub(crate) fn remove_plugin(&mut self, id: PluginId) {
        self.plugins.remove(&id);
    }

    /// Queues a new call. Calls that get a slot, possibly this one, are appended to `granted`.
    pub(crate) fn begin(&mut self, id: CallId, plugin: PluginId, granted: &mut Vec<CallId>) {
        self.calls.insert(id, Call { plugin, state: State::New, n_bytes: 0 });
        self.enqueue(id, plugin, State::New);
        self.grant(granted);
    }

    /// Marks a call as slow after its time slice, and queues it.
    pub(crate) fn yield_slot(&mut self, id: CallId, granted: &mut Vec<CallId>) {
        let Some(call) = self.calls.get_mut(&id) else { return };
        let (plugin, before) = (call.plugin, call.state);
        call.state = State::SlowWaits;
        self.release(plugin, before);
        if let Some(plugin) = self.plugins.get_mut(&plugin) {
            plugin.slow_last = true;
        }
        self.enqueue(id, plugin, State::SlowWaits);
        self.grant(granted);
    }

    /// Removes a call that ended or was abandoned.
    pub(crate) fn end(&mut self, id: CallId, granted: &mut Vec<CallId>) {
        let Some(Call { plugin: of, state, n_bytes }) = self.calls.remove(&id) else { return };
        self.release(of, state);
        if let Some(plugin) = self.plugins.get_mut(&of) {
            plugin.new.retain(|call| *call != id);
            plugin.slow.retain(|call| *call != id);
            if state != State::New {
                plugin.n_calls -= 1;
                self.n_calls -= 1;
                self.n_bytes -= n_bytes;
            }
        }
        self.grant(granted);
    }

    fn enqueue(&mut self, id: CallId, of: PluginId, state: State) {
        let Some(plugin) = self.plugins.get_mut(&of) else { return };
        if plugin.new.is_empty() && plugin.slow.is_empty() {
            self.order.push_back(of);
        }
        if state == State::New { plugin.new.push_back(id) } else { plugin.slow.push_back(id) }
    }

    fn release(&mut self, plugin: PluginId, state: State) {
        let Some(plugin) = self.plugins.get_mut(&plugin) else { return };
        if matches!(state, State::QuickSlot | State::SlowSlot) {
            plugin.n_slots -= 1;
        }
        if state == State::SlowSlot {
            plugin.has_slow_slot = false;
            self.n_slow_slots -= 1;
        }
    }

    fn grant(&mut self, granted: &mut Vec<CallId>) {
        let mut i = 0;
        while let Some(of) = self.order.get(i).copied() {
            let call = self.next_of(of);
            let waits = self.plugins.get(&of).is_some_and(|plugin| !plugin.new.is_empty() || !plugin.slow.is_empty());
            if call.is_some() || !waits {
                self.order.remove(i);
            }
            if let Some(call) = call {
                if waits {
                    self.order.push_back(of);
                }
                granted.push(call);
                // A grant never makes a skipped plugin eligible.
            } else if waits {
                i += 1;
            }
        }
    }

    /// Grants a slot to the next eligible call of this plugin, if any.
    fn next_of(&mut self, plugin: PluginId) -> Option<CallId> {
        let plugin = self.plugins.get_mut(&plugin)?;
        if plugin.n_slots >= self.width {
            return None;
        }
        let Demand { n_calls, call_bytes } = plugin.demand;
        let is_within_all = self.n_calls < self.max_calls && self.n_bytes.saturating_add(call_bytes) <= self.max_bytes;
        let has_place = plugin.n_calls == 0 || (plugin.n_calls < n_calls && is_within_all);
        let new = has_place && !plugin.new.is_empty();
        let slow = !plugin.slow.is_empty() && !plugin.has_slow_slot && self.n_slow_slots < self.width;
        let slow = slow && !(new && plugin.slow_last);
        let (id, state, n_bytes) = if slow {
            plugin.has_slow_slot = true;
            self.n_slow_slots += 1;
            (plugin.slow.pop_front()?, State::SlowSlot, None)
        } else if new {
            plugin.n_calls += 1;
            self.n_calls += 1;
            self.n_bytes += call_bytes;
            (plugin.new.pop_front()?, State::QuickSlot, Some(call_bytes))
        } else {
            return None;
        };
        plugin.slow_last = slow;
        plugin.n_slots += 1;
        if let Some(call) = self.calls.get_mut(&id) {
            call.state = state;
            call.n_bytes = n_bytes.unwrap_or(call.n_bytes);
        }
        Some(id)
    }
}

#[cfg(test)]
mod tests;
