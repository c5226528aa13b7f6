//! What a plugin may write, and read from the API server itself.
//!
//! Flow: the manifest asks, the operator may narrow; each mutation and need is checked before anything leaves the process.
//!
//! Invariants:
//! 1. Nothing is allowed that the manifest does not ask for; what the operator gives can only take away from that.
//! 2. The check is on what the plugin answered, never on what it claims to intend: names come from the request that will be sent.
//!
//! Not here: reads from the cache (the manifest's watches decide), RBAC of the API server (which holds besides).

use std::collections::BTreeSet;

use crate::id::Kind;
use crate::manifest::Grant;

/// One request, as far as grants care.
#[derive(Clone, Copy, Debug)]
pub struct Access<'a> {
    /// Of `get`, `list`, `create`, `update`, `patch`, `delete`, `deletecollection`.
    pub verb: &'a str,
    /// Kind of the object.
    pub kind: &'a Kind,
    /// For example `status`.
    pub subresource: Option<&'a str>,
    /// Empty for cluster-scoped objects and for lists of all namespaces.
    pub namespace: &'a str,
    /// Empty if it is not known yet (`generateName`), or for a list.
    pub name: &'a str,
}

impl std::fmt::Display for Access<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.verb, self.kind)?;
        if let Some(subresource) = self.subresource {
            write!(f, " ({subresource})")?;
        }
        match (self.namespace, self.name) {
            ("", "") => Ok(()),
            ("", name) => write!(f, " {name}"),
            (namespace, name) => write!(f, " {namespace}/{name}"),
        }
    }
}

/// Values of which one must match, or all.
#[derive(Clone, Debug)]
enum Only {
    Any,
    Of(BTreeSet<String>),
}

impl Only {
    fn new(values: &[String], empty_means_any: bool) -> Self {
        let any = values.iter().any(|value| value == "*") || (values.is_empty() && empty_means_any);
        if any { Self::Any } else { Self::Of(values.iter().cloned().collect()) }
    }

    fn matches(&self, value: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Of(values) => values.contains(value),
        }
    }
}

#[derive(Clone, Debug)]
struct Rule {
    verbs: Only,
    /// `None` for all kinds.
    kinds: Option<Vec<Kind>>,
    /// `None`: the objects themselves.
    subresources: Option<Only>,
    namespaces: Only,
    names: Only,
    paths: Vec<PathPattern>,
}

#[derive(Clone, Debug)]
enum PathPattern {
    Exact(String),
    Prefix(String),
}

impl Rule {
    fn new(grant: &Grant) -> Self {
        let any_kind = grant.kinds.iter().any(|kind| kind == "*");
        Self {
            verbs: Only::new(&grant.verbs, false),
            kinds: (!any_kind).then(|| grant.kinds.iter().filter_map(|kind| kind.parse().ok()).collect()),
            subresources: (!grant.subresources.is_empty()).then(|| Only::new(&grant.subresources, false)),
            namespaces: Only::new(&grant.namespaces, true),
            names: Only::new(&grant.names, true),
            paths: grant
                .paths
                .iter()
                .map(|path| match path.strip_suffix('*') {
                    Some(prefix) => PathPattern::Prefix(prefix.to_owned()),
                    None => PathPattern::Exact(path.clone()),
                })
                .collect(),
        }
    }

    fn allows(&self, access: &Access<'_>) -> bool {
        self.paths.is_empty()
            && self.verbs.matches(access.verb)
            && self.kinds.as_ref().is_none_or(|kinds| kinds.contains(access.kind))
            && match (&self.subresources, access.subresource) {
                (None, None) => true,
                (Some(allowed), Some(subresource)) => allowed.matches(subresource),
                _ => false,
            }
            && self.namespaces.matches(access.namespace)
            && self.names.matches(access.name)
    }

    fn allows_path(&self, path: &str) -> bool {
        self.verbs.matches("get")
            && self.paths.iter().any(|pattern| match pattern {
                PathPattern::Exact(exact) => path == exact,
                PathPattern::Prefix(prefix) => path.starts_with(prefix.as_str()),
            })
    }
}

/// What a plugin may do. The default allows nothing.
#[derive(Clone, Debug, Default)]
pub struct Grants {
    asked: Vec<Rule>,
    /// The operator's word, if it was given.
    given: Option<Vec<Rule>>,
}

impl Grants {
    /// What the manifest asks for, within what the operator gives (all that is asked for, if absent).
    pub fn new(asked: &[Grant], given: Option<&[Grant]>) -> Self {
        let rules = |grants: &[Grant]| grants.iter().map(Rule::new).collect();
        Self { asked: rules(asked), given: given.map(rules) }
    }

    /// Whether the request may be sent.
    pub fn allow(&self, access: &Access<'_>) -> bool {
        let any = |rules: &[Rule]| rules.iter().any(|rule| rule.allows(access));
        any(&self.asked) && self.given.as_deref().is_none_or(any)
    }

    /// Whether a GET of this path (which may have a query) may be sent. Paths that a server could read as another one are refused.
    pub fn allow_path(&self, path: &str) -> bool {
        let any = |rules: &[Rule]| rules.iter().any(|rule| rule.allows_path(path));
        is_plain_path(path) && any(&self.asked) && self.given.as_deref().is_none_or(any)
    }
}

