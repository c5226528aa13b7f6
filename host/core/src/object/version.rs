//! Resource versions and uids, compact and comparable.
//!
//! Versions of one resource compare as numbers of any length; a text that is not a positive decimal number without leading
//! zeros only equals itself.
//!
//! Source: `k8s.io/apimachinery/pkg/util/resourceversion`.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

/// A `metadata.resourceVersion`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub enum ResourceVersion {
    /// Unknown version: older than any number.
    #[default]
    Unknown,
    /// A number, as etcd generates it.
    Number(u64),
    /// A longer number, or a text without an order.
    Text(Arc<str>),
}

impl ResourceVersion {
    /// Parses the text in an object, list or bookmark.
    pub fn parse(text: &str) -> Self {
        if text.is_empty() {
            return Self::Unknown;
        }
        match text.parse() {
            Ok(number) if is_number(text) => Self::Number(number),
            _ => Self::Text(text.into()),
        }
    }

    /// The order of two versions, if they have one.
    pub fn compare(&self, other: &Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Unknown, Self::Unknown) => Some(Ordering::Equal),
            (Self::Unknown, _) => Some(Ordering::Less),
            (_, Self::Unknown) => Some(Ordering::Greater),
            (Self::Number(a), Self::Number(b)) => Some(a.cmp(b)),
            (Self::Number(_), Self::Text(b)) => is_number(b).then_some(Ordering::Less),
            (Self::Text(a), Self::Number(_)) => is_number(a).then_some(Ordering::Greater),
            (Self::Text(a), Self::Text(b)) if is_number(a) && is_number(b) => {
                Some(a.len().cmp(&b.len()).then_with(|| a.cmp(b)))
            }
            (Self::Text(a), Self::Text(b)) => (a == b).then_some(Ordering::Equal),
        }
    }

    /// Whether this version is `other` or later. False for versions without an order.
    pub fn reaches(&self, other: &Self) -> bool {
        self.compare(other).is_some_and(Ordering::is_ge)
    }
}

impl fmt::Display for ResourceVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => Ok(()),
            Self::Number(number) => write!(f, "{number}"),
            Self::Text(text) => f.write_str(text),
        }
    }
}

fn is_number(text: &str) -> bool {
    !text.starts_with('0') && !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

/// A `metadata.uid`: 16 bytes for uids from the API server, text for others.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Uid {
    /// A UUID in its canonical form, big-endian.
    Uuid([u8; 16]),
    /// Any other text; empty if the object has none.
    Text(Arc<str>),
}

impl Uid {
    /// The smallest uid in the order of the type.
    pub const MIN: Self = Self::Uuid([0; 16]);

    /// Parses the text in an object or owner reference.
    pub fn parse(text: &str) -> Self {
        parse_uuid(text.as_bytes()).map_or_else(|| Self::Text(text.into()), Self::Uuid)
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        matches!(self, Self::Text(text) if text.is_empty())
    }
}

impl Default for Uid {
    fn default() -> Self {
        Self::Text("".into())
    }
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Uuid(bytes) => {
                for (i, byte) in bytes.iter().enumerate() {
                    if matches!(i, 4 | 6 | 8 | 10) {
                        f.write_str("-")?;
                    }
                    write!(f, "{byte:02x}")?;
                }
                Ok(())
            }
        }
    }
}

impl fmt::Debug for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Canonical form only: a uid that would not print as it was parsed must stay text.
fn parse_uuid(text: &[u8]) -> Option<[u8; 16]> {
    if text.len() != 36 {
        return None;
    }
    let mut bytes = [0; 16];
    let mut digits = 0;
    for (i, &c) in text.iter().enumerate() {
        if matches!(i, 8 | 13 | 18 | 23) {
            if c != b'-' {
                return None;
            }
            continue;
        }
        let value = match c {
            b'0'..=b'9' => c - b'0',
            b'a'..=b'f' => c - b'a' + 10,
            _ => return None,
        };
        bytes[digits / 2] = bytes[digits / 2] << 4 | value;
        digits += 1;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_compare_as_numbers_of_any_length() {
        let compare = |a: &str, b: &str| ResourceVersion::parse(a).compare(&ResourceVersion::parse(b));
        let long = "18446744073709551616";
        assert_eq!(compare("9", "10"), Some(Ordering::Less));
        assert_eq!(compare("10", "10"), Some(Ordering::Equal));
        assert_eq!(compare("18446744073709551615", long), Some(Ordering::Less));
        assert_eq!(compare(long, "5"), Some(Ordering::Greater));
        assert_eq!(compare(long, "18446744073709551617"), Some(Ordering::Less));
        assert_eq!(compare("", "1"), Some(Ordering::Less));
        assert_eq!(compare("abc", "abc"), Some(Ordering::Equal));
        for (a, b) in [("abc", "abd"), ("abc", "1"), ("01", "1"), ("0", "1"), ("1", "-1")] {
            assert_eq!(compare(a, b), None, "{a} {b}");
        }
        assert!(!ResourceVersion::parse("abc").reaches(&ResourceVersion::parse("1")));
    }

    #[test]
    fn uids_print_as_they_were_parsed() {
        let uuid = "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0";
        assert!(matches!(Uid::parse(uuid), Uid::Uuid(_)));
        for text in [uuid, "", "my-uid", "0F1E2D3C-4b5a-6978-8796-a5b4c3d2e1f0", "0f1e2d3c04b5a-6978-8796-a5b4c3d2e1f0"]
        {
            assert_eq!(Uid::parse(text).to_string(), text);
        }
        assert!(Uid::parse("").is_empty());
    }
}
