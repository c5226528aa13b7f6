//! Child processes that never outlive the test.
//!
//! Flow: something holds the end of a pipe from this process, and ends the child when the pipe is closed, which the kernel does
//! when this process ends for any reason. That is the child itself or the guard around it (`tests/controlplane/guard.go`) if it
//! understands this, and a shell beside it otherwise ([`Lifeline`]). Dropping a [`Guarded`] kills the child at once.
//!
//! Invariants:
//! 1. No process started here is alive after the test process is gone, SIGKILL included.
//! 2. Nothing here is bound to an async runtime, so one process can serve tests with a runtime each.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};

use crate::eventually;

/// Clock ticks per second in `/proc/<pid>/stat`; 100 on every Linux that Rust supports.
const TICKS_PER_SECOND: u64 = 100;

/// How much of a log goes into an error message.
const LOG_TAIL_BYTES: u64 = 4096;

/// A running child process with its log file.
#[derive(Debug)]
pub struct Guarded {
    name: String,
    log: PathBuf,
    /// Its standard input is the lifeline, unless a shell has it.
    child: Child,
    lifeline: Option<Lifeline>,
    /// The process whose resources count: the child itself, or the one that it guards.
    behind_guard: bool,
}

/// What a process has used so far.
#[derive(Debug, Clone, Copy)]
pub struct Usage {
    /// User and system time of all threads.
    pub cpu: Duration,
    /// Resident memory.
    pub rss_bytes: u64,
}

/// Memory of a process, as `/proc/PID/smaps_rollup` has it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Memory {
    /// All that is resident.
    pub rss_bytes: u64,
    /// The same, with what several processes share divided among them.
    pub pss_bytes: u64,
    /// What no other process shares: what the machine has back when this one ends.
    pub private_bytes: u64,
}

impl Guarded {
    /// Starts one part of the control plane binary, which holds the lifeline by itself.
    ///
    /// # Errors
    /// The log file cannot be made, or the program cannot be started.
    pub fn part(name: &str, binary: &Path, args: &[String], log: &Path) -> Result<Guarded> {
        let mut command = Command::new(binary);
        command.arg(name).args(args);
        Guarded::spawn(name, &mut command, log, false)
    }

    /// Starts any program under the guard of the control plane binary.
    ///
    /// # Errors
    /// The log file cannot be made, or the program cannot be started.
    pub fn program(name: &str, guard: &Path, program: &Path, args: &[String], log: &Path) -> Result<Guarded> {
        let mut command = Command::new(guard);
        command.arg("guard").arg(program).args(args);
        Guarded::spawn(name, &mut command, log, true)
    }

    /// Starts any program, and a shell that kills it when this process has ended.
    ///
    /// # Errors
    /// The log file cannot be made, or the program or the shell cannot be started.
    pub fn tied(name: &str, command: &mut Command, log: &Path) -> Result<Guarded> {
        let mut started = Guarded::spawn(name, command, log, false)?;
        started.lifeline = Some(Lifeline::of(&started.id().to_string())?);
        Ok(started)
    }

    fn spawn(name: &str, command: &mut Command, log: &Path, behind_guard: bool) -> Result<Guarded> {
        let out = File::options()
            .create(true)
            .append(true)
            .open(log)
            .with_context(|| format!("open the log {}", log.display()))?;
        let child = command
            .env("CONTROLPLANE_LIFELINE", "stdin")
            .stdin(Stdio::piped())
            .stdout(out.try_clone().context("share the log")?)
            .stderr(out)
            .spawn()
            .with_context(|| format!("start {name}"))?;
        Ok(Guarded { name: name.to_owned(), log: log.to_owned(), child, lifeline: None, behind_guard })
    }

    /// What the process is called in messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The process id of the child (of the guard, for a guarded program).
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The process id of the program itself, behind a guard or not.
    ///
    /// # Errors
    /// The program has ended.
    pub fn inner_id(&self) -> Result<u32> {
        if self.behind_guard { only_child(self.child.id()) } else { Ok(self.child.id()) }
    }

    /// Where standard output and standard error go.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// The end of the log, for error messages.
    pub fn log_tail(&self) -> String {
        tail(&self.log)
    }

    /// The exit status, if the process has ended.
    pub fn exited(&mut self) -> Option<ExitStatus> {
        let status = self.child.try_wait().ok().flatten()?;
        self.lifeline = None;
        Some(status)
    }

    /// Sends SIGTERM and waits for the end; after `grace`, SIGKILL. Returns whether SIGTERM was
    /// enough.
    ///
    /// # Cancel safety
    /// Dropping the future leaves a process that was told to end.
    pub async fn stop(&mut self, grace: Duration) -> bool {
        self.signal(Signal::TERM);
        let has_ended = eventually(grace, "its end", async || Ok(self.exited())).await.is_ok();
        if !has_ended {
            self.kill();
        }
        has_ended
    }

    /// Sends SIGTERM.
    pub fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Ends the process at once (SIGKILL) and reaps it.
    pub fn kill(&mut self) {
        // First, so that the shell kills no other process that gets the same id.
        self.lifeline = None;
        // Both fail only when the process has ended already, which is what is wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Stops the process from running without ending it (SIGSTOP).
    pub fn pause(&self) {
        self.signal(Signal::STOP);
    }

    /// Lets a paused process run on (SIGCONT).
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        let id = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        if let Some(pid) = id {
            let _ = kill_process(pid, signal);
        }
    }

