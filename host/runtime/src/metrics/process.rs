//! Metrics of the process, under the names of Prometheus' client libraries.
//!
//! Source: `process_collector.go` of github.com/prometheus/client_golang.

use std::sync::atomic::AtomicU64;

use parking_lot::Mutex;
use pintle_metrics::{
    PROCESS_CPU, PROCESS_MAX_FDS, PROCESS_OPEN_FDS, PROCESS_RESIDENT, PROCESS_START, PROCESS_VIRTUAL,
};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use sysinfo::{Pid, ProcessRefreshKind, ProcessesToUpdate, System};

use super::family::register;

#[derive(Debug)]
pub(super) struct ProcessMetrics {
    cpu: Counter<f64, AtomicU64>,
    resident: Gauge,
    memory: Gauge,
    started: Gauge,
    open_files: Gauge,
    max_files: Gauge,
    system: Mutex<Option<(System, Pid)>>,
}

fn gauge(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

impl ProcessMetrics {
    pub(super) fn new(registry: &mut Registry) -> Self {
        let metrics = Self {
            cpu: Counter::default(),
            resident: Gauge::default(),
            memory: Gauge::default(),
            started: Gauge::default(),
            open_files: Gauge::default(),
            max_files: Gauge::default(),
            system: Mutex::new(System::new().ok().zip(sysinfo::get_current_pid().ok())),
        };
        register(registry, &PROCESS_CPU.info, metrics.cpu.clone());
        for (def, gauge) in [
            (PROCESS_RESIDENT, &metrics.resident),
            (PROCESS_VIRTUAL, &metrics.memory),
            (PROCESS_START, &metrics.started),
            (PROCESS_OPEN_FDS, &metrics.open_files),
            (PROCESS_MAX_FDS, &metrics.max_files),
        ] {
            register(registry, &def.info, gauge.clone());
        }
        metrics
    }

    /// Current resident memory of this process; `None` if the system does not report it.
    pub(super) fn resident_bytes(&self) -> Option<u64> {
        let mut system = self.system.lock();
        let (system, pid) = system.as_mut()?;
        let what = ProcessRefreshKind::nothing().with_memory();
        system.refresh_processes_specifics(ProcessesToUpdate::Some(&[*pid]), false, what);
        system.process(*pid).map(sysinfo::Process::memory).filter(|bytes| *bytes > 0)
    }

    /// Measures this process. Values that the system does not report are unchanged.
    pub(super) fn refresh(&self) {
        let mut system = self.system.lock();
        let Some((system, pid)) = &mut *system else { return };
        let what = ProcessRefreshKind::nothing().with_memory().with_cpu();
        system.refresh_processes_specifics(ProcessesToUpdate::Some(&[*pid]), true, what);
        let Some(process) = system.process(*pid) else { return };
        // Milliseconds.
        let cpu = process.accumulated_cpu_time() as f64 / 1e3;
        self.cpu.inc_by((cpu - self.cpu.get()).max(0.0));
        self.resident.set(gauge(process.memory()));
        self.memory.set(gauge(process.virtual_memory()));
        self.started.set(gauge(process.start_time()));
        if let Some(n) = process.open_files() {
            self.open_files.set(gauge(n as u64));
        }
        if let Some(n) = process.open_files_limit() {
            self.max_files.set(gauge(n as u64));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Instant, SystemTime};

    use super::*;

    #[test]
    fn a_process_measures_itself() {
        let metrics = ProcessMetrics::new(&mut Registry::default());
        metrics.refresh();
        let before = metrics.cpu.get();
        let begun = Instant::now();
        let mut n = 0_u64;
        while metrics.cpu.get() == before && begun.elapsed().as_secs() < 600 {
            (0..1_000_000_u64).for_each(|i| n = std::hint::black_box(n ^ i));
            metrics.refresh();
        }
        assert!(metrics.cpu.get() > before, "{begun:?} of work took no time");
        assert!(metrics.resident.get() > 1 << 20 && metrics.memory.get() >= metrics.resident.get());
        assert!(metrics.open_files.get() >= 3 && metrics.max_files.get() > metrics.open_files.get());
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
        assert!((0..3600).contains(&(gauge(now) - metrics.started.get())), "{}", metrics.started.get());
    }

    #[test]
    fn the_memory_of_this_process_is_known_and_follows_it() {
        let metrics = ProcessMetrics::new(&mut Registry::default());
        assert!(metrics.resident_bytes().is_some());
        // Concurrent tests allocate and free less than this.
        const TAKEN: usize = 256 << 20;
        let mut taken = vec![1_u8; TAKEN];
        taken.iter_mut().step_by(4096).for_each(|byte| *byte = 2);
        let resident = metrics.resident_bytes().unwrap();
        assert!(resident > TAKEN as u64, "{resident}");
        drop(taken);
    }
}
