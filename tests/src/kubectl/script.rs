//! The text form of the script.
//!
//! ```text
//! ### A title that says what is done
//! # a comment
//! $ kubectl get pods          a command for the shell, which succeeds; it may go on in further lines
//! | what it prints            line by line, standard error included; `| ...` stands for any number of lines
//! ! kubectl get nothing       a command that fails
//! ~ kubectl get pods          a command that is tried until it succeeds and prints what is written below
//! wording why it differs      of the next step: the clusters need not print the same, only what is written below
//! watch w kubectl get -w ...  starts a command and goes on
//! lines w 2                   the next lines that it prints
//! end w                       ends it
//! ```
//!
//! What is printed is compared after normalization (`normalize`); `...` inside a line stands for any text.

use anyhow::{Context, Result, bail};

/// One step of the script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Where it stands, counted from 1.
    pub line: usize,
    /// What is done.
    pub action: Action,
    /// What is printed.
    pub expected: Vec<String>,
    /// Why the clusters print different texts.
    pub wording: Option<String>,
}

/// What a step does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Runs a command; whether it succeeds.
    Run(String, bool),
    /// Runs a command again and again.
    Poll(String),
    /// Starts a command.
    Watch(String, String),
    /// Reads lines of a command that was started.
    Lines(String, usize),
    /// Ends a command that was started.
    End(String),
}

impl Action {
    /// What the step is called in messages.
    pub fn shown(&self) -> String {
        match self {
            Action::Run(command, true) => format!("$ {command}"),
            Action::Run(command, false) => format!("! {command}"),
            Action::Poll(command) => format!("~ {command}"),
            Action::Watch(id, command) => format!("watch {id} {command}"),
            Action::Lines(id, n) => format!("lines {id} {n}"),
            Action::End(id) => format!("end {id}"),
        }
    }
}

/// Parses the script.
///
/// # Errors
/// A line is none of the above; the message names it.
pub fn parse(text: &str) -> Result<Vec<Step>> {
    let mut steps: Vec<Step> = Vec::new();
    // A command goes on until its output or an empty line.
    let mut open = false;
    let mut wording = None;
    for (i, line) in text.lines().enumerate() {
        if let Some(printed) = line.strip_prefix('|') {
            let step = steps.last_mut().with_context(|| format!("line {}: output of nothing", i + 1))?;
            step.expected.push(printed.strip_prefix(' ').unwrap_or(printed).to_owned());
            open = false;
            continue;
        }
        if let Some(why) = line.strip_prefix("wording ") {
            wording = Some(why.to_owned());
            open = false;
            continue;
        }
        match parse_action(line).with_context(|| format!("line {}", i + 1))? {
            Some(action) => {
                steps.push(Step { line: i + 1, action, expected: Vec::new(), wording: wording.take() });
                open = true;
            }
            None if line.is_empty() || line.starts_with("###") => open = false,
            None if open => match steps.last_mut().map(|step| &mut step.action) {
                Some(Action::Run(command, _) | Action::Poll(command)) => {
                    command.push('\n');
                    command.push_str(line);
                }
                _ => bail!("line {}: not a step: {line}", i + 1),
            },
            None if line.starts_with('#') => {}
            None => bail!("line {}: not a step: {line}", i + 1),
        }
    }
    Ok(steps)
}

fn parse_action(line: &str) -> Result<Option<Action>> {
    let word = line.split(' ').next().unwrap_or_default();
    let rest = line[word.len()..].trim_start().to_owned();
    Ok(Some(match word {
        "$" => Action::Run(rest, true),
        "!" => Action::Run(rest, false),
        "~" => Action::Poll(rest),
        "watch" => {
            let (id, command) = rest.split_once(' ').context("watch what?")?;
            Action::Watch(id.to_owned(), command.to_owned())
        }
        "lines" => {
            let (id, n) = rest.split_once(' ').context("how many lines?")?;
            Action::Lines(id.to_owned(), n.parse().context("how many lines?")?)
        }
        "end" => Action::End(rest),
        _ => return Ok(None),
    }))
}

/// Whether lines are as a script wants them.
pub fn matches(expected: &[String], printed: &[String]) -> bool {
    match (expected.first().map(String::as_str), printed.first()) {
        (None, None) => true,
        (Some("..."), _) => (0..=printed.len()).any(|skipped| matches(&expected[1..], &printed[skipped..])),
        (Some(wanted), Some(line)) => line_matches(wanted, line) && matches(&expected[1..], &printed[1..]),
        _ => false,
    }
}

fn line_matches(wanted: &str, line: &str) -> bool {
    let parts: Vec<&str> = wanted.split("...").collect();
    let [first, middle @ .., last] = parts.as_slice() else { return wanted == line };
    let Some(mut rest) = line.strip_prefix(first) else { return false };
    for part in middle {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}
