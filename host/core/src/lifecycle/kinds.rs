//! Watched kinds whose list is incomplete, with the cause and its remedy.
//!
//! Not here: how they are detected (`pintle-cache`), the plugin's state meanwhile (the controller).

use std::fmt;

use crate::object::id::Kind;
use crate::policy::roles;

/// A watched kind without a complete list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingKind {
    /// The kind.
    pub kind: Kind,
    /// Why there is no list.
    pub cause: MissingCause,
}

/// Why a kind has no complete list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MissingCause {
    /// The API server does not serve the kind, so it has no objects. It may serve another version of it.
    NotServed {
        /// The version that the server serves.
        other_version: Option<String>,
    },
    /// The API group has not answered discovery.
    Unknown,
    /// The API server refuses to list the kind, with this message.
    Refused(String),
    /// Its first list is in progress.
    Listing,
}

impl MissingKind {
    /// Whether the plugin runs without the kind, because there is nothing to list.
    pub fn is_absent(&self) -> bool {
        matches!(self.cause, MissingCause::NotServed { .. })
    }

    /// Whether an administrator or the owner of an aggregated API must fix the cause.
    pub fn is_stuck(&self) -> bool {
        !matches!(self.cause, MissingCause::Listing)
    }

    /// The reason of a condition, as one word in CamelCase.
    pub fn reason(&self) -> &'static str {
        match self.cause {
            MissingCause::NotServed { .. } => "KindNotServed",
            MissingCause::Unknown | MissingCause::Refused(_) => "KindNotListed",
            MissingCause::Listing => "CachesFilling",
        }
    }
}

impl fmt::Display for MissingKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, cause } = self;
        match cause {
            MissingCause::NotServed { other_version: Some(version) } => write!(
                f,
                "the API server does not serve {kind}, but version {version} of it: update the CustomResourceDefinition that defines it, or watch {version}"
            ),
            MissingCause::NotServed { other_version: None } if is_kubernetes(&kind.group) => write!(
                f,
                "the API server does not serve {kind}: enable its API group, or watch a version that this Kubernetes has"
            ),
            MissingCause::NotServed { other_version: None } => {
                write!(f, "the API server does not serve {kind}: apply the CustomResourceDefinition that defines it")
            }
            MissingCause::Unknown => write!(
                f,
                "the API server does not tell whether it serves {kind}: the API group {:?} does not answer discovery",
                &*kind.group
            ),
            MissingCause::Refused(message) => write!(
                f,
                "the API server refuses to list {kind}: {message}; {}, with the component if it was loaded later",
                roles::advice(message)
            ),
            MissingCause::Listing => write!(f, "the first list of {kind} is in progress"),
        }
    }
}

/// Whether Kubernetes itself defines the kinds of this group.
fn is_kubernetes(group: &str) -> bool {
    !group.contains('.') || group.ends_with(".k8s.io")
}

/// One sentence per kind.
pub fn sentences<'k>(kinds: impl IntoIterator<Item = &'k MissingKind>) -> String {
    kinds.into_iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missing(kind: &str, cause: MissingCause) -> String {
        MissingKind { kind: kind.parse().unwrap(), cause }.to_string()
    }

    #[test]
    fn the_sentence_names_the_kind_and_the_next_step() {
        let absent = |version: Option<&str>| MissingCause::NotServed { other_version: version.map(str::to_owned) };
        for (kind, cause, sentence) in [
            (
                "example.org/v1/Team",
                absent(None),
                "the API server does not serve example.org/v1/Team: apply the CustomResourceDefinition that defines it",
            ),
            (
                "example.org/v1/Team",
                absent(Some("v1beta1")),
                "the API server does not serve example.org/v1/Team, but version v1beta1 of it: update the CustomResourceDefinition that defines it, or watch v1beta1",
            ),
            (
                "resource.k8s.io/v9/ResourceClaim",
                absent(None),
                "the API server does not serve resource.k8s.io/v9/ResourceClaim: enable its API group, or watch a version that this Kubernetes has",
            ),
            (
                "v1/Secret",
                MissingCause::Refused("secrets is forbidden".into()),
                "the API server refuses to list v1/Secret: secrets is forbidden; run, as an administrator, `pintle rbac | kubectl apply -f -`, with the component if it was loaded later",
            ),
        ] {
            assert_eq!(missing(kind, cause), sentence);
        }
    }
}
