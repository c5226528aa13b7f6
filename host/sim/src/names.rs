//! Rules for names, label keys and label values, with what is said of those that break them.
//!
//! *Source*: apimachinery's `pkg/api/validate/content` and `pkg/util/validation`.

const MAX_PART: usize = 63;
const MAX_SUBDOMAIN: usize = 253;

const KEY: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";

fn too_long(max: usize) -> String {
    format!("must be no more than {max} bytes")
}

/// Letters, digits and `-_.`, with a letter or digit at both ends.
fn is_key_text(text: &str) -> bool {
    let edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    edge(bytes.first())
        && edge(bytes.last())
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
}

fn is_dns_part(text: &str) -> bool {
    let fine = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = text.as_bytes();
    bytes.first().is_some_and(fine)
        && bytes.last().is_some_and(fine)
        && bytes.iter().all(|byte| fine(byte) || *byte == b'-')
}

/// What is wrong with a label key, which is also the form of annotation keys and finalizers.
pub fn label_key(key: &str) -> Vec<String> {
    let mut errors = Vec::new();
    let parts: Vec<&str> = key.split('/').collect();
    let name = match parts.as_slice() {
        [name] => *name,
        [prefix, name] => {
            if prefix.is_empty() {
                errors.push("prefix part must be non-empty".to_owned());
            } else {
                errors.extend(subdomain(prefix).into_iter().map(|error| format!("prefix part {error}")));
            }
            *name
        }
        _ => {
            return vec![format!(
                "a valid label key {KEY} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            )];
        }
    };
    if name.is_empty() {
        errors.push("name part must be non-empty".to_owned());
    } else if name.len() > MAX_PART {
        errors.push(format!("name part {}", too_long(MAX_PART)));
    }
    if !is_key_text(name) {
        errors.push(format!("name part {KEY}"));
    }
    errors
}

/// What is wrong with the value of a label.
pub fn label_value(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if value.len() > MAX_PART {
        errors.push(too_long(MAX_PART));
    }
    if !value.is_empty() && !is_key_text(value) {
        errors.push(VALUE.to_owned());
    }
    errors
}

/// What is wrong with a DNS subdomain, the form of most objects' names.
pub fn subdomain(name: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if name.len() > MAX_SUBDOMAIN {
        errors.push(too_long(MAX_SUBDOMAIN));
    }
    if !name.split('.').all(is_dns_part) {
        errors.push(SUBDOMAIN.to_owned());
    }
    errors
}

/// What is wrong with a DNS label, the form of the names of namespaces and containers.
pub fn label(name: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if name.len() > MAX_PART {
        errors.push(too_long(MAX_PART));
    }
    if !is_dns_part(name) {
        // Upstream says what a user of dots is likely to have missed.
        let dotted = name.contains('.') && name.split('.').all(is_dns_part);
        errors.push(if dotted { "must not contain dots".to_owned() } else { LABEL.to_owned() });
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn well_formed_names_have_no_errors() {
        for key in ["a", "A.b_c-9", "example.com/a"] {
            assert!(label_key(key).is_empty(), "{key}");
        }
        assert!(label_value("").is_empty() && label_value("a_b").is_empty());
        assert!(subdomain("a.b-c.d").is_empty() && label("a-b").is_empty());
    }

    #[test]
    fn each_broken_rule_is_told() {
        let all = |errors: Vec<String>| {
            errors.iter().map(|error| error[..22.min(error.len())].to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(all(label_key("/a")), ["prefix part must be no"]);
        assert_eq!(all(label_key("a/")), ["name part must be non-", "name part must consist"]);
        assert_eq!(all(label_key("a/b/c")), ["a valid label key must"]);
        assert_eq!(all(label_key(&"a".repeat(64))), ["name part must be no m"]);
        assert_eq!(all(label_value(&"a ".repeat(40))), ["must be no more than 6", "a valid label must be "]);
        assert_eq!(all(label("a.b")), ["must not contain dots"]);
        assert_eq!(all(subdomain("A")), ["a lowercase RFC 1123 s"]);
    }
}
