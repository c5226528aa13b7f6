//! Facts about this process, for the overview of the host.

use std::sync::Mutex;

use pintle_runtime::overview::ProcessFacts;
use sysinfo::{Pid, ProcessRefreshKind, ProcessesToUpdate, System};

/// Reads them; at most one reader at a time.
pub(crate) fn facts() -> impl Fn() -> ProcessFacts + Send + Sync + 'static {
    let reader = System::new().ok().and_then(|system| Some(Mutex::new((system, sysinfo::get_current_pid().ok()?))));
    move || ProcessFacts {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        resident_bytes: reader.as_ref().and_then(|reader| {
            let (system, own) = &mut *reader.lock().ok()?;
            resident_bytes(system, *own)
        }),
    }
}

fn resident_bytes(system: &mut System, own: Pid) -> Option<u64> {
    let wanted = ProcessRefreshKind::nothing().with_memory();
    system.refresh_processes_specifics(ProcessesToUpdate::Some(&[own]), false, wanted);
    system.process(own).map(sysinfo::Process::memory).filter(|bytes| *bytes > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_of_this_process_is_known_and_follows_it() {
        let read = facts();
        let before = read().resident_bytes.unwrap();
        let mut taken = vec![1_u8; 64 << 20];
        taken.iter_mut().step_by(4096).for_each(|byte| *byte = 2);
        let after = read().resident_bytes.unwrap();
        assert!(after > before + (32 << 20), "{before} {after}");
        drop(taken);
    }
}
