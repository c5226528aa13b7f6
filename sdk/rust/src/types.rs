//! Names of kinds, objects and keys.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::hash::{fnv32, fnv32a};

/// A kind in the API server's form, for example `apps/v1/ReplicaSet`. `group` is empty for the core group.
#[doc(alias = "GroupVersionKind")]
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Kind {
    /// API group, empty for the core group.
    pub group: Cow<'static, str>,
    /// Version, for example `v1`.
    pub version: Cow<'static, str>,
    /// Name in upper camel case, for example `Pod`.
    pub name: Cow<'static, str>,
}

impl Kind {
    /// A kind that is known at compile time.
    pub const fn new(group: &'static str, version: &'static str, name: &'static str) -> Self {
        Self { group: Cow::Borrowed(group), version: Cow::Borrowed(version), name: Cow::Borrowed(name) }
    }

    /// The kind of the `apiVersion` and `kind` of an object or an owner reference.
    pub fn from_api_version(api_version: &str, name: &str) -> Self {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        Self {
            group: Cow::Owned(group.to_owned()),
            version: Cow::Owned(version.to_owned()),
            name: Cow::Owned(name.to_owned()),
        }
    }

    /// `apiVersion` of its objects: `apps/v1`, or `v1` in the core group.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.to_string() } else { format!("{}/{}", self.group, self.version) }
    }

    /// Parses the text form, `group/version/Kind` or `version/Kind`.
    pub fn parse(text: &str) -> Option<Self> {
        let (api_version, name) = text.rsplit_once('/')?;
        Some(Self::from_api_version(api_version, name))
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

impl Serialize for Kind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Kind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| {
            serde::de::Error::custom(format!("{text:?} is not a kind such as v1/Pod or apps/v1/ReplicaSet"))
        })
    }
}

/// Group and version of an `apiVersion`; the group is empty for the core group.
///
/// # Errors
/// Upstream's error text.
#[doc(alias = "ParseGroupVersion")]
pub fn group_version(api_version: &str) -> Result<(&str, &str), String> {
    match api_version.split_once('/') {
        None => Ok(("", api_version)),
        Some((_, rest)) if rest.contains('/') => Err(format!("unexpected GroupVersion string: {api_version}")),
        Some(group_and_version) => Ok(group_and_version),
    }
}

/// Name of an object within its kind. `namespace` is empty for cluster-scoped objects.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct ObjectKey {
    /// Empty for cluster-scoped objects.
    pub namespace: String,
    /// Name.
    pub name: String,
}

impl ObjectKey {
    /// A key from namespace and name.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }

    /// Name of a state entry about this object: `SUBJECT/NAMESPACE/NAME`. A name beyond the host's limit ends with a
    /// hash instead, so that objects with names of full length work.
    ///
    /// The values should include the object's uid: a later object may have the same name.
    pub fn state_name(&self, subject: &str) -> String {
        let mut name = format!("{subject}/{self}");
        if name.len() > LONGEST_STATE_NAME {
            let (one, other) = (fnv32(name.as_bytes()), fnv32a(name.as_bytes()));
            name.truncate(name.floor_char_boundary(LONGEST_STATE_NAME - 17));
            // Object names never contain this character.
            name.push_str(&format!("#{one:08x}{other:08x}"));
        }
        name
    }
}

/// Most bytes of a name in the state.
const LONGEST_STATE_NAME: usize = 253;

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() { f.write_str(&self.name) } else { write!(f, "{}/{}", self.namespace, self.name) }
    }
}

/// The root object of a run: one entry of one work queue of this plugin. The object may be deleted by now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// Name of the queue in the manifest.
    pub queue: String,
    /// Kind of the root object.
    pub kind: Kind,
    /// Namespace of the root object; empty if it is cluster-scoped.
    pub namespace: String,
    /// Name of the root object.
    pub name: String,
}

impl Key {
    /// A key.
    pub fn new(queue: impl Into<String>, kind: Kind, namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { queue: queue.into(), kind, namespace: namespace.into(), name: name.into() }
    }

    /// The name of the root object.
    pub fn object(&self) -> ObjectKey {
        ObjectKey::new(&self.namespace, &self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_full_length_have_names_in_the_state() {
        assert_eq!(ObjectKey::new("ns", "web").state_name("memory"), "memory/ns/web");
        assert_eq!(ObjectKey::new("", "node").state_name("memory"), "memory/node");
        let (namespace, prefix) = ("n".repeat(63), "a".repeat(182));
        // 253 bytes still fit.
        let fits = ObjectKey::new(&namespace, &prefix).state_name("memory");
        assert_eq!(fits, format!("memory/{namespace}/{prefix}"));
        let names: std::collections::BTreeSet<String> = ["", "b", "c", &"b".repeat(71)]
            .map(|rest| ObjectKey::new(&namespace, format!("{prefix}{rest}")).state_name("memory"))
            .into();
        assert_eq!(names.len(), 4);
        assert!(names.iter().all(|name| name.len() == 253 && name.starts_with("memory/nnn")), "{names:?}");
    }

    #[test]
    fn group_and_version_are_those_of_upstream() {
        for (text, expected) in [
            ("v1", Some(("", "v1"))),
            ("apps/v1", Some(("apps", "v1"))),
            ("", Some(("", ""))),
            ("/", Some(("", ""))),
            ("a/b/c", None),
        ] {
            assert_eq!(group_version(text).ok(), expected, "{text}");
        }
    }
}
