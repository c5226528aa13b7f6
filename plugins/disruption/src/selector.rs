//! Selectors of budgets, in upstream's words.
//!
//! *Source*: `LabelSelectorAsSelector` and `NewRequirement` of apimachinery, and its generated `String`.

use pintle_sdk::api::meta::{LabelSelector, LabelSelectorRequirement};

const MAX_LENGTH: usize = 63;
const KEY: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";

/// A selector as Go prints it.
pub(crate) fn in_go(selector: Option<&LabelSelector>) -> String {
    let Some(selector) = selector else { return "nil".into() };
    let labels: String = selector.match_labels.iter().map(|(key, value)| format!("{key}: {value},")).collect();
    let expressions: String = selector.match_expressions.iter().map(expression_in_go).collect();
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{labels}}},\
         MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )
}

fn expression_in_go(expression: &LabelSelectorRequirement) -> String {
    let LabelSelectorRequirement { key, operator, values } = expression;
    format!("LabelSelectorRequirement{{Key:{key},Operator:{operator},Values:[{}],}},", values.join(" "))
}

/// Checks what the API server checks, but for values of labels in budgets from before it did.
///
/// # Errors
/// What is wrong with the first part that is.
pub(crate) fn check(selector: Option<&LabelSelector>) -> Result<(), String> {
    let Some(selector) = selector else { return Ok(()) };
    for (key, value) in &selector.match_labels {
        check_requirement(key, &[], std::slice::from_ref(value))?;
    }
    for LabelSelectorRequirement { key, operator, values } in &selector.match_expressions {
        let wrong = match (operator.as_str(), values.is_empty()) {
            ("In" | "NotIn", true) => &["for 'in', 'notin' operators, values set can't be empty"][..],
            ("Exists" | "DoesNotExist", false) => &["values set must be empty for exists and does not exist"][..],
            ("In" | "NotIn" | "Exists" | "DoesNotExist", _) => &[],
            (other, _) => return Err(format!("{other:?} is not a valid label selector operator")),
        };
        check_requirement(key, wrong, values)?;
    }
    Ok(())
}

fn check_requirement(key: &str, wrong: &[&str], values: &[String]) -> Result<(), String> {
    let mut errors = Vec::new();
    if let Some(error) = key_error(key) {
        errors.push(format!("key: Invalid value: {key:?}: {error}"));
    }
    errors.extend(wrong.iter().map(|error| format!("values: Invalid value: {}: {error}", list(values))));
    for (i, value) in values.iter().enumerate() {
        if let Some(error) = value_error(value) {
            errors.push(format!("values[{i}][{key}]: Invalid value: {value:?}: {error}"));
        }
    }
    match errors.len() {
        0 => Ok(()),
        1 => Err(errors.remove(0)),
        _ => Err(format!("[{}]", errors.join(", "))),
    }
}

/// As Go writes it in JSON.
fn list(values: &[String]) -> String {
    if values.is_empty() { "null".into() } else { pintle_sdk::json(values) }
}

fn key_error(key: &str) -> Option<String> {
    const FORM: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";
    const EXAMPLES: &str = "(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '";
    let parts: Vec<&str> = key.split('/').collect();
    let (prefix, name) = match parts[..] {
        [name] => (None, name),
        [prefix, name] => (Some(prefix), name),
        _ => {
            return Some(format!(
                "a valid label key {FORM} {EXAMPLES}{KEY}') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            ));
        }
    };
    let mut errors = Vec::new();
    match prefix {
        Some("") => errors.push("prefix part must be non-empty".to_owned()),
        Some(prefix) if !is_subdomain(prefix) => errors.push(
            "prefix part a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must \
             start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
             '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
                .to_owned(),
        ),
        _ => {}
    }
    if name.is_empty() {
        errors.push("name part must be non-empty".to_owned());
    } else if name.len() > MAX_LENGTH {
        errors.push(format!("name part must be no more than {MAX_LENGTH} bytes"));
    }
    if name.is_empty() || !is_word(name) {
        errors.push(format!("name part {FORM} {EXAMPLES}{KEY}')"));
    }
    (!errors.is_empty()).then(|| errors.join("; "))
}

fn value_error(value: &str) -> Option<String> {
    let mut errors = Vec::new();
    if value.len() > MAX_LENGTH {
        errors.push(format!("must be no more than {MAX_LENGTH} bytes"));
    }
    if !is_word(value) {
        errors.push(format!(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with \
             an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '({KEY})?')"
        ));
    }
    (!errors.is_empty()).then(|| errors.join("; "))
}

/// Whether it is empty or a word of letters, digits, `-`, `_` and `.` that begins and ends with a letter or digit.
fn is_word(text: &str) -> bool {
    let is_inside = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let ends = [text.bytes().next(), text.bytes().next_back()];
    text.bytes().all(is_inside) && ends.into_iter().flatten().all(|byte| byte.is_ascii_alphanumeric())
}

fn is_subdomain(text: &str) -> bool {
    let is_label = |label: &str| {
        let is_inside = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        !label.is_empty() && label.bytes().all(is_inside) && !label.starts_with('-') && !label.ends_with('-')
    };
    text.len() <= 253 && text.split('.').all(is_label)
}
