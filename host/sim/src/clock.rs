//! The clock that every timestamp of the embedded cluster comes from.
//!
//! *Flow*: the server, the simulated nodes and tests hold clones of one [`SimClock`].
//! A manual clock stands still until a test moves it; a real one follows the system.
//!
//! *Invariants*: 1. a manual clock never moves by itself; 2. a clock never goes backwards except through [`SimClock::set`].
//!
//! *Not here*: how long a connection or a watch may take on the wire; that is real time, because a client waits for it.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::watch;

/// A clock that either follows the system or is moved by hand. Clones share one hand.
#[derive(Clone, Debug)]
pub struct SimClock(Arc<Mode>);

#[derive(Debug)]
enum Mode {
    Real,
    /// The sender is also the value; sleepers subscribe to it.
    Manual(watch::Sender<Timestamp>),
}

impl SimClock {
    /// A clock that follows the system.
    pub fn real() -> Self {
        Self(Arc::new(Mode::Real))
    }

    /// A clock that stands at `start` until it is moved.
    pub fn manual(start: Timestamp) -> Self {
        Self(Arc::new(Mode::Manual(watch::Sender::new(start))))
    }

    /// The present.
    pub fn now(&self) -> Timestamp {
        match &*self.0 {
            Mode::Real => Timestamp::now(),
            Mode::Manual(hand) => *hand.borrow(),
        }
    }

    /// Whether the clock is moved by hand.
    pub fn is_manual(&self) -> bool {
        matches!(&*self.0, Mode::Manual(_))
    }

    /// Moves a manual clock forward and wakes its sleepers. A real clock does not obey.
    pub fn advance(&self, by: Duration) {
        if let Mode::Manual(hand) = &*self.0 {
            hand.send_modify(|now| *now = now.saturating_add(signed(by)).unwrap_or(Timestamp::MAX));
        }
    }

    /// Puts a manual clock to `to`, backwards too. A real clock does not obey.
    pub fn set(&self, to: Timestamp) {
        if let Mode::Manual(hand) = &*self.0 {
            hand.send_replace(to);
        }
    }

    /// Waits until the clock has moved on by `duration`.
    ///
    /// # Cancel safety
    /// Dropping the future forgets the wait, nothing else.
    pub async fn sleep(&self, duration: Duration) {
        match &*self.0 {
            Mode::Real => tokio::time::sleep(duration).await,
            Mode::Manual(hand) => {
                let mut hand = hand.subscribe();
                let end = hand.borrow().saturating_add(signed(duration)).unwrap_or(Timestamp::MAX);
                // The sender lives in `self`, so the wait ends only when the time is reached.
                let _ = hand.wait_for(|now| *now >= end).await;
            }
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

    #[tokio::test]
    async fn a_sleeper_wakes_when_the_hand_has_moved_far_enough() {
        let clock = SimClock::manual(Timestamp::UNIX_EPOCH);
        let mut sleep = Box::pin(clock.sleep(Duration::from_secs(10)));
        assert!(futures::poll!(&mut sleep).is_pending());
        clock.advance(Duration::from_secs(9));
        assert!(futures::poll!(&mut sleep).is_pending());
        clock.advance(Duration::from_secs(1));
        sleep.await;
    }
}
