//! Advances the engine's epoch while guests run, which interrupts each about once a millisecond.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle, Thread};
use std::time::Duration;

use wasmtime::Engine;

/// Time slice of a guest, and the precision of deadlines.
const TICK: Duration = Duration::from_millis(1);
/// Idle ticks after which the thread sleeps. Waking it costs a few microseconds, which is too much per run on a busy
/// host; each tick costs as much, which is too much while a run only waits for its reads.
const LINGER: u32 = 3;

/// Owns the thread; dropping it ends the thread.
#[derive(Debug)]
pub(crate) struct Ticker {
    shared: Arc<Shared>,
    thread: Thread,
    handle: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    n_running: AtomicUsize,
    parked: AtomicBool,
    stop: AtomicBool,
}

/// While one of these is held, the epoch advances.
#[derive(Debug)]
pub(crate) struct Ticking<'a>(&'a Shared);

impl Ticker {
    pub(crate) fn start(engine: &Engine) -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let (engine, of_thread) = (engine.clone(), shared.clone());
        let handle = thread::Builder::new().name("wasm-ticker".into()).spawn(move || of_thread.run(&engine))?;
        Ok(Self { shared, thread: handle.thread().clone(), handle: Some(handle) })
    }

    pub(crate) fn run(&self) -> Ticking<'_> {
        self.shared.n_running.fetch_add(1, Ordering::SeqCst);
        if self.shared.parked.swap(false, Ordering::SeqCst) {
            self.thread.unpark();
        }
        Ticking(&self.shared)
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        self.thread.unpark();
        if let Some(handle) = self.handle.take() {
            // The thread does not panic; if it did, nothing could be done here.
            let _ = handle.join();
        }
    }
}

impl Drop for Ticking<'_> {
    fn drop(&mut self) {
        self.0.n_running.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Shared {
    fn run(&self, engine: &Engine) {
        let mut n_idle = 0;
        while !self.stop.load(Ordering::SeqCst) {
            thread::sleep(TICK);
            engine.increment_epoch();
            n_idle = if self.n_running.load(Ordering::SeqCst) == 0 { n_idle + 1 } else { 0 };
            if n_idle < LINGER {
                continue;
            }
            // A run that starts after this store sees it and unparks; a run that started before is seen by the load.
            self.parked.store(true, Ordering::SeqCst);
            if self.n_running.load(Ordering::SeqCst) == 0 && !self.stop.load(Ordering::SeqCst) {
                thread::park();
            }
            self.parked.store(false, Ordering::SeqCst);
            n_idle = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn the_thread_parks_when_nothing_runs_and_wakes_for_a_run() {
        let ticker = Ticker::start(&Engine::default()).unwrap();
        let wait_for = |parked: bool| {
            let end = Instant::now() + Duration::from_secs(300);
            while ticker.shared.parked.load(Ordering::SeqCst) != parked {
                assert!(Instant::now() < end, "still waiting for parked = {parked}");
                thread::yield_now();
            }
        };
        wait_for(true);
        let running = ticker.run();
        wait_for(false);
        drop(running);
        wait_for(true);
    }
}
