//! Names and types in Rust.

/// Words that are not valid names in Rust.
const KEYWORDS: &[&str] = &[
    "as", "async", "await", "box", "break", "const", "continue", "crate", "do", "dyn", "else", "enum", "extern",
    "false", "final", "fn", "for", "if", "impl", "in", "let", "loop", "macro", "match", "mod", "move", "mut",
    "override", "priv", "pub", "ref", "return", "self", "static", "struct", "super", "trait", "true", "type", "unsafe",
    "use", "virtual", "where", "while", "yield",
];

/// The name of a field: `cluster_ips` of `clusterIPs`, `type_` of `type`.
pub(crate) fn field_name(name: &str) -> String {
    let letters: Vec<char> = name.chars().collect();
    let mut snake = String::new();
    for (i, &letter) in letters.iter().enumerate() {
        if !letter.is_ascii_alphanumeric() {
            snake.push('_');
            continue;
        }
        let before = i.checked_sub(1).map(|i| letters[i]);
        let starts_word = letter.is_ascii_uppercase()
            && before.is_some_and(|before| {
                let ends_acronym =
                    letters.get(i + 1).is_some_and(char::is_ascii_lowercase) && !is_plural(&letters[i + 1..]);
                before.is_ascii_lowercase() || before.is_ascii_digit() || before.is_ascii_uppercase() && ends_acronym
            });
        if starts_word {
            snake.push('_');
        }
        snake.push(letter.to_ascii_lowercase());
    }
    let snake = snake.trim_matches('_');
    if KEYWORDS.contains(&snake) || snake.starts_with(|c: char| c.is_ascii_digit()) {
        format!("{snake}_")
    } else {
        snake.to_owned()
    }
}

/// Whether an acronym is followed by a plural `s`: `IPs`, `CIDRs`.
fn is_plural(rest: &[char]) -> bool {
    rest[0] == 's' && rest.get(1).is_none_or(char::is_ascii_uppercase)
}

/// The field name for a map key: `deletion_cost` of `example.com/deletion-cost`.
pub(crate) fn key_name(key: &str) -> String {
    field_name(&key.rsplit('/').next().unwrap_or(key).replace(|c: char| !c.is_ascii_alphanumeric(), "_").to_lowercase())
}

/// A field name in serde's `camelCase`.
pub(crate) fn camel_case(field: &str) -> String {
    let mut camel = String::new();
    let mut upper = false;
    for letter in field.chars() {
        if letter == '_' {
            upper = true;
        } else {
            camel.push(if std::mem::take(&mut upper) { letter.to_ascii_uppercase() } else { letter });
        }
    }
    camel
}

/// The name of a type, or its suffix, for a field.
pub(crate) fn type_name(field: &str) -> String {
    let camel = camel_case(field);
    let mut letters = camel.chars();
    letters.next().map_or_else(String::new, |first| first.to_ascii_uppercase().to_string() + letters.as_str())
}

/// The Rust type of a scalar.
pub(crate) fn scalar(name: &str) -> &'static str {
    match name {
        "string" => "::std::string::String",
        "bool" => "bool",
        "int32" => "i32",
        "int64" => "i64",
        "double" => "f64",
        "time" => "::pintle_sdk::time::Timestamp",
        "int-or-string" => "::pintle_sdk::int_or_percent::IntOrPercent",
        _ => "::pintle_sdk::api::meta::Raw",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_rust() {
        for (name, expected) in [
            ("nodeName", "node_name"),
            ("clusterIP", "cluster_ip"),
            ("clusterIPs", "cluster_ips"),
            ("podCIDRs", "pod_cidrs"),
            ("hostIPC", "host_ipc"),
            ("externalIPsPolicy", "external_ips_policy"),
            ("nonResourceURLs", "non_resource_urls"),
            ("caBundle", "ca_bundle"),
            ("type", "type_"),
            ("$ref", "ref_"),
            ("x-kubernetes-embedded-resource", "x_kubernetes_embedded_resource"),
        ] {
            assert_eq!(field_name(name), expected);
        }
        assert_eq!(key_name("controller.kubernetes.io/pod-deletion-cost"), "pod_deletion_cost");
        assert_eq!(key_name("ca.crt"), "ca_crt");
        assert_eq!((camel_case("node_name").as_str(), type_name("node_name").as_str()), ("nodeName", "NodeName"));
    }
}
