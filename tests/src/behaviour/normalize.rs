//! Makes what two servers said comparable: what must differ is replaced by its place in the story.
//!
//! | value | becomes |
//! | --- | --- |
//! | a uid | `uid-1`, `uid-2`, ... in order of appearance, in messages too |
//! | an object's resourceVersion | `rv-1`, ... likewise; equal ones stay equal |
//! | a list's resourceVersion, a bookmark's, a continue token | `<list>`, `<bookmark>`, `<continue>` |
//! | a time | `<time>` |
//! | `managedFields` | sorted by their text |
//! | the suffix that generateName made | `-1`, ... in order of appearance |
//! | an age in a table | `<age>` |
//! | the address that a server says it has | `<address>` |
//! | an object that a message quotes as JSON | itself, normalized: the order of its fields is that of Go's struct |
//! | the difference of two Pods that a message shows | nothing: it is a print of Go's own structs |
//!
//! Fields are sorted by name; other lists stay as they are. Equal inputs give equal outputs whatever the
//! server; nothing else is dropped, except texts for people where a step of the script says why they differ.

use serde_json::{Map, Value};

/// The replacements made so far in one case on one server.
#[derive(Debug, Default)]
pub struct Normalizer {
    ignored: Vec<String>,
    uids: Vec<String>,
    versions: Vec<String>,
    /// Generated name and what stands for it.
    names: Vec<(String, String)>,
}

impl Normalizer {
    /// A normalizer that leaves out fields with these names.
    pub fn new(ignored: &[String]) -> Normalizer {
        Normalizer { ignored: ignored.to_vec(), ..Normalizer::default() }
    }

    /// Normalizes one answer or event.
    pub fn apply(&mut self, value: &Value) -> Value {
        self.learn(value);
        self.rewrite(value, None)
    }

    /// Collects generated names before anything is rewritten: they occur in other fields too.
    fn learn(&mut self, value: &Value) {
        match value {
            Value::Object(fields) => {
                if let (Some(prefix), Some(name)) =
                    (fields.get("generateName").and_then(Value::as_str), fields.get("name").and_then(Value::as_str))
                    && let Some(suffix) = name.strip_prefix(prefix)
                    && !suffix.is_empty()
                    && !self.names.iter().any(|(known, _)| known == name)
                {
                    let n = self.names.len() + 1;
                    // The length of the suffix is behaviour; its letters are not.
                    let shown = format!("{prefix}<{n}:{}>", suffix.len());
                    self.names.push((name.to_owned(), shown));
                }
                fields.values().for_each(|v| self.learn(v));
            }
            Value::Array(items) => items.iter().for_each(|v| self.learn(v)),
            _ => {}
        }
    }

    fn rewrite(&mut self, value: &Value, field: Option<&str>) -> Value {
        match value {
            Value::Object(fields) => self.rewrite_object(fields, field),
            Value::Array(items) if field == Some("managedFields") => {
                // Servers order them by time, in seconds: which come first depends on whether a second passed in between.
                let mut entries: Vec<Value> = items.iter().map(|item| self.rewrite(item, None)).collect();
                entries.sort_by_cached_key(Value::to_string);
                entries.into()
            }
            Value::Array(items) => {
                let in_cells = field == Some("cells");
                items
                    .iter()
                    .map(|item| match item.as_str() {
                        Some(cell) if in_cells && is_age(cell) => "<age>".into(),
                        _ => self.rewrite(item, None),
                    })
                    .collect()
            }
            Value::String(text) => self.rewrite_text(text, field).into(),
            other => other.clone(),
        }
    }

    fn rewrite_object(&mut self, fields: &Map<String, Value>, name: Option<&str>) -> Value {
        let is_list = fields.contains_key("items") || fields.contains_key("rows");
        let is_bookmark = fields.get("type").and_then(Value::as_str) == Some("BOOKMARK");
        let mut keys: Vec<&String> = fields.keys().collect();
        keys.sort();
        let mut rewritten = Map::new();
        for key in keys {
            if self.ignored.contains(key) {
                continue;
            }
            let value = &fields[key];
            let mut new = match (key.as_str(), value) {
                // An object before its resourceVersion: the order in which they are met must not
                // depend on other fields.
                ("continue", Value::String(t)) if name == Some("metadata") && !t.is_empty() => "<continue>".into(),
                _ if is_list && key == "metadata" => {
                    let mut meta = value.clone();
                    replace_at(&mut meta, "/resourceVersion", "<list>");
                    self.rewrite(&meta, Some(key))
                }
                _ => self.rewrite(value, Some(key)),
            };
            if is_bookmark && key == "object" {
                new = self.bookmark(value);
            }
            rewritten.insert(key.clone(), new);
        }
        Value::Object(rewritten)
    }

    fn bookmark(&mut self, object: &Value) -> Value {
        let mut object = object.clone();
        replace_at(&mut object, "/metadata/resourceVersion", "<bookmark>");
        self.rewrite(&object, Some("object"))
    }

