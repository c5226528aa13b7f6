//! Clocks and timers: the time of the run, which only advances by waiting.
//!
//! A wait returns immediately. It advances both clocks to the time of the first awaited timer, so that the same view
//! leads to the same outcome, a program that sleeps sees the time pass, and no thread waits.
//!
//! While an instance is created, the wall clock starts at 1970, and the monotonic clock just above zero. The monotonic
//! clock of an instance never goes back, even if the time of a later run is earlier.

use wasmtime::Result;
use wasmtime::component::Resource;
use wasmtime_wasi::p2::DynPollable;
use wasmtime_wasi::p2::bindings::clocks::{monotonic_clock, wall_clock};
use wasmtime_wasi::p2::bindings::sync::io::poll;

use super::Wasi;

/// The number of a pollable that is always ready. Timers have higher numbers.
pub(super) const READY: u32 = 0;
/// Reported resolution of the clocks: that of `lister.now`, in nanoseconds.
const RESOLUTION_NS: u32 = 1_000;
const NS_PER_SECOND: u64 = 1_000_000_000;

/// The clocks of an instance, in nanoseconds.
#[derive(Debug)]
pub(super) struct Clocks {
    /// Wall clock at the start of the run, since 1970.
    wall: u64,
    /// Monotonic clock at the start of the run.
    monotonic: u64,
    /// Time that this run has waited.
    waited: u64,
    /// Times of the monotonic clock; the number of a timer is its index plus one.
    timers: Vec<Option<u64>>,
    /// Indexes of dropped timers.
    free: Vec<u32>,
}

impl Default for Clocks {
    fn default() -> Self {
        // Go's runtime aborts if it reads zero.
        Self { wall: 0, monotonic: RESOLUTION_NS.into(), waited: 0, timers: Vec::new(), free: Vec::new() }
    }
}

impl Clocks {
    /// Begins a run at this time.
    pub(super) fn begin(&mut self, now: u64) {
        self.monotonic = self.monotonic_now().max(now);
        self.wall = now;
        self.waited = 0;
    }

    fn wall_now(&self) -> u64 {
        self.wall.saturating_add(self.waited)
    }

    fn monotonic_now(&self) -> u64 {
        self.monotonic.saturating_add(self.waited)
    }

    /// Creates a timer. The caller bounds their number.
    fn timer(&mut self, at: u64) -> u32 {
        if let Some(index) = self.free.pop() {
            self.timers[index as usize] = Some(at);
            return index + 1;
        }
        self.timers.push(Some(at));
        u32::try_from(self.timers.len()).unwrap_or(u32::MAX)
    }

    fn drop_timer(&mut self, number: u32) {
        let Some(index) = number.checked_sub(1) else { return };
        if let Some(timer) = self.timers.get_mut(index as usize)
            && timer.take().is_some()
        {
            self.free.push(index);
        }
    }

    /// Time at which a pollable is ready.
    fn due(&self, number: u32) -> u64 {
        let index = number.checked_sub(1).map(|index| index as usize);
        index.and_then(|index| self.timers.get(index).copied().flatten()).unwrap_or(0)
    }

    fn is_ready(&self, number: u32) -> bool {
        self.due(number) <= self.monotonic_now()
    }

    /// Positions of the ready pollables; if there are none, waits for the first.
    fn wait(&mut self, numbers: &[u32]) -> Vec<u32> {
        let first = numbers.iter().map(|&number| self.due(number)).min().unwrap_or(0);
        self.waited = self.waited.saturating_add(first.saturating_sub(self.monotonic_now()));
        let ready = (0_u32..).zip(numbers).filter(|(_, number)| self.is_ready(**number));
        ready.map(|(position, _)| position).collect()
    }
}

fn datetime(nanoseconds: u64) -> wall_clock::Datetime {
    let rest = u32::try_from(nanoseconds % NS_PER_SECOND).unwrap_or(0);
    wall_clock::Datetime { seconds: nanoseconds / NS_PER_SECOND, nanoseconds: rest }
}

impl wall_clock::Host for Wasi<'_> {
    fn now(&mut self) -> Result<wall_clock::Datetime> {
        Ok(datetime(self.clocks()?.wall_now()))
    }

    fn resolution(&mut self) -> Result<wall_clock::Datetime> {
        self.count()?;
        Ok(datetime(RESOLUTION_NS.into()))
    }
}

