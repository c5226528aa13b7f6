//! Failed runs of a plugin, and their cases.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use pintle_core::text::{age, table};
use pintle_sources::wire::{Failure, FailureKey, FailureList, SavedFailure};
use serde::Serialize;

use crate::{Client, path};

/// Most characters of a message in a terminal line.
pub const SHORT_MESSAGE: usize = 120;

/// The failed runs of a plugin in the host; of one object if a key is given.
///
/// # Errors
/// The host cannot be reached, or returns an error.
pub async fn fetch(client: &Client, plugin: &str, key: Option<&str>) -> anyhow::Result<FailureList> {
    let mut found: FailureList = client.get(&path(plugin, "/failures")).await?;
    found.items.retain(|failure| key.is_none_or(|key| failure.key.is(key)));
    Ok(found)
}

/// A case saved from a failure.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Case {
    /// Its file.
    pub case: PathBuf,
    /// Whether it existed already, and is unchanged.
    pub is_old: bool,
    /// The failure.
    #[serde(flatten)]
    pub failure: Failure,
}

/// Saves each failure as a case in the folder, unless it was saved before. `secrets`: with the values of Secrets.
///
/// # Errors
/// The host cannot be reached, or a file cannot be written.
pub async fn save(
    client: &Client,
    plugin: &str,
    found: &FailureList,
    folder: &Path,
    secrets: bool,
) -> anyhow::Result<Vec<Case>> {
    let query = if secrets { "?secrets=true" } else { "" };
    let mut cases = Vec::new();
    for failure in &found.items {
        let case = folder.join(name_of(failure) + ".yaml");
        let is_old = case.exists();
        if !is_old {
            let saved: SavedFailure = client.get(&path(plugin, &format!("/failures/{}{query}", failure.id))).await?;
            write(&case, plugin, &saved)?;
        }
        cases.push(Case { case, is_old, failure: failure.clone() });
    }
    Ok(cases)
}

/// The files of a plugin's saved failures, and how to replay them.
pub fn saved(folder: &Path, cases: &[Case]) -> String {
    let mut text = String::new();
    for Case { case, is_old, failure } in cases {
        let was = if *is_old { " (was there already)" } else { "" };
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{}{was}: {}", case.display(), first_line(failure, Some(SHORT_MESSAGE)));
    }
    text + &format!("\nRun them in the plugin's folder: pintle test --cases {}", folder.display())
}

/// `default-web-trap-20261122T013000.123456Z`: the time distinguishes failures of successive hosts.
fn name_of(failure: &Failure) -> String {
    let FailureKey { namespace, name, .. } = &failure.key;
    let time = failure.first.replace(['-', ':'], "");
    let parts = [namespace.as_str(), name, &failure.failure, &time];
    let joined = parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("-");
    // These names come from the cluster and are not safe in paths.
    let harmless = |letter: char| if letter.is_ascii_alphanumeric() || "-._".contains(letter) { letter } else { '_' };
    let name: String = joined.chars().map(harmless).collect();
    name.trim_start_matches('.').to_owned()
}

fn write(case: &Path, plugin: &str, saved: &SavedFailure) -> anyhow::Result<()> {
    let folder = case.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder).with_context(|| format!("create {}", folder.display()))?;
    let input = serde_norway::to_string(&saved.input).context("write YAML")?;
    let text = comments(&failure_text(plugin, saved)) + &input;
    fs::write(case, text).with_context(|| format!("write {}", case.display()))
}

/// A text as YAML comments. It comes from the plugin and may contain anything, but cannot end a comment.
fn comments(text: &str) -> String {
    let is_harmless =
        |c: char| c == '\t' || !(c.is_control() || "\u{2028}\u{2029}\u{feff}\u{fffe}\u{ffff}".contains(c));
    let line = |line: &str| {
        let line = line.replace(|c| !is_harmless(c), "\u{fffd}");
        format!("# {line}").trim_end().to_owned() + "\n"
    };
    text.lines().map(line).collect()
}

/// Writing to a String cannot fail, so results are ignored here.
fn failure_text(plugin: &str, saved: &SavedFailure) -> String {
    let SavedFailure { failure, log, masked, left_out, .. } = saved;
    let mut text = String::new();
    let _ = writeln!(text, "plugin   {plugin} {} (sha256 {})", failure.version, failure.digest);
    let _ = writeln!(text, "key      {} {} in queue {}", failure.key.kind, failure.key.object(), failure.key.queue);
    let _ = writeln!(text, "time     {}, attempt {}", failure.first, failure.attempt);
    if failure.times > 1 {
        let _ = writeln!(text, "again    {} times in all, the last at {}", failure.times, failure.last);
    }
    let _ = writeln!(text, "failure  {}: {}", failure.failure, failure.message);
    if !log.is_empty() {
        let _ = writeln!(text, "\nlog");
        for line in log {
            let _ = writeln!(text, "  {:5}  {}", line.level, line.message);
        }
    }
    if *masked > 0 || !left_out.is_empty() {
        let _ = writeln!(text, "\nnot in this case");
    }
    if *masked > 0 {
        let _ =
            writeln!(text, "  masked values of Secrets and of settings from files: {masked} (--secrets shows them)");
    }
    for sentence in left_out {
        let _ = writeln!(text, "  {sentence}");
    }
    text
}

/// The kind and the first line of the message, at most `n_chars` of it.
fn first_line(failure: &Failure, n_chars: Option<usize>) -> String {
    let line = failure.message.lines().next().unwrap_or_default();
    let mut cut: String = line.chars().take(n_chars.unwrap_or(usize::MAX)).collect();
    if cut.len() < line.len() {
        cut += "...";
    }
    format!("{}: {cut}", failure.failure)
}

