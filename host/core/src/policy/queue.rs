//! The work queue of a controller: deduplicating, with delays and two priorities.
//!
//! ```text
//! add_after ──> waiting ──due──> add ──> ready ──take──> running ──done──> (dirty again? ready)
//!                 ^               │                       ├─hold──> held ──release──┘
//!                 └─ suspect ─────┴── while running or held: dirty
//! ```
//!
//! Invariants:
//! 1. A key is at most once in `ready`, and never while it runs or is held.
//! 2. A key that is added while it runs or is held becomes ready exactly once afterwards.
//! 3. If a key has several delays, the earliest counts.
//! 4. Low priority never starves: of [`LOW_SHARE`] keys taken while both priorities are ready, one is low.
//! 5. A key whose last run faulted is a *suspect* until it has a run without a fault. It does not run before its hold
//!    ends, even if it is added; at most one suspect runs at a time; and of [`SUSPECT_SHARE`] keys taken while others
//!    are ready, at most one is a suspect. So suspects never starve other keys, and are never starved.
//! 6. The bytes of a key's text count once, as long as the key is in any list: the lists share the text.
//!
//! Not here: the delay of a failed key (`ratelimit`), the number of concurrent runs (the dispatcher), threads and
//! locks.
//!
//! Source: client-go's `workqueue` (`queue.go`, `delaying_queue.go`). Deliberate differences: priorities, suspects, and
//! `held`, the state of a key that has run but whose writes are not in the caches yet.

pub mod contents;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::Hash;
use std::time::{Duration, Instant};

use crate::policy::ratelimit::PerItem;

/// While keys of both priorities are ready, one of this many taken keys is of low priority.
pub const LOW_SHARE: u32 = 16;
/// While suspects and other keys are ready, one of this many taken keys is a suspect.
pub const SUSPECT_SHARE: u32 = 16;
/// Delay of a key after consecutive faults, regardless of the plugin's manifest: 5 ms, doubled up to five minutes.
pub const FAULT_BACKOFF: PerItem =
    PerItem::Exponential { base: Duration::from_millis(5), max: Duration::from_secs(300) };
/// Maximum time for which changes of a suspect are held back. Repeated edits of an object that makes a plugin fault
/// cause at most one run in this time; a fix of the object takes effect after at most this time.
pub const LONGEST_HOLD: Duration = Duration::from_secs(30);
/// Number of ready keys of each priority from which a trial run is chosen.
const TRIAL_CHOICE: usize = 256;
/// Number of suspects that are kept without checking whether they have expired.
const MIN_SUSPECTS: usize = 1_024;
/// How long a suspect that is not queued is remembered after its hold.
const SUSPECT_MEMORY: Duration = Duration::from_secs(600);

/// Priority of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Priority {
    /// Bulk work without urgency: the initial list, resyncs.
    Low,
    /// Live changes, retries, requested requeues.
    Normal,
}

/// State of a known key, apart from its delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Idle,
    Running { since: Instant, suspect: bool },
    Held,
}

/// The list of ready keys in which a key is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Suspect,
    Low,
    Normal,
}

impl From<Priority> for Class {
    fn from(priority: Priority) -> Self {
        match priority {
            Priority::Low => Self::Low,
            Priority::Normal => Self::Normal,
        }
    }
}

/// Fault history of a key whose last run faulted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Suspect {
    /// Consecutive faults.
    pub n_faults: u32,
    /// Delay before the key should be retried.
    pub delay: Duration,
    /// No run starts before this time.
    pub held_until: Instant,
}

/// Mark of a key that must run (again).
#[derive(Clone, Copy, Debug)]
struct Dirty {
    priority: Priority,
    since: Instant,
    /// Position in `ready`, and the list; unused while the key runs or is held.
    place: u64,
    class: Class,
}

#[derive(Clone, Copy, Debug)]
struct Item {
    stage: Stage,
    dirty: Option<Dirty>,
}

