use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

/// The observable behaviour of the rules.
#[derive(Default)]
struct Seen {
    plugin_of: BTreeMap<CallId, PluginId>,
    /// Not begun, in arrival order.
    new: Vec<CallId>,
    quick: BTreeSet<CallId>,
    slow: BTreeSet<CallId>,
    /// Slow calls without a slot, in arrival order.
    waiting: Vec<CallId>,
}

struct Game {
    rules: Rules,
    width: usize,
    max_calls: usize,
    max_bytes: u64,
    demands: Vec<Demand>,
    seen: Seen,
    next: CallId,
}

impl Game {
    /// With enough memory for all.
    fn new(width: usize, max_calls: usize, bounds: &[usize]) -> Self {
        let demands = bounds.iter().map(|n_calls| Demand { n_calls: *n_calls, call_bytes: 1 }).collect();
        Self::with_memory(width, max_calls, u64::MAX, demands)
    }

    fn with_memory(width: usize, max_calls: usize, max_bytes: u64, demands: Vec<Demand>) -> Self {
        let mut rules = Rules::new(width, max_calls, max_bytes);
        for (plugin, demand) in demands.iter().enumerate() {
            rules.add_plugin(plugin as PluginId, *demand);
        }
        Self { rules, width, max_calls, max_bytes, demands, seen: Seen::default(), next: 0 }
    }

    fn step(&mut self, step: impl FnOnce(&mut Rules, &mut Vec<CallId>)) -> Vec<CallId> {
        let mut granted = Vec::new();
        step(&mut self.rules, &mut granted);
        for call in &granted {
            let plugin = self.seen.plugin_of[call];
            let first_of = |line: &[CallId]| line.iter().copied().find(|other| self.seen.plugin_of[other] == plugin);
            if first_of(&self.seen.new) == Some(*call) {
                self.seen.new.retain(|other| other != call);
                self.seen.quick.insert(*call);
            } else {
                assert_eq!(first_of(&self.seen.waiting), Some(*call), "{call} was not the next of its plugin");
                self.seen.waiting.retain(|other| other != call);
                self.seen.slow.insert(*call);
            }
        }
        self.check();
        granted
    }

    fn begin(&mut self, plugin: PluginId) -> (CallId, Vec<CallId>) {
        let id = self.next;
        self.next += 1;
        self.seen.plugin_of.insert(id, plugin);
        self.seen.new.push(id);
        let granted = self.step(|rules, granted| rules.begin(id, plugin, granted));
        (id, granted)
    }

    fn yield_slot(&mut self, id: CallId) -> Vec<CallId> {
        assert!(self.seen.quick.remove(&id) | self.seen.slow.remove(&id));
        self.seen.waiting.push(id);
        self.step(|rules, granted| rules.yield_slot(id, granted))
    }

    fn end(&mut self, id: CallId) -> Vec<CallId> {
        self.seen.quick.remove(&id);
        self.seen.slow.remove(&id);
        self.seen.new.retain(|other| *other != id);
        self.seen.waiting.retain(|other| *other != id);
        let granted = self.step(|rules, granted| rules.end(id, granted));
        self.seen.plugin_of.remove(&id);
        granted
    }

    /// Calls of a plugin in one of the lists.
    fn of<'a>(&self, plugin: usize, calls: impl IntoIterator<Item = &'a CallId>) -> usize {
        calls.into_iter().filter(|call| self.seen.plugin_of.get(call) == Some(&(plugin as PluginId))).count()
    }

    /// Checks every invariant on the observed state.
    fn check(&self) {
        let Seen { new, quick, slow, waiting, .. } = &self.seen;
        assert!(slow.len() <= self.width, "{} slow slots of {}", slow.len(), self.width);
        let started = || quick.iter().chain(slow).chain(waiting);
        let n_calls = started().count();
        let n_bytes: u64 = started().map(|call| self.demands[self.seen.plugin_of[call] as usize].call_bytes).sum();
        for (plugin, Demand { n_calls: bound, call_bytes }) in self.demands.iter().enumerate() {
            let (n_quick, n_slow, n_waiting) =
                (self.of(plugin, quick), self.of(plugin, slow), self.of(plugin, waiting));
            let n_own = n_quick + n_slow + n_waiting;
            assert!(n_quick + n_slow <= self.width, "plugin {plugin} has {} slots", n_quick + n_slow);
            assert!(n_slow <= 1, "plugin {plugin} has {n_slow} slow slots");
            assert!(n_own <= *bound, "plugin {plugin} has {n_own} calls");
            // No call waits for a free slot.
            let room = n_quick + n_slow < self.width;
            let slow_room = room && n_slow == 0 && slow.len() < self.width;
            assert!(!slow_room || n_waiting == 0, "a slow call of plugin {plugin} waits for nothing");
            let is_within_all = n_calls < self.max_calls && n_bytes + call_bytes <= self.max_bytes;
            let place = room && n_own < *bound && (is_within_all || n_own == 0);
            assert!(!place || self.of(plugin, new) == 0, "a new call of plugin {plugin} waits for nothing");
        }
        let beyond = (0..self.demands.len()).filter(|p| self.of(*p, started()) > 0);
        assert!(n_calls <= self.max_calls.max(beyond.count() + self.max_calls - 1), "{n_calls} calls");
        let once: u64 = self.demands.iter().map(|demand| demand.call_bytes).sum();
        assert!(n_bytes <= self.max_bytes.saturating_add(once), "{n_bytes} bytes");
    }
}