/// Starts with `/`, printable ASCII, and nothing that normalises to another path.
fn is_plain_path(path: &str) -> bool {
    let (route, query) = path.split_once('?').unwrap_or((path, ""));
    let printable = |text: &str| text.bytes().all(|b| b.is_ascii_graphic() && !matches!(b, b'#' | b'\\'));
    route.starts_with('/')
        && printable(route)
        && printable(query)
        && !route.contains('%')
        && !route.contains("//")
        && route.split('/').all(|segment| !matches!(segment, "." | ".."))
}

/// Whether a name or namespace can stand in a path as one segment of it, and means itself there.
pub fn is_path_segment(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 253
        && !matches!(name, "." | "..")
        && name.bytes().all(|b| b.is_ascii_graphic() && !matches!(b, b'/' | b'%' | b'?' | b'#' | b'\\'))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn grants(asked: serde_json::Value, given: Option<serde_json::Value>) -> Grants {
        let asked: Vec<Grant> = serde_json::from_value(asked).unwrap();
        let given: Option<Vec<Grant>> = given.map(|given| serde_json::from_value(given).unwrap());
        Grants::new(&asked, given.as_deref())
    }

    /// `VERB KIND[:SUBRESOURCE] [NAMESPACE/NAME]`
    fn allows(grants: &Grants, request: &str) -> bool {
        let words: Vec<&str> = request.split(' ').collect();
        let (kind, subresource) = match words[1].split_once(':') {
            Some((kind, subresource)) => (kind, Some(subresource)),
            None => (words[1], None),
        };
        let (namespace, name) = words.get(2).and_then(|object| object.split_once('/')).unwrap_or(("", ""));
        let kind: Kind = kind.parse().unwrap();
        grants.allow(&Access { verb: words[0], kind: &kind, subresource, namespace, name })
    }

    #[test]
    fn nothing_is_allowed_by_default() {
        assert!(!allows(&Grants::default(), "get v1/Pod a/b"));
        assert!(!Grants::default().allow_path("/version"));
    }

    #[test]
    fn each_part_of_a_grant_must_match() {
        let grants = grants(
            json!([
                {"verbs": ["create", "delete"], "kinds": ["v1/Pod"]},
                {"verbs": ["update"], "kinds": ["apps/v1/ReplicaSet"], "subresources": ["status"]},
                {"verbs": ["*"], "kinds": ["v1/ConfigMap"], "namespaces": ["kube-system"], "names": ["one", "two"]},
                {"verbs": ["patch"], "kinds": ["v1/Pod"], "subresources": ["*"]},
            ]),
            None,
        );
        let cases = [
            ("create v1/Pod a/b", true),
            ("create v1/Pod a/", true),
            ("create apps/v1/Pod a/b", false),
            ("update v1/Pod a/b", false),
            ("create v1/Pod:eviction a/b", false),
            ("update apps/v1/ReplicaSet:status a/b", true),
            ("update apps/v1/ReplicaSet a/b", false),
            ("update apps/v1/ReplicaSet:scale a/b", false),
            ("patch v1/Pod:status a/b", true),
            ("patch v1/Pod a/b", false),
            ("patch v1/ConfigMap kube-system/one", true),
            ("patch v1/ConfigMap kube-system/three", false),
            ("create v1/ConfigMap kube-system/", false),
            ("patch v1/ConfigMap default/one", false),
            ("deletecollection v1/ConfigMap /", false),
        ];
        for (request, expected) in cases {
            assert_eq!(allows(&grants, request), expected, "{request}");
        }
    }

    #[test]
    fn the_operator_can_only_take_away() {
        let asked = json!([{"verbs": ["create", "delete"], "kinds": ["v1/Pod"]}]);
        let given = json!([{"verbs": ["*"], "kinds": ["*"], "namespaces": ["a"]}]);
        let grants = grants(asked.clone(), Some(given));
        assert!(allows(&grants, "create v1/Pod a/b"));
        assert!(!allows(&grants, "create v1/Pod b/b"));
        assert!(!allows(&grants, "create v1/Secret a/b"));
        assert!(!allows(&super::tests::grants(asked, Some(json!([]))), "create v1/Pod a/b"));
    }

    #[test]
    fn paths_that_mean_another_path_are_refused() {
        let grants =
            grants(json!([{"verbs": ["get"], "kinds": [], "paths": ["/version", "/apis/metrics.k8s.io/*"]}]), None);
        for path in ["/version", "/apis/metrics.k8s.io/v1beta1/pods?limit=5&labelSelector=a%3Db"] {
            assert!(grants.allow_path(path), "{path}");
        }
        for path in [
            "/versions",
            "version",
            "/apis/metrics.k8s.io/../../api/v1/secrets",
            "/apis/metrics.k8s.io/%2e%2e/x",
            "/apis/metrics.k8s.io//x",
            "/apis/metrics.k8s.io/x#y",
            "/apis/metrics.k8s.io/x y",
            "/apis/metrics.k8s.io/x\r\nHost: y",
        ] {
            assert!(!grants.allow_path(path), "{path}");
        }
        assert!(!allows(&grants, "get v1/Pod a/b"));
    }

    #[test]
    fn names_stay_within_their_segment() {
        for name in ["a", "a.b-c", "system:node", "kube-root-ca.crt"] {
            assert!(is_path_segment(name), "{name}");
        }
        for name in ["", ".", "..", "a/b", "a%2fb", "a?b", "a b", "ä"] {
            assert!(!is_path_segment(name), "{name}");
        }
    }
}