/// A key taken from the queue; return it with [`WorkQueue::done`] or [`WorkQueue::hold`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken<K> {
    /// The key.
    pub key: K,
    /// How long it was dirty.
    pub waited: Duration,
    /// Its priority in the queue.
    pub priority: Priority,
    /// Whether its last run faulted.
    pub suspect: bool,
}

/// Work in progress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unfinished {
    /// Sum of the durations of all running keys.
    pub total: Duration,
    /// The longest of these durations.
    pub longest: Duration,
}

/// A work queue.
#[derive(Debug)]
pub struct WorkQueue<K> {
    items: HashMap<K, Item>,
    /// Position -> key, by class; the smallest position is next.
    ready: [BTreeMap<u64, K>; 3],
    waiting: BTreeMap<(Instant, u64), K>,
    /// Key -> its entry in `waiting`, and its priority afterwards.
    delays: HashMap<K, (Instant, u64, Priority)>,
    suspects: HashMap<K, Suspect>,
    /// Number of suspects at which expired ones are purged.
    purge_at: usize,
    next_place: u64,
    /// Keys of normal priority taken since the last one of low priority.
    since_low: u32,
    /// Other keys taken since the last suspect.
    since_suspect: u32,
    n_dirty: usize,
    n_running: usize,
    n_running_suspects: usize,
    n_held: usize,
    /// Returns the bytes of a key's text.
    weigh: fn(&K) -> u64,
    /// Bytes of the texts of all known keys.
    n_text_bytes: u64,
}

impl<K> Default for WorkQueue<K> {
    fn default() -> Self {
        Self {
            weigh: |_| 0,
            n_text_bytes: 0,
            items: HashMap::new(),
            ready: [BTreeMap::new(), BTreeMap::new(), BTreeMap::new()],
            waiting: BTreeMap::new(),
            delays: HashMap::new(),
            suspects: HashMap::new(),
            purge_at: MIN_SUSPECTS,
            next_place: 0,
            since_low: 0,
            since_suspect: 0,
            n_dirty: 0,
            n_running: 0,
            n_running_suspects: 0,
            n_held: 0,
        }
    }
}

impl<K: Clone + Eq + Hash> WorkQueue<K> {
    /// Creates an empty queue.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates an empty queue that counts the bytes of its keys' texts.
    pub fn weighing(weigh: fn(&K) -> u64) -> Self {
        Self { weigh, ..Self::default() }
    }

    fn knows(&self, key: &K) -> bool {
        self.items.contains_key(key) || self.delays.contains_key(key) || self.suspects.contains_key(key)
    }

    /// Must be called before a key is added to a list.
    fn learn(&mut self, key: &K) {
        if !self.knows(key) {
            self.n_text_bytes += (self.weigh)(key);
        }
    }

    /// Must be called after a key was removed from a list.
    fn unlearn(&mut self, key: &K) {
        if !self.knows(key) {
            self.n_text_bytes -= (self.weigh)(key);
        }
    }

    fn place(&mut self) -> u64 {
        self.next_place += 1;
        self.next_place
    }

    /// Adds a key. Returns whether it was not queued yet (for the counter of additions). A suspect that is neither
    /// running nor held is added when its hold ends.
    pub fn add(&mut self, key: K, priority: Priority, now: Instant) -> bool {
        let suspect = self.suspects.get(&key).map(|suspect| suspect.held_until);
        let place = self.place();
        let Some(item) = self.items.get_mut(&key) else {
            if let Some(until) = suspect.filter(|until| *until > now) {
                self.delay(key, until, priority);
                return false;
            }
            let class = if suspect.is_some() { Class::Suspect } else { priority.into() };
            let dirty = Dirty { priority, since: now, place, class };
            self.learn(&key);
            self.items.insert(key.clone(), Item { stage: Stage::Idle, dirty: Some(dirty) });
            self.ready[class as usize].insert(place, key);
            self.n_dirty += 1;
            return true;
        };
        match &mut item.dirty {
            Some(dirty) if priority > dirty.priority => {
                dirty.priority = priority;
                if item.stage == Stage::Idle && dirty.class != Class::Suspect {
                    self.ready[dirty.class as usize].remove(&dirty.place);
                    dirty.class = priority.into();
                    dirty.place = place;
                    self.ready[dirty.class as usize].insert(place, key);
                }
                false
            }
            Some(_) => false,
            // A key without a mark is running or held: it becomes ready later.
            None => {
                item.dirty = Some(Dirty { priority, since: now, place, class: priority.into() });
                self.n_dirty += 1;
                true
            }
        }
    }

