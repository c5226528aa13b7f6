//! Makes what kubectl printed comparable: what must differ between two clusters is replaced.
//!
//! | text | becomes |
//! | --- | --- |
//! | a time, a date, an age | `<time>`, `<age>` |
//! | a uid, a resourceVersion | `<uid>`, `<rv>` |
//! | an address, a URL of the server, a node that a Pod may be on | `<ip>`, `<server>`, `<node>` |
//! | the end of a generated name | `<id>` |
//! | several spaces | two |
//! | `deleted from shop namespace`, as newer ones say | `deleted` |
//! | events of the API server about its own repair of addresses | nothing |
//! | the events below an object | themselves, sorted: those of one second have no order |
//!
//! Not here: anything that a user would see to be different.

use crate::behaviour::normalize::is_time;

/// The normalized lines of an output. `Waiting for ...` is left out: how often it is said depends on the machine.
pub fn normalize(text: &str) -> Vec<String> {
    let lines = text.lines().filter(|line| !line.starts_with("Waiting for "));
    let lines = lines.map(|text| without_namespace(line(text))).collect();
    sorted_events(without_repairs(lines))
}

/// Whether the API server's own repair of addresses comes between the creation of a Service and its allocation is left to chance.
fn without_repairs(lines: Vec<String>) -> Vec<String> {
    without(lines, |line| line.contains("ipallocator-repair-controller"))
}

/// Without what only an embedded cluster says: that no controller acts on an object.
pub fn without_notices(lines: Vec<String>) -> Vec<String> {
    without(lines, |line| line.starts_with("Warning: no controller for ") || line.contains("Warning  NoController "))
}

/// Without some lines, which may be all events of an object.
fn without(mut lines: Vec<String>, goes: impl Fn(&str) -> bool) -> Vec<String> {
    let n_before = lines.len();
    lines.retain(|line| !goes(line));
    if lines.len() < n_before
        && let Some(at) = lines.iter().position(|line| line == "Events:")
        // The heading and its rule are all that is left.
        && lines.len() <= at + 3
    {
        lines.truncate(at);
        lines.push("Events:  <none>".to_owned());
    }
    lines
}

fn without_namespace(line: String) -> String {
    match line.split_once(" deleted from ") {
        Some((object, rest)) if rest.ends_with(" namespace") => format!("{object} deleted"),
        _ => line,
    }
}

/// One normalized line.
pub fn line(text: &str) -> String {
    let mut out = String::new();
    let mut rest = without_date(text.trim_end());
    let indent = rest.len() - rest.trim_start().len();
    out.push_str(&rest[..indent]);
    rest = rest[indent..].trim_end().to_owned();
    let mut n_spaces = 0;
    for word in rest.split(' ') {
        if word.is_empty() {
            n_spaces += 1;
            continue;
        }
        if out.len() > indent {
            out.push_str(if n_spaces > 0 { "  " } else { " " });
        }
        n_spaces = 0;
        out.push_str(&token(word, &out));
    }
    out
}

/// `Sat, 21 Nov 2026 15:04:05 +0000`
fn without_date(text: &str) -> String {
    const DAYS: [&str; 7] = ["Mon, ", "Tue, ", "Wed, ", "Thu, ", "Fri, ", "Sat, ", "Sun, "];
    const LENGTH: usize = "Sat, 21 Nov 2026 15:04:05 +0000".len();
    let mut text = text.to_owned();
    while let Some(at) = DAYS.iter().find_map(|day| text.find(day))
        && text.get(at..at + LENGTH).is_some_and(|date| date.ends_with(" +0000"))
    {
        text.replace_range(at..at + LENGTH, "<time>");
    }
    text
}

fn token(word: &str, before: &str) -> String {
    let edge = |letter: char| matches!(letter, '"' | '\'' | '(' | ')' | ',' | '[' | ']' | '{' | '}' | ';' | ':');
    let core = word.trim_matches(edge);
    let Some(at) = word.find(core).filter(|_| !core.is_empty()) else { return word.to_owned() };
    let (start, end) = (&word[..at], &word[at + core.len()..]);
    let is_version = ["resourceVersion:", "Resource Version:"].iter().any(|field| before.trim_end().ends_with(field));
    let shown = if is_version {
        "<rv>".to_owned()
    } else if is_time(core) {
        "<time>".to_owned()
    } else if is_age(core) {
        "<age>".to_owned()
    } else {
        core.split('/')
            .map(part)
            .collect::<Vec<_>>()
            .join("/")
            .replace("https://<ip>", "<server>")
            .replace("http://<ip>", "<server>")
    };
    format!("{start}{shown}{end}")
}

/// A part of a path or name: an address, a uid, or a name whose end was generated.
fn part(text: &str) -> String {
    if text.contains(',') && !text.contains('=') {
        return text.split(',').map(part).collect::<Vec<_>>().join(",");
    }
    let (name, port) = text.split_once(':').unwrap_or((text, ""));
    let is_port = port.is_empty() || port.bytes().all(|byte| byte.is_ascii_digit());
    let numbers: Vec<&str> = name.split('.').collect();
    if numbers.len() == 4 && is_port && numbers.iter().all(|n| n.parse::<u8>().is_ok()) {
        return "<ip>".to_owned();
    }
    let sizes: Vec<usize> = text.split('-').map(str::len).collect();
    if sizes == [8, 4, 4, 4, 12] && text.bytes().all(|byte| byte == b'-' || byte.is_ascii_hexdigit()) {
        return "<uid>".to_owned();
    }
    let pair = |text: &str| text.split('=').map(side).collect::<Vec<_>>().join("=");
    text.split(',').map(pair).collect::<Vec<_>>().join(",")
}

/// A name, or a side of `key=value`.
fn side(text: &str) -> String {
    if text.strip_prefix("sim-node-").is_some_and(|n| !n.is_empty() && n.bytes().all(|byte| byte.is_ascii_digit())) {
        return "<node>".to_owned();
    }
    text.split('-').enumerate().map(segment).collect::<Vec<_>>().join("-")
}

/// Generated ends have no vowels, and no letters or digits that look like others.
fn segment((place, text): (usize, &str)) -> String {
    let generated = text.len() >= 5 && text.bytes().all(|byte| b"bcdfghjklmnpqrstvwxz2456789".contains(&byte));
    let has_digit = text.bytes().any(|byte| byte.is_ascii_digit());
    if generated && (place > 0 || has_digit) { "<id>".to_owned() } else { text.to_owned() }
}

/// `5s`, `2m10s`, `3h`, `120ms`.
fn is_age(text: &str) -> bool {
    let mut rest = text;
    let mut n_parts = 0;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let unit = ["ms", "s", "m", "h", "d"].iter().find(|unit| rest[digits..].starts_with(**unit));
        match unit {
            Some(unit) if digits > 0 => rest = &rest[digits + unit.len()..],
            _ => return false,
        }
        n_parts += 1;
    }
    n_parts > 0
}

/// Sorts the lines below each `Events:` heading, up to the next line that is not indented.
fn sorted_events(lines: Vec<String>) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    let mut events: Option<Vec<String>> = None;
    for line in lines {
        match &mut events {
            Some(found) if line.starts_with("  ") => found.push(line),
            _ => {
                out.extend(events.take().map(sort).unwrap_or_default());
                let starts = line.starts_with("Events:");
                out.push(line);
                events = starts.then(Vec::new);
            }
        }
    }
    out.extend(events.map(sort).unwrap_or_default());
    out
}

fn sort(mut lines: Vec<String>) -> Vec<String> {
    // The first two are headings.
    if lines.len() > 2 {
        lines[2..].sort();
    }
    lines
}
