//! The state of one instance: its memory account, the current run and the view that the run may read.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use pintle_core::contract::manifest::EffectiveLimits;
use pintle_core::ports::view::{View, ViewError};
use wasmtime::ResourceLimiter;
use wasmtime::component::Resource;

use crate::fault::HostTrap;
use crate::logs::Logs;
use crate::scheduler::Slot;
use crate::size::Size;
use crate::wasi::WasiState;

/// Maximum table elements of an instance, all tables together. Large language runtimes have about 10,000.
pub(crate) const MAX_TABLE_ELEMENTS: usize = 50_000;

/// Maximum bytes of the arguments of one lister call. Objects have at most 1.5 MB; queries need only their names and
/// labels.
const MAX_ARGUMENT_BYTES: usize = 1 << 20;
/// Maximum duration of a call including its waits for CPU slots, as a multiple of its deadline, so that looping calls
/// cannot block their places forever.
const MAX_STRETCH: u32 = 10;

/// The resource that a guest holds; its number is that of a run, and it refers to nothing but [`StoreState::run`].
#[derive(Debug)]
#[allow(unreachable_pub, reason = "generated code re-exports it")]
pub struct Lister;

/// Data of a wasmtime store.
pub(crate) struct StoreState {
    pub(crate) memory: Memory,
    /// Deadline and CPU slot of the current call; `None` between calls.
    pub(crate) clock: Option<Clock>,
    /// Number of the current or last run. Numbers are never reused, so that a kept lister is recognized.
    n_run: u32,
    /// The current run, with its view and its log; `None` between runs.
    pub(crate) run: Option<Run>,
    n_dropped: u32,
    /// Present after the first WASI call.
    pub(crate) wasi: Option<Box<WasiState>>,
    _alive: Alive,
}

/// Counts the instance while it exists.
#[derive(Debug)]
pub(crate) struct Alive(Arc<AtomicUsize>);

impl Alive {
    pub(crate) fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count.clone())
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The deadline of a call, and its CPU slot.
#[derive(Clone)]
pub(crate) struct Clock {
    pub(crate) started: Instant,
    pub(crate) limit: Duration,
    pub(crate) slot: Arc<Slot>,
}

impl Clock {
    /// Whether the deadline has passed. Waits for CPU slots do not count, up to a bound.
    pub(crate) fn is_over(&self, now: Instant) -> bool {
        let waited = self.slot.waited().min(self.limit * (MAX_STRETCH - 1));
        now >= self.started + self.limit + waited
    }
}

/// The run that an instance serves.
pub(crate) struct Run {
    view: Arc<dyn View>,
    host_calls_left: u32,
    read_bytes_left: u64,
    pub(crate) n_host_calls: u32,
    pub(crate) bytes_read: u64,
    pub(crate) logs: Logs,
}

impl StoreState {
    /// `total`: memory of all instances of the plugin.
    pub(crate) fn new(limits: &EffectiveLimits, clock: Clock, alive: Alive, total: Arc<AtomicU64>) -> Self {
        let memory = Memory::new(limits.memory_bytes, total);
        Self { memory, clock: Some(clock), n_run: 0, run: None, n_dropped: 0, wasi: None, _alive: alive }
    }

    /// Starts a run and creates its lister.
    pub(crate) fn begin(&mut self, limits: &EffectiveLimits, view: Arc<dyn View>, logs: Logs) -> Resource<Lister> {
        self.n_run += 1;
        self.run = Some(Run {
            view,
            host_calls_left: limits.host_calls,
            read_bytes_left: limits.read_bytes,
            n_host_calls: 0,
            bytes_read: 0,
            logs,
        });
        Resource::new_own(self.n_run)
    }

    /// Number of runs so far.
    pub(crate) fn n_runs(&self) -> u32 {
        self.n_run
    }

    /// Releases a lister that the guest dropped. A lister of an earlier run has no effect.
    pub(crate) fn count_drop(&mut self) {
        self.n_dropped += 1;
    }

    /// Number of listers that the guest still holds.
    pub(crate) fn n_undropped(&self) -> u32 {
        self.n_run.saturating_sub(self.n_dropped)
    }

