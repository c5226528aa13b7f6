//! Field paths in the syntax of manifests: `spec.nodeName`, `metadata.annotations['example.com/x']`.

use std::collections::BTreeMap;

/// The names of a path.
pub(crate) fn names(path: &str) -> Result<Vec<&str>, String> {
    let fail = || format!("{path:?} is not a field path; write spec.nodeName or metadata.labels['example.com/x']");
    let mut names = Vec::new();
    let mut rest = path;
    loop {
        let (name, after) = match rest.strip_prefix("['") {
            Some(quoted) => quoted.split_once("']").ok_or_else(fail)?,
            None => rest.split_at(rest.find(['.', '[']).unwrap_or(rest.len())),
        };
        if name.is_empty() {
            return Err(fail());
        }
        names.push(name);
        rest = match after.strip_prefix('.') {
            Some(after) => after,
            None if after.is_empty() => return Ok(names),
            None if after.starts_with('[') => after,
            None => return Err(fail()),
        };
    }
}

/// Appends a name to a path.
pub(crate) fn join(path: &str, name: &str) -> String {
    let quoted = name.contains(|c: char| c.is_whitespace() || "./[']".contains(c));
    match (path.is_empty(), quoted) {
        (_, true) => format!("{path}['{name}']"),
        (true, false) => name.to_owned(),
        (false, false) => format!("{path}.{name}"),
    }
}

/// A set of paths.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Tree {
    /// The whole value, decoded as this type, or as the API's.
    All(Option<String>),
    /// Some of its fields.
    Fields(BTreeMap<String, Tree>),
}

impl Tree {
    pub(crate) fn empty() -> Self {
        Self::Fields(BTreeMap::new())
    }

    /// Adds a path. A path below another one is part of it.
    pub(crate) fn insert(&mut self, names: &[&str], kind: Option<&str>) {
        let Self::Fields(fields) = self else { return };
        match names {
            [] => *self = Self::All(kind.map(str::to_owned)),
            [name, rest @ ..] => fields.entry((*name).to_owned()).or_insert_with(Self::empty).insert(rest, kind),
        }
    }

    /// The first path, below `path`, that `other` lacks.
    pub(crate) fn beyond(&self, other: &Self, path: &str) -> Option<String> {
        match (self, other) {
            (_, Self::All(_)) => None,
            (Self::All(_), Self::Fields(_)) => Some(path.to_owned()),
            (Self::Fields(fields), Self::Fields(others)) => fields.iter().find_map(|(name, tree)| {
                let path = join(path, name);
                others.get(name).map_or_else(|| Some(path.clone()), |other| tree.beyond(other, &path))
            }),
        }
    }

    /// Collects the paths.
    pub(crate) fn paths(&self, path: &str, into: &mut Vec<String>) {
        match self {
            Self::All(_) => into.push(path.to_owned()),
            Self::Fields(fields) => fields.iter().for_each(|(name, tree)| tree.paths(&join(path, name), into)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(paths: &[&str]) -> Tree {
        let mut tree = Tree::empty();
        paths.iter().for_each(|path| tree.insert(&names(path).unwrap(), None));
        tree
    }

    #[test]
    fn paths_have_names_and_quoted_names() {
        assert_eq!(names("a.b['c.d/e'].f").unwrap(), ["a", "b", "c.d/e", "f"]);
        assert_eq!(names("a['b']['c']").unwrap(), ["a", "b", "c"]);
        for path in ["", ".", "a.", "a..b", "a['b", "a['']", "a['b']c"] {
            assert!(names(path).unwrap_err().contains("is not a field path"), "{path}");
        }
    }

    #[test]
    fn a_path_covers_those_that_lead_into_it_whatever_their_order() {
        assert_eq!(tree(&["a", "a.b"]), tree(&["a.b", "a.c", "a"]));
        let beyond = |reads: &[&str], declared: &[&str]| tree(reads).beyond(&tree(declared), "");
        assert_eq!(beyond(&["a.b", "c"], &["a", "c"]), None);
        assert_eq!(beyond(&["a"], &["a.b"]).as_deref(), Some("a"));
        assert_eq!(beyond(&["a['x/y']"], &["a.b"]).as_deref(), Some("a['x/y']"));
    }
}
