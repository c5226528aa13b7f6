//! Edits single members of JSON texts, and leaves the rest unchanged.
//!
//! Objects pass through the host as text. The host sets or checks a few members (`apiVersion`, preconditions); all
//! other bytes stay the same, so that numbers keep all digits and nothing is decoded unnecessarily.
//!
//! Invariants:
//! 1. A text with a duplicate member is rejected, because the host and the API server could read it differently.
//! 2. The time is linear in the size of a text, whatever it contains; for texts of plugins, members and elements are
//!    bounded as well.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;
use std::marker::PhantomData;

use pintle_core::text::printable;
use serde::de::{DeserializeSeed, Error as _, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// Maximum members of an object, and elements of a list, that a plugin may write where the host reads each one.
/// Kubernetes' own types have a handful of members there, and the API server accepts as many operations in a JSON
/// patch.
pub(crate) const MAX_PARTS: usize = 10_000;
/// Maximum bytes of a member's name in a message.
pub(super) const MAX_MEMBER_BYTES: usize = 100;

/// The members of a JSON object in order, with their values as text.
#[derive(Debug, Default)]
pub(crate) struct Members<'a> {
    members: Vec<(String, Cow<'a, str>)>,
}

/// Collects at most this many members.
struct Collect(usize);

impl<'de> DeserializeSeed<'de> for Collect {
    type Value = Members<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Collect {
    type Value = Members<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let Self(most) = self;
        let mut members = Vec::new();
        let mut names = HashSet::new();
        while let Some(name) = map.next_key::<String>()? {
            if members.len() == most {
                return Err(A::Error::custom(format_args!("there are more than {most} members")));
            }
            if !names.insert(name.clone()) {
                return Err(A::Error::custom(format_args!("duplicate member {name:?}")));
            }
            let value: &'de RawValue = map.next_value()?;
            members.push((name, Cow::Borrowed(value.get())));
        }
        Ok(Members { members })
    }
}

/// The elements of a list in a plugin's text; empty for `null`.
///
/// # Errors
/// If it is not a list, has an element of another type, or more than [`MAX_PARTS`].
pub(crate) fn elements<'a, T: Deserialize<'a>>(text: &'a str) -> Result<Vec<T>, serde_json::Error> {
    struct Elements<T>(PhantomData<T>);
    impl<'de, T: Deserialize<'de>> Visitor<'de> for Elements<T> {
        type Value = Vec<T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list")
        }

        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok(Vec::new())
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
            let mut elements = Vec::new();
            while let Some(element) = seq.next_element()? {
                if elements.len() == MAX_PARTS {
                    return Err(A::Error::custom(format_args!("there are more than {MAX_PARTS} elements")));
                }
                elements.push(element);
            }
            Ok(elements)
        }
    }
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let elements = deserializer.deserialize_any(Elements(PhantomData))?;
    deserializer.end().map(|()| elements)
}

impl<'a> Members<'a> {
    /// Parses a plugin's text: one JSON object with at most [`MAX_PARTS`] members.
    pub(crate) fn parse(text: &'a str) -> Result<Self, String> {
        Self::parse_at_most(MAX_PARTS, text)
    }

    /// Parses an object from the API server, without a bound: otherwise the author of an object could make it
    /// unreadable for plugins.
    pub(crate) fn parse_object(text: &'a str) -> Result<Self, String> {
        Self::parse_at_most(usize::MAX, text)
    }

    fn parse_at_most(most: usize, text: &'a str) -> Result<Self, String> {
        let mut deserializer = serde_json::Deserializer::from_str(text);
        let members = Collect(most).deserialize(&mut deserializer).map_err(|why| why.to_string())?;
        deserializer.end().map_err(|why| why.to_string()).map(|()| members)
    }

    /// The text of a member's value.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.members.iter().find(|(other, _)| other == name).map(|(_, value)| &**value)
    }

    /// The text of a member's value in the input; absent if the member has been set.
    pub(crate) fn original(&self, name: &str) -> Option<&'a str> {
        match self.members.iter().find(|(other, _)| other == name) {
            Some((_, Cow::Borrowed(text))) => Some(text),
            Some((_, Cow::Owned(_))) | None => None,
        }
    }

    /// A string member; `None` if it is missing or null.
    ///
    /// # Errors
    /// If the member is not a string.
    pub(crate) fn string(&self, name: &str) -> Result<Option<String>, String> {
        let value = self.get(name).map(serde_json::from_str::<Option<String>>);
        value.transpose().map(Option::flatten).map_err(|why| format!("{name}: {why}"))
    }

    /// Names of the members, in their order.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.members.iter().map(|(name, _)| name.as_str())
    }

    /// Sets a member to a JSON text; a new member becomes the first, where readers expect `apiVersion`.
    pub(crate) fn set(&mut self, name: &str, json: String) {
        match self.members.iter_mut().find(|(other, _)| other == name) {
            Some((_, value)) => *value = Cow::Owned(json),
            None => self.members.insert(0, (name.to_owned(), Cow::Owned(json))),
        }
    }

    /// Removes a member.
    pub(crate) fn remove(&mut self, name: &str) {
        self.members.retain(|(other, _)| other != name);
    }

    /// Sets a member to a string.
    pub(crate) fn set_string(&mut self, name: &str, value: &str) {
        self.set(name, quote(value));
    }

    /// Edits the object in a member; creates it if it is missing.
    pub(crate) fn edit(&mut self, name: &str, change: impl FnOnce(&mut Members<'_>)) -> Result<(), String> {
        let text = self.get(name).unwrap_or("{}");
        let mut inner = Members::parse_object(text).map_err(|why| format!("{name}: {why}"))?;
        change(&mut inner);
        let text = inner.text();
        self.set(name, text);
        Ok(())
    }

    /// The JSON text.
    pub(crate) fn text(&self) -> String {
        let bytes: usize = self.members.iter().map(|(name, value)| name.len() + value.len() + 4).sum();
        let mut out = String::with_capacity(bytes + 2);
        out.push('{');
        for (i, (name, value)) in self.members.iter().enumerate() {
            if i > 0 {
                out.push(',');
            }
            out.push_str(&quote(name));
            out.push(':');
            out.push_str(value);
        }
        out.push('}');
        out
    }
}

