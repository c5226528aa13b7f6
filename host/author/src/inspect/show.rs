//! A component, for humans. Writing to a String does not fail, so results are dropped here.

use std::fmt::Write as _;

use pintle_core::contract::manifest::Manifest;
use pintle_core::text::{Printable, bytes, table};
use pintle_wasm::Producer;

use super::{Inspected, access};

pub(super) fn text(inspected: &Inspected<'_>) -> String {
    let found = inspected.found;
    let manifest = &found.manifest;
    let mut text = format!("{} {}\n", manifest.name, manifest.version);
    if !manifest.description.is_empty() {
        // One paragraph, so that no line of it looks like one of those below.
        let words = manifest.description.split_whitespace().collect::<Vec<_>>().join(" ");
        let _ = writeln!(text, "{}", Printable(&words));
    }
    text.push('\n');
    let mut line = |name: &str, value: &str| {
        let _ = writeln!(text, "{name:<11}{}", Printable(value));
    };
    line("file", inspected.file);
    line("size", &bytes(found.size_bytes as u64));
    line("digest", &format!("sha256:{}", found.digest));
    line("signed", &signed(inspected));
    line("language", &producers(&found.producers.languages));
    line("made with", &producers(&found.producers.tools));
    line("instances", &format!("{:?}", manifest.instances).to_lowercase());
    line("world", world(found.maps()));
    for import in &found.imports {
        let _ = writeln!(text, "  import {import};");
    }
    for export in &found.exports {
        // A name with a package is an interface, one without a function.
        let function = if export.contains(':') { "" } else { ": func" };
        let _ = writeln!(text, "  export {export}{function};");
    }
    describe(&mut text, manifest);
    text
}

fn world(maps: bool) -> &'static str {
    if maps { "mapping-controller" } else { "controller" }
}

fn signed(inspected: &Inspected<'_>) -> String {
    match (inspected.n_signatures, inspected.is_verified) {
        (0, _) => "no".to_owned(),
        (n, true) => format!("yes, by a key of --verify-key (signatures: {n})"),
        (n, false) => format!("yes, not checked: --verify-key names whose keys count (signatures: {n})"),
    }
}

fn producers(all: &[Producer]) -> String {
    if all.is_empty() {
        return "it does not say".to_owned();
    }
    let shown = all.iter().map(|producer| format!("{} {}", producer.name, producer.version).trim_end().to_owned());
    shown.collect::<Vec<_>>().join(", ")
}

fn describe(text: &mut String, manifest: &Manifest) {
    let mut rows = vec![["KIND", "READS", "WRITES"].map(str::to_owned).to_vec()];
    for access in access::of(manifest) {
        let n_lines = access.reads.len().max(access.writes.len());
        let cell = |lines: &[String], i: usize| lines.get(i).cloned().unwrap_or_default();
        rows.extend((0..n_lines).map(|i| {
            let target = if i == 0 { access.target.clone() } else { String::new() };
            vec![target, cell(&access.reads, i), cell(&access.writes, i)]
        }));
    }
    let _ = writeln!(text, "\n{}", table(&rows));
    let _ = writeln!(text, "\nqueues");
    for queue in &manifest.queues {
        let _ = writeln!(text, "  {}, {} at once", Printable(&queue.name), queue.concurrency);
    }
    if !manifest.config.is_empty() {
        let _ = writeln!(text, "\nsettings");
        for (name, setting) in &manifest.config {
            let default =
                setting.default.as_ref().map_or_else(|| "required".to_owned(), |value| format!("default {value}"));
            let _ =
                writeln!(text, "  {}, {}: {}", Printable(name), Printable(&default), Printable(&setting.description));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use pintle_wasm::{Inspection, Producers};
    use serde_json::json;

    use super::*;

    #[test]
    fn no_word_of_a_manifest_looks_like_a_line_of_the_answer() {
        let hostile = "useful\n\nsigned     yes\u{1b}[2J\u{202e}";
        let manifest = json!({
            "name": "p", "version": "1", "contract": "0.1", "description": hostile, "watches": [],
            "queues": [{"name": "q\nsigned     yes"}],
            "config": {"s": {"type": "string", "default": hostile, "description": hostile}},
        });
        let found = Inspection {
            manifest: Arc::new(Manifest::parse(manifest.to_string().as_bytes()).unwrap()),
            manifest_json: String::new(),
            imports: Vec::new(),
            exports: Vec::new(),
            contract: String::new(),
            size_bytes: 1,
            memory_bytes: 0,
            digest: "abc".to_owned(),
            producers: Producers::default(),
        };
        let text = text(&Inspected { file: "a\nsigned     yes", found: &found, n_signatures: 0, is_verified: false });
        let signed: Vec<&str> = text.lines().filter(|line| line.starts_with("signed")).collect();
        assert_eq!(signed, ["signed     no"], "{text}");
        assert!(text.chars().all(|c| c == '\n' || !c.is_control()) && !text.contains('\u{202e}'), "{text:?}");
        assert!(text.contains(r"useful signed yes\u{1b}[2J\u{202e}"), "{text}");
    }
}
