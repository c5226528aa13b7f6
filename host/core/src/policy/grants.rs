//! Permissions of a plugin for writes and reads.
//!
//! Flow: the manifest requests grants and the operator may restrict them; each mutation and need is checked before it
//! leaves the process. Before a plugin is loaded, the manifest's requests are compared with the operator's grants.
//!
//! Invariants:
//! 1. Everything that is allowed was requested by the manifest; the operator's grants can only restrict it.
//! 2. The check applies to the request that will be sent, including its names, never to a declared intention.
//! 3. A denial names the missing grant, and where to add it.
//! 4. `*` never includes verbs and subresources that give rights to others or lead into Pods.
//!
//! Not here: ownership (the writer has the caches), the API server's RBAC (which applies as well).

mod denial;
mod missing;
mod special;

use std::collections::BTreeSet;

use crate::contract::manifest::{Grant, Of};
use crate::object::id::Kind;

use denial::Why;
pub use denial::{Denial, line, scalar};
pub use missing::{Missing, asked_by, events_line, gives_discovery};
pub use special::{CERTIFICATES, RBAC, must_be_listed, special_verb};

/// A request to check against the grants.
#[derive(Clone, Copy, Debug)]
pub struct Access<'a> {
    /// One of [`Grant::VERBS`] or [`Grant::SPECIAL_VERBS`].
    pub verb: &'a str,
    /// The kind of the object.
    pub kind: &'a Kind,
    /// The subresource, for example `status`.
    pub subresource: Option<&'a str>,
    /// Empty for cluster-scoped objects and for lists of all namespaces.
    pub namespace: &'a str,
    /// Empty for a generated name (`generateName`), or for a list.
    pub name: &'a str,
    /// The signer of the written object, for [`Grant::SIGNER_VERBS`], if it is known.
    pub signer: Option<&'a str>,
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

/// A set of values to match, or any value.
#[derive(Clone, Debug)]
struct Only {
    any: bool,
    listed: BTreeSet<String>,
}

impl Only {
    fn new(values: &[String], empty_means_any: bool) -> Self {
        let any = values.iter().any(|value| value == "*") || (values.is_empty() && empty_means_any);
        Self { any, listed: values.iter().cloned().collect() }
    }

    fn matches(&self, value: &str) -> bool {
        self.any || self.lists(value)
    }

    fn lists(&self, value: &str) -> bool {
        self.listed.contains(value)
    }
}

#[derive(Clone, Debug)]
struct Rule {
    verbs: Only,
    /// `None` for all kinds.
    kinds: Option<Vec<Kind>>,
    /// `None`: the main resource.
    subresources: Option<Only>,
    namespaces: Only,
    names: Only,
    paths: Vec<PathPattern>,
    signers: Only,
    relation: Relation,
}

/// The relation between an object and the key of the run that a grant requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Relation {
    /// The objects that the grant covers.
    pub of: Of,
    /// Whether it also covers the adoption of objects without a controller.
    pub adopt: bool,
    /// Whether objects that no selector of the key selects may be adopted: the grant lists names, or `*`.
    pub named: bool,
    /// Whether a cluster-scoped key reaches objects in namespaces: [`Of::Controlled`] with a list of namespaces, or
    /// `*`.
    pub in_namespaces: bool,
}

impl Relation {
    fn new(grant: &Grant) -> Self {
        let is_controlled = grant.of == Of::Controlled;
        let in_namespaces = is_controlled && !grant.namespaces.is_empty();
        let adopt = is_controlled && grant.adopt;
        Self { of: grant.of, adopt, named: adopt && !grant.names.is_empty(), in_namespaces }
    }

    /// Whether it covers everything that `other` covers, and more.
    fn exceeds(&self, other: &Self) -> bool {
        let Self { of, adopt, named, in_namespaces } = *other;
        let reaches = self.in_namespaces >= in_namespaces;
        self != other && self.of == of && self.adopt >= adopt && self.named >= named && reaches
    }
}

