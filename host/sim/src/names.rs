//! Rules for names, label keys and label values.
//!
//! *Source*: apimachinery's `pkg/api/validate/content` and `pkg/util/validation`.

const MAX_PART: usize = 63;
const MAX_SUBDOMAIN: usize = 253;

const KEY: &str = "must be at most 63 letters, digits, '-', '_' or '.', with a letter or digit at both ends, and may follow a DNS name and '/', as in example.com/name";
const VALUE: &str =
    "must be empty, or at most 63 letters, digits, '-', '_' or '.', with a letter or digit at both ends";
const SUBDOMAIN: &str = "must be at most 253 lower case letters, digits, '-' or '.', with a letter or digit at both ends and around each '.'";
const LABEL: &str = "must be at most 63 lower case letters, digits or '-', with a letter or digit at both ends";

/// Letters, digits and `-_.`, with a letter or digit at both ends.
fn is_key_text(text: &str) -> bool {
    let edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    bytes.len() <= MAX_PART
        && edge(bytes.first())
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

/// The error in a label key, which is also the form of annotation keys and finalizers.
pub fn label_key(key: &str) -> Option<&'static str> {
    let fine = match key.split_once('/') {
        Some((prefix, name)) => subdomain(prefix).is_none() && is_key_text(name),
        None => is_key_text(key),
    };
    (!fine).then_some(KEY)
}

/// The error in the value of a label.
pub fn label_value(value: &str) -> Option<&'static str> {
    (!value.is_empty() && !is_key_text(value)).then_some(VALUE)
}

/// The error in a DNS subdomain, the form of most objects' names.
pub fn subdomain(name: &str) -> Option<&'static str> {
    (name.len() > MAX_SUBDOMAIN || !name.split('.').all(is_dns_part)).then_some(SUBDOMAIN)
}

/// The error in a DNS label, the form of the names of namespaces and containers.
pub fn label(name: &str) -> Option<&'static str> {
    (name.len() > MAX_PART || !is_dns_part(name)).then_some(LABEL)
}

/// The error in the name of an IPAddress.
pub fn address(name: &str) -> Option<&'static str> {
    let is_canonical = name.parse::<std::net::IpAddr>().is_ok_and(|address| address.to_string() == name);
    (!is_canonical).then_some("must be an IP address in canonical form, as in 10.9.8.7 or 2001:db8::ffff")
}

/// The error in the name of a ClusterTrustBundle of this signer, or of none.
#[doc(alias = "ValidateClusterTrustBundleName")]
pub fn trust_bundle(name: &str, signer: &str) -> Option<&'static str> {
    if signer.is_empty() {
        return subdomain(name);
    }
    match name.strip_prefix(&signer.replace('/', ":")).and_then(|rest| rest.strip_prefix(':')) {
        Some(rest) => subdomain(rest),
        None => Some("must start with `spec.signerName` and ':', with ':' in the place of '/'"),
    }
}

/// The error in a key of the data of a ConfigMap or Secret.
pub fn data_key(key: &str) -> Option<&'static str> {
    let fine = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if key.is_empty() || key.len() > MAX_SUBDOMAIN || !key.bytes().all(fine) {
        return Some("must be at most 253 letters, digits, '-', '_' or '.'");
    }
    (key == "." || key.starts_with("..")).then_some("must not be '.' and must not start with '..'")
}

/// The error in the name of an environment variable.
pub fn variable(name: &str) -> Option<&'static str> {
    let fine = |byte: u8| (b' '..=b'~').contains(&byte) && byte != b'=';
    (name.is_empty() || !name.bytes().all(fine)).then_some("must be printable ASCII letters other than '='")
}

/// The error in the name of a port.
pub fn port(name: &str) -> Option<&'static str> {
    let fine = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let valid = !name.is_empty()
        && name.len() <= 15
        && name.bytes().all(fine)
        && name.bytes().any(|byte| byte.is_ascii_lowercase())
        && !name.contains("--")
        && !name.starts_with('-')
        && !name.ends_with('-');
    (!valid)
        .then_some("must be at most 15 lower case letters, digits or single '-', with a letter, and no '-' at its ends")
}

/// The error in a name that is a segment of a path.
pub fn path_segment(name: &str) -> Option<&'static str> {
    let wrong = matches!(name, "." | "..") || name.contains(['/', '%']);
    wrong.then_some("may not be '.' or '..' or contain '/' or '%'")
}

/// The error in the name of a kernel parameter.
pub fn sysctl(name: &str) -> Option<&'static str> {
    let part = |part: &str| {
        let edge = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
        let inner = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_');
        edge(part.as_bytes().first()) && edge(part.as_bytes().last()) && part.as_bytes().iter().all(inner)
    };
    let valid = name.len() <= MAX_SUBDOMAIN && name.split(['.', '/']).all(part);
    (!valid).then_some("must be at most 253 lower case letters, digits, '-' or '_', in parts that '.' or '/' separates")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn well_formed_names_are_accepted() {
        for key in ["a", "A.b_c-9", "example.com/a"] {
            assert_eq!(label_key(key), None, "{key}");
        }
        assert_eq!((label_value(""), label_value("a_b")), (None, None));
        assert_eq!((subdomain("a.b-c.d"), label("a-b")), (None, None));
    }

    #[test]
    fn names_of_one_purpose_have_their_own_form() {
        assert_eq!((data_key("a.B_c-9"), variable("a b.c"), port("web-1")), (None, None, None));
        assert_eq!((path_segment("system:a b"), sysctl("kernel.shm_rmid")), (None, None));
        for key in ["", "a/b", ".", "..a", &"a".repeat(254)] {
            assert!(data_key(key).is_some(), "{key}");
        }
        for name in ["", "80", "A", "a--b", "-a", "a-", &"a".repeat(16)] {
            assert!(port(name).is_some(), "{name}");
        }
        assert_eq!((address("10.9.8.7"), address("fd00::ffff")), (None, None));
        assert!(["", "a", "10.9.8", "010.9.8.7", "FD00::1", "fd00:0::1"].iter().all(|name| address(name).is_some()));
        assert!(["", "a=b"].iter().all(|name| variable(name).is_some()));
        assert_eq!((trust_bundle("a.b", ""), trust_bundle("k.io:ca:a", "k.io/ca")), (None, None));
        for (name, signer) in [("k.io:ca:a", ""), ("a", "k.io/ca"), ("k.io:ca:", "k.io/ca"), ("k.io:ca:A", "k.io/ca")] {
            assert!(trust_bundle(name, signer).is_some(), "{name} of {signer}");
        }
        assert!([".", "..", "a/b", "a%"].iter().all(|name| path_segment(name).is_some()));
        assert!(["", "a b", "a..b"].iter().all(|name| sysctl(name).is_some()));
    }

    #[test]
    fn each_rule_is_checked() {
        for key in ["", "/a", "a/", "a/b/c", "A/b", "-a", &"a".repeat(64)] {
            assert_eq!(label_key(key), Some(KEY), "{key}");
        }
        for value in ["a b", "a-", "a/b", &"a".repeat(64)] {
            assert_eq!(label_value(value), Some(VALUE), "{value}");
        }
        for name in ["", "A", "a..b", "a.-b", &"a".repeat(254)] {
            assert_eq!(subdomain(name), Some(SUBDOMAIN), "{name}");
        }
        for name in ["", "a.b", "a-", &"a".repeat(64)] {
            assert_eq!(label(name), Some(LABEL), "{name}");
        }
    }
}
