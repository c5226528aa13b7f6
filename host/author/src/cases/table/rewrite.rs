//! Replaces the expected lines of a row in the text of its table.

use anyhow::{Context as _, ensure};
use serde_json::Value;

use super::Shown;

/// The text of a table with new lines for a row. All other lines, including comments, stay unchanged.
///
/// # Errors
/// The row does not have the usual form: `- name:` at the start of the row, its fields below each other.
pub(in crate::cases) fn rewrite(text: &str, of: &Shown, expected: &str) -> anyhow::Result<String> {
    let lines: Vec<&str> = text.lines().collect();
    let start = lines.iter().position(|line| line.starts_with("rows:")).context("no line begins with `rows:`")?;
    let is_row = |line: &str| line.trim_start().starts_with("- name:");
    let first = lines[start..].iter().find(|line| is_row(line)).map_or(0, |line| indent(line));
    let begins = |line: &&str| is_row(line) && indent(line) == first;
    let mut rows = (start..lines.len()).filter(|at| begins(&lines[*at]));
    let written = || format!("row {:?} does not begin with `- name: ...` like the other rows", of.name);
    let begin = rows.nth(of.row).with_context(written)?;
    let named: Value =
        serde_norway::from_str(lines[begin].trim_start().trim_start_matches("- ")).with_context(written)?;
    ensure!(named["name"] == *of.name, written());
    let field = first + 2;
    let belongs = |at: &usize| lines[*at].trim().is_empty() || indent(lines[*at]) >= field;
    let mut end = (begin + 1..lines.len()).take_while(belongs).last().map_or(begin + 1, |at| at + 1);
    while end > begin + 1 && lines[end - 1].trim().is_empty() {
        end -= 1;
    }
    let old = (begin + 1..end).find(|at| indent(lines[*at]) == field && lines[*at].trim_start().starts_with("expect:"));
    let (from, to) = old.map_or((end, end), |from| {
        let inside = |at: &usize| lines[*at].trim().is_empty() || indent(lines[*at]) > field;
        let mut to = (from + 1..end).take_while(inside).last().map_or(from + 1, |at| at + 1);
        while to > from + 1 && lines[to - 1].trim().is_empty() {
            to -= 1;
        }
        (from, to)
    });
    let mut new: Vec<String> = lines[..from].iter().map(|line| (*line).to_owned()).collect();
    let pad = " ".repeat(field);
    if expected.contains(['\n', ':', '#', '\'', '"', '{']) {
        new.push(format!("{pad}expect: |"));
        new.extend(expected.lines().map(|line| format!("{pad}  {line}")));
    } else {
        new.push(format!("{pad}expect: {expected}"));
    }
    new.extend(lines[to..].iter().map(|line| (*line).to_owned()));
    Ok(new.join("\n") + "\n")
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
}
