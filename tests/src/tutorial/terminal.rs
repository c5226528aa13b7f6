//! A terminal: a shell that lives from one command to the next, so that `cd` and `export` hold.
//!
//! Standard output and standard error are one stream, as on a screen. Programs read nothing from the keyboard.

use std::io::{Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use super::Machine;
use crate::eventually;
use crate::kubectl::script::matches;
use crate::process::{Lifeline, only_child};

/// How long one command may take. First builds, with empty caches and on a busy machine, take longest.
const DEADLINE: Duration = Duration::from_secs(600);

/// The shell says this after each command, and its exit code.
const END: &str = "--end-of-command";

/// A shell; it and all that it started end with this.
#[derive(Debug)]
pub struct Terminal {
    // Dropped after `drop` has ended the shell.
    _lifeline: Lifeline,
    shell: Child,
    keyboard: ChildStdin,
    screen: Arc<Mutex<Vec<u8>>>,
    /// How many bytes of the screen belong to what is done.
    seen: usize,
}

impl Terminal {
    /// Opens one, in the home folder of the machine.
    ///
    /// # Errors
    /// There is no bash.
    pub fn open(machine: &Machine) -> Result<Terminal> {
        let mut command = machine.command("bash");
        command.args(["--norc", "--noprofile"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        // A group of its own, which ends as one.
        let mut shell = command.process_group(0).spawn().context("start a shell")?;
        let lifeline = Lifeline::of_group(shell.id())?;
        let mut keyboard = shell.stdin.take().context("standard input is a pipe")?;
        let mut output = shell.stdout.take().context("standard output is a pipe")?;
        keyboard.write_all(b"exec 2>&1\n").context("speak to the shell")?;
        let screen = Arc::new(Mutex::new(Vec::new()));
        let written = Arc::clone(&screen);
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            // The pipe closes with the last program of the terminal.
            while let Ok(n @ 1..) = output.read(&mut bytes) {
                written.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(&bytes[..n]);
            }
        });
        Ok(Terminal { _lifeline: lifeline, shell, keyboard, screen, seen: 0 })
    }

    /// Starts a command.
    ///
    /// # Errors
    /// The shell is gone.
    pub fn start(&mut self, command: &str) -> Result<()> {
        let quoted = command.replace('\'', r"'\''");
        let line = format!("eval '{quoted}' </dev/null; printf '\\n{END} %s\\n' $?\n");
        self.keyboard.write_all(line.as_bytes()).context("speak to the shell")
    }

    /// Waits for the end of the command that was started; answers what it printed, and whether it succeeded.
    ///
    /// # Errors
    /// It does not end.
    pub async fn finish(&mut self) -> Result<(Vec<String>, bool)> {
        let (length, code) = eventually(DEADLINE, "the end of the command", async || {
            let text = self.unseen();
            let mark = format!("\n{END} ");
            let ended = text.find(&mark).and_then(|at| Some((at, text[at + mark.len()..].split_once('\n')?.0)));
            ensure!(ended.is_some(), "so far:\n{text}");
            Ok(ended.map(|(at, code)| (at, code.to_owned())))
        })
        .await?;
        let lines = self.unseen()[..length].lines().filter(|line| !is_progress(line)).map(str::to_owned).collect();
        self.seen += length + format!("\n{END} {code}\n").len();
        Ok((lines, code == "0"))
    }

    /// Waits until the program that runs has printed this.
    ///
    /// # Errors
    /// It does not.
    pub async fn shows(&mut self, wanted: &[String]) -> Result<()> {
        let length = eventually(DEADLINE, format!("{wanted:#?}"), async || {
            let text = self.unseen();
            if matches(wanted, &[]) {
                return Ok(Some(0));
            }
            let shown = text.split_inclusive('\n').scan((0, Vec::new()), |(length, lines), line| {
                *length += line.len();
                if !is_progress(line) {
                    lines.push(line.trim_end().to_owned());
                }
                Some((*length, matches(wanted, lines)))
            });
            let found = shown.into_iter().find_map(|(length, is_shown)| is_shown.then_some(length));
            ensure!(found.is_some(), "so far:\n{text}");
            Ok(found)
        })
        .await?;
        self.seen += length;
        Ok(())
    }

    /// Ctrl-C: the program that runs is asked to end.
    ///
    /// # Errors
    /// None runs.
    pub fn interrupt(&self) -> Result<()> {
        let program = i32::try_from(only_child(self.shell.id())?).ok().and_then(Pid::from_raw);
        kill_process(program.context("no process has this number")?, Signal::INT).context("interrupt")
    }

    /// Where the shell stands.
    ///
    /// # Errors
    /// It is gone.
    pub fn folder(&self) -> Result<PathBuf> {
        std::fs::read_link(format!("/proc/{}/cwd", self.shell.id())).context("find out where the shell stands")
    }

    fn unseen(&self) -> String {
        let screen = self.screen.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&screen[self.seen..]).into_owned()
    }
}

/// Whether a host reports what a start waits for, which only slow machines see.
pub fn is_progress(line: &str) -> bool {
    line.contains(" INFO compiling component ")
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // They fail only when all has ended already.
        if let Some(group) = i32::try_from(self.shell.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.shell.wait();
    }
}
