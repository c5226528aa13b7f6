//! Whose turn it is: which calls of which plugins may use a processor, decided without one.
//!
//! A call begins *quick*. Once it has run for a few ticks it is *slow*: from then on it runs for one tick at a time, and lines up
//! with the slow calls of all plugins after each.
//!
//! Invariants:
//! 1. A plugin has at most `width` turns at once, one less than there are processors: it never holds all of them.
//! 2. All plugins together have at most `width` slow turns, and each plugin at most one: there is a processor for quick calls.
//! 3. A plugin has at most its own number of calls at once, and all plugins together at most `max_calls`; but a plugin without a
//!    call may always begin one, so that nobody can take the last place.
//! 4. Nobody waits for what is free: after each step all turns that can be given are given.
//! 5. Plugins are served round about, and the calls of a plugin in the order in which they came; a plugin's new calls and its
//!    slow ones take turns.
//!
//! Not here: waiting and waking (`super`), what a tick is.

use std::collections::{BTreeMap, VecDeque};

/// A call, by number.
pub(crate) type CallId = u64;
/// A plugin, by number.
pub(crate) type PluginId = u64;

/// Who has a turn, and who waits for one.
#[derive(Debug)]
pub(crate) struct Rules {
    width: usize,
    max_calls: usize,
    n_calls: usize,
    n_slow_turns: usize,
    plugins: BTreeMap<PluginId, Plugin>,
    calls: BTreeMap<CallId, Call>,
    /// Plugins with calls that wait, the next one to be served first.
    order: VecDeque<PluginId>,
}

#[derive(Debug)]
struct Plugin {
    /// Calls that it may have at once.
    bound: usize,
    /// Begun and not ended.
    n_calls: usize,
    n_turns: usize,
    has_slow_turn: bool,
    /// The last turn was that of a slow call.
    slow_last: bool,
    /// Not begun yet.
    new: VecDeque<CallId>,
    /// Begun, and without a turn.
    slow: VecDeque<CallId>,
}

#[derive(Debug)]
struct Call {
    plugin: PluginId,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    New,
    QuickTurn,
    SlowWaits,
    SlowTurn,
}

impl Rules {
    pub(crate) fn new(width: usize, max_calls: usize) -> Self {
        Self {
            width: width.max(1),
            max_calls: max_calls.max(1),
            n_calls: 0,
            n_slow_turns: 0,
            plugins: BTreeMap::new(),
            calls: BTreeMap::new(),
            order: VecDeque::new(),
        }
    }

    /// A plugin that may have `bound` calls at once.
    pub(crate) fn add_plugin(&mut self, id: PluginId, bound: usize) {
        let plugin = Plugin {
            bound: bound.max(1),
            n_calls: 0,
            n_turns: 0,
            has_slow_turn: false,
            slow_last: false,
            new: VecDeque::new(),
            slow: VecDeque::new(),
        };
        self.plugins.insert(id, plugin);
    }

    /// A plugin whose calls have all ended.
    pub(crate) fn remove_plugin(&mut self, id: PluginId) {
        self.plugins.remove(&id);
    }

    /// A call wants to begin. Those that are given turns, maybe itself, are appended to `given`.
    pub(crate) fn begin(&mut self, id: CallId, plugin: PluginId, given: &mut Vec<CallId>) {
        self.calls.insert(id, Call { plugin, state: State::New });
        self.line_up(id, plugin, State::New);
        self.give(given);
    }

    /// A call with a turn has run for long enough: it is slow from now on, and lines up.
    pub(crate) fn pass(&mut self, id: CallId, given: &mut Vec<CallId>) {
        let Some(call) = self.calls.get_mut(&id) else { return };
        let (plugin, before) = (call.plugin, call.state);
        call.state = State::SlowWaits;
        self.take_back(plugin, before);
        if let Some(plugin) = self.plugins.get_mut(&plugin) {
            plugin.slow_last = true;
        }
        self.line_up(id, plugin, State::SlowWaits);
        self.give(given);
    }

    /// A call has ended, or will never begin.
    pub(crate) fn end(&mut self, id: CallId, given: &mut Vec<CallId>) {
        let Some(Call { plugin: of, state }) = self.calls.remove(&id) else { return };
        self.take_back(of, state);
        if let Some(plugin) = self.plugins.get_mut(&of) {
            plugin.new.retain(|call| *call != id);
            plugin.slow.retain(|call| *call != id);
            if state != State::New {
                plugin.n_calls -= 1;
                self.n_calls -= 1;
            }
        }
        self.give(given);
    }

    fn line_up(&mut self, id: CallId, of: PluginId, state: State) {
        let Some(plugin) = self.plugins.get_mut(&of) else { return };
        if plugin.new.is_empty() && plugin.slow.is_empty() {
            self.order.push_back(of);
        }
        if state == State::New { plugin.new.push_back(id) } else { plugin.slow.push_back(id) }
    }

    fn take_back(&mut self, plugin: PluginId, state: State) {
        let Some(plugin) = self.plugins.get_mut(&plugin) else { return };
        if matches!(state, State::QuickTurn | State::SlowTurn) {
            plugin.n_turns -= 1;
        }
        if state == State::SlowTurn {
            plugin.has_slow_turn = false;
            self.n_slow_turns -= 1;
        }
    }

    fn give(&mut self, given: &mut Vec<CallId>) {
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
                given.push(call);
                // Those that were passed over get no more than they could before.
            } else if waits {
                i += 1;
            }
        }
    }

    /// Gives a turn to a call of this plugin, if one waits that may have it.
    fn next_of(&mut self, plugin: PluginId) -> Option<CallId> {
        let plugin = self.plugins.get_mut(&plugin)?;
        if plugin.n_turns >= self.width {
            return None;
        }
        let has_place = plugin.n_calls < plugin.bound && (self.n_calls < self.max_calls || plugin.n_calls == 0);
        let new = has_place && !plugin.new.is_empty();
        let slow = !plugin.slow.is_empty() && !plugin.has_slow_turn && self.n_slow_turns < self.width;
        let slow = slow && !(new && plugin.slow_last);
        let (id, state) = if slow {
            plugin.has_slow_turn = true;
            self.n_slow_turns += 1;
            (plugin.slow.pop_front()?, State::SlowTurn)
        } else if new {
            plugin.n_calls += 1;
            self.n_calls += 1;
            (plugin.new.pop_front()?, State::QuickTurn)
        } else {
            return None;
        };
        plugin.slow_last = slow;
        plugin.n_turns += 1;
        if let Some(call) = self.calls.get_mut(&id) {
            call.state = state;
        }
        Some(id)
    }
}

#[cfg(test)]
mod tests;