    /// Performs one lister call: checks the run of the lister and the limits, then reads. `n_given`: bytes of the
    /// call's arguments, which the host has copied but not read yet.
    pub(crate) fn read<R: Size>(
        &mut self,
        lister: &Resource<Lister>,
        n_given: usize,
        read: impl FnOnce(&dyn View) -> Result<R, ViewError>,
    ) -> wasmtime::Result<(R,)> {
        let current = self.n_run;
        let Some(run) = self.run.as_mut().filter(|_| lister.rep() == current) else {
            return Err(HostTrap::StaleLister.into());
        };
        run.count_host_call(HostTrap::HostCalls)?;
        if n_given > MAX_ARGUMENT_BYTES {
            return Err(HostTrap::Argument { given: n_given, limit: MAX_ARGUMENT_BYTES }.into());
        }
        let view = &*run.view;
        let answer = guarded(|| read(view))?.map_err(HostTrap::View)?;
        let n_bytes = answer.n_bytes() as u64;
        run.bytes_read += n_bytes;
        run.read_bytes_left = run.read_bytes_left.checked_sub(n_bytes).ok_or(HostTrap::ReadBytes)?;
        Ok((answer,))
    }

    /// Counts a host call that is not a lister call. While an instance is created, only the deadline bounds such calls.
    pub(crate) fn count_host_call(&mut self, limit: HostTrap) -> wasmtime::Result<()> {
        self.run.as_mut().map_or(Ok(()), |run| run.count_host_call(limit)).map_err(Into::into)
    }

    /// Reads inputs of the current run; `None` while an instance is created.
    pub(crate) fn ask<R>(&self, ask: impl FnOnce(&dyn View, &Logs) -> R) -> wasmtime::Result<Option<R>> {
        let Some(run) = &self.run else { return Ok(None) };
        Ok(Some(guarded(|| ask(&*run.view, &run.logs))?))
    }
}

impl Run {
    fn count_host_call(&mut self, limit: HostTrap) -> Result<(), HostTrap> {
        self.n_host_calls += 1;
        self.host_calls_left = self.host_calls_left.checked_sub(1).ok_or(limit)?;
        Ok(())
    }
}

/// Runs host code that a guest called; a panic ends the run.
fn guarded<R>(run: impl FnOnce() -> R) -> Result<R, HostTrap> {
    catch_unwind(AssertUnwindSafe(run)).map_err(|panic| HostTrap::Panic(panic_message(&*panic)))
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".into())
}

/// The memory account of an instance.
#[derive(Debug)]
pub(crate) struct Memory {
    limit_bytes: u64,
    n_bytes: u64,
    n_table_elements: usize,
    /// Memory of all instances of the plugin.
    total: Arc<AtomicU64>,
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.total.fetch_sub(self.n_bytes, Ordering::Relaxed);
    }
}

impl Memory {
    fn new(limit_bytes: u64, total: Arc<AtomicU64>) -> Self {
        Self { limit_bytes, n_bytes: 0, n_table_elements: 0, total }
    }

    /// Linear memories never shrink, so this is also the peak.
    pub(crate) fn n_bytes(&self) -> u64 {
        self.n_bytes
    }
}

impl ResourceLimiter for Memory {
    fn memory_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> wasmtime::Result<bool> {
        if maximum.is_some_and(|maximum| desired > maximum) {
            return Ok(false);
        }
        let wanted = self.n_bytes + desired.saturating_sub(current) as u64;
        if wanted > self.limit_bytes {
            return Err(HostTrap::Memory { wanted, limit: self.limit_bytes }.into());
        }
        self.total.fetch_add(wanted - self.n_bytes, Ordering::Relaxed);
        self.n_bytes = wanted;
        Ok(true)
    }

    fn table_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> wasmtime::Result<bool> {
        // Checked first, because the maximum may be that of the pooling allocator, and the guest would take it for its
        // own.
        let wanted = self.n_table_elements + desired.saturating_sub(current);
        if wanted > MAX_TABLE_ELEMENTS {
            return Err(HostTrap::Tables { wanted, limit: MAX_TABLE_ELEMENTS }.into());
        }
        if maximum.is_some_and(|maximum| desired > maximum) {
            return Ok(false);
        }
        self.n_table_elements = wanted;
        Ok(true)
    }
}
