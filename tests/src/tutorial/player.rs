//! Follows a page on a machine.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use similar::TextDiff;

use super::Machine;
use super::page::{Action, End, Page, Window};
use super::terminal::Terminal;
use crate::kubectl::script::matches;

/// Somebody who follows a tutorial.
#[derive(Debug)]
pub struct Player<'a> {
    machine: &'a Machine,
    first: Terminal,
    second: Option<Terminal>,
    /// When the last command was started, or the last file was saved.
    begun: Instant,
    times: Vec<Timed>,
}

/// How long something took.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timed {
    /// The command that ended, or what a program was awaited to print.
    pub what: String,
    /// Since the command was started, or since a file was saved after that.
    pub took: Duration,
}

impl<'a> Player<'a> {
    /// Opens the first terminal.
    ///
    /// # Errors
    /// The machine has no shell.
    pub fn new(machine: &'a Machine) -> Result<Player<'a>> {
        let first = Terminal::open(machine)?;
        Ok(Player { machine, first, second: None, begun: Instant::now(), times: Vec::new() })
    }

    /// Does what the page says, in order; answers how long each command took.
    ///
    /// # Errors
    /// Something is not as the page says; the message names the line.
    pub async fn follow(mut self, page: &Page) -> Result<Vec<Timed>> {
        for step in &page.steps {
            self.act(&step.action).await.with_context(|| format!("line {}: {}", step.line, step.action))?;
        }
        Ok(self.times)
    }

    /// Whether the shell finds a program.
    ///
    /// # Errors
    /// The shell is gone.
    pub async fn finds(&mut self, program: &str) -> Result<bool> {
        self.first.start(&format!("command -v {program}"))?;
        Ok(self.first.finish().await?.1)
    }

    async fn act(&mut self, action: &Action) -> Result<()> {
        match action {
            Action::Run { window, command, printed, end } => self.run(*window, command, printed, *end).await,
            Action::Await(window, printed) => {
                self.window(*window)?.shows(printed).await?;
                self.note(printed.join("\n"));
                Ok(())
            }
            Action::Interrupt(window) => {
                let terminal = self.window(*window)?;
                terminal.interrupt()?;
                let (said, succeeded) = terminal.finish().await?;
                ensure!(succeeded, "it ended with an error:\n{}", said.join("\n"));
                Ok(())
            }
            Action::Excerpt { file, text } => {
                let whole = self.read(file)?;
                ensure!(is_part(&whole, text), "these lines are not in {file}:\n{text}\nIt holds:\n{whole}");
                Ok(())
            }
            Action::Change { file, old, new } => {
                let whole = self.read(file)?;
                let changed = replaced(&whole, old, new).with_context(|| format!("{file} holds:\n{whole}"))?;
                self.save(file, &changed)
            }
            Action::Write { file, text } => self.save(file, text),
        }
    }

    async fn run(&mut self, window: Window, command: &str, printed: &[String], end: End) -> Result<()> {
        self.begun = Instant::now();
        let terminal = self.window(window)?;
        terminal.start(command)?;
        if end == End::Later {
            terminal.shows(printed).await?;
            self.note(command.to_owned());
            return Ok(());
        }
        let (said, succeeded) = terminal.finish().await?;
        self.note(command.to_owned());
        let word = if succeeded { "succeeded" } else { "failed" };
        ensure!(succeeded == (end == End::Success), "it {word}:\n{}", said.join("\n"));
        if !matches(printed, &said) {
            let [printed, said] = [printed, &said].map(|lines| lines.join("\n") + "\n");
            bail!("- the page, + printed\n{}", TextDiff::from_lines(&printed, &said).unified_diff().context_radius(3));
        }
        Ok(())
    }

    fn window(&mut self, window: Window) -> Result<&mut Terminal> {
        Ok(match window {
            Window::First => &mut self.first,
            Window::Second => match &mut self.second {
                Some(second) => second,
                none => none.insert(Terminal::open(self.machine)?),
            },
        })
    }

    fn note(&mut self, what: String) {
        self.times.push(Timed { what, took: self.begun.elapsed() });
    }

    /// Files are named from where the first terminal stands.
    fn path(&self, file: &str) -> Result<PathBuf> {
        Ok(self.first.folder()?.join(file))
    }

    fn read(&self, file: &str) -> Result<String> {
        let path = self.path(file)?;
        fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))
    }

    fn save(&mut self, file: &str, text: &str) -> Result<()> {
        let path = self.path(file)?;
        let folder = path.parent().context("a file without a folder")?;
        fs::create_dir_all(folder).with_context(|| format!("make {}", folder.display()))?;
        self.begun = Instant::now();
        fs::write(&path, text).with_context(|| format!("write {}", path.display()))
    }
}

/// Whether these are lines of a text, one after the other.
fn is_part(whole: &str, lines: &str) -> bool {
    format!("\n{whole}").contains(&format!("\n{lines}"))
}

fn replaced(whole: &str, old: &str, new: &str) -> Result<String> {
    let (whole, old) = (format!("\n{whole}"), format!("\n{old}"));
    let n = whole.matches(&old).count();
    ensure!(n == 1, "the lines that the change begins with are there {n} times:{old}");
    Ok(whole.replacen(&old, &format!("\n{new}"), 1)[1..].to_owned())
}
