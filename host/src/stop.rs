//! Ctrl-C and SIGTERM.
//!
//! *Invariant*: the second signal ends the process whatever its threads wait for, because the signal handler does it,
//! not a task.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context as _;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Exit code after a second signal, as of a shell for SIGINT.
const KILLED: i32 = 130;

/// Signals caught since [`Signals::catch`].
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
    /// Whether one has been caught.
    stopping: Arc<AtomicBool>,
}

impl Signals {
    /// From now on, the first signal does not end the process, and the second one does. Call it once in a process,
    /// within a runtime.
    ///
    /// # Errors
    /// The system does not allow signal handlers.
    pub fn catch() -> anyhow::Result<Self> {
        let stopping = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            // In this order: the first signal only sets the flag that the second one checks.
            flag::register_conditional_shutdown(signal, KILLED, stopping.clone()).context("handle signals")?;
            flag::register(signal, stopping.clone()).context("handle signals")?;
        }
        // After the flags: a task that receives the first signal may send the second one.
        let interrupt = signal(SignalKind::interrupt()).context("listen for SIGINT")?;
        let terminate = signal(SignalKind::terminate()).context("listen for SIGTERM")?;
        Ok(Self { interrupt, terminate, stopping })
    }

    /// Resolves at the first signal.
    pub async fn requested(mut self) {
        // Returns immediately if it came before there were listeners.
        if !self.stopping.load(Ordering::SeqCst) {
            tokio::select! {
                _ = self.interrupt.recv() => {}
                _ = self.terminate.recv() => {}
            }
        }
        tracing::info!("stopping: runs in flight are finished first; a second signal ends at once");
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader};
    use std::process::{Command, Stdio};
    use std::time::Duration;

    use rustix::process::{Pid, Signal, kill_process};

    const CHILD: &str = "PINTLE_TEST_OF_SIGNALS";

    /// A process whose only runtime thread is blocked, as by an unresponsive file system.
    fn child() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let signals = super::Signals::catch().unwrap();
            println!("\nready");
            signals.requested().await;
            println!("\nstopping");
            // Ends the process with another exit code if the second signal does not.
            std::thread::sleep(Duration::from_secs(600));
        });
    }

    #[test]
    fn a_second_signal_ends_a_process_whose_threads_are_blocked() {
        if std::env::var_os(CHILD).is_some() {
            return child();
        }
        for second in [Signal::INT, Signal::TERM] {
            let name = "stop::tests::a_second_signal_ends_a_process_whose_threads_are_blocked";
            let mut command = Command::new(std::env::current_exe().unwrap());
            command.args(["--exact", name, "--nocapture"]).env(CHILD, "1").stdout(Stdio::piped());
            let mut process = command.spawn().unwrap();
            let pid = Pid::from_child(&process);
            let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
            let mut signal_after = |line: &str, signal| {
                assert!(lines.any(|read| read.unwrap() == line), "{line}");
                kill_process(pid, signal).unwrap();
            };
            signal_after("ready", Signal::TERM);
            signal_after("stopping", second);
            assert_eq!(process.wait().unwrap().code(), Some(super::KILLED));
        }
    }
}
