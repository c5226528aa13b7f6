//! Field paths and masks: the parts of an object that a reader declares.
//!
//! A path consists of names joined by dots; a name with a dot or slash is written as `['...']`: `spec.nodeName`,
//! `metadata.annotations['example.com/x'].y`. A path continues into each element of a list. A value without fields in
//! the middle of a path is left out.
//!
//! Not here: applying a mask to JSON text (`project`).

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde_json::Value;

use crate::text::cut;

/// Maximum names of a path: walks recurse once per name.
pub const MAX_NAMES: usize = 32;
/// Maximum bytes of a path.
pub const MAX_PATH_BYTES: usize = 1024;
/// Maximum bytes of a path in an error message.
const MAX_SHOWN_BYTES: usize = 128;

/// A path to a field; never empty. A parsed path has at most [`MAX_NAMES`] names.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FieldPath {
    names: Vec<Box<str>>,
}

/// An invalid path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("field path {path:?} is not valid: {why}; write spec.nodeName or metadata.labels['example.com/x']")]
pub struct FieldPathError {
    path: String,
    why: &'static str,
}

impl FieldPath {
    /// The path with these names.
    pub fn of(names: &[&str]) -> Self {
        Self { names: names.iter().map(|&name| name.into()).collect() }
    }

    /// Names from the root.
    pub fn names(&self) -> &[Box<str>] {
        &self.names
    }

    /// Whether this field contains the other one.
    pub fn covers(&self, other: &Self) -> bool {
        other.names.starts_with(&self.names)
    }

    /// Whether it is `apiVersion`, `kind`, or in the metadata.
    pub fn in_metadata(&self) -> bool {
        matches!(&*self.names[0], "metadata" | "apiVersion" | "kind")
    }

    /// The scalars at this path, in text order: strings unescaped, numbers and booleans verbatim, each element of a
    /// list, nothing for null. Empty if the text is not JSON.
    pub fn values(&self, json: &str) -> Vec<String> {
        crate::object::project::scalars(self, json)
    }

    /// The scalars at this path, each with the scalar at the other path in the same object: the one where the two paths
    /// diverge, for example a list element. Objects with several scalars at the other path are skipped, because the
    /// assignment is ambiguous. Empty if the text is not JSON.
    pub fn values_with(&self, other: &Self, json: &str) -> Vec<(String, Option<String>)> {
        let n_common = self.names.iter().zip(&other.names).take_while(|(ours, theirs)| ours == theirs).count();
        let (common, own) = self.names.split_at(n_common);
        let Ok(value) = serde_json::from_str::<Value>(json) else { return Vec::new() };
        let mut objects = Vec::new();
        walk(&value, common, &mut |value| {
            if value.is_object() {
                objects.push(value)
            }
        });
        let mut pairs = Vec::new();
        for object in objects {
            let mut of_other = Vec::new();
            walk(object, &other.names[n_common..], &mut |value| of_other.extend(scalar(value)));
            if of_other.len() <= 1 {
                let other = of_other.pop();
                walk(object, own, &mut |value| pairs.extend(scalar(value).map(|value| (value, other.clone()))));
            }
        }
        pairs
    }

    /// Whether there is a non-null value at this path. False if the text is not JSON.
    pub fn is_present(&self, json: &str) -> bool {
        crate::object::project::is_present(self, json)
    }
}

/// Visits the values at a path; for a list, its elements.
fn walk<'v>(value: &'v Value, names: &[Box<str>], visit: &mut dyn FnMut(&'v Value)) {
    match (value, names.split_first()) {
        (Value::Array(items), _) => items.iter().for_each(|item| walk(item, names, visit)),
        (value, None) => visit(value),
        (value, Some((first, rest))) => {
            if let Some(value) = value.get(&**first) {
                walk(value, rest, visit);
            }
        }
    }
}

/// A scalar in the form of an index value.
fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

impl FromStr for FieldPath {
    type Err = FieldPathError;

