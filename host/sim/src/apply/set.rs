//! Sets of field paths and their JSON form, FieldsV1.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

/// One step of a path.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum PathElement {
    /// A field of a struct or a key of a map.
    Field(String),
    /// An element of an associative list: its keys as JSON with sorted names.
    Key(String),
    /// An element of a set: its value as JSON.
    Value(String),
    /// An element by index.
    Index(usize),
}

impl PathElement {
    pub(super) fn field(name: &str) -> Self {
        Self::Field(name.to_owned())
    }

    fn parse(text: &str) -> Option<Self> {
        let (kind, rest) = text.split_once(':')?;
        match kind {
            "f" => Some(Self::Field(rest.to_owned())),
            "k" => serde_json::from_str::<BTreeMap<String, Value>>(rest).ok().map(|keys| Self::key(&keys)),
            "v" => serde_json::from_str::<Value>(rest).ok().map(|value| Self::Value(value.to_string())),
            "i" => rest.parse().ok().map(Self::Index),
            _ => None,
        }
    }

    /// The element with these keys.
    pub(super) fn key(keys: &BTreeMap<String, Value>) -> Self {
        let keys: Map<String, Value> = keys.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
        Self::Key(Value::Object(keys).to_string())
    }

    fn encoded(&self) -> String {
        match self {
            Self::Field(name) => format!("f:{name}"),
            Self::Key(keys) => format!("k:{keys}"),
            Self::Value(value) => format!("v:{value}"),
            Self::Index(index) => format!("i:{index}"),
        }
    }

    /// The form in messages: `.spec`, `[name="a"]`, `[="x"]`, `[0]`.
    pub(super) fn shown(&self) -> String {
        match self {
            Self::Field(name) => format!(".{name}"),
            Self::Key(keys) => {
                let keys: Map<String, Value> = serde_json::from_str(keys).unwrap_or_default();
                let keys: Vec<String> = keys.iter().map(|(name, value)| format!("{name}={value}")).collect();
                format!("[{}]", keys.join(","))
            }
            Self::Value(value) => format!("[={value}]"),
            Self::Index(index) => format!("[{index}]"),
        }
    }
}

/// A set of paths: `members` end here, `children` continue.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct FieldSet {
    pub(super) members: BTreeSet<PathElement>,
    pub(super) children: BTreeMap<PathElement, FieldSet>,
}

impl FieldSet {
    pub(super) fn is_empty(&self) -> bool {
        self.members.is_empty() && self.children.values().all(FieldSet::is_empty)
    }

    pub(super) fn insert(&mut self, path: &[PathElement]) {
        match path {
            [] => {}
            [last] => {
                self.members.insert(last.clone());
            }
            [first, rest @ ..] => self.children.entry(first.clone()).or_default().insert(rest),
        }
    }

    /// Removes the path itself, not the paths below it.
    pub(super) fn remove_member(&mut self, path: &[&str]) {
        match path {
            [] => {}
            [last] => {
                self.members.remove(&PathElement::field(last));
            }
            [first, rest @ ..] => {
                let first = PathElement::field(first);
                if let Some(child) = self.children.get_mut(&first) {
                    child.remove_member(rest);
                    if child.is_empty() {
                        self.children.remove(&first);
                    }
                }
            }
        }
    }

    /// Removes an element and everything below it.
    pub(super) fn remove_tree(&mut self, element: &PathElement) {
        self.members.remove(element);
        self.children.remove(element);
    }

    pub(super) fn union(&self, other: &FieldSet) -> FieldSet {
        let mut result = self.clone();
        result.members.extend(other.members.iter().cloned());
        for (element, child) in &other.children {
            let merged = match result.children.get(element) {
                Some(mine) => mine.union(child),
                None => child.clone(),
            };
            result.children.insert(element.clone(), merged);
        }
        result
    }

    pub(super) fn difference(&self, other: &FieldSet) -> FieldSet {
        self.combine(other, false)
    }

    pub(super) fn intersection(&self, other: &FieldSet) -> FieldSet {
        self.combine(other, true)
    }

    /// Keeps paths that are in `other`, or those that are not.
    fn combine(&self, other: &FieldSet, keep_common: bool) -> FieldSet {
        let members = self.members.iter().filter(|element| other.members.contains(element) == keep_common);
        let children = self.children.iter().filter_map(|(element, child)| {
            let child = match other.children.get(element) {
                Some(theirs) => child.combine(theirs, keep_common),
                None if keep_common => return None,
                None => child.clone(),
            };
            (!child.is_empty()).then(|| (element.clone(), child))
        });
        FieldSet { members: members.cloned().collect(), children: children.collect() }
    }

    /// Decodes FieldsV1; unknown entries are skipped.
    pub(super) fn decode(fields: &Value) -> FieldSet {
        let mut set = FieldSet::default();
        for (name, below) in fields.as_object().into_iter().flatten() {
            let Some(element) = PathElement::parse(name) else { continue };
            let below_map = below.as_object();
            if below_map.is_none_or(|below| below.is_empty() || below.contains_key(".")) {
                set.members.insert(element.clone());
            }
            let child = FieldSet::decode(below);
            if !child.is_empty() {
                set.children.insert(element, child);
            }
        }
        set
    }

    /// Encodes FieldsV1.
    pub(super) fn encode(&self) -> Value {
        let mut names: BTreeSet<&PathElement> = self.members.iter().collect();
        names.extend(self.children.iter().filter(|(_, child)| !child.is_empty()).map(|(element, _)| element));
        let mut fields = Map::new();
        for element in names {
            let mut below = Map::new();
            if let Some(child) = self.children.get(element).filter(|child| !child.is_empty()) {
                if self.members.contains(element) {
                    below.insert(".".to_owned(), Value::Object(Map::new()));
                }
                if let Value::Object(child) = child.encode() {
                    below.extend(child);
                }
            }
            fields.insert(element.encoded(), Value::Object(below));
        }
        Value::Object(fields)
    }

    /// All paths, as in messages.
    pub(super) fn paths(&self) -> Vec<String> {
        let mut paths = Vec::new();
        self.collect(&mut String::new(), &mut paths);
        paths
    }

    fn collect(&self, prefix: &mut String, paths: &mut Vec<String>) {
        paths.extend(self.members.iter().map(|element| format!("{prefix}{}", element.shown())));
        for (element, child) in &self.children {
            let before = prefix.len();
            prefix.push_str(&element.shown());
            child.collect(prefix, paths);
            prefix.truncate(before);
        }
    }
}
