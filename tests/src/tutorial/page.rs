//! A tutorial as steps: the code blocks of a page in Markdown.
//!
//! | info string | the block |
//! | --- | --- |
//! | `console` | commands after `$ `, which may go on in lines after `> `, and what they print; all succeed |
//! | `console second` | the same in a second terminal |
//! | `console fails` | the same, and the last command does not succeed |
//! | `LANGUAGE excerpt=FILE` | lines that are in the file |
//! | `diff change=FILE` | a change to be made: lines after `-` are replaced by those after `+`; the others say where |
//! | `LANGUAGE file=FILE` | a file to be written |
//! | `sh install` | what is done once for a machine. It is not done here |
//! | `sh run` | a script, which succeeds; what it prints is not compared |
//! | `sh run second` | the same in a second terminal |
//!
//! Pages that are looked up, and not followed, have blocks of other kinds, too: [`Page::marked`] leaves them out.
//!
//! A console block that begins with something else than a command shows what the program prints that runs in that terminal;
//! `^C` ends it. In what is printed, `...` stands for any text, and alone for any number of lines.
//!
//! A reader does not see info strings, so the prose between two blocks must name the file, or the terminal if it is another one
//! than before.

use std::fmt;

use anyhow::{Context, Result, bail, ensure};
use pulldown_cmark::{CodeBlockKind, Event, Parser, Tag, TagEnd};

/// What a line says that stands for Ctrl-C.
const INTERRUPT: &str = "^C";

/// A tutorial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// In the order of the page.
    pub steps: Vec<Step>,
}

/// Something to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Where it stands, counted from 1.
    pub line: usize,
    /// What is done.
    pub action: Action,
}

/// A window with a shell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Window {
    /// Most commands.
    First,
    /// Commands that are given while a program runs in the first.
    Second,
}

/// How a command ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// With exit code 0.
    Success,
    /// With another one.
    Failure,
    /// When it is interrupted, by a later step.
    Later,
}

/// What a step does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Runs a command.
    Run {
        /// Where.
        window: Window,
        /// It may have several lines.
        command: String,
        /// What it prints.
        printed: Vec<String>,
        /// How it ends.
        end: End,
    },
    /// Waits until the program that runs prints this.
    Await(Window, Vec<String>),
    /// Interrupts it.
    Interrupt(Window),
    /// Compares a part of a file.
    Excerpt {
        /// Relative to where the first terminal stands.
        file: String,
        /// Whole lines.
        text: String,
    },
    /// Changes a file.
    Change {
        /// As above.
        file: String,
        /// Lines that are there once.
        old: String,
        /// Lines that are there instead afterwards.
        new: String,
    },
    /// Writes a file.
    Write {
        /// As above.
        file: String,
        /// All of it.
        text: String,
    },
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Action::Run { command, .. } => write!(f, "$ {command}"),
            Action::Await(..) => f.write_str("what the running program prints"),
            Action::Interrupt(..) => f.write_str(INTERRUPT),
            Action::Excerpt { file, .. } => write!(f, "an excerpt of {file}"),
            Action::Change { file, .. } => write!(f, "a change of {file}"),
            Action::Write { file, .. } => write!(f, "the new file {file}"),
        }
    }
}

/// A code block as it stands on the page.
struct Block {
    line: usize,
    info: String,
    text: String,
    /// What is said between the block before and this one.
    prose: String,
}

impl Page {
    /// Reads a page.
    ///
    /// # Errors
    /// It has a code block that is none of those above, or no command; the message names the line.
    pub fn parse(markdown: &str) -> Result<Page> {
        Page::of(blocks(markdown)?)
    }

    /// Reads the blocks of a page that are of a kind above.
    ///
    /// # Errors
    /// As [`Page::parse`].
    pub fn marked(markdown: &str) -> Result<Page> {
        let is_marked = |block: &Block| {
            let mut words = block.info.split_whitespace();
            let (first, second) = (words.next(), words.next());
            first == Some("console") || second.is_some_and(|word| word == "run" || word.contains('='))
        };
        Page::of(blocks(markdown)?.into_iter().filter(is_marked).collect())
    }

    fn of(blocks: Vec<Block>) -> Result<Page> {
        let mut steps = Vec::new();
        let mut window = Window::First;
        for block in blocks {
            let read = read(&block, &mut window).with_context(|| format!("line {}: ```{}", block.line, block.info))?;
            steps.extend(read);
        }
        ensure!(steps.iter().any(|step| matches!(step.action, Action::Run { .. })), "there is no command on the page");
        let page = Page { steps: running_on(steps)? };
        Ok(page)
    }

    /// All commands, in order.
    pub fn commands(&self) -> impl Iterator<Item = &str> {
        self.steps.iter().filter_map(|step| match &step.action {
            Action::Run { command, .. } => Some(command.as_str()),
            _ => None,
        })
    }
}

fn blocks(markdown: &str) -> Result<Vec<Block>> {
    let mut found = Vec::new();
    let mut open: Option<(usize, String, String)> = None;
    let mut prose = String::new();
    for (event, range) in Parser::new(markdown).into_offset_iter() {
        let line = markdown[..range.start].matches('\n').count() + 1;
        match (event, &mut open) {
            (Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(info))), _) => {
                open = Some((line, info.to_string(), String::new()));
            }
            // Nobody says what is to be done with it.
            (Event::Start(Tag::CodeBlock(CodeBlockKind::Indented)), _) => bail!("line {line}: an indented code block"),
            (Event::End(TagEnd::CodeBlock), _) => {
                if let Some((line, info, text)) = open.take() {
                    found.push(Block { line, info, text, prose: std::mem::take(&mut prose) });
                }
            }
            (Event::Text(text), Some((_, _, block))) => block.push_str(&text),
            (Event::Text(text), None) => prose.push_str(&text),
            (Event::Code(text), None) => prose.push_str(&format!("`{text}`")),
            (Event::SoftBreak | Event::HardBreak, None) => prose.push(' '),
            _ => {}
        }
    }
    Ok(found)
}

