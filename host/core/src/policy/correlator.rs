//! Event correlation: an event becomes a new Event, increments the count of an earlier one, or is dropped.
//!
//! ```text
//! event ──> aggregate (ten that differ in their message only become one) ──> count ──> spam filter ──> create | count | drop
//! ```
//!
//! Invariants:
//! 1. Memory is bounded: each stage keeps at most [`CACHE_ENTRIES`] keys, and evicts the least recently used. The size
//!    of a key does not depend on the event.
//! 2. A correlator never generates a name twice.
//! 3. The filter counts the events that it drops, so that the next event that passes has the right count.
//!
//! Not here: writing, retries and the queue (the recorder).
//!
//! Source: client-go's `tools/record/events_cache.go` (`EventCorrelator`), with its numbers.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use lru::LruCache;

use crate::contract::outcome::Event;
use crate::object::id::ObjectKey;
use crate::policy::ratelimit::TokenBucket;
use crate::text::cut;

/// Maximum keys of each stage.
pub const CACHE_ENTRIES: usize = 4096;
/// Number of different messages of otherwise equal events that are aggregated.
pub const AGGREGATE_AFTER: usize = 10;
/// Time without a similar event after which aggregation starts again.
pub const AGGREGATE_INTERVAL: Duration = Duration::from_secs(600);
/// Burst of events about one object.
pub const SPAM_BURST: u32 = 25;
/// Events per second about one object after the burst: one in five minutes.
pub const SPAM_RATE: f64 = 1.0 / 300.0;
/// Longest message of an event in bytes; the API server rejects longer ones in events.k8s.io/v1.
pub const MAX_MESSAGE_BYTES: usize = 1024;

/// Longest name of an event in bytes.
const MAX_NAME_BYTES: usize = 253;

const COMBINED: &str = "(combined from similar events): ";

/// Hash of the texts of a key, which may be long and are chosen by plugins. The hasher is randomly keyed, so plugins
/// cannot cause collisions.
type Digest = u64;

#[derive(Debug)]
struct Aggregate {
    messages: HashSet<Digest>,
    last: Instant,
}

#[derive(Clone, Debug)]
struct Observed {
    name: String,
    count: u32,
    first: Timestamp,
}

/// The event to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Name of the Event object.
    pub name: String,
    /// First occurrence.
    pub first: Timestamp,
    /// Last occurrence.
    pub last: Timestamp,
    /// Number of occurrences.
    pub count: u32,
    /// Message; for an aggregate, a prefix and the message of its latest event.
    pub message: String,
}

/// The decision about an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventDecision {
    /// Do not write it: the object exceeded its rate.
    Drop,
    /// Write a new Event.
    Create(Record),
    /// Patch count, message and time of the Event with this name; create it if it does not exist.
    Count(Record),
}

/// The correlator of one event source.
#[derive(Debug)]
pub struct Correlator {
    hasher: RandomState,
    /// By object, type and reason.
    aggregates: LruCache<Digest, Aggregate>,
    /// By object, type, reason and message; for an aggregate, without the message.
    observed: LruCache<Digest, Observed>,
    /// By object and type.
    spam: LruCache<Digest, TokenBucket>,
    last_nanos: i128,
}

impl Default for Correlator {
    fn default() -> Self {
        Self::new()
    }
}

impl Correlator {
    /// Creates a correlator without history.
    pub fn new() -> Self {
        const ENTRIES: NonZeroUsize = NonZeroUsize::new(CACHE_ENTRIES).unwrap();
        Self {
            hasher: RandomState::new(),
            aggregates: LruCache::new(ENTRIES),
            observed: LruCache::new(ENTRIES),
            spam: LruCache::new(ENTRIES),
            last_nanos: 0,
        }
    }

