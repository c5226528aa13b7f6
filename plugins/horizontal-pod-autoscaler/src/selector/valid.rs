//! What is wrong with a condition on labels.
//!
//! *Source*: `NewRequirement` of apimachinery's `labels`, and `IsLabelKey` and `IsLabelValue` of its `api/validate/content`.

use super::Operator;

const MAX_BYTES: usize = 63;
const MAX_SUBDOMAIN_BYTES: usize = 253;
const LABEL: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const SUBDOMAIN: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const CHARACTERS: &str =
    "consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";

/// # Errors
/// All flaws, as upstream writes them.
pub(super) fn check(key: &str, operator: Operator, values: &[String]) -> Result<(), String> {
    check_key(key)?;
    let mut flaws = Vec::new();
    let shown = || format!("[{}]", values.iter().map(|value| format!("{value:?}")).collect::<Vec<_>>().join(","));
    let mut flaw = |why: &str| flaws.push(format!("values: Invalid value: {}: {why}", shown()));
    match operator {
        Operator::In | Operator::NotIn if values.is_empty() => {
            flaw("for 'in', 'notin' operators, values set can't be empty");
        }
        Operator::Equals | Operator::DoubleEquals | Operator::NotEquals if values.len() != 1 => {
            flaw("exact-match compatibility requires one single value");
        }
        Operator::Exists | Operator::DoesNotExist if !values.is_empty() => {
            flaw("values set must be empty for exists and does not exist");
        }
        Operator::Greater | Operator::Less if values.len() != 1 => {
            flaw("for 'Gt', 'Lt' operators, exactly one value is required");
        }
        _ => {}
    }
    for (i, value) in values.iter().enumerate() {
        if matches!(operator, Operator::Greater | Operator::Less) && value.parse::<i64>().is_err() {
            let why = "for 'Gt', 'Lt' operators, the value must be an integer";
            flaws.push(format!("values[{i}]: Invalid value: {value:?}: {why}"));
        }
        let why = value_flaws(value);
        if !why.is_empty() {
            flaws.push(format!("values[{i}][{key}]: Invalid value: {value:?}: {}", why.join("; ")));
        }
    }
    match flaws.as_slice() {
        [] => Ok(()),
        [one] => Err(one.clone()),
        all => Err(format!("[{}]", all.join(", "))),
    }
}

/// # Errors
/// The flaws, as upstream writes them.
pub(super) fn check_key(key: &str) -> Result<(), String> {
    let why = key_flaws(key);
    if why.is_empty() { Ok(()) } else { Err(format!("<nil>: Invalid value: {key:?}: {}", why.join("; "))) }
}

fn by_regex(message: &str, regex: &str, examples: &[&str]) -> String {
    let examples: Vec<String> = examples.iter().map(|example| format!("'{example}', ")).collect();
    format!("{message} (e.g. {}regex used for validation is '{regex}')", examples.join(" or "))
}

/// Whether it is made of letters, digits and the other characters, and has none of these at its ends.
fn is_made_of(text: &str, is_inner: impl Fn(u8) -> bool, is_end: impl Fn(u8) -> bool) -> bool {
    let bytes = text.as_bytes();
    let ends = [bytes.first(), bytes.last()];
    ends.into_iter().all(|end| end.is_some_and(|byte| is_end(*byte)))
        && bytes.iter().all(|byte| is_end(*byte) || is_inner(*byte))
}

fn is_name(text: &str) -> bool {
    is_made_of(text, |byte| b"-_.".contains(&byte), |byte| byte.is_ascii_alphanumeric())
}

fn value_flaws(value: &str) -> Vec<String> {
    let mut flaws = Vec::new();
    if value.len() > MAX_BYTES {
        flaws.push(format!("must be no more than {MAX_BYTES} bytes"));
    }
    if !value.is_empty() && !is_name(value) {
        let message = format!("a valid label must be an empty string or {CHARACTERS}");
        flaws.push(by_regex(&message, &format!("({LABEL})?"), &["MyValue", "my_value", "12345"]));
    }
    flaws
}

fn key_flaws(key: &str) -> Vec<String> {
    let malformed = || by_regex(&format!("must {CHARACTERS}"), LABEL, &["MyName", "my.name", "123-abc"]);
    let mut flaws = Vec::new();
    let name = match key.split('/').collect::<Vec<_>>().as_slice() {
        [name] => *name,
        [prefix, name] => {
            flaws.extend(prefix_flaws(prefix));
            *name
        }
        _ => {
            let prefix = " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')";
            return vec![format!("a valid label key {}{prefix}", malformed())];
        }
    };
    if name.is_empty() {
        flaws.push("name part must be non-empty".into());
    } else if name.len() > MAX_BYTES {
        flaws.push(format!("name part must be no more than {MAX_BYTES} bytes"));
    }
    if !is_name(name) {
        flaws.push(format!("name part {}", malformed()));
    }
    flaws
}

fn prefix_flaws(prefix: &str) -> Vec<String> {
    if prefix.is_empty() {
        return vec!["prefix part must be non-empty".into()];
    }
    let mut flaws = Vec::new();
    if prefix.len() > MAX_SUBDOMAIN_BYTES {
        flaws.push(format!("prefix part must be no more than {MAX_SUBDOMAIN_BYTES} bytes"));
    }
    let is_part =
        |part: &str| is_made_of(part, |byte| byte == b'-', |byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    if !prefix.split('.').all(is_part) {
        let message = "prefix part a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, \
                       '-' or '.', and must start and end with an alphanumeric character";
        flaws.push(by_regex(message, SUBDOMAIN, &["example.com"]));
    }
    flaws
}