fn read(block: &Block, before: &mut Window) -> Result<Vec<Step>> {
    let words: Vec<&str> = block.info.split_whitespace().collect();
    let action = match words.as_slice() {
        ["console", more @ ..] => return console(block, more, before),
        ["sh", "install"] => return Ok(Vec::new()),
        ["sh", "run", more @ ..] => script(block, more, before)?,
        ["diff", use_] if use_.starts_with("change=") => change(named(block, use_)?, &block.text)?,
        [_, use_] if use_.starts_with("excerpt=") => {
            Action::Excerpt { file: named(block, use_)?, text: block.text.clone() }
        }
        [_, use_] if use_.starts_with("file=") => Action::Write { file: named(block, use_)?, text: block.text.clone() },
        _ => bail!("nothing is known of such a block"),
    };
    Ok(vec![Step { line: block.line, action }])
}

/// The file of an info string, which the prose must name.
fn named(block: &Block, use_: &str) -> Result<String> {
    let (_, file) = use_.split_once('=').context("no file")?;
    ensure!(block.prose.contains(&format!("`{file}`")), "the prose before it does not name `{file}`");
    Ok(file.to_owned())
}

fn change(file: String, text: &str) -> Result<Action> {
    let (mut old, mut new) = (String::new(), String::new());
    for line in text.lines() {
        let (mark, rest) = line.split_at_checked(1).unwrap_or((" ", ""));
        match mark {
            "-" => old.extend([rest, "\n"]),
            "+" => new.extend([rest, "\n"]),
            " " => [&mut old, &mut new].into_iter().for_each(|side| side.extend([rest, "\n"])),
            _ => bail!("{line:?} begins with neither a space nor - nor +"),
        }
    }
    ensure!(old != new, "it changes nothing");
    Ok(Action::Change { file, old, new })
}

fn script(block: &Block, words: &[&str], before: &mut Window) -> Result<Action> {
    let window = match words {
        [] => Window::First,
        ["second"] => Window::Second,
        _ => bail!("a script is `second` or not"),
    };
    turn_to(window, block, before)?;
    // Each command of it must succeed, and not only the last one; the terminal stays.
    let command = format!("(set -eo pipefail\n{})", block.text);
    Ok(Action::Run { window, command, printed: vec!["...".to_owned()], end: End::Success })
}

/// The terminal of a block. The prose must name it if it is not that of the block before.
fn turn_to(window: Window, block: &Block, before: &mut Window) -> Result<()> {
    if *before != window {
        let name = if window == Window::First { "first terminal" } else { "second terminal" };
        ensure!(block.prose.contains(name), "the prose before it does not say {name:?}");
        *before = window;
    }
    Ok(())
}

fn console(block: &Block, words: &[&str], before: &mut Window) -> Result<Vec<Step>> {
    let (window, fails) = match words {
        [] => (Window::First, false),
        ["second"] => (Window::Second, false),
        ["fails"] => (Window::First, true),
        ["second", "fails"] => (Window::Second, true),
        _ => bail!("a console is `second`, `fails`, both or neither"),
    };
    turn_to(window, block, before)?;
    let mut steps: Vec<Step> = Vec::new();
    for (i, line) in block.text.lines().enumerate() {
        let at = |action| Step { line: block.line + 1 + i, action };
        if let Some(command) = line.strip_prefix("$ ") {
            let (command, printed) = (command.to_owned(), Vec::new());
            steps.push(at(Action::Run { window, command, printed, end: End::Success }));
            continue;
        }
        if line == INTERRUPT {
            steps.push(at(Action::Interrupt(window)));
            continue;
        }
        match steps.last_mut().map(|step| &mut step.action) {
            Some(Action::Run { command, printed, .. }) if printed.is_empty() && line.starts_with("> ") => {
                command.extend(["\n", &line[2..]]);
            }
            Some(Action::Run { printed, .. } | Action::Await(_, printed)) => printed.push(line.to_owned()),
            Some(_) => bail!("there is nothing that could print {line:?}"),
            None => steps.push(at(Action::Await(window, vec![line.to_owned()]))),
        }
    }
    if fails {
        let Some(Action::Run { end, .. }) = steps.last_mut().map(|step| &mut step.action) else {
            bail!("it has no command that could fail");
        };
        *end = End::Failure;
    }
    Ok(steps)
}

/// Finds the commands that run on: those whose terminal shows more of them before it takes another command.
fn running_on(mut steps: Vec<Step>) -> Result<Vec<Step>> {
    for window in [Window::First, Window::Second] {
        let mut last: Option<usize> = None;
        for i in 0..steps.len() {
            match &steps[i].action {
                Action::Run { window: of, .. } if *of == window => last = Some(i),
                Action::Await(of, _) | Action::Interrupt(of) if *of == window => {
                    let line = steps[i].line;
                    let running = last.map(|last| &mut steps[last].action);
                    let Some(Action::Run { end, .. }) = running else { bail!("line {line}: no program runs there") };
                    ensure!(*end != End::Failure, "line {line}: the command before it has failed");
                    *end = End::Later;
                    if matches!(steps[i].action, Action::Interrupt(_)) {
                        last = None;
                    }
                }
                _ => {}
            }
        }
    }
    Ok(steps)
}