#[derive(Clone, Debug)]
enum PathPattern {
    Exact(String),
    Prefix(String),
}

impl PathPattern {
    fn new(path: &str) -> Self {
        match path.strip_suffix('*') {
            Some(prefix) => Self::Prefix(prefix.to_owned()),
            None => Self::Exact(path.to_owned()),
        }
    }
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
            paths: grant.paths.iter().map(|path| PathPattern::new(path)).collect(),
            signers: Only::new(&grant.signers, true),
            relation: Relation::new(grant),
        }
    }

    /// Whether the rule covers such requests, before the owner is checked.
    fn matches(&self, access: &Access<'_>) -> bool {
        self.paths.is_empty()
            && self.has_verb(access.verb)
            && self.kinds.as_ref().is_none_or(|kinds| kinds.contains(access.kind))
            && match (&self.subresources, access.subresource) {
                (None, None) => true,
                (Some(allowed), Some(subresource)) if must_be_listed(subresource) => allowed.lists(subresource),
                (Some(allowed), Some(subresource)) => allowed.matches(subresource),
                _ => false,
            }
            && self.namespaces.matches(access.namespace)
            && self.names.matches(access.name)
            && (!Grant::SIGNER_VERBS.contains(&access.verb)
                || self.signers.any
                || access.signer.is_some_and(|signer| self.signers.lists(signer)))
    }

    fn has_verb(&self, verb: &str) -> bool {
        if Grant::SPECIAL_VERBS.contains(&verb) { self.verbs.lists(verb) } else { self.verbs.matches(verb) }
    }

    fn allows_path(&self, path: &str) -> bool {
        self.has_verb("get")
            && self.paths.iter().any(|pattern| match pattern {
                PathPattern::Exact(exact) => path == exact,
                PathPattern::Prefix(prefix) => {
                    path.starts_with(prefix.as_str()) && prefix.len() >= must_be_spelled(path)
                }
            })
    }
}

/// The basis on which a request is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allowed {
    /// For objects of any owner.
    Freely,
    /// Because of the object's relation to the key.
    Owned,
}

/// The permissions of a plugin. The default allows nothing.
#[derive(Clone, Debug, Default)]
pub struct Grants {
    asked: Vec<Rule>,
    /// The operator's grants, if any were given.
    given: Option<Vec<Rule>>,
    withholds_events: bool,
}

impl Grants {
    /// The manifest's requests, restricted to the operator's grants (unrestricted if absent).
    pub fn new(asked: &[Grant], given: Option<&[Grant]>) -> Self {
        let rules = |grants: &[Grant]| grants.iter().map(Rule::new).collect();
        let withholds_events = given.is_some_and(|given| !missing::gives_events(given));
        Self { asked: rules(asked), given: given.map(rules), withholds_events }
    }

    /// Whether the operator denies the plugin to record events. Its events are then dropped without a failure.
    pub fn withholds_events(&self) -> bool {
        self.withholds_events
    }

    /// The relation for a further grant for objects of this kind: the widest of the manifest's grants for the kind.
    fn narrowest(&self, kind: &Kind) -> Of {
        let names = |rule: &&Rule| rule.kinds.as_ref().is_some_and(|kinds| kinds.contains(kind));
        self.asked
            .iter()
            .filter(names)
            .map(|rule| rule.relation.of)
            .max_by_key(|of| match of {
                Of::Any => 2,
                Of::Controlled => 1,
                Of::Key => 0,
            })
            .unwrap_or_default()
    }

