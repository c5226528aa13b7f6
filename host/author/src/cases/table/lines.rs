//! An outcome in a few lines: one for each write, event, wake, read and error.
//!
//! All relevant parts are included. It is shorter than the full outcome because:
//!
//! - `apiVersion`, `kind`, `namespace` and `name` of a created object precede its body;
//! - an event about the key's object has only its reason and message;
//! - consecutive writes that differ only in the name of their object are one line: the names, and `$(name)` and
//!   `$(ordinal)` (the number at the end) where each has its own; `web-*` is an object with the `generateName` `web-`;
//! - an owner reference to the key's object as the controller is `controller`;
//! - a created object that resembles the previous one in the step is shown as a merge patch;
//! - a part of a created object that equals one of the key's object is `like: template`, with the differences next to
//!   it.

use serde_json::{Map, Value};

use super::objects::split_number;
use super::{Part, Shown};
use crate::cases::render::difference;

/// Longest line of a write. The body of a longer one is in the following lines.
const WIDTH: usize = 200;

/// Longest line of a field or item of such a body.
const MAX_WIDTH: usize = 320;

/// Longest field, and line of fields, that does not start a line.
const SHORT: usize = 150;

/// Parts of the key's object that created objects copy: name, path.
const TEMPLATES: [(&str, &str); 4] = [
    ("template", "/spec/template"),
    ("template.spec", "/spec/template/spec"),
    ("jobTemplate.spec", "/spec/jobTemplate/spec"),
    ("volumeClaimTemplate.spec", "/spec/volumeClaimTemplate/spec"),
];

/// Their paths in created objects.
const PLACES: [&str; 3] = ["/spec", "/spec/template", "/data/spec/template"];

/// The lines of an outcome, in the form rendered by [`render`](super::super::render).
pub(super) fn text(shown: &Shown, outcome: &Value) -> String {
    let mut lines = Vec::new();
    let list = |name: &str| outcome[name].as_array().into_iter().flatten();
    if shown.shows(Part::Reads) {
        lines.extend(list("asked").map(|asked| format!("read {}", one(asked))));
    }
    list("steps").for_each(|step| self::step(shown, step, &mut lines));
    lines.extend(list("wake").map(|wake| format!("wake {}", one(wake))));
    error("", outcome, &mut lines);
    error("error ", &outcome["error"], &mut lines);
    if let Some(endless) = outcome.get("endless") {
        lines.push(format!("endless: {}", one(endless)));
    }
    if let Some(after) = outcome["requeueAfter"].as_str().filter(|_| shown.shows(Part::Requeue)) {
        lines.push(format!("requeue after {after}"));
    }
    if shown.shows(Part::State) {
        let state = outcome["state"].as_object().into_iter().flatten();
        for (name, value) in state {
            body(&format!("state {name}"), &parsed(value), &mut lines);
        }
    }
    if shown.shows(Part::Metrics) {
        lines.extend(list("observations").map(|sample| format!("metric {}", one(sample))));
    }
    if let Some(labels) = outcome.get("runLabels").filter(|_| shown.shows(Part::Labels)) {
        lines.push(format!("labels {}", flow(labels)));
    }
    if lines.is_empty() {
        lines.push("nothing".to_owned());
    }
    lines.join("\n")
}

/// A JSON string with an object or a list is shown as its content.
fn parsed(value: &Value) -> Value {
    let text = value.as_str().unwrap_or_default();
    let inner: Option<Value> = serde_json::from_str(text).ok();
    inner.filter(|inner| inner.is_object() || inner.is_array()).unwrap_or_else(|| value.clone())
}

/// A line without quotes.
fn one(value: &Value) -> String {
    match value.as_str() {
        Some(text) if !text.contains('\n') => text.to_owned(),
        _ => flow(value),
    }
}

fn error(prefix: &str, of: &Value, lines: &mut Vec<String>) {
    if let Some(message) = of.get("retry") {
        let after = of["after"].as_str().map(|after| format!(" after {after}")).unwrap_or_default();
        lines.push(format!("{prefix}retry{after}: {}", one(message)));
    }
    if let Some(message) = of.get("terminal") {
        lines.push(format!("{prefix}terminal: {}", one(message)));
    }
}

