//! Documentation uses plain English: the phrases that CONTRIBUTING.md bans do not appear in Markdown files.
//!
//! *Flow*: the table of phrases in CONTRIBUTING.md -> [`Rule`]s -> every Markdown file -> `file:line: phrase; write ...`.
//!
//! *Invariants*: 1. The table is the only list of phrases. 2. Code blocks and code spans are ignored, because they quote names and
//! output. 3. A phrase matches whole words in any case, within one line.
//!
//! *Not here*: references generated from doc comments ([`GENERATED`]); comments and messages of Rust sources.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use pintle_tests::workspace_dir;

/// The page with the rules.
const RULES: &str = "CONTRIBUTING.md";

/// The header of the table of phrases.
const HEADER: &str = "| do not write | write |";

/// Standard phrases that contain a banned one.
const EXCEPTIONS: [&str; 4] = ["there is no", "is no longer", "is no more than", "stands for"];

/// Pages generated from `wit/` and from doc comments of `host/core`; `cargo xtask reference` writes them.
const GENERATED: [&str; 2] = ["sdk/docs/contract.md", "sdk/docs/manifest.md"];

/// A banned phrase, in lower case, and its plain alternative.
#[derive(Debug, PartialEq)]
struct Rule {
    phrase: String,
    instead: String,
}

/// The rules in the table of a page. One row bans several phrases, separated by commas.
///
/// # Errors
/// If there is no such table.
fn rules(page: &str) -> Result<Vec<Rule>> {
    let mut lines = page.lines().skip_while(|line| *line != HEADER);
    lines.next().with_context(|| format!("{RULES} has no table {HEADER:?}"))?;
    // The second line separates the header from the rows.
    let rows = lines.skip(1).map_while(|line| line.strip_prefix('|')?.strip_suffix('|')?.split_once('|'));
    let rules = rows.flat_map(|(phrases, instead)| {
        phrases
            .split(',')
            .map(|phrase| Rule { phrase: phrase.trim().to_lowercase(), instead: instead.trim().to_owned() })
    });
    Ok(rules.collect())
}

/// The lines of a page without code: line number (from 1) and text in lower case, with single spaces.
fn prose(page: &str) -> Vec<(usize, String)> {
    let mut is_code = false;
    let mut prose = Vec::new();
    for (index, line) in page.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if !is_code {
            // A code span becomes a word that no phrase contains.
            let spans = line.split('`').enumerate().map(|(n, part)| if n % 2 == 0 { part } else { "`" });
            let text = spans.collect::<String>().to_lowercase();
            prose.push((index + 1, text.split_whitespace().collect::<Vec<_>>().join(" ")));
        }
    }
    prose
}

/// Whether a text contains a phrase as whole words.
fn contains(text: &str, phrase: &str) -> bool {
    text.match_indices(phrase).any(|(start, _)| {
        let is_letter = |c: char| c.is_alphanumeric();
        let (before, rest) = text.split_at(start);
        !before.ends_with(is_letter) && !rest[phrase.len()..].starts_with(is_letter)
    })
}

/// The banned phrases of a page, with their line numbers.
fn find<'a>(rules: &'a [Rule], page: &str) -> Vec<(usize, &'a Rule)> {
    let mut found = Vec::new();
    for (line, mut text) in prose(page) {
        for exception in EXCEPTIONS {
            text = text.replace(exception, "`");
        }
        found.extend(rules.iter().filter(|rule| contains(&text, &rule.phrase)).map(|rule| (line, rule)));
    }
    found
}

/// Adds the Markdown files below a folder, except build output and dependencies.
fn pages(folder: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("read {}", folder.display()))? {
        let entry = entry?;
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        if entry.file_type()?.is_dir() {
            if !name.starts_with('.') && name != "target" && name != "node_modules" {
                pages(&path, found)?;
            }
        } else if name.ends_with(".md") {
            found.push(path);
        }
    }
    Ok(())
}

#[test]
fn documentation_has_no_banned_phrases() -> Result<()> {
    let root = workspace_dir();
    let contributing = fs::read_to_string(root.join(RULES)).with_context(|| format!("read {RULES}"))?;
    let rules = rules(&contributing)?;
    ensure!(rules.len() > 20, "only {} phrases found in {RULES}", rules.len());
    let mut files = Vec::new();
    pages(&root, &mut files)?;
    files.sort();
    ensure!(files.len() > 15, "only {} pages found", files.len());

    let mut findings = Vec::new();
    for file in files {
        let name = file.strip_prefix(&root)?.to_string_lossy().into_owned();
        if GENERATED.contains(&&*name) {
            continue;
        }
        let mut page = fs::read_to_string(&file).with_context(|| format!("read {name}"))?;
        if name == RULES {
            // Its tables list the phrases; empty lines keep the line numbers.
            let lines = page.lines().map(|line| if line.starts_with('|') { "" } else { line });
            page = lines.collect::<Vec<_>>().join("\n");
        }
        for (line, rule) in find(&rules, &page) {
            findings.push(format!("{name}:{line}: {:?}; write: {}", rule.phrase, rule.instead));
        }
    }
    assert!(findings.is_empty(), "plain English, please:\n{}", findings.join("\n"));
    Ok(())
}

/// Line number and phrase.
type Finding<'a> = (usize, &'a str);

#[test]
fn a_planted_phrase_is_found_outside_code() -> Result<()> {
    let rules = rules(
        "# Rules\n\n| do not write | write |\n| --- | --- |\n| is told, is no | receives |\n| stands | is |\n\n| a | b |\n",
    )?;
    let phrases: Vec<&str> = rules.iter().map(|rule| &*rule.phrase).collect();
    assert_eq!(phrases, ["is told", "is no", "stands"], "the next table has no rules");

    let cases: [(&str, &str, &[Finding<'_>]); 9] = [
        ("plain", "The plugin receives an event.\n", &[]),
        ("any case, any spaces", "Title\n\nA plugin  Is\tTold of it.\n", &[(3, "is told")]),
        ("in a table", "| X | it is no folder |\n", &[(1, "is no")]),
        ("two in a line", "It is told what stands there.\n", &[(1, "is told"), (1, "stands")]),
        ("part of a word", "This notice, these bystands and his told.\n", &[]),
        ("code span", "The log shows `is told` and `stands`.\n", &[]),
        ("around a code span", "What is `x` told?\n", &[]),
        ("code block", "```sh\nis told\n```\nis told\n", &[(4, "is told")]),
        ("exceptions", "There is no lease; it is no longer held. `X` stands for a name.\n", &[]),
    ];
    for (name, page, expected) in cases {
        let found: Vec<Finding<'_>> =
            find(&rules, page).into_iter().map(|(line, rule)| (line, &*rule.phrase)).collect();
        assert_eq!(found, expected, "{name}");
    }
    Ok(())
}

#[test]
fn a_page_without_the_table_is_an_error() {
    let message = rules("# Rules\n").map_err(|error| error.to_string()).unwrap_err();
    assert!(message.contains("has no table"), "{message}");
}