    /// Decides about one event. `at` is the wall clock time to write; `now` measures intervals.
    pub fn correlate(&mut self, event: &Event, now: Instant, at: Timestamp) -> EventDecision {
        let about =
            self.hasher.hash_one((&event.regarding_kind, &event.regarding, &event.regarding_uid, event.warning));
        let similar = self.hasher.hash_one((about, &event.reason));
        let own_message = cut(&event.message, MAX_MESSAGE_BYTES);
        let digest = self.hasher.hash_one(own_message);
        let aggregated = self.aggregate(similar, digest, now);
        let message = if aggregated {
            cut(&format!("{COMBINED}{own_message}"), MAX_MESSAGE_BYTES).to_owned()
        } else {
            own_message.to_owned()
        };
        let same = self.hasher.hash_one((similar, (!aggregated).then_some(digest)));
        let observed = match self.observed.get_mut(&same) {
            Some(observed) => {
                observed.count = observed.count.saturating_add(1).min(i32::MAX as u32);
                observed.clone()
            }
            None => {
                let observed = Observed { name: self.name(&event.regarding, at), count: 1, first: at };
                self.observed.put(same, observed.clone());
                observed
            }
        };
        let bucket = self.spam.get_or_insert_mut(about, || TokenBucket::new(SPAM_RATE, SPAM_BURST));
        if !bucket.try_take(now) {
            return EventDecision::Drop;
        }
        let record = Record { name: observed.name, first: observed.first, last: at, count: observed.count, message };
        if record.count > 1 { EventDecision::Count(record) } else { EventDecision::Create(record) }
    }

    /// Whether this event is one of many that differ only in their messages.
    fn aggregate(&mut self, similar: Digest, message: Digest, now: Instant) -> bool {
        let fresh = || Aggregate { messages: HashSet::new(), last: now };
        let aggregate = self.aggregates.get_or_insert_mut(similar, fresh);
        if now.saturating_duration_since(aggregate.last) > AGGREGATE_INTERVAL {
            aggregate.messages.clear();
        }
        aggregate.last = now;
        aggregate.messages.insert(message);
        if aggregate.messages.len() < AGGREGATE_AFTER {
            return false;
        }
        // The set never exceeds the threshold; any message may be evicted.
        aggregate.messages.remove(&message);
        true
    }

    /// `OBJECT.HEX`: the time in nanoseconds, or the next free number.
    fn name(&mut self, regarding: &ObjectKey, at: Timestamp) -> String {
        self.last_nanos = at.as_nanosecond().max(self.last_nanos + 1);
        let name = format!("{}.{:x}", regarding.name, self.last_nanos);
        if is_subdomain(&name) { name } else { format!("event.{:x}", self.last_nanos) }
    }
}

