//! Documentation and Rust sources use plain English: they do not contain the phrases that CONTRIBUTING.md bans.
//!
//! *Flow*: the table of phrases in CONTRIBUTING.md -> [`Rule`]s -> every Markdown file, and the Rust files of [`RUST`] ->
//! `file:line: phrase; write ...`.
//!
//! *Invariants*: 1. The table is the only list of phrases. 2. Code blocks and code spans are ignored, because they quote names and
//! output. 3. A phrase matches whole words in any case, within one line. 4. Of a Rust file, comments, string literals and names are
//! checked: the name of a test is a sentence.
//!
//! *Not here*: references generated from doc comments ([`GENERATED`]).

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

/// Folders whose Rust sources are checked.
const RUST: [&str; 11] = [
    "host/cache",
    "host/core",
    "host/kube",
    "host/nodes",
    "host/oci",
    "host/runtime",
    "host/testing",
    "host/wasm",
    "host/xtask",
    "plugins",
    "sdk/rust",
];

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

/// A line in lower case, with single spaces and without code spans.
fn plain(line: &str) -> String {
    // A code span becomes a word that no phrase contains.
    let spans = line.split('`').enumerate().map(|(n, part)| if n % 2 == 0 { part } else { "`" });
    let text = spans.collect::<String>().to_lowercase();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The prose of a file by line number (from 1): a Markdown page without code blocks, or a Rust source with its names as words.
fn prose(file: &Path, text: &str) -> Vec<(usize, String)> {
    let lines = text.lines().zip(1..);
    if file.extension().is_some_and(|extension| extension == "rs") {
        return lines.map(|(line, number)| (number, plain(&line.replace('_', " ")))).collect();
    }
    let mut is_code = false;
    let mut is_prose = |line: &str| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    };
    lines.filter(|(line, _)| is_prose(line)).map(|(line, number)| (number, plain(line))).collect()
}

/// Whether a text contains a phrase as whole words.
fn contains(text: &str, phrase: &str) -> bool {
    text.match_indices(phrase).any(|(start, _)| {
        let is_letter = |c: char| c.is_alphanumeric();
        let (before, rest) = text.split_at(start);
        !before.ends_with(is_letter) && !rest[phrase.len()..].starts_with(is_letter)
    })
}

/// The banned phrases of a file, with their line numbers.
fn find<'a>(rules: &'a [Rule], file: &Path, text: &str) -> Vec<(usize, &'a Rule)> {
    let mut found = Vec::new();
    for (line, mut text) in prose(file, text) {
        for exception in EXCEPTIONS {
            text = text.replace(exception, "`");
        }
        found.extend(rules.iter().filter(|rule| contains(&text, &rule.phrase)).map(|rule| (line, rule)));
    }
    found
}

/// Adds the files with this extension below a folder, except build output and dependencies.
fn files(folder: &Path, extension: &str, found: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("read {}", folder.display()))? {
        let entry = entry?;
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        if entry.file_type()?.is_dir() {
            if !name.starts_with('.') && name != "target" && name != "node_modules" {
                files(&path, extension, found)?;
            }
        } else if path.extension().is_some_and(|other| other == extension) {
            found.push(path);
        }
    }
    Ok(())
}

#[test]
fn documentation_and_sources_have_no_banned_phrases() -> Result<()> {
    let root = workspace_dir();
    let contributing = fs::read_to_string(root.join(RULES)).with_context(|| format!("read {RULES}"))?;
    let rules = rules(&contributing)?;
    ensure!(rules.len() > 20, "only {} phrases found in {RULES}", rules.len());
    let mut all = Vec::new();
    files(&root, "md", &mut all)?;
    ensure!(all.len() > 15, "only {} pages found", all.len());
    for folder in RUST {
        let n_before = all.len();
        files(&root.join(folder), "rs", &mut all)?;
        ensure!(all.len() > n_before, "no Rust file in {folder}");
    }
    all.sort();

    let mut findings = Vec::new();
    for file in all {
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
        for (line, rule) in find(&rules, &file, &page) {
            findings.push(format!("{name}:{line}: {:?}; write: {}", rule.phrase, rule.instead));
        }
    }
    assert!(findings.is_empty(), "plain English, please:\n{}", findings.join("\n"));
    Ok(())
}

/// Line number and phrase.
type Finding<'a> = (usize, &'a str);

#[test]
fn a_planted_phrase_is_found() -> Result<()> {
    let rules = rules(
        "# Rules\n\n| do not write | write |\n| --- | --- |\n| is told, is no | receives |\n| stands | is |\n\n| a | b |\n",
    )?;
    let phrases: Vec<&str> = rules.iter().map(|rule| &*rule.phrase).collect();
    assert_eq!(phrases, ["is told", "is no", "stands"], "the next table has no rules");

    let cases: [(&str, &str, &str, &[Finding<'_>]); 14] = [
        ("plain", "a.md", "The plugin receives an event.\n", &[]),
        ("any case, any spaces", "a.md", "Title\n\nA plugin  Is\tTold of it.\n", &[(3, "is told")]),
        ("in a table", "a.md", "| X | it is no folder |\n", &[(1, "is no")]),
        ("two in a line", "a.md", "It is told what stands there.\n", &[(1, "is told"), (1, "stands")]),
        ("part of a word", "a.md", "This notice, these bystands and his told.\n", &[]),
        ("code span", "a.md", "The log shows `is told` and `stands`.\n", &[]),
        ("around a code span", "a.md", "What is `x` told?\n", &[]),
        ("code block", "a.md", "```sh\nis told\n```\nis told\n", &[(4, "is told")]),
        ("exceptions", "a.md", "There is no lease; it is no longer held. `X` stands for a name.\n", &[]),
        (
            "comment",
            "a.rs",
            "//! It is no folder.\n//! ```\n/// It stands.\nlet x = 1; // Is told\n",
            &[(1, "is no"), (3, "stands"), (4, "is told")],
        ),
        ("string", "a.rs", "fail(\"{path} is no folder\")\n", &[(1, "is no")]),
        ("name", "a.rs", "fn what_is_told_is_done() {\n", &[(1, "is told")]),
        ("part of a name", "a.rs", "let is_none = is_not(understands);\n", &[]),
        ("code span in a comment", "a.rs", "/// The trait of `stands`.\n", &[]),
    ];
    for (name, file, text, expected) in cases {
        let found: Vec<Finding<'_>> =
            find(&rules, Path::new(file), text).into_iter().map(|(line, rule)| (line, &*rule.phrase)).collect();
        assert_eq!(found, expected, "{name}");
    }
    Ok(())
}

#[test]
fn a_page_without_the_table_is_an_error() {
    let message = rules("# Rules\n").map_err(|error| error.to_string()).unwrap_err();
    assert!(message.contains("has no table"), "{message}");
}
