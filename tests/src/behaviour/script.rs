//! The text form of the behaviour script.
//!
//! A file holds cases; a case is a title and steps, one below the other:
//!
//! ```text
//! ### A title that says what is seen
//! # a comment
//! ignore dnsPolicy                        fields with this name are left out of what is recorded
//! POST /api/v1/namespaces/{ns}/configmaps
//! Accept: application/json                headers, then the body as YAML, then an empty line
//! {metadata: {name: a}}
//!
//! let uid = /metadata/uid                 takes a value from the last answer, used as {uid}
//! quiet GET /api/v1/nodes                 only the status code is recorded
//! wording why it differs                  of the next answer, a `Status`, the texts for people are left out
//! PATCH-MERGE, PATCH-JSON, PATCH-STRATEGIC, APPLY, PUT, DELETE: likewise
//! WATCH w /api/v1/pods?watch=true         opens a watch called w
//! EVENTS w 3                              records the next three events
//! END w                                   records events until the server ends the watch
//! AWAIT /path code 404                    polls, records nothing
//! AWAIT /path condition Established
//! AWAIT /path at /spec/x "value"
//! TRY /path 403                           posts the body that follows as a dry run until the answer has this code, records nothing
//! ```
//!
//! `{ns}` is a namespace of the case's own, which exists when it starts. Not here: what is done with
//! the steps (`run`).

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// One case of the script.
#[derive(Debug, Clone)]
pub struct Case {
    /// What the case shows; unique.
    pub title: String,
    /// Where it stands, for messages.
    pub place: String,
    /// Names of fields that are left out of what is recorded.
    pub ignored: Vec<String>,
    /// What is done, in order.
    pub steps: Vec<Step>,
}

/// One step of a case. Texts may hold `{variables}`.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Sends a request and records the answer.
    Request {
        /// The verb as written, for example `PATCH-MERGE`.
        verb: String,
        /// Path and query.
        path: String,
        /// Headers beside those that the verb implies.
        headers: Vec<(String, String)>,
        /// The body as YAML; JSON is YAML too.
        body: Option<String>,
        /// Records the status code only.
        quiet: bool,
        /// Why the texts of the answer differ between the servers; they are left out then.
        wording: Option<String>,
    },
    /// Takes a value from the last answer.
    Let {
        /// The variable.
        name: String,
        /// A JSON pointer into the last answer.
        pointer: String,
    },
    /// Opens a watch.
    Watch {
        /// What later steps call it.
        id: String,
        /// Path and query.
        path: String,
        /// Headers, as for a request.
        headers: Vec<(String, String)>,
    },
    /// Records the next events of a watch.
    Events {
        /// The watch.
        id: String,
        /// How many.
        n: usize,
    },
    /// Records what a watch says until the server ends it.
    End {
        /// The watch.
        id: String,
    },
    /// Waits until a path looks as wanted.
    Await {
        /// Path and query.
        path: String,
        /// What to see there.
        look: Look,
    },
    /// Waits until the creation of an object would be answered as wanted.
    Try {
        /// The path.
        path: String,
        /// The status code.
        code: u16,
        /// The object.
        body: String,
    },
}

/// What an `AWAIT` step waits for.
#[derive(Debug, Clone, PartialEq)]
pub enum Look {
    /// A status code.
    Code(u16),
    /// A condition whose status is `True`.
    Condition(String),
    /// A value at a JSON pointer.
    At(String, Value),
}

