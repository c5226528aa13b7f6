//! Interprets a container's command, as far as supported: its duration and exit code.
//!
//! Supported are `sleep`, `true`, `false`, `exit`, `echo` and similar ones, and a shell that runs a list of them
//! (`sh -c "sleep 2; [ $JOB_COMPLETION_INDEX = 1 ] && exit 3"`). Any other part of a command runs endlessly.
//!
//! Invariants: no I/O, no execution; the work is linear in the length of the command.

use std::collections::HashMap;
use std::time::Duration;

/// Longest supported command, in bytes.
const MAX_BYTES: usize = 16 << 10;
/// Shells, whose option `-c` takes a script.
const SHELLS: [&str; 5] = ["sh", "bash", "ash", "dash", "zsh"];
/// Programs that end immediately with exit code 0.
const INSTANT: [&str; 15] = [
    "true", ":", "echo", "printf", "date", "hostname", "pwd", "env", "export", "cd", "cat", "ls", "mkdir", "touch",
    "id",
];

/// Values of environment variables.
pub(crate) type Variables = HashMap<String, String>;

/// Effect of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Program {
    /// Its duration; `None`: endless.
    pub(crate) runs: Option<Duration>,
    /// Its exit code when it ends.
    pub(crate) code: i32,
}

impl Program {
    /// A program that never ends.
    pub(crate) const ENDLESS: Self = Self { runs: None, code: 0 };

    /// Parses a command with its arguments.
    pub(crate) fn read(words: &[String], variables: &Variables) -> Self {
        if words.iter().map(String::len).sum::<usize>() > MAX_BYTES {
            return Self::ENDLESS;
        }
        // The kubelet replaces `$(NAME)` in a command.
        let words: Vec<String> = words.iter().map(|word| substitute(word, variables)).collect();
        match words.first().map(|word| base_name(word)) {
            Some(shell) if SHELLS.contains(&shell) => match script(&words) {
                Some((text, exits_on_error)) => run_script(text, exits_on_error, variables).unwrap_or(Self::ENDLESS),
                None => Self::ENDLESS,
            },
            Some(_) => match simple(&words, 0) {
                Some(Effect::Done { takes, code } | Effect::Exit { takes, code }) => Self { runs: takes, code },
                _ => Self::ENDLESS,
            },
            None => Self::ENDLESS,
        }
    }
}

/// The effect of one simple command.
enum Effect {
    /// It ends after a time; with `None` it never ends.
    Done { takes: Option<Duration>, code: i32 },
    /// It ends the shell.
    Exit { takes: Option<Duration>, code: i32 },
    /// From here on, a failure ends the shell.
    ExitOnError,
}

fn base_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Replaces `$(NAME)` of known variables.
fn substitute(word: &str, variables: &Variables) -> String {
    let mut text = String::new();
    let mut rest = word;
    while let Some(start) = rest.find("$(") {
        let (before, after) = rest.split_at(start);
        text.push_str(before);
        match after[2..].split_once(')').and_then(|(name, tail)| Some((variables.get(name)?, tail))) {
            Some((value, tail)) => {
                text.push_str(value);
                rest = tail;
            }
            None => {
                text.push_str("$(");
                rest = &after[2..];
            }
        }
    }
    text.push_str(rest);
    text
}

/// The script of a shell's `-c`, and whether `-e` is set.
fn script(words: &[String]) -> Option<(&str, bool)> {
    let mut exits_on_error = false;
    let mut words = words.iter().skip(1);
    while let Some(word) = words.next() {
        let flags = word.strip_prefix('-').filter(|flags| flags.chars().all(|flag| "ceuxl".contains(flag)))?;
        exits_on_error |= flags.contains('e');
        if flags.contains('c') {
            return words.next().map(|text| (text.as_str(), exits_on_error));
        }
    }
    None
}

/// How a command is connected with the previous one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Connector {
    Then,
    And,
    Or,
}

/// Evaluates a script; `None` if it reaches an unsupported part.
fn run_script(text: &str, exits_on_error: bool, variables: &Variables) -> Option<Program> {
    let (mut takes, mut status, mut exits_on_error) = (Duration::ZERO, 0, exits_on_error);
    let commands = parse(text, variables);
    for (index, (connector, words)) in commands.iter().enumerate() {
        let words = words.as_ref()?;
        let runs = match connector {
            Connector::Then => true,
            Connector::And => status == 0,
            Connector::Or => status != 0,
        };
        if !runs || words.is_empty() {
            continue;
        }
        match simple(words, status)? {
            Effect::Done { takes: None, .. } | Effect::Exit { takes: None, .. } => return Some(Program::ENDLESS),
            Effect::Done { takes: Some(time), code } => {
                takes = takes.saturating_add(time);
                status = code;
            }
            Effect::Exit { takes: Some(time), code } => {
                return Some(Program { runs: Some(takes.saturating_add(time)), code });
            }
            Effect::ExitOnError => (exits_on_error, status) = (true, 0),
        }
        let is_tested = commands.get(index + 1).is_some_and(|(next, _)| *next != Connector::Then);
        if exits_on_error && status != 0 && !is_tested {
            break;
        }
    }
    Some(Program { runs: Some(takes), code: status })
}

