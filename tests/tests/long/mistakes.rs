//! Each mistake of an author gets an answer that teaches, in every language: which key, which place, what to do instead.
//!
//! The tables are printed: `cargo test --workspace --test long mistakes:: -- --nocapture`. Each mistake says what every answer must say, and
//! which line of the author's it must name.

mod builds;
mod churn;
mod runs;

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use pintle_tests::workspace_dir;
use serde_json::{Value, json};

/// Mistake -> language -> what is told of it.
type Told = BTreeMap<&'static str, BTreeMap<&'static str, String>>;

/// Signs of the host's own insides, which help no author.
const INSIDES: [&str; 5] = ["wasm backtrace", "stack backtrace", "host/src", "host/wasm", "wasmtime::"];

/// Prints the first line of each answer.
fn show(told: &Told) {
    for (mistake, answers) in told {
        println!("{mistake}");
        for (language, answer) in answers {
            println!("  {language:7} {}", answer.lines().next().unwrap_or_default().trim());
            assert!(INSIDES.iter().all(|sign| !answer.contains(sign)), "{language}, {mistake}: {answer}");
        }
    }
}

/// Without what varies from machine to machine, or from one version of a compiler to the next.
fn steady(text: &str, folder: &Path) -> String {
    let text = text.replace(&folder.display().to_string(), "$DIR");
    let text = text.replace(&workspace_dir().display().to_string(), "$ROOT");
    let words = text.split_inclusive(char::is_whitespace).map(|word| match word.find("/library/") {
        // Where a machine has the standard library of Rust.
        Some(at) => format!("$RUST{}", &word[at..]),
        None => without_long_numbers(word),
    });
    words.collect()
}

/// Numbers of five digits and more are `N`: addresses, bytes, times.
fn without_long_numbers(text: &str) -> String {
    let mut out = String::new();
    let mut digits = String::new();
    for c in text.chars().chain(['\0']) {
        if c.is_ascii_digit() {
            digits.push(c);
            continue;
        }
        out += if digits.len() >= 5 { "N" } else { &digits };
        digits.clear();
        out.extend(Some(c).filter(|c| *c != '\0'));
    }
    out
}

/// A case for a key of this name: the object of the key, and others.
fn write_case(cases: &Path, name: &str, spec: &Value, more: &[Value], expected: Option<&Value>) -> Result<()> {
    std::fs::create_dir_all(cases)?;
    let kind = "example.com/v1/Mistake";
    let object = json!({
        "apiVersion": "example.com/v1", "kind": "Mistake", "metadata": {"namespace": "default", "name": name}, "spec": spec,
    });
    let objects: Vec<&Value> = std::iter::once(&object).chain(more).collect();
    let mut input = json!({"key": {"kind": kind, "namespace": "default", "name": name}, "objects": objects});
    if name == churn::CASE {
        input["config"] = json!({"word": churn::WORD});
        input["state"] = json!({"word": churn::WORD});
    }
    let mut case = serde_norway::to_string(&input)?;
    if let Some(expected) = expected {
        case += &format!("---\n{}", serde_norway::to_string(expected)?);
    }
    std::fs::write(cases.join(format!("{name}.yaml")), case).context("write a case")
}
