//! Label selector errors in upstream's wording, which contains the selector as Go prints it.
//!
//! *Source*: `labels`, `api/validate/content` and `util/validation/field` of apimachinery, and its generated code of
//! `LabelSelector`.

use pintle_sdk::api::meta::{LabelSelector, LabelSelectorRequirement};
use pintle_sdk::json;

#[doc(alias = "labelKeyMaxLength")]
#[doc(alias = "LabelValueMaxLength")]
const MAX_BYTES: usize = 63;
#[doc(alias = "DNS1123SubdomainMaxLength")]
const MAX_SUBDOMAIN_BYTES: usize = 253;
#[doc(alias = "labelKeyFmt")]
const LABEL: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
#[doc(alias = "dns1123SubdomainFmt")]
const SUBDOMAIN: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
#[doc(alias = "labelKeyErrMsg")]
const CHARACTERS: &str =
    "consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";

/// A selector as Go prints it with `%+v`.
#[doc(alias = "String")]
pub fn printed(selector: Option<&LabelSelector>) -> String {
    let Some(selector) = selector else { return "nil".into() };
    let labels: String = selector.match_labels.iter().map(|(key, value)| format!("{key}: {value},")).collect();
    let expression = |LabelSelectorRequirement { key, operator, values }: &LabelSelectorRequirement| {
        format!("LabelSelectorRequirement{{Key:{key},Operator:{operator},Values:[{}],}},", values.join(" "))
    };
    let expressions: String = selector.match_expressions.iter().map(expression).collect();
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{labels}}},\
         MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )
}