/// Whether this is a valid name for objects of most kinds (some kinds allow names that Events do not).
fn is_subdomain(name: &str) -> bool {
    let label = |label: &str| {
        let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        !label.is_empty() && label.bytes().all(inner) && !label.starts_with('-') && !label.ends_with('-')
    };
    name.len() <= MAX_NAME_BYTES && name.split('.').all(label)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::id::Kind;

    struct Fixture {
        correlator: Correlator,
        start: Instant,
        elapsed: Duration,
    }

    impl Fixture {
        fn new() -> Self {
            Self { correlator: Correlator::new(), start: Instant::now(), elapsed: Duration::ZERO }
        }

        fn event(&mut self, object: &str, reason: &str, message: &str) -> EventDecision {
            let event = Event {
                regarding_kind: Kind::new("apps", "v1", "ReplicaSet"),
                regarding: ObjectKey::new("ns", object),
                regarding_uid: "u".into(),
                warning: false,
                reason: reason.into(),
                message: message.into(),
            };
            let at = Timestamp::from_second(1_800_000_000).unwrap() + self.elapsed;
            self.correlator.correlate(&event, self.start + self.elapsed, at)
        }
    }

    fn summary(decision: &EventDecision) -> String {
        match decision {
            EventDecision::Drop => "drop".into(),
            EventDecision::Create(record) => format!("create {}", record.message),
            EventDecision::Count(record) => format!("count {} {}", record.count, record.message),
        }
    }

    #[test]
    fn the_same_event_is_counted() {
        let mut fixture = Fixture::new();
        let EventDecision::Create(first) = fixture.event("a", "R", "m") else { panic!("not created") };
        assert!(first.name.starts_with("a.18fae27693b4"), "{}", first.name);
        fixture.elapsed = Duration::from_secs(7);
        let EventDecision::Count(second) = fixture.event("a", "R", "m") else { panic!("not counted") };
        assert_eq!((second.count, &second.name, second.first), (2, &first.name, first.first));
        assert_eq!(second.last.duration_since(first.last).as_secs(), 7);
    }

    #[test]
    fn the_tenth_message_within_ten_minutes_starts_an_aggregate() {
        let mut fixture = Fixture::new();
        for i in 0..9 {
            assert_eq!(summary(&fixture.event("a", "R", &format!("m{i}"))), format!("create m{i}"));
        }
        assert_eq!(summary(&fixture.event("a", "R", "m9")), "create (combined from similar events): m9");
        assert_eq!(summary(&fixture.event("a", "R", "m10")), "count 2 (combined from similar events): m10");
        // An event with another reason or object is not similar.
        assert_eq!(summary(&fixture.event("a", "Other", "m11")), "create m11");
        assert_eq!(summary(&fixture.event("b", "R", "m11")), "create m11");
        fixture.elapsed = Duration::from_secs(601);
        assert_eq!(summary(&fixture.event("a", "R", "m12")), "create m12");
    }

    #[test]
    fn after_a_burst_one_event_in_five_minutes_passes() {
        let mut fixture = Fixture::new();
        let passed = (0..40).filter(|_| fixture.event("a", "R", "m") != EventDecision::Drop).count();
        assert_eq!(passed, 25);
        assert_eq!(summary(&fixture.event("b", "R", "m")), "create m");
        fixture.elapsed = Duration::from_secs(299);
        assert_eq!(fixture.event("a", "R", "m"), EventDecision::Drop);
        fixture.elapsed = Duration::from_secs(301);
        // Dropped events were counted: 40 and the previous one.
        assert_eq!(summary(&fixture.event("a", "R", "m")), "count 42 m");
        assert_eq!(fixture.event("a", "R", "m"), EventDecision::Drop);
    }

    #[test]
    fn names_are_valid_and_never_repeat() {
        let mut fixture = Fixture::new();
        let mut names = HashSet::new();
        for object in ["a", "b", "system:node", "UPPER", &"x".repeat(250)] {
            for reason in ["R", "S"] {
                let EventDecision::Create(record) = fixture.event(object, reason, "m") else { panic!("not created") };
                assert!(is_subdomain(&record.name), "{}", record.name);
                assert!(names.insert(record.name));
            }
        }
    }

    #[test]
    fn long_messages_are_cut_at_a_character() {
        let mut fixture = Fixture::new();
        let EventDecision::Create(record) = fixture.event("a", "R", &"ä".repeat(600)) else { panic!("not created") };
        assert_eq!(record.message.len(), 1024);
        let EventDecision::Create(record) = fixture.event("a", "R", &format!("x{}", "ä".repeat(600))) else {
            panic!("not created")
        };
        assert_eq!(record.message.len(), 1023);
    }

    #[test]
    fn memory_is_bounded() {
        let mut fixture = Fixture::new();
        for i in 0..3 * CACHE_ENTRIES {
            fixture.event(&format!("o{i}"), "R", "m");
        }
        assert_eq!(fixture.correlator.observed.len(), CACHE_ENTRIES);
        assert_eq!(fixture.correlator.spam.len(), CACHE_ENTRIES);
        assert_eq!(fixture.correlator.aggregates.len(), CACHE_ENTRIES);
    }
}