    fn rewrite_text(&mut self, text: &str, field: Option<&str>) -> String {
        match field {
            Some("serverAddress") => "<address>".to_owned(),
            Some("uid") if looks_like_uid(text) => numbered("uid", &mut self.uids, text),
            Some("resourceVersion") if text.bytes().all(|b| b.is_ascii_digit()) && text != "0" => {
                numbered("rv", &mut self.versions, text)
            }
            _ if is_time(text) => "<time>".to_owned(),
            _ => {
                let text = self.normalize_quoted(&without_pod_diff(text));
                self.replace_known(&text)
            }
        }
    }

    /// A refused patch is answered with the whole object as a quoted text.
    fn normalize_quoted(&mut self, text: &str) -> String {
        const START: &str = "Invalid value: ";
        let mut out = String::new();
        let mut rest = text;
        while let Some(at) = rest.find(&format!("{START}\"{{")) {
            let (before, quoted) = rest.split_at(at + START.len());
            out.push_str(before);
            let mut texts = serde_json::Deserializer::from_str(quoted).into_iter::<String>();
            let object = match texts.next() {
                Some(Ok(inner)) => serde_json::from_str::<Value>(&inner).ok(),
                _ => None,
            };
            rest = match object {
                Some(object) => {
                    out.push_str(&self.rewrite(&object, None).to_string());
                    &quoted[texts.byte_offset()..]
                }
                None => {
                    out.push('"');
                    &quoted[1..]
                }
            };
        }
        out.push_str(rest);
        out
    }

    fn replace_known(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (i, uid) in self.uids.iter().enumerate() {
            text = text.replace(uid, &format!("uid-{}", i + 1));
        }
        for (i, version) in self.versions.iter().enumerate() {
            // Versions are short numbers, so only where messages put them.
            text = text.replace(&format!("({version})"), &format!("(rv-{})", i + 1));
            text = text.replace(&format!("resourceVersion={version}"), &format!("resourceVersion=rv-{}", i + 1));
        }
        for (name, shown) in &self.names {
            text = text.replace(name, shown);
        }
        text
    }
}

/// A `Status` whose texts for people are replaced; causes that are the same without them are one.
pub fn without_wording(status: &Value) -> Value {
    fn hide(value: &mut Value) {
        if let Some(message) = value.get_mut("message") {
            *message = "<wording>".into();
        }
    }
    let mut status = status.clone();
    hide(&mut status);
    if let Some(causes) = status.pointer_mut("/details/causes").and_then(Value::as_array_mut) {
        let mut kept: Vec<Value> = Vec::new();
        for mut cause in causes.drain(..) {
            hide(&mut cause);
            if !kept.contains(&cause) {
                kept.push(cause);
            }
        }
        *causes = kept;
    }
    status
}

/// Leaves out the hunks of a unified diff: a line that starts with `@@ ` and those of the diff that follow.
fn without_pod_diff(text: &str) -> String {
    if !text.contains("pod updates may not change fields other than") {
        return text.to_owned();
    }
    let mut inside = false;
    let mut kept = Vec::new();
    for line in text.split('\n') {
        inside = line.starts_with("@@ ") || (inside && line.starts_with([' ', '+', '-']));
        if !inside {
            kept.push(line);
        }
    }
    kept.join("\n")
}

fn replace_at(value: &mut Value, pointer: &str, with: &str) {
    if let Some(found) = value.pointer_mut(pointer)
        && found.as_str().is_some_and(|t| !t.is_empty())
    {
        *found = with.into();
    }
}

fn numbered(prefix: &str, known: &mut Vec<String>, text: &str) -> String {
    let i = known.iter().position(|k| k == text).unwrap_or_else(|| {
        known.push(text.to_owned());
        known.len() - 1
    });
    format!("{prefix}-{}", i + 1)
}

/// 8-4-4-4-12 hexadecimal digits.
fn looks_like_uid(text: &str) -> bool {
    let parts: Vec<usize> = text.split('-').map(str::len).collect();
    parts == [8, 4, 4, 4, 12] && text.chars().all(|c| c == '-' || c.is_ascii_hexdigit())
}

/// `2026-11-21T03:04:05Z`, with or without fractions of a second.
pub fn is_time(text: &str) -> bool {
    let bytes = text.as_bytes();
    let digits = |range: std::ops::Range<usize>| bytes[range].iter().all(u8::is_ascii_digit);
    bytes.len() >= 20
        && digits(0..4)
        && bytes[4] == b'-'
        && digits(5..7)
        && bytes[10] == b'T'
        && digits(11..13)
        && bytes[13] == b':'
        && bytes[bytes.len() - 1] == b'Z'
}

/// `0s`, `15s`, `2m`: objects of a test are minutes old at most.
fn is_age(text: &str) -> bool {
    text.strip_suffix(['s', 'm']).is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
}
