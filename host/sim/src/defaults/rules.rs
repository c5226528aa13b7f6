//! The table of valid field values (`rules.txt`), and the walk that validates an object against it.
//!
//! Rules belong to types, so a Pod template is checked wherever it is. Combinations of several fields are in `checks`.

use std::collections::HashMap;
use std::sync::LazyLock;

use serde_json::Value;

use super::checks;
use super::validate::{label_map, wrong_name};
use crate::cause::Cause;
use crate::names;
use crate::schema::{Node, Shape, TypeSchema};

/// One rule for the value of a field.
enum Rule {
    Required,
    Range(i64, i64),
    OneOf(Vec<&'static str>),
    /// A text of this form; true: an empty one is checked, too.
    Form(fn(&str) -> Option<&'static str>, bool),
    Target,
    Labels,
    Each(Box<Rule>),
}

/// Rules by type: fields in the order of the table.
type Rules = HashMap<&'static str, Vec<(&'static str, Vec<Rule>)>>;

static RULES: LazyLock<Rules> = LazyLock::new(|| parse(include_str!("rules.txt")));

fn parse(text: &'static str) -> Rules {
    let mut rules = Rules::new();
    let mut current = "";
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        if let Some(name) = line.strip_prefix('[').and_then(|name| name.strip_suffix(']')) {
            current = name;
        } else if let Some((field, words)) = line.split_once(' ') {
            let words = words.split(' ').filter_map(rule).collect();
            rules.entry(current).or_default().push((field, words));
        }
    }
    rules
}

/// The rule for a word of the table; `None` for an unknown word, which a test detects.
fn rule(word: &'static str) -> Option<Rule> {
    if let Some(inner) = word.strip_prefix('[').and_then(|inner| inner.strip_suffix(']')) {
        return Some(Rule::Each(Box::new(rule(inner)?)));
    }
    if let Some(least) = word.strip_prefix(">=") {
        return Some(Rule::Range(least.parse().ok()?, i64::MAX));
    }
    if let Some((least, most)) = word.split_once("..") {
        return Some(Rule::Range(least.parse().ok()?, most.parse().ok()?));
    }
    Some(match word {
        "required" => Rule::Required,
        "port" => Rule::Range(1, 65_535),
        "target" => Rule::Target,
        "labels" => Rule::Labels,
        _ => match form(word.trim_end_matches('!')) {
            Some(form) => Rule::Form(form, word.ends_with('!')),
            None if word.contains('|') || word.starts_with(|letter: char| letter.is_ascii_uppercase()) => {
                Rule::OneOf(word.split('|').collect())
            }
            None if word.contains(".k8s.io") => Rule::OneOf(vec![word]),
            None => return None,
        },
    })
}

fn form(word: &str) -> Option<fn(&str) -> Option<&'static str>> {
    Some(match word {
        "label" => names::label,
        "subdomain" => names::subdomain,
        "qualified" => names::label_key,
        "key" => names::data_key,
        "env" => names::variable,
        "port-name" => names::port,
        "segment" => names::path_segment,
        "sysctl" => names::sysctl,
        "ip" => |text| text.parse::<std::net::IpAddr>().is_err().then_some("must be a valid IP address"),
        "absolute" => |text| (!text.starts_with('/')).then_some("must be an absolute path"),
        "no-backsteps" => |text| text.split('/').any(|part| part == "..").then_some("must not contain '..'"),
        "unreserved" => |path| match path.starts_with("..") {
            true => Some("must not start with '..'"),
            false => descending(path),
        },
        _ => return None,
    })
}

/// The error in a path inside of a volume.
pub(super) fn descending(path: &str) -> Option<&'static str> {
    if path.starts_with('/') {
        return Some("must be a relative path");
    }
    path.split('/').any(|part| part == "..").then_some("must not contain '..'")
}

/// Checks an object of a built-in kind, except its metadata and status.
pub(super) fn check(schema: &TypeSchema, object: &Value, errors: &mut Vec<Cause>) {
    fields(schema, object, "", errors);
    for (name, child) in object.as_object().into_iter().flatten() {
        if !matches!(name.as_str(), "metadata" | "status") {
            walk(Node::Struct(schema).child(name), child, name, errors);
        }
    }
}