impl monotonic_clock::Host for Wasi<'_> {
    fn now(&mut self) -> Result<u64> {
        Ok(self.clocks()?.monotonic_now())
    }

    fn resolution(&mut self) -> Result<u64> {
        self.count()?;
        Ok(RESOLUTION_NS.into())
    }

    fn subscribe_instant(&mut self, when: u64) -> Result<Resource<DynPollable>> {
        self.give_handle()?;
        Ok(Resource::new_own(self.clocks()?.timer(when)))
    }

    fn subscribe_duration(&mut self, duration: u64) -> Result<Resource<DynPollable>> {
        self.give_handle()?;
        let clocks = self.clocks()?;
        let at = clocks.monotonic_now().saturating_add(duration);
        Ok(Resource::new_own(clocks.timer(at)))
    }
}

impl poll::Host for Wasi<'_> {
    fn poll(&mut self, pollables: Vec<Resource<DynPollable>>) -> Result<Vec<u32>> {
        if pollables.is_empty() {
            return Err(wasmtime::Error::msg("wasi:io/poll was called with an empty list"));
        }
        let numbers: Vec<u32> = pollables.iter().map(Resource::rep).collect();
        Ok(self.clocks()?.wait(&numbers))
    }
}

impl poll::HostPollable for Wasi<'_> {
    fn ready(&mut self, pollable: Resource<DynPollable>) -> Result<bool> {
        Ok(self.clocks()?.is_ready(pollable.rep()))
    }

    fn block(&mut self, pollable: Resource<DynPollable>) -> Result<()> {
        self.clocks()?.wait(&[pollable.rep()]);
        Ok(())
    }

    fn drop(&mut self, pollable: Resource<DynPollable>) -> Result<()> {
        let state = self.drop_handle();
        state.clocks.drop_timer(pollable.rep());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_waiting_moves_the_clocks() {
        let mut clocks = Clocks::default();
        clocks.begin(1_000);
        assert_eq!((clocks.wall_now(), clocks.monotonic_now()), (1_000, 1_000));
        let (late, early) = (clocks.timer(1_500), clocks.timer(1_200));
        assert!(!clocks.is_ready(early) && clocks.is_ready(READY));
        assert_eq!(clocks.wait(&[late, READY, early]), [1], "stdin is ready before both");
        assert_eq!(clocks.wall_now(), 1_000);
        assert_eq!(clocks.wait(&[late, early]), [1]);
        assert_eq!((clocks.wall_now(), clocks.monotonic_now()), (1_200, 1_200));
        assert_eq!(clocks.wait(&[early]), [0], "a timer that is due does not move the clocks");
        assert_eq!(clocks.wait(&[late, late]), [0, 1]);
        assert_eq!(clocks.wall_now(), 1_500);
        let never = clocks.timer(u64::MAX);
        assert_eq!(clocks.wait(&[never]), [0]);
    }

    #[test]
    fn each_run_begins_at_its_time_and_the_monotonic_clock_never_goes_back() {
        let mut clocks = Clocks::default();
        clocks.begin(1_000);
        let timer = clocks.timer(5_000);
        clocks.wait(&[timer]);
        clocks.begin(2_000);
        assert_eq!((clocks.wall_now(), clocks.monotonic_now()), (2_000, 5_000));
        clocks.begin(9_000);
        assert_eq!((clocks.wall_now(), clocks.monotonic_now()), (9_000, 9_000));
    }

    #[test]
    fn the_monotonic_clock_is_never_zero() {
        assert!(Clocks::default().monotonic_now() > 0);
    }

    #[test]
    fn places_of_dropped_timers_are_reused() {
        let mut clocks = Clocks::default();
        let (one, other) = (clocks.timer(1), clocks.timer(2));
        clocks.drop_timer(READY);
        clocks.drop_timer(one);
        clocks.drop_timer(one);
        assert_eq!(clocks.timer(3), one);
        assert_ne!(clocks.timer(4), one);
        assert_eq!((clocks.due(one), clocks.due(other)), (3, 2));
        assert_eq!(clocks.timers.len(), 3);
    }
}
