//! What goes to the terminal.

use std::io::{self, Write as _};

use anyhow::Context as _;
use serde::Serialize;

/// Writes one line to standard output. A closed pipe (`pintle ... | head`) is not an error of ours.
///
/// # Errors
/// Standard output cannot be written.
pub fn line(text: &str) -> anyhow::Result<()> {
    match writeln!(io::stdout(), "{text}") {
        Err(why) if why.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result.context("write to standard output"),
    }
}

/// Writes a JSON document to standard output.
///
/// # Errors
/// Standard output cannot be written.
pub fn json(value: &impl Serialize) -> anyhow::Result<()> {
    line(&serde_json::to_string_pretty(value).context("write JSON")?)
}

/// Writes an error with its causes to standard error, in one line.
pub fn error(why: &anyhow::Error) {
    // With standard error gone there is nobody left to tell.
    let _ = writeln!(io::stderr(), "pintle: {}", one_line(why));
}

fn one_line(why: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in why.chain() {
        let cause = cause.to_string();
        if text.contains(&cause) {
            continue;
        }
        if !text.is_empty() {
            text.push_str(": ");
        }
        text.push_str(&cause);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_one_line_that_says_nothing_twice() {
        let why = anyhow::anyhow!("no such file").context("read a.wasm: no such file").context("load plugin");
        assert_eq!(one_line(&why), "load plugin: read a.wasm: no such file");
    }
}