    fn from_str(path: &str) -> Result<Self, Self::Err> {
        let fail = |why| FieldPathError { path: cut(path, MAX_SHOWN_BYTES).to_owned(), why };
        if path.len() > MAX_PATH_BYTES {
            return Err(fail("it has more than 1024 bytes"));
        }
        let mut names: Vec<Box<str>> = Vec::new();
        let mut rest = path;
        while !rest.is_empty() {
            if names.len() == MAX_NAMES {
                return Err(fail("it has more than 32 names"));
            }
            if let Some(quoted) = rest.strip_prefix("['") {
                let (name, after) = quoted.split_once("']").ok_or(fail("a [' has no ']"))?;
                if name.is_empty() {
                    return Err(fail("a name is empty"));
                }
                names.push(name.into());
                rest = after;
            } else {
                let end = rest.find(['.', '[']).unwrap_or(rest.len());
                if end == 0 {
                    return Err(fail(if rest.starts_with('[') {
                        "names in brackets need quotes"
                    } else {
                        "a name is empty"
                    }));
                }
                if rest[..end].contains(|c: char| c.is_whitespace() || c == '\'' || c == ']') {
                    return Err(fail("a name holds a blank, a quote or a bracket"));
                }
                names.push(rest[..end].into());
                rest = &rest[end..];
            }
            if let Some(after) = rest.strip_prefix('.') {
                if after.is_empty() {
                    return Err(fail("nothing follows the last dot"));
                }
                rest = after;
            } else if !rest.is_empty() && !rest.starts_with('[') {
                return Err(fail("a dot is missing after ']"));
            }
        }
        if names.is_empty() { Err(fail("it is empty")) } else { Ok(Self { names }) }
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, name) in self.names.iter().enumerate() {
            if name.contains(|c: char| c.is_whitespace() || "./[']".contains(c)) {
                write!(f, "['{name}']")?;
            } else {
                write!(f, "{}{name}", if i == 0 { "" } else { "." })?;
            }
        }
        Ok(())
    }
}

/// A set of paths: a projection. It always includes `apiVersion`, `kind` and
/// `metadata.{name,namespace,uid,resourceVersion}`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FieldMask {
    paths: BTreeSet<FieldPath>,
}

impl FieldMask {
    /// Creates a mask from paths.
    pub fn new(paths: impl IntoIterator<Item = FieldPath>) -> Self {
        let mut mask = Self::default();
        mask.extend(paths);
        mask
    }

    /// The paths; none covers another.
    pub fn paths(&self) -> impl Iterator<Item = &FieldPath> {
        self.paths.iter()
    }

    /// Whether the mask contains the whole field.
    pub fn covers(&self, path: &FieldPath) -> bool {
        // Only the path itself or a prefix of it can directly precede it: all paths between a prefix and the path share
        // the prefix.
        self.paths.range(..=path).next_back().is_some_and(|ours| ours.covers(path))
    }

    /// Whether the mask has all fields of the other one.
    pub fn covers_all(&self, other: &Self) -> bool {
        other.paths.iter().all(|path| self.covers(path))
    }

    /// The mask with the fields that every projection has.
    #[must_use]
    pub fn with_identity(&self) -> Self {
        let mut mask = self.clone();
        let of_metadata =
            ["name", "namespace", "uid", "resourceVersion"].map(|name| FieldPath::of(&["metadata", name]));
        mask.extend(["apiVersion", "kind"].map(|name| FieldPath::of(&[name])).into_iter().chain(of_metadata));
        mask
    }
}

