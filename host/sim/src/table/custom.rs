//! Columns of custom kinds: `additionalPrinterColumns` with simple JSON paths.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::format::{human_duration, list, number, text};

/// One `additionalPrinterColumns` entry.
pub(super) struct Column {
    declared: Value,
    path: Vec<Step>,
}

enum Step {
    Field(String),
    Index(usize),
    /// Every element.
    Each,
    /// Elements whose field equals a value: `[?(@.type=="Ready")]`.
    Where(Vec<Step>, Value),
}

/// The declared columns, or just the age when there are none.
pub(super) fn columns(declared: &Value) -> Vec<Column> {
    let declared = match list(declared) {
        [] => {
            vec![json!({"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"})]
        }
        columns => columns.to_vec(),
    };
    declared.into_iter().map(|declared| Column { path: parse(text(&declared["jsonPath"])), declared }).collect()
}

impl Column {
    pub(super) fn definition(&self) -> Value {
        let path = text(&self.declared["jsonPath"]);
        let description = match text(&self.declared["description"]) {
            "" => format!("Custom resource definition column (in JSONPath format): {path}"),
            description => description.to_owned(),
        };
        json!({
            "name": self.declared["name"], "type": self.declared["type"], "format": text(&self.declared["format"]),
            "description": description, "priority": number(&self.declared["priority"]),
        })
    }

    pub(super) fn cell(&self, object: &Value, now: Timestamp) -> Value {
        let Some(value) = find(object, &self.path) else {
            return Value::Null;
        };
        match (text(&self.declared["type"]), value) {
            ("string", Value::String(_) | Value::Null) => value.clone(),
            ("string", other) => other.to_string().into(),
            ("integer", Value::Number(number)) => {
                number.as_i64().or(number.as_f64().map(|number| number as i64)).into()
            }
            ("number", Value::Number(_)) | ("boolean", Value::Bool(_)) => value.clone(),
            ("date", Value::String(text)) => match text.parse::<Timestamp>() {
                Ok(then) => human_duration(now.as_second() - then.as_second()).into(),
                Err(_) => "<invalid>".into(),
            },
            _ => Value::Null,
        }
    }
}

fn find<'a>(value: &'a Value, path: &[Step]) -> Option<&'a Value> {
    let Some((step, rest)) = path.split_first() else {
        return Some(value);
    };
    match step {
        Step::Field(name) => find(value.get(name)?, rest),
        Step::Index(index) => find(value.get(index)?, rest),
        Step::Each => match value {
            Value::Array(items) => items.iter().find_map(|item| find(item, rest)),
            Value::Object(map) => map.values().find_map(|item| find(item, rest)),
            _ => None,
        },
        Step::Where(inner, wanted) => {
            let mut matching = list(value).iter().filter(|item| find(item, inner) == Some(wanted));
            matching.find_map(|item| find(item, rest))
        }
    }
}

/// Parses the subset of JSON path that a CustomResourceDefinition may use; other expressions select nothing.
fn parse(path: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut rest = path.trim().trim_start_matches('$');
    while !rest.is_empty() {
        if let Some(inside) = rest.strip_prefix('[') {
            let Some(end) = closing(inside) else { break };
            steps.push(bracket(&inside[..end]));
            rest = &inside[end + 1..];
            continue;
        }
        rest = rest.strip_prefix('.').unwrap_or(rest);
        let (name, after) = field(rest);
        match name.as_str() {
            "" => {
                if after.len() == rest.len() {
                    break;
                }
            }
            "*" => steps.push(Step::Each),
            _ => steps.push(Step::Field(name)),
        }
        rest = after;
    }
    steps
}

/// The index of the matching closing bracket, ignoring quoted ones.
fn closing(text: &str) -> Option<usize> {
    let mut quote = None;
    for (index, letter) in text.char_indices() {
        match (quote, letter) {
            (None, '\'' | '"') => quote = Some(letter),
            (Some(open), letter) if open == letter => quote = None,
            (None, ']') => return Some(index),
            _ => {}
        }
    }
    None
}

/// A field name up to the next dot or bracket; a backslash escapes the next character.
fn field(text: &str) -> (String, &str) {
    let mut name = String::new();
    let mut letters = text.char_indices();
    while let Some((index, letter)) = letters.next() {
        match letter {
            '\\' => name.extend(letters.next().map(|(_, letter)| letter)),
            '.' | '[' => return (name, &text[index..]),
            letter => name.push(letter),
        }
    }
    (name, "")
}

fn bracket(inside: &str) -> Step {
    let inside = inside.trim();
    if let Some(filter) = inside.strip_prefix("?(").and_then(|filter| filter.strip_suffix(')'))
        && let Some((left, right)) = filter.split_once("==")
    {
        let right = right.trim();
        let wanted = match unquote(right) {
            Some(text) => Value::String(text.to_owned()),
            None => serde_json::from_str(right).unwrap_or(Value::Null),
        };
        return Step::Where(parse(left.trim().trim_start_matches('@')), wanted);
    }
    match (inside, inside.parse(), unquote(inside)) {
        ("*", _, _) => Step::Each,
        (_, Ok(index), _) => Step::Index(index),
        (_, _, Some(name)) => Step::Field(name.to_owned()),
        _ => Step::Field(inside.to_owned()),
    }
}

fn unquote(text: &str) -> Option<&str> {
    ['\'', '"'].into_iter().find_map(|quote| text.strip_prefix(quote)?.strip_suffix(quote))
}