    /// Adds a key after a delay. Adding it earlier does not cancel the delay.
    pub fn add_after(&mut self, key: K, delay: Duration, priority: Priority, now: Instant) -> bool {
        if delay.is_zero() {
            return self.add(key, priority, now);
        }
        // A delay beyond the range of the clock is capped at a year.
        let due = now.checked_add(delay).unwrap_or_else(|| now + Duration::from_secs(365 * 24 * 3600));
        self.delay(key, due, priority);
        false
    }

    /// Delays a key until this time, or until an earlier delay of it ends.
    fn delay(&mut self, key: K, due: Instant, priority: Priority) {
        let place = self.place();
        match self.delays.get_mut(&key) {
            Some((at, entry, priority_then)) => {
                *priority_then = (*priority_then).max(priority);
                if due < *at {
                    self.waiting.remove(&(*at, *entry));
                    (*at, *entry) = (due, place);
                    self.waiting.insert((due, place), key);
                }
            }
            None => {
                self.learn(&key);
                self.delays.insert(key.clone(), (due, place, priority));
                self.waiting.insert((due, place), key);
            }
        }
    }

    /// Makes the keys ready whose delay has ended; returns how many were not queued yet.
    pub fn advance(&mut self, now: Instant) -> usize {
        let mut n_added = 0;
        while let Some(entry) = self.waiting.first_entry().filter(|entry| entry.key().0 <= now) {
            let key = entry.remove();
            let priority = self.delays.remove(&key).map_or(Priority::Normal, |(_, _, priority)| priority);
            self.unlearn(&key);
            n_added += usize::from(self.add(key, priority, now));
        }
        n_added
    }

    /// When [`WorkQueue::advance`] has work next.
    pub fn next_due(&self) -> Option<Instant> {
        self.waiting.first_key_value().map(|((due, _), _)| *due)
    }

    /// Takes the next key, which counts as running from now on.
    pub fn take(&mut self, now: Instant) -> Option<Taken<K>> {
        let class = self.next_class()?;
        let place = *self.ready[class as usize].first_key_value()?.0;
        self.take_at(class, place, now)
    }

    /// Takes a key for a trial run: one that `prefer` accepts, else any that is not a suspect, else, if `suspects` is
    /// set, a suspect.
    pub fn take_trial(&mut self, prefer: impl Fn(&K) -> bool, suspects: bool, now: Instant) -> Option<Taken<K>> {
        let first = |class: Class| Some((class, *self.ready[class as usize].first_key_value()?.0));
        let preferred = |class: Class| {
            let mut choice = self.ready[class as usize].iter().take(TRIAL_CHOICE);
            choice.find(|(_, key)| prefer(key)).map(|(place, _)| (class, *place))
        };
        let clean = preferred(Class::Normal).or_else(|| preferred(Class::Low));
        let clean = clean.or_else(|| first(Class::Normal)).or_else(|| first(Class::Low));
        let may_suspects = suspects && self.n_running_suspects == 0;
        let (class, place) = clean.or_else(|| first(Class::Suspect).filter(|_| may_suspects))?;
        self.take_at(class, place, now)
    }

