//! The clock of the embedded cluster, the source of every timestamp.
//!
//! *Flow*: the server and tests hold clones of one [`SimClock`].
//! A manual clock moves only in tests, a real one follows the system, and a virtual one follows tokio's clock.
//!
//! *Invariants*: 1. a manual clock moves only when a test moves it; 2. a clock never goes backwards except through [`SimClock::set`].
//!
//! *Not here*: times of connections and watches on the wire; that is real time, because a client waits for it.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::time::Instant;

/// A clock that follows the system or tokio's clock, or is moved manually. Clones share the state.
#[derive(Clone, Debug)]
pub struct SimClock(Arc<Mode>);

#[derive(Debug)]
enum Mode {
    Real,
    Manual(Mutex<Timestamp>),
    /// The time at an instant of tokio's clock.
    Virtual(Timestamp, Instant),
}

impl SimClock {
    /// A clock that follows the system.
    pub fn real() -> Self {
        Self(Arc::new(Mode::Real))
    }

    /// A clock that shows `start` until it is moved.
    pub fn manual(start: Timestamp) -> Self {
        Self(Arc::new(Mode::Manual(Mutex::new(start))))
    }

    /// A clock that shows `start` now and follows tokio's clock, which tests can pause.
    pub fn virtual_from(start: Timestamp) -> Self {
        Self(Arc::new(Mode::Virtual(start, Instant::now())))
    }

    /// The current time.
    pub fn now(&self) -> Timestamp {
        match &*self.0 {
            Mode::Real => Timestamp::now(),
            Mode::Manual(hand) => *hand.lock(),
            Mode::Virtual(start, since) => start.saturating_add(signed(since.elapsed())).unwrap_or(Timestamp::MAX),
        }
    }

    /// Moves a manual clock forward. Others are not affected.
    pub fn advance(&self, by: Duration) {
        if let Mode::Manual(hand) = &*self.0 {
            let mut now = hand.lock();
            *now = now.saturating_add(signed(by)).unwrap_or(Timestamp::MAX);
        }
    }

    /// Sets a manual clock to `to`, possibly backwards. Others are not affected.
    pub fn set(&self, to: Timestamp) {
        if let Mode::Manual(hand) = &*self.0 {
            *hand.lock() = to;
        }
    }
}

impl Default for SimClock {
    fn default() -> Self {
        Self::real()
    }
}

fn signed(duration: Duration) -> jiff::SignedDuration {
    jiff::SignedDuration::try_from(duration).unwrap_or(jiff::SignedDuration::MAX)
}

/// A time as `metav1.Time` is written: whole seconds, UTC.
pub fn rfc3339(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// A time as `metav1.MicroTime` is written.
pub fn rfc3339_micro(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manual_clock_moves_only_by_hand() {
        let clock = SimClock::manual(Timestamp::UNIX_EPOCH);
        assert_eq!(rfc3339(clock.now()), "1970-01-01T00:00:00Z");
        clock.advance(Duration::from_millis(1500));
        assert_eq!(rfc3339(clock.now()), "1970-01-01T00:00:01Z");
        assert_eq!(rfc3339_micro(clock.now()), "1970-01-01T00:00:01.500000Z");
    }
}