/// Failed runs of a plugin as a table. `n_chars`: most characters of a message; all if absent.
pub fn list(plugin: &str, found: &FailureList, now: &jiff::Timestamp, n_chars: Option<usize>) -> String {
    if found.items.is_empty() {
        return format!("No failed runs of plugin {plugin} are kept.");
    }
    let mut rows = vec![["LAST", "TIMES", "KIND", "KEY", "FAILURE"].map(str::to_owned).to_vec()];
    rows.extend(found.items.iter().map(|failure| row(failure, now, n_chars)));
    table(&rows)
}

/// Failed runs of several plugins as a table, by the plugin's name.
pub fn list_all(found: &BTreeMap<String, FailureList>, now: &jiff::Timestamp, n_chars: Option<usize>) -> String {
    let mut rows = vec![["PLUGIN", "LAST", "TIMES", "KIND", "KEY", "FAILURE"].map(str::to_owned).to_vec()];
    for (plugin, failures) in found {
        let of_plugin = failures.items.iter().map(|failure| row(failure, now, n_chars));
        rows.extend(of_plugin.map(|row| [vec![plugin.clone()], row].concat()));
    }
    if rows.len() == 1 { "No failed runs are kept.".to_owned() } else { table(&rows) }
}

fn row(failure: &Failure, now: &jiff::Timestamp, n_chars: Option<usize>) -> Vec<String> {
    let last = failure.last.parse::<jiff::Timestamp>();
    vec![
        last.map_or_else(|_| "<unknown>".to_owned(), |last| age(now.as_second() - last.as_second())),
        failure.times.to_string(),
        failure.key.kind.clone(),
        failure.key.object(),
        first_line(failure, n_chars),
    ]
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::json;

    use super::*;
    use pintle_sources::wire::LoggedLine;

    fn failure() -> Failure {
        Failure {
            id: 7,
            key: FailureKey {
                queue: "widgets".into(),
                kind: "example.com/v1/Widget".into(),
                namespace: "default".into(),
                name: "we/b".into(),
            },
            failure: "trap".into(),
            message: "wasm `unreachable` instruction executed\nmore".into(),
            times: 3,
            first: "2026-01-02T03:04:05.000006Z".into(),
            last: "2026-01-02T03:05:05.000006Z".into(),
            attempt: 0,
            version: "1.0.0".into(),
            digest: "abc".into(),
            objects: 1,
        }
    }

    #[test]
    fn a_list_has_one_line_for_each() {
        let mut long = failure();
        long.message = "x".repeat(SHORT_MESSAGE + 1);
        long.key.namespace = String::new();
        let now = "2026-01-02T03:10:05Z".parse().unwrap();
        expect![[r#"
            LAST   TIMES   KIND                    KEY            FAILURE
            5m     3       example.com/v1/Widget   default/we/b   trap: wasm `unreachable` instruction executed
            5m     3       example.com/v1/Widget   we/b           trap: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx..."#]]
        .assert_eq(&list("p", &FailureList { items: vec![failure(), long.clone()] }, &now, Some(SHORT_MESSAGE)));
        assert_eq!(list("p", &FailureList::default(), &now, None), "No failed runs of plugin p are kept.");
        let all = |items| list_all(&BTreeMap::from([("p".to_owned(), FailureList { items })]), &now, None);
        let whole = all(vec![long]);
        assert!(whole.starts_with("PLUGIN   LAST") && whole.ends_with(&"x".repeat(SHORT_MESSAGE + 1)), "{whole}");
        assert_eq!(all(Vec::new()), "No failed runs are kept.");
    }

    #[test]
    fn a_case_is_named_by_what_failed_and_is_one_file() {
        assert_eq!(name_of(&failure()), "default-we_b-trap-20260102T030405.000006Z");
        let key = FailureKey { namespace: "..".into(), name: "../x".into(), ..failure().key };
        assert_eq!(name_of(&Failure { key, ..failure() }), "-.._x-trap-20260102T030405.000006Z");
    }

    #[test]
    fn keys_are_named_with_or_without_their_namespace() {
        let key = FailureKey { name: "web".into(), ..failure().key };
        assert!(key.is("web") && key.is("default/web"));
        assert!(!key.is("other/web") && !key.is("default") && !key.is("we"));
    }

    #[test]
    fn what_a_plugin_says_stays_a_comment() {
        let text = "a\n\nb\rkey: x\u{85}key: y\u{2028}key: z\u{1b}[0m\tend";
        let comments = comments(text);
        assert_eq!(comments, "# a\n#\n# b\u{fffd}key: x\u{fffd}key: y\u{fffd}key: z\u{fffd}[0m\tend\n");
        let read: serde_json::Value = serde_norway::from_str(&(comments + "key: 1\n")).unwrap();
        assert_eq!(read, json!({"key": 1}));
    }

    #[test]
    fn the_text_says_how_it_failed_and_what_is_not_in_the_input() {
        let saved = SavedFailure {
            failure: failure(),
            input: json!({}),
            log: vec![LoggedLine { level: "info".into(), message: "hello".into() }],
            masked: 2,
            left_out: vec!["the path /x was answered 500".into()],
        };
        expect![[r#"
            plugin   p 1.0.0 (sha256 abc)
            key      example.com/v1/Widget default/we/b in queue widgets
            time     2026-01-02T03:04:05.000006Z, attempt 0
            again    3 times in all, the last at 2026-01-02T03:05:05.000006Z
            failure  trap: wasm `unreachable` instruction executed
            more

            log
              info   hello

            not in this case
              masked values of Secrets and of settings from files: 2 (--secrets shows them)
              the path /x was answered 500
        "#]]
        .assert_eq(&failure_text("p", &saved));
    }
}