    /// The class of the next key.
    fn next_class(&self) -> Option<Class> {
        let [suspects, low, normal] = self.ready.each_ref().map(|keys| !keys.is_empty());
        let suspects = suspects && self.n_running_suspects == 0;
        if suspects && (!(low || normal) || self.since_suspect + 1 >= SUSPECT_SHARE) {
            Some(Class::Suspect)
        } else if low && (!normal || self.since_low + 1 >= LOW_SHARE) {
            Some(Class::Low)
        } else {
            normal.then_some(Class::Normal)
        }
    }

    fn take_at(&mut self, class: Class, place: u64, now: Instant) -> Option<Taken<K>> {
        let key = self.ready[class as usize].remove(&place)?;
        let [suspects, low, _] = self.ready.each_ref().map(|keys| !keys.is_empty());
        match class {
            Class::Suspect => self.since_suspect = 0,
            Class::Low => self.since_low = 0,
            Class::Normal => self.since_low += u32::from(low),
        }
        if class != Class::Suspect {
            self.since_suspect += u32::from(suspects);
        }
        let item = self.items.get_mut(&key)?;
        let dirty = item.dirty.take()?;
        let suspect = class == Class::Suspect;
        item.stage = Stage::Running { since: now, suspect };
        self.n_dirty -= 1;
        self.n_running += 1;
        self.n_running_suspects += usize::from(suspect);
        Some(Taken { key, waited: now.saturating_duration_since(dirty.since), priority: dirty.priority, suspect })
    }

    /// Counts a fault of a running key. Call it before [`WorkQueue::done`] or [`WorkQueue::hold`]. The caller adds the
    /// key again after the returned delay, or drops it; in both cases it does not run before its hold ends.
    pub fn fault(&mut self, key: &K, now: Instant) -> Suspect {
        let n_before = self.suspects.get(key).map_or(0, |suspect| suspect.n_faults);
        let delay = FAULT_BACKOFF.delay(n_before);
        let held_until = now + delay.min(LONGEST_HOLD);
        let suspect = Suspect { n_faults: n_before.saturating_add(1), delay, held_until };
        self.learn(key);
        self.suspects.insert(key.clone(), suspect);
        if self.suspects.len() > self.purge_at {
            let Self { suspects, items, delays, weigh, n_text_bytes, .. } = self;
            suspects.retain(|key, suspect| {
                let is_kept =
                    suspect.held_until + SUSPECT_MEMORY > now || items.contains_key(key) || delays.contains_key(key);
                if !is_kept {
                    *n_text_bytes -= weigh(key);
                }
                is_kept
            });
            self.purge_at = (2 * self.suspects.len()).max(MIN_SUSPECTS);
        }
        suspect
    }

    /// Clears a key whose run ended without a fault.
    pub fn trust(&mut self, key: &K) {
        if self.suspects.remove(key).is_some() {
            self.unlearn(key);
        }
    }

    /// Clears all suspects, because another version runs them now. Their delays are kept.
    pub fn trust_all(&mut self) {
        for key in std::mem::take(&mut self.suspects).into_keys() {
            self.unlearn(&key);
        }
        for (_, key) in std::mem::take(&mut self.ready[Class::Suspect as usize]) {
            let place = self.place();
            if let Some(dirty) = self.items.get_mut(&key).and_then(|item| item.dirty.as_mut()) {
                (dirty.class, dirty.place) = (dirty.priority.into(), place);
                self.ready[dirty.class as usize].insert(place, key);
            }
        }
    }

    /// Whether the key will run (again), now or after a delay.
    pub fn is_queued(&self, key: &K) -> bool {
        self.delays.contains_key(key) || self.items.get(key).is_some_and(|item| item.dirty.is_some())
    }

    /// Whether the key's last run faulted.
    pub fn is_suspect(&self, key: &K) -> bool {
        self.suspects.contains_key(key)
    }

    /// The suspects, in no order.
    pub fn suspects(&self) -> impl ExactSizeIterator<Item = (&K, &Suspect)> {
        self.suspects.iter()
    }

