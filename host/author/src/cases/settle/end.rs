//! What writes have made of a cluster: the objects in the end, and the fields that went back and forth.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;

use pintle_sim::WriteRecord;
use pintle_sim::store::EventType;
use serde_json::{Map, Value, json};

use super::name_of;
use crate::cases::render::difference;

/// Metadata that a case does not name: the server decides about it.
const DECIDED: [&str; 6] = ["uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink"];
/// Fields that are shown of those that go back and forth.
const MAX_FLIPS: usize = 10;
/// Values that are shown of each.
const MAX_VALUES: usize = 4;

/// An object's history: the state before the first write, and after each.
struct Story {
    first: usize,
    states: Vec<Option<Value>>,
}

/// By kind and name, without events and what only machines look at.
fn stories(records: &[Arc<WriteRecord>]) -> BTreeMap<String, Story> {
    let mut stories: BTreeMap<String, Story> = BTreeMap::new();
    for (at, record) in records.iter().enumerate().filter(|(_, record)| record.resource != "events") {
        let after = record.after.value();
        let (kind, object) = name_of(&after);
        let before = || vec![record.before.as_ref().map(|version| version.value())];
        let story = stories.entry(format!("{kind} {object}")).or_insert_with(|| Story { first: at, states: before() });
        story.states.push((record.effect != EventType::Deleted).then_some(after));
    }
    stories
}

/// The objects that were created, changed and deleted. Names and uids that the server chose are replaced: `web-1` for the first object
/// with the prefix `web-`, `uid-NAME` for its uid.
pub(super) fn changes(records: &[Arc<WriteRecord>]) -> Value {
    let stories = stories(records);
    let names = Replacements::of(&stories);
    let (mut created, mut changed, mut deleted) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
    for (shown, story) in &stories {
        let shown = names.text(shown);
        let (Some(first), Some(last)) = (story.states.first(), story.states.last()) else { continue };
        let uid = |object: &Value| object["metadata"]["uid"].clone();
        match (first, last) {
            (Some(first), Some(last)) if uid(first) == uid(last) => {
                let changes = difference(&clean(first), &clean(last));
                if changes != json!({}) {
                    let changes = names.value(changes);
                    changed.insert(shown.clone(), json!({"object": shown, "changes": changes}));
                }
            }
            (first, last) => {
                deleted.extend(first.as_ref().map(|_| shown.clone()));
                created.extend(last.as_ref().map(|last| (shown, names.value(clean(last)))));
            }
        }
    }
    deleted.sort();
    let mut all = Map::new();
    let lists = [
        ("created", created.into_values().collect()),
        ("changed", changed.into_values().collect()),
        ("deleted", deleted.into_iter().map(Value::from).collect::<Vec<Value>>()),
    ];
    for (name, list) in lists {
        if !list.is_empty() {
            all.insert(name.to_owned(), Value::Array(list));
        }
    }
    Value::Object(all)
}

/// Names and uids that differ each time.
struct Replacements(Vec<(String, String)>);

impl Replacements {
    fn of(stories: &BTreeMap<String, Story>) -> Self {
        let mut in_order: Vec<&Story> = stories.values().collect();
        // What is there in the end comes first: which one of several equals has gone is often chance.
        in_order.sort_by_key(|story| (story.states.last().is_none_or(Option::is_none), story.first));
        let (mut all, mut counts) = (Vec::new(), BTreeMap::<String, usize>::new());
        let is_new = |story: &Story, object: &Value| {
            let first = story.states.first().and_then(Option::as_ref);
            first.is_none_or(|first| first["metadata"]["uid"] != object["metadata"]["uid"])
        };
        let states =
            in_order.iter().flat_map(|story| story.states.iter().flatten().filter(|object| is_new(story, object)));
        for object in states {
            let text = |name: &str| object["metadata"][name].as_str().unwrap_or_default().to_owned();
            let (name, prefix, uid) = (text("name"), text("generateName"), text("uid"));
            if all.iter().any(|(known, _)| *known == uid) {
                continue;
            }
            let mut shown = name.clone();
            if !prefix.is_empty() && name.starts_with(&prefix) {
                let n = counts.entry(prefix.clone()).or_default();
                *n += 1;
                shown = format!("{prefix}{n}");
                all.push((name, shown.clone()));
            }
            all.push((uid, format!("uid-{shown}")));
        }
        all.retain(|(from, _)| !from.is_empty());
        Self(all)
    }

    fn text(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
    }

    fn value(&self, value: Value) -> Value {
        match value {
            Value::String(text) => self.text(&text).into(),
            Value::Array(items) => items.into_iter().map(|item| self.value(item)).collect(),
            Value::Object(fields) => fields.into_iter().map(|(name, value)| (name, self.value(value))).collect(),
            other => other,
        }
    }
}

fn clean(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.retain(|name, _| !DECIDED.contains(&name.as_str()));
    }
    object
}

/// The fields that were written more than once, with their values, one in a line; empty if there are none.
pub(super) fn flips(records: &[Arc<WriteRecord>]) -> String {
    let mut lines = Vec::new();
    for (shown, story) in stories(records) {
        let presence = story.states.iter().map(|state| if state.is_some() { "there" } else { "gone" }.to_owned());
        lines.extend(flip(&format!("{shown}: it is"), presence));
        let states: Vec<BTreeMap<String, String>> =
            story.states.iter().flatten().map(|state| leaves(&clean(state))).collect();
        let fields: BTreeSet<&String> = states.iter().flat_map(|state| state.keys()).collect();
        for field in fields {
            let values = states.iter().map(|state| state.get(field).cloned().unwrap_or_else(|| "absent".to_owned()));
            lines.extend(flip(&format!("{shown}: {field}:"), values));
        }
    }
    if lines.is_empty() {
        return String::new();
    }
    let n_left_out = lines.len().saturating_sub(MAX_FLIPS);
    lines.truncate(MAX_FLIPS);
    let mut text = "written again and again:\n".to_owned();
    for line in lines {
        let _ = writeln!(text, "  {line}");
    }
    if n_left_out > 0 {
        let _ = writeln!(text, "  and {n_left_out} more fields");
    }
    text
}

/// A line about values, if they changed more than once.
fn flip(what: &str, values: impl Iterator<Item = String>) -> Option<String> {
    let mut values: Vec<String> = values.collect();
    values.dedup();
    let n_left_out = values.len().saturating_sub(MAX_VALUES);
    let shown = values[n_left_out..].join(" -> ");
    let before = if n_left_out > 0 { "... -> " } else { "" };
    (values.len() > 2).then(|| format!("{what} {before}{shown}"))
}

/// Each field that holds no others, by path.
fn leaves(object: &Value) -> BTreeMap<String, String> {
    fn collect(path: &str, value: &Value, all: &mut BTreeMap<String, String>) {
        match value {
            Value::Object(fields) if !fields.is_empty() => {
                for (name, value) in fields {
                    let name = if name.contains(['.', '/']) { format!("['{name}']") } else { format!(".{name}") };
                    collect(&format!("{path}{name}"), value, all);
                }
            }
            Value::Array(items) if !items.is_empty() => {
                for (at, item) in items.iter().enumerate() {
                    collect(&format!("{path}[{at}]"), item, all);
                }
            }
            leaf => drop(all.insert(path.trim_start_matches('.').to_owned(), leaf.to_string())),
        }
    }
    let mut all = BTreeMap::new();
    collect("", object, &mut all);
    all
}