    /// CPU time and memory of the process so far.
    ///
    /// # Errors
    /// The process has ended.
    pub fn usage(&self) -> Result<Usage> {
        let pid = self.inner_id()?;
        let stat = fs::read_to_string(format!("/proc/{pid}/stat"))
            .with_context(|| format!("read the usage of {}", self.name))?;
        // The command name may hold spaces and parentheses; the numbers start after the last one.
        let numbers: Vec<&str> =
            stat.rsplit_once(')').map(|(_, rest)| rest.split_whitespace().collect()).unwrap_or_default();
        let number = |i: usize| numbers.get(i).and_then(|n| n.parse::<u64>().ok());
        // Fields 14 and 15 of proc_pid_stat(5), counted from the third.
        let ticks = number(11).unwrap_or(0) + number(12).unwrap_or(0);
        let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
        let rss_bytes = bytes_of(&status, "VmRSS").unwrap_or(0);
        Ok(Usage { cpu: Duration::from_millis(ticks * 1000 / TICKS_PER_SECOND), rss_bytes })
    }

    /// Most memory of the process since its start, or since [`forget_peak`](Self::forget_peak), in bytes.
    ///
    /// # Errors
    /// The process has ended.
    pub fn peak(&self) -> Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.inner_id()?))
            .with_context(|| format!("read the peak of {}", self.name))?;
        bytes_of(&status, "VmHWM")
    }

    /// Begins the peak of memory anew.
    ///
    /// # Errors
    /// The process has ended.
    pub fn forget_peak(&self) -> Result<()> {
        // proc_pid_clear_refs(5)
        fs::write(format!("/proc/{}/clear_refs", self.inner_id()?), "5")
            .with_context(|| format!("forget the peak of {}", self.name))
    }

    /// Memory of the process now.
    ///
    /// # Errors
    /// The process has ended.
    pub fn memory(&self) -> Result<Memory> {
        let rollup = fs::read_to_string(format!("/proc/{}/smaps_rollup", self.inner_id()?))
            .with_context(|| format!("read the memory of {}", self.name))?;
        let bytes = |field: &str| bytes_of(&rollup, field);
        Ok(Memory {
            rss_bytes: bytes("Rss")?,
            pss_bytes: bytes("Pss")?,
            private_bytes: bytes("Private_Clean")? + bytes("Private_Dirty")?,
        })
    }
}

/// A size of a file of `/proc`, which has KiB, in bytes.
fn bytes_of(text: &str, field: &str) -> Result<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    let kib = line.with_context(|| format!("there is no {field}"))?.trim().trim_end_matches("kB").trim();
    Ok(kib.parse::<u64>()? << 10)
}

impl Drop for Guarded {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Writes a program. Another process does it: a child that this one starts meanwhile would have the file open for a moment, too, and
/// what is open for writing cannot be executed.
///
/// # Errors
/// The file cannot be written.
pub fn write_program(file: &Path, text: &str) -> Result<()> {
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", r#"cat > "$1" && chmod 755 "$1""#, "sh"]).arg(file).stdin(Stdio::piped());
    let mut shell = shell.spawn().context("start a shell")?;
    if let Some(mut input) = shell.stdin.take() {
        input.write_all(text.as_bytes()).with_context(|| format!("write {}", file.display()))?;
    }
    let status = shell.wait().context("wait for a shell")?;
    ensure!(status.success(), "write {}: {status}", file.display());
    Ok(())
}

/// A shell that kills a process, or a group of them, when the pipe from this process closes.
#[derive(Debug)]
pub(crate) struct Lifeline(Child);

impl Lifeline {
    /// Ties all processes of a group to this one, by the number of its leader.
    pub(crate) fn of_group(leader: u32) -> Result<Lifeline> {
        Lifeline::of(&format!("-{leader}"))
    }

    /// Ties one process to this one.
    pub(crate) fn of_process(id: u32) -> Result<Lifeline> {
        Lifeline::of(&id.to_string())
    }

    fn of(target: &str) -> Result<Lifeline> {
        let script = "read -r order || kill -KILL -- \"$0\" 2>/dev/null";
        let mut shell = Command::new("sh");
        shell.args(["-c", script, target]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(Lifeline(shell.spawn().context("start a shell that watches a process")?))
    }
}

impl Drop for Lifeline {
    fn drop(&mut self) {
        // Both fail only when the shell has ended already, which is what is wanted.
        if let Some(mut pipe) = self.0.stdin.take() {
            let _ = pipe.write_all(b"end\n");
        }
        let _ = self.0.wait();
    }
}

/// The program that this process has started.
pub(crate) fn only_child(pid: u32) -> Result<u32> {
    let arguments = |pid: &str| fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let own = arguments(&pid.to_string());
    // Children are listed by the thread that started them.
    for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
        let children = fs::read_to_string(thread?.path().join("children"))?;
        // A copy of the process itself is about to start the program, or to end: Go tries at first use what the kernel can do.
        let program = children.split_whitespace().find(|child| ![&own, &Vec::new()].contains(&&arguments(child)));
        if let Some(program) = program {
            return Ok(program.parse()?);
        }
    }
    bail!("process {pid} has no child")
}

/// The last lines of a file, or why it cannot be read.
pub fn tail(path: &Path) -> String {
    let read = || -> std::io::Result<String> {
        let mut file = File::open(path)?;
        let len = file.metadata()?.len();
        file.seek(SeekFrom::Start(len.saturating_sub(LOG_TAIL_BYTES)))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    read().unwrap_or_else(|error| format!("({}: {error})", path.display()))
}