/// Parses one file of the script.
///
/// # Errors
/// A line is none of the above; the message names file and line.
pub fn parse(file: &str, text: &str) -> Result<Vec<Case>> {
    let mut cases: Vec<Case> = Vec::new();
    let mut lines = text.lines().enumerate().peekable();
    let mut reason = None;
    while let Some((i, line)) = lines.next() {
        let place = format!("{file}:{}", i + 1);
        let line = line.trim_end();
        if let Some(title) = line.strip_prefix("### ") {
            cases.push(Case { title: title.to_owned(), place, ignored: Vec::new(), steps: Vec::new() });
            continue;
        }
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let case = cases.last_mut().with_context(|| format!("{place}: a step before the first case"))?;
        if let Some(name) = line.strip_prefix("ignore ") {
            case.ignored.push(name.trim().to_owned());
            continue;
        }
        if let Some(why) = line.strip_prefix("wording ") {
            reason = Some(why.trim().to_owned());
            continue;
        }
        let mut block = Vec::new();
        if takes_block(line) {
            while let Some((_, next)) = lines.next_if(|(_, l)| !l.trim().is_empty()) {
                block.push(next);
            }
        }
        let mut step = parse_step(line, &block).with_context(|| place.clone())?;
        match (&mut step, reason.take()) {
            (_, None) => {}
            (Step::Request { quiet: false, wording, .. }, Some(why)) => *wording = Some(why),
            _ => bail!("{place}: `wording` stands before a request that is recorded"),
        }
        case.steps.push(step);
    }
    Ok(cases)
}

const VERBS: [&str; 8] = ["GET", "POST", "PUT", "DELETE", "PATCH-JSON", "PATCH-MERGE", "PATCH-STRATEGIC", "APPLY"];

/// Whether the lines up to the next empty one belong to this one.
fn takes_block(line: &str) -> bool {
    let line = line.strip_prefix("quiet ").unwrap_or(line);
    let first = line.split(' ').next().unwrap_or_default();
    first == "WATCH" || first == "TRY" || VERBS.contains(&first)
}

fn parse_step(line: &str, block: &[&str]) -> Result<Step> {
    let (quiet, line) = match line.strip_prefix("quiet ") {
        Some(rest) => (true, rest),
        None => (false, line),
    };
    let n_headers = block.iter().take_while(|l| is_header(l)).count();
    let (headers, body) = block.split_at(n_headers);
    let headers: Vec<(String, String)> = headers
        .iter()
        .filter_map(|l| l.split_once(':'))
        .map(|(name, value)| (name.to_owned(), value.trim().to_owned()))
        .collect();
    let words: Vec<&str> = line.split_whitespace().collect();
    match words.as_slice() {
        ["let", name, "=", pointer] => Ok(Step::Let { name: (*name).to_owned(), pointer: (*pointer).to_owned() }),
        ["WATCH", id, path] => Ok(Step::Watch { id: (*id).to_owned(), path: (*path).to_owned(), headers }),
        ["EVENTS", id, n] => Ok(Step::Events { id: (*id).to_owned(), n: n.parse().context("how many events?")? }),
        ["END", id] => Ok(Step::End { id: (*id).to_owned() }),
        ["AWAIT", path, rest @ ..] => Ok(Step::Await {
            path: (*path).to_owned(),
            look: match rest {
                ["code", code] => Look::Code(code.parse().context("which code?")?),
                ["condition", name] => Look::Condition((*name).to_owned()),
                ["at", pointer, value @ ..] => {
                    Look::At((*pointer).to_owned(), serde_norway::from_str(&value.join(" ")).context("which value?")?)
                }
                _ => bail!("AWAIT wants `code`, `condition` or `at`: {line}"),
            },
        }),
        ["TRY", path, code] => Ok(Step::Try {
            path: (*path).to_owned(),
            code: code.parse().context("which code?")?,
            body: body.join("\n"),
        }),
        [verb, path] if VERBS.contains(verb) => Ok(Step::Request {
            verb: (*verb).to_owned(),
            path: (*path).to_owned(),
            headers,
            body: (!body.is_empty()).then(|| body.join("\n")),
            quiet,
            wording: None,
        }),
        _ => bail!("not a step: {line}"),
    }
}

/// Headers start with a capital letter, which no field of a body in the script does.
fn is_header(line: &str) -> bool {
    line.starts_with(|c: char| c.is_ascii_uppercase())
        && line.split_once(": ").is_some_and(|(name, _)| name.chars().all(|c| c.is_ascii_alphabetic() || c == '-'))
}