#[test]
fn a_plugin_that_loops_leaves_one_processor_free() {
    let mut game = Game::new(1, 10, &[4, 4]);
    let (looping, granted) = game.begin(0);
    assert_eq!(granted, [looping]);
    let (behind, granted) = game.begin(0);
    assert!(granted.is_empty());
    let (other, granted) = game.begin(1);
    assert_eq!(granted, [other]);
    // It is slow now; the quick call behind it is next, then they alternate.
    assert_eq!(game.yield_slot(looping), [behind]);
    assert_eq!(game.end(behind), [looping]);
    assert_eq!(game.yield_slot(looping), [looping]);
}

#[test]
fn slow_calls_of_two_plugins_alternate_whatever_their_number() {
    let mut game = Game::new(1, 100, &[8, 8]);
    let mut served = Vec::new();
    let mut running = Vec::new();
    for plugin in [0, 0, 0, 0, 1] {
        running.extend(game.begin(plugin).1);
    }
    for _ in 0..20 {
        let call = running.remove(0);
        running.extend(game.yield_slot(call));
        served.extend(game.seen.slow.iter().map(|call| game.seen.plugin_of[call]));
    }
    let of_one = served.iter().filter(|plugin| **plugin == 1).count();
    assert!(of_one * 2 >= served.len() - 5, "{served:?}");
}

#[test]
fn a_plugin_without_calls_may_begin_one_when_all_places_are_occupied() {
    let mut game = Game::new(4, 3, &[8, 8]);
    for _ in 0..3 {
        assert_eq!(game.begin(0).1.len(), 1);
    }
    assert!(game.begin(0).1.is_empty());
    let (other, granted) = game.begin(1);
    assert_eq!(granted, [other]);
    assert!(game.begin(1).1.is_empty());
}

#[test]
fn calls_beyond_the_memory_of_all_wait_but_for_the_only_one_of_a_plugin() {
    let demand = |call_bytes| Demand { n_calls: 8, call_bytes };
    let mut game = Game::with_memory(4, 100, 10, vec![demand(4), demand(9)]);
    let (first, _) = game.begin(0);
    assert_eq!(game.begin(0).1.len(), 1);
    let (third, granted) = game.begin(0);
    assert!(granted.is_empty(), "12 bytes of 10");
    let (other, granted) = game.begin(1);
    assert_eq!(granted, [other]);
    assert!(game.end(first).is_empty(), "4 and 9 bytes are in use");
    assert_eq!(game.end(other), [third]);
}

#[test]
fn new_and_slow_calls_of_a_plugin_alternate() {
    let mut game = Game::new(1, 100, &[8]);
    let (slow, _) = game.begin(0);
    let news: Vec<CallId> = (0..3).map(|_| game.begin(0).0).collect();
    let mut order = vec![game.yield_slot(slow)];
    order.push(game.end(news[0]));
    order.push(game.yield_slot(slow));
    order.push(game.end(news[1]));
    assert_eq!(order, [[news[0]], [slow], [news[1]], [slow]]);
}

#[derive(Clone, Debug)]
enum Op {
    Begin(usize),
    /// Index among the calls with a slot.
    Yield(usize),
    /// Index among all calls.
    End(usize),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![(0..4_usize).prop_map(Op::Begin), any::<usize>().prop_map(Op::Yield), any::<usize>().prop_map(Op::End)]
}

proptest! {
    /// [`Game::check`] compares each step with the documented invariants.
    #[test]
    fn invariants_hold_after_each_step(
        width in 1..4_usize,
        max_calls in 1..8_usize,
        max_bytes in 0..20_u64,
        demands in prop::collection::vec((1..6_usize, 1..9_u64), 4),
        ops in prop::collection::vec(op(), 0..200),
    ) {
        let demands = demands.into_iter().map(|(n_calls, call_bytes)| Demand { n_calls, call_bytes }).collect();
        let mut game = Game::with_memory(width, max_calls, max_bytes, demands);
        for op in ops {
            match op {
                Op::Begin(plugin) => drop(game.begin(plugin as PluginId)),
                Op::Yield(place) => {
                    let with_slot: Vec<CallId> = game.seen.quick.iter().chain(&game.seen.slow).copied().collect();
                    if !with_slot.is_empty() {
                        game.yield_slot(with_slot[place % with_slot.len()]);
                    }
                }
                Op::End(place) => {
                    let all: Vec<CallId> = game.seen.plugin_of.keys().copied().collect();
                    if !all.is_empty() {
                        game.end(all[place % all.len()]);
                    }
                }
            }
        }
        // Waiting calls are served as the others end one by one.
        while let Some(call) = game.seen.quick.iter().chain(&game.seen.slow).next().copied() {
            game.end(call);
        }
        prop_assert!(game.seen.plugin_of.is_empty(), "{:?} were never served", game.seen.plugin_of);
    }

    /// No call starves: between two slots of a slow call, each other plugin gets a bounded number of slots.
    #[test]
    fn slow_calls_are_served_round_robin(width in 1..3_usize, n_calls in prop::collection::vec(1..6_usize, 2..5)) {
        let mut game = Game::new(width, 100, &vec![8; n_calls.len()]);
        for (plugin, n) in n_calls.iter().enumerate() {
            for _ in 0..*n {
                game.begin(plugin as PluginId);
            }
        }
        // Until all calls are slow.
        while let Some(call) = game.seen.quick.iter().next().copied() {
            game.yield_slot(call);
        }
        let mut since = vec![0_usize; n_calls.len()];
        for round in 0..200 {
            let with_slot: Vec<CallId> = game.seen.slow.iter().copied().collect();
            let call = with_slot[round % with_slot.len()];
            let granted = game.yield_slot(call);
            for waits in &mut since {
                *waits += granted.len();
            }
            for call in granted.iter().chain(&with_slot) {
                since[game.seen.plugin_of[call] as usize] = 0;
            }
            prop_assert!(since.iter().all(|waits| *waits <= 2 * n_calls.len()), "{since:?}");
        }
    }
}