/// A string as JSON text.
pub(crate) fn quote(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// One operation of a JSON patch.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Operation<'a> {
    pub(super) op: String,
    pub(super) path: String,
    #[serde(default)]
    pub(super) from: Option<String>,
    #[serde(borrow, default)]
    pub(super) value: Option<&'a RawValue>,
}

/// The first parts of a path, which may have any number. Like in the API server, text before the first slash is
/// ignored.
pub(super) fn first_parts(path: &str) -> Vec<String> {
    path.split('/').skip(1).take(4).map(|part| part.replace("~1", "/").replace("~0", "~")).collect()
}

/// Checks that the operations of a JSON patch do not change the metadata fields that are preconditions, which the host
/// checks before the first operation.
///
/// # Errors
/// The operation that may change one.
pub(super) fn leave(operations: &[&RawValue], conditions: &[(&str, &str)]) -> Result<(), String> {
    let contains = |path: &str| match first_parts(path).iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [] | ["metadata"] => true,
        ["metadata", field, ..] => conditions.iter().any(|(condition, _)| condition == field),
        _ => false,
    };
    for operation in operations {
        let Operation { op, path, from, value: _ } =
            serde_json::from_str(operation.get()).map_err(|why| format!("body: {why}"))?;
        let changes = match op.as_str() {
            "test" => false,
            "copy" => contains(&path),
            _ => contains(&path) || from.as_deref().is_some_and(contains),
        };
        if changes {
            let (op, path) = (printable(&op, MAX_MEMBER_BYTES), printable(&path, MAX_MEMBER_BYTES));
            return Err(format!("body: {op:?} at {path:?} could undo a precondition"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(text: &str, change: impl FnOnce(&mut Members<'_>) -> Result<(), String>, expect: Expect) {
        let result = Members::parse(text).and_then(|mut members| change(&mut members).map(|()| members.text()));
        expect.assert_eq(&result.unwrap_or_else(|why| format!("error: {why}")));
    }

    #[test]
    fn unchanged_members_keep_their_bytes() {
        check(
            r#"{ "spec": {"n": 12345678901234567890.10, "s": "\u00e4" }, "metadata": {"name":"a"} }"#,
            |members| {
                members.set_string("apiVersion", "v1");
                members.edit("metadata", |metadata| metadata.set_string("uid", "u\"1"))
            },
            expect![[
                r#"{"apiVersion":"v1","spec":{"n": 12345678901234567890.10, "s": "\u00e4" },"metadata":{"uid":"u\"1","name":"a"}}"#
            ]],
        );
        check(
            "{}",
            |members| members.edit("metadata", |m| m.set_string("uid", "u")),
            expect![[r#"{"metadata":{"uid":"u"}}"#]],
        );
    }

    #[test]
    fn ambiguous_texts_are_rejected() {
        check(r#"{"a":1,"\u0061":2}"#, |_| Ok(()), expect![[r#"error: duplicate member "a" at line 1 column 15"#]]);
        check("[]", |_| Ok(()), expect!["error: invalid type: sequence, expected an object at line 1 column 0"]);
        check(r#"{"a":1} {}"#, |_| Ok(()), expect!["error: trailing characters at line 1 column 9"]);
        check(
            r#"{"metadata":null}"#,
            |members| members.edit("metadata", |_| {}),
            expect!["error: metadata: invalid type: null, expected an object at line 1 column 4"],
        );
    }

    #[test]
    fn members_and_elements_are_bounded_but_for_objects_of_the_server() {
        let members = |n: usize| format!("{{{}}}", (0..n).map(|i| format!(r#""{i}":0"#)).collect::<Vec<_>>().join(","));
        assert_eq!(Members::parse(&members(MAX_PARTS)).unwrap().names().count(), MAX_PARTS);
        let why = Members::parse(&members(MAX_PARTS + 1)).unwrap_err();
        assert!(why.starts_with("there are more than 10000 members at line 1"), "{why}");
        // Names are not compared pairwise, which would take minutes.
        assert_eq!(Members::parse_object(&members(300_000)).unwrap().names().count(), 300_000);
        let list = |n: usize| format!("[{}]", vec!["0"; n].join(","));
        assert_eq!(elements::<u8>(&list(MAX_PARTS)).unwrap().len(), MAX_PARTS);
        let why = elements::<u8>(&list(MAX_PARTS + 1)).unwrap_err().to_string();
        assert!(why.starts_with("there are more than 10000 elements"), "{why}");
        assert_eq!(elements::<u8>("null").unwrap(), [0_u8; 0]);
        for wrong in ["{}", "7", "[1] 2", "[1", "[null]"] {
            assert!(elements::<u8>(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_string_is_a_string_or_absent() {
        let members = Members::parse(r#"{"name":"\u0061","uid":null,"n":1}"#).unwrap();
        assert_eq!(members.string("name"), Ok(Some("a".to_owned())));
        assert_eq!((members.string("uid"), members.string("other")), (Ok(None), Ok(None)));
        assert!(members.string("n").is_err());
    }
}