fn walk(node: Node<'_>, value: &Value, path: &str, errors: &mut Vec<Cause>) {
    match (node, value) {
        (Node::Struct(schema), Value::Object(map)) => {
            fields(schema, value, path, errors);
            for (name, child) in map.iter().filter(|(_, child)| child.is_object() || child.is_array()) {
                walk(node.child(name), child, &format!("{path}.{name}"), errors);
            }
        }
        (Node::Shape(Shape::Map { value: shape, .. }), Value::Object(map)) => {
            for (key, child) in map.iter().filter(|(_, child)| child.is_object() || child.is_array()) {
                walk(Node::of(shape), child, &format!("{path}[{key}]"), errors);
            }
        }
        (Node::Shape(Shape::List { item, .. }), Value::Array(items)) => {
            for (index, child) in items.iter().enumerate().filter(|(_, child)| child.is_object()) {
                walk(Node::of(item), child, &format!("{path}[{index}]"), errors);
            }
        }
        _ => {}
    }
}

fn fields(schema: &TypeSchema, value: &Value, path: &str, errors: &mut Vec<Cause>) {
    // The others of its family have the same fields.
    let name = match schema.name.as_str() {
        "core.v1.EphemeralContainer" => "core.v1.Container",
        name => name,
    };
    for (field, rules) in RULES.get(name).into_iter().flatten() {
        let path = if path.is_empty() { (*field).to_owned() } else { format!("{path}.{field}") };
        let value = &value[*field];
        let is_missing = rules.iter().any(|rule| matches!(rule, Rule::Required)) && (is_empty(value) || *value == 0);
        let counts = |rule: &&Rule| !is_missing || matches!(rule, Rule::Required | Rule::Form(_, true));
        rules.iter().filter(counts).for_each(|rule| apply(rule, value, &path, errors));
    }
    checks::fields(name, value, path, errors);
}

/// Whether a value counts as not given.
pub(super) fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

fn apply(rule: &Rule, value: &Value, path: &str, errors: &mut Vec<Cause>) {
    match rule {
        Rule::Required if is_empty(value) || *value == 0 => errors.push(Cause::required(path)),
        Rule::Range(least, most) => range(value, *least, *most, path, errors),
        Rule::OneOf(known) if !is_empty(value) && !known.iter().any(|known| value == known) => {
            errors.push(Cause::unsupported(path, value, known));
        }
        Rule::Form(form, even_empty) if *even_empty || !is_empty(value) => {
            let text = value.as_str().unwrap_or_default();
            wrong_name(path, text, form(text), errors);
        }
        Rule::Target => target(value, path, errors),
        Rule::Labels => label_map(value, path, errors),
        Rule::Each(rule) => {
            for (index, item) in value.as_array().into_iter().flatten().enumerate() {
                apply(rule, item, &format!("{path}[{index}]"), errors);
            }
        }
        Rule::Required | Rule::OneOf(_) | Rule::Form(..) => {}
    }
}

/// Checks that a number, if there is one, is in a range.
pub(super) fn range(value: &Value, least: i64, most: i64, path: &str, errors: &mut Vec<Cause>) {
    let wrong = match value.as_i64() {
        Some(number) if number < least && most == i64::MAX => format!("must be greater than or equal to {least}"),
        Some(number) if number < least || number > most => format!("must be between {least} and {most}, inclusive"),
        _ => return,
    };
    errors.push(Cause::invalid(path, value, &wrong));
}

/// Checks a port, which is a number or a name.
fn target(value: &Value, path: &str, errors: &mut Vec<Cause>) {
    match value {
        Value::String(name) => wrong_name(path, name, names::port(name), errors),
        number => range(number, 1, 65_535, path, errors),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema;

    #[test]
    fn every_line_of_the_table_is_a_rule_for_a_field_that_exists() {
        let mut current = None;
        for line in include_str!("rules.txt").lines().filter(|line| !line.starts_with('#')) {
            if let Some(name) = line.strip_prefix('[').and_then(|name| name.strip_suffix(']')) {
                current = schema::named(name);
                assert!(current.is_some(), "{name} is no type");
                continue;
            }
            let (field, words) = line.split_once(' ').unwrap();
            assert!(current.as_ref().is_some_and(|schema| schema.fields.contains_key(field)), "{line}");
            assert!(words.split(' ').all(|word| rule(word).is_some()), "{line}");
        }
    }
}
