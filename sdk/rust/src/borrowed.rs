//! Decoding without copying, for lists of many objects.
//!
//! Reading a list mostly costs the copying of strings that are used once. Types with these fields borrow from the text
//! instead; decode them with [`serde_json::from_str`] from the texts of
//! [`Lister::list_json`](crate::Lister::list_json):
//!
//! ```
//! use pintle_sdk::borrowed::{Map, Text};
//!
//! #[derive(Default, serde::Deserialize)]
//! #[serde(default, bound(deserialize = "'de: 'a"))]
//! struct Metadata<'a> {
//!     name: Text<'a>,
//!     labels: Map<'a>,
//! }
//!
//! let metadata: Metadata = serde_json::from_str(r#"{"name": "a", "labels": {"app": "web"}}"#)?;
//! assert_eq!((&*metadata.name, metadata.labels.get("app")), ("a", Some("web")));
//! # Ok::<(), serde_json::Error>(())
//! ```

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;

use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::selector::Labels;

/// A string that is borrowed unless it has escapes. Absent and `null` are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Text<'a>(pub Cow<'a, str>);

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl PartialEq<str> for Text<'_> {
    fn eq(&self, other: &str) -> bool {
        self.0 == other
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Strings;

        impl<'de> Visitor<'de> for Strings {
            type Value = Text<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Borrowed(text)))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }

            fn visit_unit<E: Error>(self) -> Result<Text<'de>, E> {
                Ok(Text::default())
            }
        }

        deserializer.deserialize_any(Strings)
    }
}

/// A map of strings, such as labels: a list, because such maps are short. Absent and `null` are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Map<'a>(pub Vec<(Text<'a>, Text<'a>)>);

impl Map<'_> {
    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(name, _)| **name == *key).map(|(_, value)| &**value)
    }
}

impl Labels for Map<'_> {
    fn value(&self, key: &str) -> Option<&str> {
        self.get(key)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Map<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;

        impl<'de> Visitor<'de> for Entries {
            type Value = Map<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map of strings")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Map<'de>, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Map(entries))
            }

            fn visit_unit<E: Error>(self) -> Result<Map<'de>, E> {
                Ok(Map::default())
            }
        }

        deserializer.deserialize_any(Entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_borrowed_unless_they_have_escapes() {
        let texts: Vec<Text> = serde_json::from_str(r#"["plain", "a\u003cb", null]"#).unwrap();
        assert!(matches!(texts[0].0, Cow::Borrowed("plain")));
        assert_eq!((&*texts[1], &*texts[2]), ("a<b", ""));
    }
}