/// A step: its mutations, after its order unless it is a single sequential one.
fn step(shown: &Shown, step: &Value, lines: &mut Vec<String>) {
    let all = step["mutations"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mutations: Vec<_> = all.iter().map(|one| mutation(shown, one)).collect();
    let order = step["order"].as_str().unwrap_or_default();
    let always = if step.get("always").is_some() { ", always" } else { "" };
    let mut groups = Vec::new();
    let mut at = 0;
    while let Some(first) = mutations.get(at) {
        let n_alike = mutations[at..].iter().take_while(|other| first.is_like(other)).count().max(1);
        let before = at.checked_sub(1).and_then(|before| like_before(&all[before], &all[at]));
        groups.push(before.filter(|_| n_alike == 1).unwrap_or_else(|| Mutation::lines(&mutations[at..at + n_alike])));
        at += n_alike;
    }
    let is_plain = order == "sequential" && always.is_empty() && mutations.len() == 1;
    match &mut groups[..] {
        [only] => {
            if let Some(first) = only.first_mut().filter(|_| !is_plain) {
                *first = format!("{order}{always}: {first}");
            }
            lines.append(only);
        }
        _ => {
            lines.push(format!("{order}{always}:"));
            lines.extend(groups.concat().into_iter().map(|line| format!("  {line}")));
        }
    }
}

/// The differences of a create that resembles the previous one.
fn like_before(before: &Value, create: &Value) -> Option<Vec<String>> {
    let without_object = |mutation: &Value| {
        let mut fields = mutation.as_object().cloned().unwrap_or_default();
        fields.shift_remove("object");
        fields
    };
    let target = create["create"].as_str().filter(|_| without_object(before) == without_object(create))?;
    let changes = difference(&before["object"], &create["object"]);
    let is_little = flow(&changes).len() * 2 < flow(&create["object"]).len();
    let mut lines = Vec::new();
    body(&format!("create {target} like the one before"), &changes, &mut lines);
    is_little.then_some(lines)
}

/// The lines of a mutation, and the name of its object.
struct Mutation {
    name: String,
    /// Up to the name.
    head: String,
    /// After the name.
    tail: Vec<String>,
}

impl Mutation {
    /// Whether both differ in the name only.
    fn is_like(&self, other: &Self) -> bool {
        !self.name.is_empty()
            && !other.name.is_empty()
            && self.head == other.head
            && self.general().is_some_and(|general| other.general() == Some(general))
    }

    /// With `$(name)` for the name, and `$(ordinal)` for the number at its end.
    fn general(&self) -> Option<Vec<String>> {
        let is_unclear = self.tail.iter().any(|line| line.contains("$(name)") || line.contains("$(ordinal)"));
        let name = self.name.trim_end_matches("-*");
        let number = format!("'{}'", split_number(name).1);
        let general = |line: &String| replace_word(line, name, "$(name)").replace(&number, "'$(ordinal)'");
        (!is_unclear).then(|| self.tail.iter().map(general).collect())
    }

    fn lines(alike: &[Self]) -> Vec<String> {
        let Some(first) = alike.first() else { return Vec::new() };
        let (names, tail) = if alike.len() == 1 {
            (first.name.clone(), first.tail.clone())
        } else {
            let names: Vec<&str> = alike.iter().map(|one| one.name.as_str()).collect();
            (ranges(&names), first.general().unwrap_or_default())
        };
        let mut lines = tail.into_iter();
        let head = format!("{}{names}{}", first.head, lines.next().unwrap_or_default());
        std::iter::once(head).chain(lines).collect()
    }
}

/// Replaces a word; parts of longer words do not match.
fn replace_word(text: &str, word: &str, by: &str) -> String {
    let is_part = |c: char| c.is_ascii_alphanumeric();
    let (mut new, mut end) = (String::new(), 0);
    for (at, _) in text.match_indices(word) {
        let (before, after) = (&text[..at], &text[at + word.len()..]);
        if !before.ends_with(is_part) && !after.starts_with(is_part) {
            new.push_str(&text[end..at]);
            new.push_str(by);
            end = at + word.len();
        }
    }
    new + &text[end..]
}

/// `p0..p3, x` for consecutive names.
fn ranges(names: &[&str]) -> String {
    let next = |name: &str| {
        let (word, number) = split_number(name.trim_end_matches("-*"));
        let width = if number.starts_with('0') { number.len() } else { 0 };
        let end = if name.ends_with("-*") { "-*" } else { "" };
        number.parse::<u64>().ok().map(|number| format!("{word}{:0width$}{end}", number.saturating_add(1)))
    };
    let groups = names.chunk_by(|a, b| next(a).as_deref() == Some(*b));
    let shown = groups.map(|group| match group {
        [first, _, .., last] => format!("{first}..{last}"),
        few => few.join(", "),
    });
    shown.collect::<Vec<_>>().join(", ")
}

fn mutation(shown: &Shown, mutation: &Value) -> Mutation {
    const VERBS: [&str; 5] = ["create", "update", "patch", "delete", "deleteCollection"];
    let text = |name: &str| mutation[name].as_str().map(str::to_owned);
    let times = mutation["times"].as_u64().map(|n| format!(" x{n}")).unwrap_or_default();
    let Some((verb, target)) = VERBS.iter().find_map(|verb| Some((*verb, text(verb)?))) else {
        let tail = vec![format!(" {}{times}", event(shown, &mutation["event"]))];
        return Mutation { name: String::new(), head: "event".to_owned(), tail };
    };
    let mut content = ["object", "changes", "body"].iter().find_map(|name| mutation.get(*name)).cloned();
    let mut has_name = !matches!(verb, "create" | "deleteCollection");
    let mut is_whole = verb == "update" && mutation.get("object").is_some();
    let original = shown.answers.iter().find(|(of, _)| *of == target && is_whole);
    if let Some((changes, (_, answer))) = content.as_mut().zip(original) {
        is_whole = false;
        *changes = difference(answer, changes);
    }
    let mut target = format!("{verb} {target}");
    if let Some(object) = content.as_mut().filter(|_| verb == "create") {
        has_name = created(shown, &mut target, object);
    }
    let mut options = Vec::new();
    options.extend(is_whole.then(|| "whole".to_owned()));
    options.extend(text("form"));
    let conditions = mutation["if"].as_object().into_iter().flatten();
    options.extend(conditions.map(|(name, value)| format!("if {name}={}", one(value))));
    options.extend(text("labelSelector").map(|selector| format!("selector {selector}")));
    options.extend(text("propagation"));
    options.extend(mutation["gracePeriodSeconds"].as_i64().map(|seconds| format!("grace {seconds}s")));
    let tolerated: Vec<&str> =
        mutation["tolerate"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if !tolerated.is_empty() {
        options.push(format!("tolerate {}", tolerated.join(" ")));
    }
    let options = if options.is_empty() { String::new() } else { format!(" ({})", options.join(", ")) };
    let end = target.rfind(['/', ' ']).map_or(0, |at| at + 1);
    let (head, name) = if has_name { target.split_at(end) } else { (target.as_str(), "") };
    let start = format!("{times}{options}");
    let mut tail = Vec::new();
    match &content {
        Some(content) => body(&start, content, &mut tail),
        None => tail.push(start),
    }
    let events = [("done", "onSuccess"), ("failed", "onFailure")];
    let events =
        events.iter().filter_map(|(word, name)| Some(format!("{word} {}", event(shown, mutation.get(*name)?))));
    let events: Vec<String> = events.collect();
    if !events.is_empty() {
        tail.push(format!("  {}", events.join(" | ")));
    }
    Mutation { name: name.to_owned(), head: head.to_owned(), tail }
}

fn event(shown: &Shown, event: &Value) -> String {
    one(event).replacen(&shown.regarding(), "", 1)
}

/// Moves the identity of a created object in front of its body, and abbreviates parts that the key's object has too.
/// Returns whether there is a name.
fn created(shown: &Shown, target: &mut String, object: &mut Value) -> bool {
    let Some(fields) = object.as_object_mut() else { return false };
    let mut has_name = false;
    let mut words = target.split(' ');
    let kind = words.nth(1).unwrap_or_default().to_owned();
    let namespace = words.next().unwrap_or_default().to_owned();
    let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
    let (version, name) = (text(fields.get("apiVersion")), text(fields.get("kind")));
    if version.zip(name).is_some_and(|(version, name)| kind == format!("{version}/{name}")) {
        fields.shift_remove("apiVersion");
        fields.shift_remove("kind");
    }
    if let Some(meta) = fields.get_mut("metadata").and_then(Value::as_object_mut) {
        if text(meta.get("namespace")).is_some_and(|own| own == namespace) {
            meta.shift_remove("namespace");
        }
        for (field, end) in [("name", ""), ("generateName", "*")] {
            // If both are set, the API server uses the name.
            if let Some(name) = text(meta.get(field)).filter(|name| !has_name && !name.is_empty()) {
                meta.shift_remove(field);
                *target = format!("{target}{}{name}{end}", if namespace.is_empty() { " " } else { "/" });
                has_name = true;
            }
        }
        if let Some(owners) = meta.get_mut("ownerReferences").and_then(Value::as_array_mut) {
            let controller = shown.controller();
            owners
                .iter_mut()
                .filter(|owner| Some(&**owner) == controller.as_ref())
                .for_each(|owner| *owner = "controller".into());
        }
        if meta.is_empty() {
            fields.shift_remove("metadata");
        }
    }
    let Some(subject) = &shown.subject else { return has_name };
    for place in PLACES {
        let Some(part) = object.pointer_mut(place).filter(|part| part.is_object() && part.get("like").is_none()) else {
            continue;
        };
        let whole = flow(part).len();
        let templates = TEMPLATES.iter().filter_map(|(name, path)| {
            let template = subject.pointer(path).filter(|template| template.is_object())?;
            let mut like = Map::from_iter([("like".to_owned(), Value::from(*name))]);
            like.extend(difference(template, part).as_object().cloned().unwrap_or_default());
            Some(Value::Object(like))
        });
        let shortest = templates.min_by_key(|like| flow(like).len()).filter(|like| flow(like).len() < whole);
        if let Some(like) = shortest {
            *part = like;
            return has_name;
        }
    }
    has_name
}

/// A prefix and its body: in the same line if it fits.
fn body(head: &str, content: &Value, lines: &mut Vec<String>) {
    let line = format!("{head}: {}", flow(content));
    if line.chars().count() <= WIDTH || !(content.is_object() || content.is_array()) {
        lines.push(line);
    } else {
        let (mut head, mut content) = (head.to_owned(), content);
        // `status:` alone needs no line.
        while let Some((name, inner @ Value::Object(_))) =
            content.as_object().filter(|all| all.len() == 1).and_then(|all| all.iter().next())
        {
            head = format!("{head}: {}", word(name));
            content = inner;
        }
        lines.push(format!("{head}:"));
        broken(content, 2, lines);
    }
}

/// A line for each long field, for short ones in a row, or for each item.
fn broken(content: &Value, indent: usize, lines: &mut Vec<String>) {
    let pad = " ".repeat(indent);
    let fits = |value: &Value| indent + flow(value).chars().count() <= MAX_WIDTH;
    match content {
        Value::Object(fields) => {
            let fields: Vec<_> =
                fields.iter().map(|(name, value)| (format!("{}: {}", word(name), flow(value)), name, value)).collect();
            // `a: 1, b: 2` until the line is full, then a new line.
            let mut line = String::new();
            for (text, name, value) in &fields {
                let is_long = text.chars().count() > SHORT;
                if !line.is_empty() && (is_long || line.chars().count() + text.chars().count() > SHORT) {
                    lines.push(format!("{pad}{}", std::mem::take(&mut line)));
                }
                match (is_long, *value) {
                    (true, Value::Object(_) | Value::Array(_)) if is_broken(value) || !fits(value) => {
                        lines.push(format!("{pad}{}:", word(name)));
                        broken(value, indent + 2, lines);
                    }
                    (true, _) => lines.push(format!("{pad}{text}")),
                    (false, _) => line = if line.is_empty() { text.clone() } else { format!("{line}, {text}") },
                }
            }
            lines.extend((!line.is_empty()).then(|| format!("{pad}{line}")));
        }
        Value::Array(items) => {
            for item in items {
                if fits(item) || !(item.is_object() || item.is_array()) {
                    lines.push(format!("{pad}- {}", flow(item)));
                } else {
                    lines.push(format!("{pad}-"));
                    broken(item, indent + 2, lines);
                }
            }
        }
        _ => {}
    }
}

/// Whether each item, or each field's content, has its own line even if all fit into one: conditions and other lists of
/// objects.
fn is_broken(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.len() > 1 && items.iter().all(Value::is_object),
        Value::Object(fields) => fields.values().any(is_broken),
        _ => false,
    }
}

/// YAML in one line.
fn flow(value: &Value) -> String {
    match value {
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, value)| format!("{}: {}", word(name), flow(value)));
            format!("{{{}}}", fields.collect::<Vec<_>>().join(", "))
        }
        Value::Array(items) => format!("[{}]", items.iter().map(flow).collect::<Vec<_>>().join(", ")),
        Value::String(text) => word(text),
        other => other.to_string(),
    }
}

/// A string, quoted if it could be parsed as something else.
fn word(text: &str) -> String {
    let is_other = text.is_empty()
        || text.trim() != text
        || text.contains(['\n', '\t', '{', '}', '[', ']', ',', '"', '\'', '\\'])
        || text.contains(": ")
        || text.ends_with(':')
        || text.contains(" #")
        || text.starts_with(['-', '?', ':', '#', '&', '*', '!', '|', '>', '%', '@', '`', '=', '~'])
        || matches!(text, "null" | "true" | "false")
        || text.parse::<f64>().is_ok();
    match is_other {
        false => text.to_owned(),
        true if !text.contains(['\'', '\n', '\t', '\\']) => format!("'{text}'"),
        true => Value::from(text).to_string(),
    }
}
