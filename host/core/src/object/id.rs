//! Names: kinds, objects, keys of work queues.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::text::Printable;

/// A kind, as named by the API server.
///
/// Its text form is `v1/Pod` for the core group and `apps/v1/Deployment` for the others.
#[doc(alias = "GroupVersionKind")]
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Kind {
    /// Empty for the core group.
    pub group: Arc<str>,
    /// For example `v1`.
    pub version: Arc<str>,
    /// For example `Deployment`.
    pub name: Arc<str>,
}

impl Kind {
    /// A kind with this group (empty: core), version and name.
    pub fn new(group: &str, version: &str, name: &str) -> Self {
        Self { group: group.into(), version: version.into(), name: name.into() }
    }

    /// `apps/v1`, or `v1` for the core group.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.to_string() } else { format!("{}/{}", self.group, self.version) }
    }

    /// Whether both are the same kind in any version: group and name are equal.
    pub fn is_any_version_of(&self, other: &Self) -> bool {
        self.group == other.group && self.name == other.name
    }

    /// Whether its objects are the namespaces of the cluster.
    pub fn is_namespace(&self) -> bool {
        self.group.is_empty() && &*self.name == "Namespace"
    }

    /// Bytes of its texts.
    pub fn n_bytes(&self) -> usize {
        self.group.len() + self.version.len() + self.name.len()
    }

    /// Parses the `apiVersion` and `kind` fields of an object or owner reference.
    pub fn from_api_version(api_version: &str, name: &str) -> Self {
        let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
        Self::new(group, version, name)
    }
}

/// Resource name of a kind, guessed without discovery: `UnsafeGuessKindToResource` of
/// `k8s.io/apimachinery/pkg/api/meta`.
pub fn guessed_plural(kind: &str) -> String {
    let singular = kind.to_lowercase();
    match singular.as_bytes().last() {
        Some(b's') => format!("{singular}es"),
        Some(b'y') => format!("{}ies", &singular[..singular.len() - 1]),
        _ => format!("{singular}s"),
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.group.is_empty() {
            write!(f, "{}/", self.group)?;
        }
        write!(f, "{}/{}", self.version, self.name)
    }
}

impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The text form of a kind did not parse.
#[derive(Debug, thiserror::Error)]
#[error("{0:?} is not a kind: write v1/Pod for the core group, or group/version/Kind as in apps/v1/Deployment")]
pub struct ParseKindError(pub String);

impl FromStr for Kind {
    type Err = ParseKindError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parts: Vec<&str> = text.split('/').collect();
        let kind = match parts.as_slice() {
            [version, name] => Self::new("", version, name),
            [group, version, name] if !group.is_empty() => Self::new(group, version, name),
            _ => return Err(ParseKindError(text.to_owned())),
        };
        let well_formed = kind.version.starts_with('v') && kind.name.starts_with(|c: char| c.is_ascii_uppercase());
        if well_formed { Ok(kind) } else { Err(ParseKindError(text.to_owned())) }
    }
}

impl Serialize for Kind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl JsonSchema for Kind {
    fn schema_name() -> Cow<'static, str> {
        "Kind".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "description": "A kind: `v1/Pod` of the core group, `apps/v1/Deployment` of others.",
            "pattern": "^([^/]+/)?v[^/]*/[A-Z][^/]*$",
        })
    }
}

impl<'de> Deserialize<'de> for Kind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// Name of an object within its kind; ordered by namespace, then name.
#[doc(alias = "NamespacedName")]
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ObjectKey {
    /// Empty for cluster-scoped objects.
    pub namespace: Arc<str>,
    /// Never empty.
    pub name: Arc<str>,
}

impl ObjectKey {
    /// Creates the key of an object; `namespace` is empty for cluster-scoped kinds.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }

    /// Bytes of its texts.
    pub fn n_bytes(&self) -> usize {
        self.namespace.len() + self.name.len()
    }
}

/// Escapes control characters and characters that change the text direction: some kinds allow them in names, and a name
/// must not forge a log line.
impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.namespace.is_empty() {
            write!(f, "{}/", Printable(&self.namespace))?;
        }
        write!(f, "{}", Printable(&self.name))
    }
}

/// An entry of a plugin's work queue: the root object of a run.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// Name of the queue, as declared in the manifest.
    pub queue: Arc<str>,
    /// Kind of the root object.
    pub kind: Kind,
    /// The root object, which may have been deleted.
    pub object: ObjectKey,
}

impl Key {
    /// Bytes of its texts.
    pub fn n_bytes(&self) -> usize {
        self.queue.len() + self.kind.n_bytes() + self.object.n_bytes()
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_shown_in_one_line() {
        let shown = |namespace, name| ObjectKey::new(namespace, name).to_string();
        assert_eq!(shown("web", "a b"), "web/a b");
        assert_eq!(shown("", "ä?"), "ä?");
        assert_eq!(shown("", "a\nERROR\u{1b}[1m\u{202e}z"), r"a\nERROR\u{1b}[1m\u{202e}z");
    }

    #[test]
    fn versions_of_a_kind_are_one_kind() {
        let kind = |text: &str| text.parse::<Kind>().unwrap();
        let is_same = |other: &str| kind("example.org/v1/Team").is_any_version_of(&kind(other));
        assert!(is_same("example.org/v1/Team") && is_same("example.org/v2beta1/Team"));
        assert!(!is_same("example.net/v1/Team") && !is_same("example.org/v1/Club") && !is_same("v1/Team"));
    }

    #[test]
    fn kinds_have_a_text_form() {
        for text in ["v1/Pod", "apps/v1/Deployment", "example.com/v1alpha1/Widget"] {
            assert_eq!(text.parse::<Kind>().unwrap().to_string(), text);
        }
        for text in ["Pod", "apps/Deployment", "/v1/Pod", "a/b/c/d", "v1/pod"] {
            assert!(text.parse::<Kind>().is_err(), "{text}");
        }
        assert_eq!(Kind::from_api_version("apps/v1", "Deployment"), Kind::new("apps", "v1", "Deployment"));
        assert_eq!(Kind::from_api_version("v1", "Pod"), Kind::new("", "v1", "Pod"));
    }
}