    /// Ends a run. Returns its duration, or `None` if the key was not running.
    pub fn done(&mut self, key: &K, now: Instant) -> Option<Duration> {
        let took = self.stop_running(key, Stage::Idle, now)?;
        self.settle(key);
        Some(took)
    }

    /// Ends a run, and holds the key until [`WorkQueue::release`].
    pub fn hold(&mut self, key: &K, now: Instant) -> Option<Duration> {
        let took = self.stop_running(key, Stage::Held, now)?;
        self.n_held += 1;
        Some(took)
    }

    /// Releases a held key.
    pub fn release(&mut self, key: &K) {
        if let Some(item) = self.items.get_mut(key).filter(|item| item.stage == Stage::Held) {
            item.stage = Stage::Idle;
            self.n_held -= 1;
            self.settle(key);
        }
    }

    fn stop_running(&mut self, key: &K, next: Stage, now: Instant) -> Option<Duration> {
        let item = self.items.get_mut(key)?;
        let Stage::Running { since, suspect } = item.stage else { return None };
        item.stage = next;
        self.n_running -= 1;
        self.n_running_suspects -= usize::from(suspect);
        Some(now.saturating_duration_since(since))
    }

    /// Makes an idle key ready if it is dirty; forgets it otherwise. A suspect becomes ready when its hold ends.
    fn settle(&mut self, key: &K) {
        let place = self.place();
        let Some(item) = self.items.get_mut(key) else { return };
        let Some(dirty) = &mut item.dirty else {
            self.items.remove(key);
            self.unlearn(key);
            return;
        };
        if let Some(suspect) = self.suspects.get(key) {
            let (until, priority) = (suspect.held_until, dirty.priority);
            self.items.remove(key);
            self.n_dirty -= 1;
            self.delay(key.clone(), until, priority);
            return;
        }
        (dirty.place, dirty.class) = (place, dirty.priority.into());
        self.ready[dirty.class as usize].insert(place, key.clone());
    }

    /// Number of dirty keys, including running and held ones (`workqueue_depth`).
    pub fn n_dirty(&self) -> usize {
        self.n_dirty
    }

    /// Number of ready keys.
    pub fn n_ready(&self) -> usize {
        self.ready.iter().map(BTreeMap::len).sum()
    }

    /// Number of delayed keys.
    pub fn n_waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Number of keys whose delay ends before `limit`. O(those keys).
    pub fn n_waiting_until(&self, limit: Instant) -> usize {
        self.waiting.range(..(limit, 0)).count()
    }

    /// Number of running keys.
    pub fn n_running(&self) -> usize {
        self.n_running
    }

    /// Number of held keys.
    pub fn n_held(&self) -> usize {
        self.n_held
    }

    /// Durations of the work in progress. O(known keys).
    pub fn unfinished(&self, now: Instant) -> Unfinished {
        let mut unfinished = Unfinished::default();
        for item in self.items.values() {
            if let Stage::Running { since, .. } = item.stage {
                let age = now.saturating_duration_since(since);
                unfinished.total += age;
                unfinished.longest = unfinished.longest.max(age);
            }
        }
        unfinished
    }

    /// Number of keys in the queue: keys that will run, are running or held, or are suspects.
    pub fn n_known(&self) -> usize {
        self.items.len() + self.delays.len() + self.suspects.len()
    }

    /// Bytes of the texts of these keys; zero unless the queue was created by [`WorkQueue::weighing`].
    pub fn n_text_bytes(&self) -> u64 {
        self.n_text_bytes
    }

    /// All keys that will run: ready, delayed and dirty.
    pub fn keys(&self) -> BTreeSet<K>
    where
        K: Ord,
    {
        let dirty = self.items.iter().filter(|(_, item)| item.dirty.is_some()).map(|(key, _)| key);
        dirty.chain(self.delays.keys()).cloned().collect()
    }
}

#[cfg(test)]
mod tests;
