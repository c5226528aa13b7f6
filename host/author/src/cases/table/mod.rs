//! Tables: many cases in one file. A base, and rows that change it; a row is an ordinary case with a short expectation.
//!
//! *Flow*: file -> base + row (merge patch) -> objects by label ([`objects`]) -> the input of a case. The outcome is
//! compared as lines ([`lines`]), which [`rewrite()`] replaces.
//!
//! *Not here*: running a case. A row runs like a case in its own file.

mod lines;
mod objects;
mod rewrite;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::input::{Case, Input, InputSubresource};

pub(super) use self::rewrite::rewrite;

/// The document of a table.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    /// Additional parts in the lines of each row, besides writes, events, wakes and errors.
    #[serde(default)]
    shows: BTreeSet<Part>,
    /// Parts of objects by name, for `like`.
    #[serde(default)]
    fixtures: Map<String, Value>,
    /// The input that the rows change.
    #[serde(default)]
    base: Map<String, Value>,
    rows: Vec<Row>,
}

/// A row: its name, the expected outcome, and its differences from the base.
#[derive(Deserialize)]
struct Row {
    name: String,
    /// Overrides the table's.
    shows: Option<BTreeSet<Part>>,
    expect: Option<String>,
    #[serde(flatten)]
    changes: Map<String, Value>,
}

/// An optional part of an outcome.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd)]
#[serde(rename_all = "lowercase")]
enum Part {
    /// Live reads.
    Reads,
    /// The time of the next run.
    Requeue,
    /// Keyed state.
    State,
    /// Samples of metrics.
    Metrics,
    /// Labels of the run.
    Labels,
}

/// How a row renders an outcome.
#[derive(Debug)]
pub(super) struct Shown {
    /// Number of the row in its table, from 0.
    row: usize,
    /// Name of the row.
    name: String,
    parts: BTreeSet<Part>,
    /// The object of the key, with its defaults, if the case has it.
    subject: Option<Value>,
    /// Kind and name of the key's object, in the form of outcomes.
    regarding: String,
    /// Answers to live reads of subresources: subresource and object, in the form of outcomes, and the answer.
    answers: Vec<(String, Value)>,
}

/// Whether the first document of a file is a table: it has no key.
pub(super) fn is_table(document: &Value) -> bool {
    document.get("rows").is_some()
}

/// The cases of a table, in its order.
///
/// # Errors
/// A field is unknown, a row has no name or the name of another one, or its input does not parse.
pub(super) fn read(name: &str, file: &Path, document: &Value) -> anyhow::Result<Vec<Case>> {
    let shown = file.display();
    let table: Table = serde_path_to_error::deserialize(document).with_context(|| {
        format!("{shown} is a table, which has `rows`, and `base`, `fixtures` and `shows` if needed")
    })?;
    ensure!(!table.rows.is_empty(), "{shown} has no rows: write `- name: ...` below `rows:`");
    let mut names = BTreeSet::new();
    let mut cases = Vec::new();
    for (at, row) in table.rows.iter().enumerate() {
        let of = || format!("{shown}: row {:?}", row.name);
        ensure!(!row.name.trim().is_empty(), "{shown}: row {} has an empty name", at + 1);
        ensure!(names.insert(&row.name), "{}: another row has the same name", of());
        cases.push(table.case(at, row, name, file).with_context(of)?);
    }
    Ok(cases)
}

impl Table {
    fn case(&self, at: usize, row: &Row, table: &str, file: &Path) -> anyhow::Result<Case> {
        let mut raw = self.base.clone();
        for name in ["objects", "live"] {
            if let Some(labels) = raw.get_mut(name) {
                *labels = objects::by_label(labels).with_context(|| format!("base.{name}"))?;
            }
        }
        let mut changes = row.changes.clone();
        ensure!(!changes.contains_key("settle"), "a row does not settle: write a file with this case alone");
        for name in ["objects", "live"] {
            if let Some(labels) = changes.get_mut(name).filter(|labels| !labels.is_null()) {
                *labels = objects::by_label(labels).context(name)?;
            }
        }
        let mut raw = Value::Object(raw);
        objects::merge(&mut raw, Value::Object(changes));
        // A live object may refer to one in the caches, so these come later.
        let mut fixtures = raw["objects"].as_object().cloned().unwrap_or_default();
        fixtures.extend(self.fixtures.clone());
        if let Some(labels) = raw.get_mut("live") {
            *labels = objects::list(labels, &fixtures).context("live")?;
        }
        if let Some(labels) = raw.get_mut("objects") {
            *labels = objects::list(labels, &self.fixtures).context("objects")?;
        }
        for name in ["resources", "subresources", "reviews", "signatures", "calls"] {
            if let Some(Value::Object(labels)) = raw.get_mut(name) {
                raw[name] = std::mem::take(labels).into_iter().map(|(_, value)| value).collect();
            }
        }
        let input: Input = serde_path_to_error::deserialize(&raw)?;
        let shown = Shown::new(at, row, row.shows.as_ref().unwrap_or(&self.shows).clone(), &input);
        Ok(Case {
            name: format!("{table}/{}", row.name),
            file: PathBuf::from(file),
            input,
            raw,
            expected: row.expect.as_ref().map_or(Value::Null, |text| text.trim_end().into()),
            end: Value::Null,
            shown: Some(shown),
        })
    }
}

impl Shown {
    fn new(row: usize, of: &Row, parts: BTreeSet<Part>, input: &Input) -> Self {
        let key = &input.key;
        let (kind, place) = (&key.kind, if key.namespace.is_empty() { "" } else { "/" });
        let all = input.objects.iter().chain(input.live.iter().flatten());
        let subject = all.into_iter().find(|object| {
            let meta = &object["metadata"];
            object["apiVersion"] == kind.api_version()
                && object["kind"] == *kind.name
                && meta["name"] == *key.name
                && meta["namespace"].as_str().unwrap_or_default() == key.namespace
        });
        let regarding = format!("{kind} {}{place}{}", key.namespace, key.name);
        let answers = input.subresources.iter().map(InputSubresource::target_and_answer).collect();
        Self { row, name: of.name.clone(), parts, subject: subject.cloned(), regarding, answers }
    }

    /// The lines of an outcome.
    pub(super) fn text(&self, outcome: &Value) -> String {
        lines::text(self, outcome)
    }

    fn shows(&self, part: Part) -> bool {
        self.parts.contains(&part)
    }

    /// The controller reference of objects controlled by the key's object.
    fn controller(&self) -> Option<Value> {
        let subject = self.subject.as_ref()?;
        let meta = &subject["metadata"];
        Some(json!({
            "apiVersion": subject["apiVersion"], "kind": subject["kind"], "name": meta["name"], "uid": self.uid(),
            "controller": true, "blockOwnerDeletion": true,
        }))
    }

    /// The uid of the key's object in the cluster of a case.
    fn uid(&self) -> String {
        let meta = self.subject.as_ref().map(|subject| &subject["metadata"]);
        let text = |name: &str| meta.and_then(|meta| meta[name].as_str());
        text("uid").map_or_else(|| format!("uid-{}", text("name").unwrap_or_default()), str::to_owned)
    }

    /// The end of an event about the key's object: its kind, name and uid.
    fn regarding(&self) -> String {
        format!(" on {} ({})", self.regarding, self.uid())
    }
}

#[cfg(test)]
mod tests;
