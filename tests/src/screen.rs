//! A screen: a program in a pseudo terminal, and what a user sees of it.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::num::NonZero;
use std::process::{Child, Command, ExitStatus};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context as _, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

use crate::process::Lifeline;
use crate::{PATIENCE, eventually};

/// A program in a terminal. Dropping it kills the program.
#[derive(Debug)]
pub struct Screen {
    _lifeline: Lifeline,
    child: Child,
    keyboard: File,
    /// The program's end, which stays open so that its modes can be read after the program has ended.
    inside: File,
    shown: Arc<Mutex<Shown>>,
}

struct Shown(vt100::Parser);

impl std::fmt::Debug for Shown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0.screen().contents())
    }
}

/// At least one.
fn cells(n: u16) -> NonZero<u16> {
    NonZero::new(n).unwrap_or(NonZero::<u16>::MIN)
}

fn size(rows: u16, columns: u16) -> Winsize {
    Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }
}

impl Screen {
    /// Starts a program.
    ///
    /// # Errors
    /// The system has no pseudo terminal, or the program does not start.
    pub fn start(command: &Command, rows: u16, columns: u16) -> Result<Screen> {
        let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).context("open a pty")?;
        grantpt(&terminal)?;
        unlockpt(&terminal)?;
        tcsetwinsize(&terminal, size(rows, columns))?;
        let name = ptsname(&terminal, Vec::new())?.into_string().context("a path")?;
        let inside = File::options().read(true).write(true).open(&name).with_context(|| format!("open {name}"))?;
        // util-linux' program makes it the terminal of a session, in which Ctrl-C and changes of the size are signals.
        let mut session = Command::new("setsid");
        session.arg("--ctty").arg(command.get_program()).args(command.get_args()).env("TERM", "xterm-256color");
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => session.env(name, value),
                None => session.env_remove(name),
            };
        }
        session.stdin(inside.try_clone()?).stdout(inside.try_clone()?).stderr(inside.try_clone()?);
        let child = session.spawn().context("start setsid")?;
        let lifeline = Lifeline::of_process(child.id())?;
        let keyboard = File::from(terminal);
        let mut output = keyboard.try_clone()?;
        let shown = Arc::new(Mutex::new(Shown(vt100::Parser::new(cells(rows), cells(columns), 0))));
        let written = shown.clone();
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            // It fails when the other end is closed.
            while let Ok(n @ 1..) = output.read(&mut bytes) {
                written.lock().unwrap_or_else(PoisonError::into_inner).0.process(&bytes[..n]);
            }
        });
        Ok(Screen { _lifeline: lifeline, child, keyboard, inside, shown })
    }

    fn shown(&self) -> MutexGuard<'_, Shown> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is on the screen, without empty ends of lines.
    pub fn text(&self) -> String {
        self.shown().0.screen().contents()
    }

    /// Presses keys: text, or the bytes that a terminal sends for a key.
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn press(&mut self, keys: &str) -> Result<()> {
        self.keyboard.write_all(keys.as_bytes()).context("press keys")
    }

    /// Changes the size of the terminal.
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn resize(&self, rows: u16, columns: u16) -> Result<()> {
        self.shown().0.screen_mut().set_size(cells(rows), cells(columns));
        tcsetwinsize(&self.keyboard, size(rows, columns)).context("resize")
    }

    /// Sends a signal to the program.
    ///
    /// # Errors
    /// It has ended.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        let id = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).context("no process has this number")?;
        kill_process(id, signal).context("send a signal")
    }

    /// Waits until the screen is as `look` wants it.
    ///
    /// # Errors
    /// It is not, in time; the message contains the screen.
    pub async fn shows(&self, what: &str, look: impl Fn(&str) -> bool) -> Result<String> {
        eventually(PATIENCE, format!("the screen to show {what}"), async || {
            let text = self.text();
            ensure!(look(&text), "it shows:\n{text}");
            Ok(Some(text))
        })
        .await
    }

    /// Waits for the end of the program.
    ///
    /// # Errors
    /// It does not end.
    pub async fn ended(&mut self) -> Result<ExitStatus> {
        let child = &mut self.child;
        eventually(PATIENCE, "the end of the program", async || Ok(child.try_wait()?)).await
    }

    /// Waits until the terminal is as a shell needs it: lines are edited and shown, the cursor is there, and the screen is the first one.
    ///
    /// # Errors
    /// It is not, in time.
    pub async fn is_restored(&self) -> Result<()> {
        // What the program wrote last may still be on its way.
        eventually(PATIENCE, "the terminal to be restored", async || self.left().map(Some)).await
    }

    /// Whether the terminal is as a shell needs it now.
    ///
    /// # Errors
    /// The first thing that is not so.
    pub fn left(&self) -> Result<()> {
        let modes = tcgetattr(&self.inside)?.local_modes;
        ensure!(modes.contains(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG), "modes: {modes:?}");
        let shown = self.shown();
        let screen = shown.0.screen();
        ensure!(!screen.alternate_screen(), "the second screen is shown");
        ensure!(!screen.hide_cursor(), "the cursor is hidden");
        Ok(())
    }

    /// The screen as an HTML document, for a photograph.
    pub fn html(&self) -> String {
        let shown = self.shown();
        let screen = shown.0.screen();
        let (rows, columns) = screen.size();
        let mut html = String::from(
            "<!doctype html><meta charset=utf-8><body style='margin:0;background:#10151b'><pre style='margin:12px;\
             font:15px/1.25 \"DejaVu Sans Mono\",monospace;color:#d5dde5'>",
        );
        for row in 0..rows.get() {
            for column in 0..columns.get() {
                let Some(cell) = screen.cell(row, column) else { continue };
                let text = if cell.has_contents() { cell.contents() } else { " " };
                let text = text.replace('&', "&amp;").replace('<', "&lt;");
                let color = match cell.fgcolor() {
                    vt100::Color::Idx(1 | 9) => "#ff8f85",
                    vt100::Color::Idx(2 | 10) => "#5fd39a",
                    vt100::Color::Idx(3 | 11) => "#e8bb5a",
                    vt100::Color::Idx(6 | 14) => "#67c7d6",
                    _ => "#d5dde5",
                };
                let (front, back) = if cell.inverse() { ("#10151b", color) } else { (color, "#10151b") };
                let weight = if cell.bold() { "bold" } else { "normal" };
                let line = if cell.underline() { "underline" } else { "none" };
                let opacity = if cell.dim() { "0.6" } else { "1" };
                // Writing to a string does not fail.
                let _ = write!(
                    html,
                    "<span style='color:{front};background:{back};font-weight:{weight};text-decoration:{line};opacity:{opacity}'>{text}</span>"
                );
            }
            html.push('\n');
        }
        html
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // Both fail only when it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