/// Checks the key and each value of a condition. `of_values` is the operator's error for its values; see
/// [`values_flaw`].
///
/// # Errors
/// All errors.
#[doc(alias = "NewRequirement")]
#[doc(alias = "validateLabelKey")]
#[doc(alias = "validateLabelValue")]
pub fn check(key: &str, of_values: Option<String>, values: &[String]) -> Result<(), String> {
    let mut flaws = Vec::new();
    let why = key_flaws(key);
    if !why.is_empty() {
        flaws.push(format!("key: Invalid value: {key:?}: {}", why.join("; ")));
    }
    flaws.extend(of_values);
    for (i, value) in values.iter().enumerate() {
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

/// An error for all values of a condition together.
#[doc(alias = "ErrorBody")]
pub fn values_flaw(values: &[String], why: &str) -> String {
    format!("values: Invalid value: {}: {why}", in_go(values))
}

/// JSON as Go writes it. An empty list is `null`, because upstream copies the values into a nil slice.
fn in_go(values: &[String]) -> String {
    if values.is_empty() {
        return "null".into();
    }
    let escapes =
        [("<", "\\u003c"), (">", "\\u003e"), ("&", "\\u0026"), ("\u{2028}", "\\u2028"), ("\u{2029}", "\\u2029")];
    escapes.into_iter().fold(json(values), |text, (character, escape)| text.replace(character, escape))
}

/// Errors in a label's key: `name` or `prefix/name`, where the prefix is a DNS subdomain.
#[doc(alias = "IsLabelKey")]
#[doc(alias = "IsQualifiedName")]
pub fn key_flaws(key: &str) -> Vec<String> {
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

#[doc(alias = "IsDNS1123Subdomain")]
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

/// Errors in a label's value.
#[doc(alias = "IsLabelValue")]
#[doc(alias = "IsValidLabelValue")]
pub fn value_flaws(value: &str) -> Vec<String> {
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

#[doc(alias = "RegexError")]
fn by_regex(message: &str, regex: &str, examples: &[&str]) -> String {
    let examples: Vec<String> = examples.iter().map(|example| format!("'{example}', ")).collect();
    format!("{message} (e.g. {}regex used for validation is '{regex}')", examples.join(" or "))
}

fn is_name(text: &str) -> bool {
    is_made_of(text, |byte| b"-_.".contains(&byte), |byte| byte.is_ascii_alphanumeric())
}

/// Whether the text consists of letters, digits and the other characters, and has none of the latter at its ends.
fn is_made_of(text: &str, is_inner: impl Fn(u8) -> bool, is_end: impl Fn(u8) -> bool) -> bool {
    let bytes = text.as_bytes();
    let ends = [bytes.first(), bytes.last()];
    ends.into_iter().all(|end| end.is_some_and(|byte| is_end(*byte)))
        && bytes.iter().all(|byte| is_end(*byte) || is_inner(*byte))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// The key's errors in short: `empty` and `long` by part, `form` where the regex is shown.
    fn in_short(key: &str) -> String {
        let short = |flaw: &String| {
            let part = flaw.split_once(" part ").map_or("key", |(part, _)| part);
            let what = if flaw.contains("non-empty") {
                "empty"
            } else if flaw.contains("no more than") {
                "long"
            } else {
                assert!(flaw.contains("regex used for validation is '"), "{flaw}");
                "form"
            };
            format!("{part} {what}")
        };
        key_flaws(key).iter().map(short).collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn keys_have_a_name_and_perhaps_a_subdomain() {
        let of = |text: &str, n: usize, rest: &str| text.repeat(n) + rest;
        for (key, expected) in [
            (of("a", 1, ""), ""),
            (of("A-b_c.D", 1, ""), ""),
            (of("example.com", 1, "/a"), ""),
            (of("a", 253, "/a"), ""),
            (of("a", 254, "/a"), "prefix long"),
            (of("A", 254, "/a"), "prefix long, prefix form"),
            (of("A", 1, "/a"), "prefix form"),
            (of("a..b", 1, "/a"), "prefix form"),
            (of("", 0, "/a"), "prefix empty"),
            (of("a", 1, "/"), "name empty, name form"),
            (of("", 0, ""), "name empty, name form"),
            (of("a/", 2, "c"), "key form"),
            (of("a", 63, ""), ""),
            (of("a", 64, ""), "name long"),
            (of("é", 32, ""), "name long, name form"),
            (of("-", 1, "a"), "name form"),
        ] {
            assert_eq!(in_short(&key), expected, "{key}");
        }
    }

    #[test]
    fn values_are_empty_or_names() {
        for (value, n) in [("", 0), ("a", 0), ("A-b_c.1", 0), ("a b", 1), ("-", 1), ("a.", 1)] {
            assert_eq!(value_flaws(value).len(), n, "{value}");
        }
        assert_eq!(value_flaws(&"a".repeat(63)), Vec::<String>::new());
        assert_eq!(value_flaws(&"a".repeat(64)), ["must be no more than 63 bytes"]);
        assert_eq!(value_flaws(&"-".repeat(64)).len(), 2);
    }

    #[test]
    fn all_flaws_of_a_condition_are_reported() {
        let values = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        assert_eq!(check("a", None, &values(&["b", ""])), Ok(()));
        let none = values_flaw(&[], "why");
        assert_eq!(none, "values: Invalid value: null: why");
        assert_eq!(check("a", Some(none.clone()), &[]), Err(none));
        let some = values(&["x<y", "\u{2028}\""]);
        let flaw = values_flaw(&some, "why");
        assert_eq!(flaw, r#"values: Invalid value: ["x\u003cy","\u2028\""]: why"#);
        let all = check("a/", Some(flaw.clone()), &some).unwrap_err();
        assert!(all.starts_with(r#"[key: Invalid value: "a/": name part must be non-empty; name part must"#), "{all}");
        assert!(all.contains(&format!("), {flaw}, values[0][a/]: Invalid value: \"x<y\": a valid label ")), "{all}");
        assert!(all.contains(", values[1][a/]: Invalid value: ") && all.ends_with(")?')]"), "{all}");
    }

    #[test]
    fn selectors_are_printed_as_go_does() {
        assert_eq!(printed(None), "nil");
        let expression = |key: &str, operator: &str, values: &[&str]| LabelSelectorRequirement {
            key: key.into(),
            operator: operator.into(),
            values: values.iter().map(|value| (*value).into()).collect(),
        };
        let selector = LabelSelector {
            match_labels: BTreeMap::from([("b".to_owned(), "2".to_owned()), ("a".to_owned(), "1".to_owned())]),
            match_expressions: vec![expression("c", "In", &["x", "y"]), expression("d", "Exists", &[])],
        };
        let expected = "&LabelSelector{MatchLabels:map[string]string{a: 1,b: 2,},\
                        MatchExpressions:[]LabelSelectorRequirement{\
                        LabelSelectorRequirement{Key:c,Operator:In,Values:[x y],},\
                        LabelSelectorRequirement{Key:d,Operator:Exists,Values:[],},},}";
        assert_eq!(printed(Some(&selector)), expected);
    }
}