/// One simple command; `before` is the exit code of the previous command. `None`: unsupported.
fn simple(words: &[String], before: i32) -> Option<Effect> {
    let (name, arguments) = words.split_first()?;
    let done = |code| Some(Effect::Done { takes: Some(Duration::ZERO), code });
    match base_name(name) {
        "exec" => match simple(arguments, before)? {
            Effect::Done { takes, code } => Some(Effect::Exit { takes, code }),
            other => Some(other),
        },
        "exit" => {
            let code = match arguments.first() {
                Some(code) => code.parse::<i32>().ok()? & 0xff,
                None => before,
            };
            Some(Effect::Exit { takes: Some(Duration::ZERO), code })
        }
        "sleep" => {
            let mut total = Some(Duration::ZERO);
            for argument in arguments {
                total = total.zip(sleep_time(argument)?).map(|(sum, time)| sum.saturating_add(time));
            }
            (!arguments.is_empty()).then_some(Effect::Done { takes: total, code: 0 })
        }
        "false" => done(1),
        "set" if arguments.iter().any(|flag| flag.starts_with('-') && flag.contains('e')) => Some(Effect::ExitOnError),
        "set" => done(0),
        name @ ("test" | "[") => {
            let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
            let condition = if name == "[" { words.strip_suffix(&["]"])? } else { words.as_slice() };
            done(i32::from(!holds(condition)?))
        }
        name if INSTANT.contains(&name) => done(0),
        _ => None,
    }
}

/// The duration in an argument of `sleep`: the outer `None` is an error, the inner one infinity.
fn sleep_time(text: &str) -> Option<Option<Duration>> {
    if matches!(text, "infinity" | "inf") {
        return Some(None);
    }
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let factor = match &text[digits.len()..] {
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3_600.0,
        "d" => 86_400.0,
        _ => return None,
    };
    let amount: f64 = digits.parse().ok()?;
    Duration::try_from_secs_f64(amount * factor).ok().map(Some)
}

/// Whether a condition of `test` holds; `None` if it is unsupported.
fn holds(words: &[&str]) -> Option<bool> {
    match words {
        ["!", rest @ ..] if rest.len() <= 3 => holds(rest).map(|holds| !holds),
        ["-z", text] => Some(text.is_empty()),
        ["-n", text] | [text] => Some(!text.is_empty()),
        [left, "=" | "==", right] => Some(left == right),
        [left, "!=", right] => Some(left != right),
        [left, operator, right] => {
            let (left, right) = (left.parse::<i64>().ok()?, right.parse::<i64>().ok()?);
            match *operator {
                "-eq" => Some(left == right),
                "-ne" => Some(left != right),
                "-lt" => Some(left < right),
                "-le" => Some(left <= right),
                "-gt" => Some(left > right),
                "-ge" => Some(left >= right),
                _ => None,
            }
        }
        _ => None,
    }
}

/// The simple commands of a script with their words; `None` instead of the words from the first unsupported part on.
fn parse(text: &str, variables: &Variables) -> Vec<(Connector, Option<Vec<String>>)> {
    let mut commands = Vec::new();
    let mut connector = Connector::Then;
    let mut words = Vec::new();
    let mut letters = text.chars().peekable();
    loop {
        while letters.next_if(|letter| matches!(letter, ' ' | '\t')).is_some() {}
        let Some(&letter) = letters.peek() else {
            commands.push((connector, Some(words)));
            return commands;
        };
        if letter == '#' {
            while letters.next_if(|letter| *letter != '\n').is_some() {}
            continue;
        }
        let next = match letter {
            ';' | '\n' => Some(Connector::Then),
            '&' => Some(Connector::And),
            '|' => Some(Connector::Or),
            _ => None,
        };
        if let Some(next) = next {
            letters.next();
            // A single `&` or `|` starts a second process.
            if next != Connector::Then && letters.next_if_eq(&letter).is_none() {
                break;
            }
            commands.push((connector, Some(std::mem::take(&mut words))));
            connector = next;
            continue;
        }
        match word(&mut letters, variables) {
            Some(Word::Text(text)) => words.push(text),
            Some(Word::Redirection) => {}
            None => break,
        }
    }
    commands.push((connector, None));
    commands
}

enum Word {
    Text(String),
    /// The target of the output, which is ignored.
    Redirection,
}