impl Extend<FieldPath> for FieldMask {
    fn extend<I: IntoIterator<Item = FieldPath>>(&mut self, paths: I) {
        for path in paths {
            if !self.covers(&path) {
                // Paths that it covers directly follow it.
                while let Some(covered) = self.paths.range(&path..).next().filter(|ours| path.covers(ours)).cloned() {
                    self.paths.remove(&covered);
                }
                self.paths.insert(path);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> FieldPath {
        text.parse().unwrap()
    }

    #[test]
    fn paths_have_a_text_form() {
        for text in ["spec", "spec.nodeName", "metadata.labels['example.com/x'].y", "['a.b']['c/d'].e"] {
            assert_eq!(path(text).to_string(), text);
        }
        assert_eq!(path("metadata.labels['app']"), path("metadata.labels.app"));
        for (text, why) in [
            ("", "it is empty"),
            (".spec", "a name is empty"),
            ("spec..x", "a name is empty"),
            ("spec.", "nothing follows the last dot"),
            ("a['b", "a [' has no ']"),
            ("a['']", "a name is empty"),
            ("a[0]", "names in brackets need quotes"),
            ("a['b']c", "a dot is missing after ']"),
            ("a b", "a name holds a blank, a quote or a bracket"),
        ] {
            assert_eq!(text.parse::<FieldPath>().unwrap_err().why, why, "{text}");
        }
    }

    #[test]
    fn paths_are_bounded_in_names_and_bytes() {
        let deep = |n: usize| vec!["a"; n].join(".");
        assert_eq!(path(&deep(32)).names().len(), 32);
        assert_eq!(deep(33).parse::<FieldPath>().unwrap_err().why, "it has more than 32 names");
        assert_eq!("['a']".repeat(33).parse::<FieldPath>().unwrap_err().why, "it has more than 32 names");
        assert_eq!(path(&"a".repeat(1024)).names().len(), 1);
        let error = "a".repeat(1025).parse::<FieldPath>().unwrap_err();
        assert_eq!(error.why, "it has more than 1024 bytes");
        assert_eq!(deep(100_000).parse::<FieldPath>().unwrap_err().why, "it has more than 1024 bytes");
        assert!(error.to_string().len() < 300, "{error}");
    }

    #[test]
    fn a_mask_keeps_the_shortest_paths() {
        let mask = FieldMask::new(["spec.a.b", "spec.a", "status", "status.x", "spec.ab"].map(path));
        assert_eq!(mask.paths().map(ToString::to_string).collect::<Vec<_>>(), ["spec.a", "spec.ab", "status"]);
        assert!(mask.covers(&path("spec.a.c")) && !mask.covers(&path("spec")));
        for (covered, text) in
            [(true, "spec.a"), (true, "spec.ab.c"), (false, "spec.b"), (true, "status.x.y"), (false, "a")]
        {
            assert_eq!(mask.covers(&path(text)), covered, "{text}");
        }
        let mask = FieldMask::new(["a", "a.b", "a.b.c", "b.a", "b.b", "b.b.c", "c"].into_iter().rev().map(path));
        assert_eq!(mask.paths().map(ToString::to_string).collect::<Vec<_>>(), ["a", "b.a", "b.b", "c"]);
    }

    #[test]
    fn values_of_two_paths_belong_together_in_the_object_where_the_paths_part() {
        let pairs = |json: &str| {
            let found = path("spec.refs.name").values_with(&path("spec.refs.space.name"), json);
            let shown = found.into_iter().map(|(value, with)| format!("{value}@{}", with.as_deref().unwrap_or("-")));
            shown.collect::<Vec<_>>().join(" ")
        };
        let one = r#"{"spec":{"refs":{"name":"a","space":{"name":"x"}}}}"#;
        assert_eq!(pairs(one), "a@x");
        let many = r#"{"spec":{"refs":[{"name":"a"},{"space":{"name":"x"}},{"name":["b",3,null],"space":{"name":"y"}},7,
            {"name":"c","space":{"name":null}},{"name":"d","space":[{"name":"x"},{"name":"y"}]}]}}"#;
        assert_eq!(pairs(many), "a@- b@y 3@y c@-");
        let beside = path("spec.claim")
            .values_with(&path("metadata.space"), r#"{"spec":{"claim":"a"},"metadata":{"space":"x"}}"#);
        assert_eq!(beside, [("a".to_owned(), Some("x".to_owned()))]);
        for nothing in ["", "{", "[]", "7", r#"{"spec":{"refs":"a"}}"#, r#"{"spec":{"refs":{"name":{"name":"a"}}}}"#] {
            assert_eq!(pairs(nothing), "", "{nothing}");
        }
        assert_eq!(pairs(&format!(r#"{{"spec":{}"#, "[".repeat(100_000))), "");
    }

    #[test]
    fn values_are_found_through_lists() {
        let json = r#"{"spec":{"volumes":[{"claim":"a"},{"x":1},{"claim":null},{"claim":["b\n",3,true,{}]}]}}"#;
        assert_eq!(path("spec.volumes.claim").values(json), ["a", "b\n", "3", "true"]);
        assert!(path("spec.volumes").values(json).is_empty());
        for (present, text) in [(true, "spec.volumes"), (true, "spec.volumes.x"), (false, "spec.none"), (false, "a")] {
            assert_eq!(path(text).is_present(json), present, "{text}");
        }
        assert!(!path("a").is_present(r#"{"a":null}"#) && path("a").is_present(r#"{"a":{}}"#));
        assert!(path("spec.missing.x").values(json).is_empty());
        assert!(path("spec").values("nonsense").is_empty());
    }
}