    /// Checks whether the request may be sent. `owned` returns whether the object has this relation to the key
    /// ([`Of::Key`] or [`Of::Controlled`]), or why not; it is called only if the result depends on it.
    ///
    /// # Errors
    /// [`Denial`]: the missing grant. A retry helps only where `owned` may change.
    pub fn check(
        &self,
        access: &Access<'_>,
        mut owned: impl FnMut(Relation) -> Result<(), String>,
    ) -> Result<Allowed, Denial> {
        let mut among = |rules: &[Rule]| {
            let mut whys: Vec<String> = Vec::new();
            let fitting: BTreeSet<Relation> =
                rules.iter().filter(|rule| rule.matches(access)).map(|rule| rule.relation).collect();
            for relation in fitting.iter().filter(|one| !fitting.iter().any(|other| other.exceeds(one))) {
                match relation.of {
                    Of::Any => return Ok(Allowed::Freely),
                    Of::Key | Of::Controlled => match owned(*relation) {
                        Ok(()) => return Ok(Allowed::Owned),
                        Err(why) => whys.push(why),
                    },
                }
            }
            Err(whys)
        };
        let denied = |given: bool, whys: Vec<String>| {
            let why = Why::new(given, whys);
            let of = if matches!(why, Why::Unowned { .. }) { Of::Any } else { self.narrowest(access.kind) };
            Denial::of_access(access, why, of)
        };
        let asked = among(&self.asked).map_err(|whys| denied(false, whys))?;
        let given = match &self.given {
            None => Allowed::Freely,
            Some(given) => among(given).map_err(|whys| denied(true, whys))?,
        };
        Ok(if asked == given { asked } else { Allowed::Owned })
    }

    /// Whether the request may be sent for objects of any owner.
    pub fn allow(&self, access: &Access<'_>) -> bool {
        self.check(access, |_| Err(String::new())).is_ok()
    }

    /// Checks whether a GET of this path (with an optional query) may be sent. Paths that a server could normalize to
    /// another path are rejected.
    ///
    /// # Errors
    /// [`Denial`]; a retry does not help.
    pub fn check_path(&self, path: &str) -> Result<(), Denial> {
        let among = |rules: &[Rule]| rules.iter().any(|rule| rule.allows_path(path));
        if !is_plain_path(path) {
            return Err(Denial::of_path(path, Why::Unsound));
        }
        if !among(&self.asked) {
            return Err(Denial::of_path(path, Why::Unasked));
        }
        match &self.given {
            Some(given) if !among(given) => Err(Denial::of_path(path, Why::Ungiven)),
            _ => Ok(()),
        }
    }

    /// [`Grants::check_path`] as a bool.
    pub fn allow_path(&self, path: &str) -> bool {
        self.check_path(path).is_ok()
    }
}

/// Path segments that lead into a Pod, or from the API server to another server.
const INTO_PODS: [&str; 5] = ["attach", "exec", "log", "portforward", "proxy"];
/// Parameters of answers that do not end, or end at a time set by the caller.
const STREAMING: [&str; 3] = ["follow", "timeoutSeconds", "watch"];

/// Length of the path prefix, in bytes, that a grant must contain literally: up to the last part that streams or leads
/// into a Pod. `*` in a pattern covers only the rest.
fn must_be_spelled(path: &str) -> usize {
    let (route, query) = path.split_once('?').unwrap_or((path, ""));
    let mut end = 0;
    let mut most = 0;
    for segment in route.split('/') {
        end += segment.len();
        if INTO_PODS.contains(&segment) {
            most = end;
        }
        end += 1;
    }
    for parameter in query.split('&') {
        end += parameter.len();
        let name = parameter.split('=').next().unwrap_or_default();
        // An escaped name may be any of them.
        if STREAMING.contains(&name) || name.contains('%') {
            most = end;
        }
        end += 1;
    }
    most
}

/// Whether the path starts with `/`, is printable ASCII, and does not normalize to another path.
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

/// Whether an object or a namespace can have this name.
///
/// This is the API server's rule for a path segment, which applies to all kinds; most kinds allow less. Requests escape
/// names, so this is enough to keep a name in its segment.
///
/// Source: `IsValidPathSegmentName` of `k8s.io/apimachinery/pkg/api/validation/path`.
pub fn is_path_segment(name: &str) -> bool {
    !matches!(name, "" | "." | "..") && !name.contains(['/', '%'])
}

#[cfg(test)]
mod tests;