/// The next word; `None` if it is unsupported.
fn word(letters: &mut std::iter::Peekable<std::str::Chars<'_>>, variables: &Variables) -> Option<Word> {
    let mut text = String::new();
    while let Some(&letter) = letters.peek() {
        match letter {
            ' ' | '\t' | '\n' | ';' | '&' | '|' => break,
            '>' if text.bytes().all(|byte| byte.is_ascii_digit()) => {
                while letters.next_if_eq(&'>').is_some() {}
                letters.next_if_eq(&'&');
                while letters.next_if_eq(&' ').is_some() {}
                return word(letters, variables).map(|_| Word::Redirection);
            }
            '`' | '(' | ')' | '<' | '>' | '{' | '}' | '*' | '?' => return None,
            '$' => {
                letters.next();
                text.push_str(&variable(letters, variables)?);
            }
            '\\' => {
                letters.next();
                text.extend(letters.next());
            }
            '\'' => {
                letters.next();
                loop {
                    match letters.next()? {
                        '\'' => break,
                        letter => text.push(letter),
                    }
                }
            }
            '"' => {
                letters.next();
                quoted(letters, variables, &mut text)?;
            }
            _ => {
                letters.next();
                text.push(letter);
            }
        }
    }
    Some(Word::Text(text))
}

/// Reads up to the closing double quote.
fn quoted(
    letters: &mut std::iter::Peekable<std::str::Chars<'_>>,
    variables: &Variables,
    text: &mut String,
) -> Option<()> {
    loop {
        match letters.next()? {
            '"' => return Some(()),
            '\\' => text.extend(letters.next()),
            '$' => text.push_str(&variable(letters, variables)?),
            '`' => return None,
            letter => text.push(letter),
        }
    }
}

/// The value of the variable whose name follows a `$`; empty if it is not set.
fn variable(letters: &mut std::iter::Peekable<std::str::Chars<'_>>, variables: &Variables) -> Option<String> {
    let braces = letters.next_if_eq(&'{').is_some();
    let mut name = String::new();
    while let Some(letter) = letters.next_if(|letter| letter.is_ascii_alphanumeric() || *letter == '_') {
        name.push(letter);
    }
    let closed = !braces || letters.next_if_eq(&'}').is_some();
    (closed && !name.is_empty()).then(|| variables.get(&name).cloned().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &[&str]) -> Option<(u128, i32)> {
        let variables = Variables::from([("INDEX".to_owned(), "2".to_owned())]);
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let program = Program::read(&words, &variables);
        program.runs.map(|runs| (runs.as_millis(), program.code))
    }

    #[test]
    fn simple_commands_have_a_run_time_and_an_exit_code() {
        for (words, wanted) in [
            (&["sleep", "2"][..], Some((2_000, 0))),
            (&["/bin/sleep", "0.5"], Some((500, 0))),
            (&["sleep", "1m", "5s"], Some((65_000, 0))),
            (&["sleep", "infinity"], None),
            (&["sleep", "soon"], None),
            (&["sleep", "-1"], None),
            (&["sleep"], None),
            (&["true"], Some((0, 0))),
            (&["/bin/false"], Some((0, 1))),
            (&["exit", "3"], Some((0, 3))),
            (&["echo", "hello"], Some((0, 0))),
            (&["nginx", "-g", "daemon off;"], None),
            (&[], None),
        ] {
            assert_eq!(read(words), wanted, "{words:?}");
        }
    }

    #[test]
    fn a_shell_runs_a_list_of_commands() {
        for (script, wanted) in [
            ("sleep 2; exit 3", Some((2_000, 3))),
            ("sleep 1 && sleep 2", Some((3_000, 0))),
            ("false && sleep 5", Some((0, 1))),
            ("false || exit 7", Some((0, 7))),
            ("false; true", Some((0, 0))),
            ("set -e; false; sleep 5", Some((0, 1))),
            ("set -e; false || true; exit 4", Some((0, 4))),
            ("echo 'a; exit 1' >&2; exit 2", Some((0, 2))),
            ("echo a > /tmp/x\nexit 256", Some((0, 0))),
            ("[ $INDEX = 2 ] && exit 9", Some((0, 9))),
            ("[ \"${INDEX}\" -lt 2 ] && exit 9; exit 0", Some((0, 0))),
            ("test -z \"$OTHER\" && exit 5", Some((0, 5))),
            ("exec sleep 1", Some((1_000, 0))),
            ("exit 1 # done", Some((0, 1))),
            ("sleep $(INDEX)", Some((2_000, 0))),
            ("", Some((0, 0))),
            // Parts after the end are ignored.
            ("exit 1; while true; do sleep 1; done", Some((0, 1))),
            ("while true; do sleep 1; done", None),
            ("sleep 1 & wait", None),
            ("echo a | cat", None),
            ("./run.sh && exit 1", None),
            ("echo \"open", None),
            ("sleep `cat x`", None),
        ] {
            assert_eq!(read(&["/bin/sh", "-c", script]), wanted, "{script}");
        }
        assert_eq!(read(&["bash", "-ec", "false; sleep 5"]), Some((0, 1)));
        assert_eq!(read(&["bash", "-x", "-c", "exit 2"]), Some((0, 2)));
        assert_eq!(read(&["sh", "script.sh"]), None);
        assert_eq!(read(&["sh"]), None);
    }

    #[test]
    fn a_long_command_is_not_read() {
        let script = |n: usize| "true;".repeat(n);
        assert_eq!(read(&["sh", "-c", &script(3_000)]), Some((0, 0)));
        assert_eq!(read(&["sh", "-c", &script(4_000)]), None);
    }
}
