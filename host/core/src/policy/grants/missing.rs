//! Compares the manifest's requests with the operator's grants.
//!
//! Both sides are lists of grants. A single grant of the operator must cover each request (one verb, kind, subresource,
//! namespace and name, where "all" is a value). So only "all" covers "all", never a list that happens to be complete
//! today.

use std::collections::HashSet;

use super::Grants;
use super::denial::{line, place};
use super::must_be_listed;
use crate::contract::manifest::{Grant, Manifest, Of, Watch};

/// Maximum bytes of the grants in a message, which is kept and shown in many places.
const MAX_MESSAGE_BYTES: usize = 8 << 10;

/// Requests that are not granted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Missing {
    /// The missing grants.
    pub grant: Grant,
    /// Whether a watch of the manifest needs one of them: without it, the plugin could not see its objects.
    pub watch: bool,
}

/// All requests of a manifest: `list` and `watch` for each of its watches, its grants, discovery, events.
pub fn asked_by(manifest: &Manifest) -> Vec<Grant> {
    let discovery = manifest.discovery.then(of_discovery);
    let events = manifest.events.then(of_events);
    manifest
        .watches
        .iter()
        .map(of_watch)
        .chain(manifest.grants.iter().cloned())
        .chain(discovery)
        .chain(events)
        .collect()
}

/// The grant that `discovery: true` requests.
pub(super) fn of_discovery() -> Grant {
    Grant { verbs: vec!["get".into()], paths: vec!["/api".into(), "/apis".into()], ..Grant::default() }
}

/// The grant that a manifest with events requests.
fn of_events() -> Grant {
    Grant { verbs: vec!["create".into(), "patch".into()], kinds: vec!["v1/Event".into()], ..Grant::default() }
}

/// Whether the operator's grants allow discovery.
pub fn gives_discovery(given: &[Grant]) -> bool {
    uncovered(&of_discovery(), given).is_empty()
}

/// Whether the operator's grants allow events, which are never restricted to namespaces or to objects of the key.
pub(super) fn gives_events(given: &[Grant]) -> bool {
    uncovered(&of_events(), given).is_empty()
}

/// The grant for events as an entry of a YAML list, and where an operator adds it.
pub fn events_line(plugin: &str) -> String {
    format!("add `{}` to {}", line(&of_events()), place(plugin))
}

fn of_watch(watch: &Watch) -> Grant {
    // For one name, as in the API server's own check.
    let name = watch.field_selector.as_deref().and_then(|selector| {
        selector.split(',').find_map(|term| {
            let (field, value) = term.split_once('=')?;
            let value = value.strip_prefix('=').unwrap_or(value);
            (field == "metadata.name" && !value.is_empty()).then(|| value.to_owned())
        })
    });
    Grant {
        verbs: vec!["list".into(), "watch".into()],
        kinds: vec![watch.kind.as_ref().map_or_else(|| "*".to_owned(), ToString::to_string)],
        namespaces: watch.namespace.iter().cloned().collect(),
        names: name.into_iter().collect(),
        ..Grant::default()
    }
}

impl Missing {
    /// The message in one line; empty if nothing is missing.
    pub fn message(missing: &[Self], plugin: &str) -> String {
        if missing.is_empty() {
            return String::new();
        }
        let mut room = MAX_MESSAGE_BYTES;
        let fits = |line: &String| {
            let left = room.checked_sub(line.len());
            left.inspect(|left| room = *left).is_some()
        };
        let mut lines: Vec<String> =
            missing.iter().map(|one| format!("`{}`", line(&one.grant))).take_while(fits).collect();
        match missing.len() - lines.len() {
            0 => {}
            n => lines.push(format!("{n} more, which `pintle inspect` shows,")),
        }
        format!(
            "plugin {plugin} asks for more than it is given; add {} to {}: `pintle scaffold COMPONENT` prints one with all of them",
            lines.join(" and "),
            place(plugin)
        )
    }
}

impl Grants {
    /// The manifest's requests that the operator's grants do not cover. This includes requests that would be denied
    /// only at run time, so that they are reported before the plugin is loaded. Events are left out, because a plugin
    /// works without them.
    pub fn missing(manifest: &Manifest, given: &[Grant]) -> Vec<Missing> {
        let watches = manifest.watches.iter().map(|watch| (of_watch(watch), true));
        let grants = manifest.grants.iter().map(|grant| (grant.clone(), false));
        let mut missing: Vec<Missing> = Vec::new();
        let mut seen = HashSet::new();
        let discovery = manifest.discovery.then(|| (of_discovery(), false));
        for (asked, watch) in watches.chain(grants).chain(discovery) {
            for grant in uncovered(&asked, given) {
                let one = Missing { grant, watch };
                if seen.insert(one.clone()) {
                    missing.push(one);
                }
            }
        }
        missing
    }
}

/// The verb of an adoption.
const ADOPTING: &str = "patch";

/// The parts of a grant that no grant of the operator covers.
///
/// A grant is the product of its lists. The part covered by a grant of the operator is a product as well, so the rest
/// consists of at most one product per list. The parts never overlap: there are at most as many as combinations of
/// single values.
fn uncovered(asked: &Grant, given: &[Grant]) -> Vec<Grant> {
    let mut parts = Part::all(asked);
    for given in given {
        if parts.is_empty() {
            break;
        }
        let given = Given::new(given);
        parts = parts.into_iter().flat_map(|part| part.without(&given)).collect();
    }
    parts.iter().map(Part::to_grant).collect()
}

/// Values of a list. A single `None` is an empty list.
type Values<'a> = Vec<Option<&'a str>>;

/// A set of requests: any of the verbs for any of the kinds, and so on.
struct Part<'a> {
    of: &'a Grant,
    lists: [Values<'a>; N_LISTS],
}

const N_LISTS: usize = 7;
/// Indexes of the lists, in the order of [`Grant::lists`].
const VERBS: usize = 0;
const KINDS: usize = 1;
const SUBRESOURCES: usize = 2;
const NAMESPACES: usize = 3;
const NAMES: usize = 4;
const PATHS: usize = 5;
const SIGNERS: usize = 6;

impl<'a> Part<'a> {
    /// All requests of a grant: those for signers, and the others. An empty list of namespaces or names means all; but
    /// for controlled objects, all namespaces are more than an empty list.
    fn all(asked: &'a Grant) -> Vec<Self> {
        let any = |values: &[String]| values.iter().any(|value| value == "*");
        let meant = |verb: &&str| asked.of == Of::Any || !Grant::OF_MANY.contains(verb);
        let verbs = match any(&asked.verbs) {
            true if asked.paths.is_empty() => Grant::VERBS.into_iter().filter(|verb| meant(verb)).map(Some).collect(),
            true => vec![Some("get")],
            false => each(&asked.verbs),
        };
        let namespaces = match asked.of {
            Of::Controlled if any(&asked.namespaces) => vec![Some("*")],
            Of::Any | Of::Key if any(&asked.namespaces) => vec![None],
            Of::Any | Of::Key | Of::Controlled => each(&asked.namespaces),
        };
        let names = match any(&asked.names) {
            true if asked.adopt => vec![Some("*")],
            true => vec![None],
            false => each(&asked.names),
        };
        let signers =
            if asked.signers.is_empty() || any(&asked.signers) { vec![Some("*")] } else { each(&asked.signers) };
        let is_for_signer = |verb: &Option<&str>| verb.is_some_and(|verb| Grant::SIGNER_VERBS.contains(&verb));
        let (for_signers, others): (Values<'_>, Values<'_>) = verbs.into_iter().partition(is_for_signer);
        let part = |verbs: Values<'a>, signers: Values<'a>| {
            let (kinds, subresources, paths) = (each(&asked.kinds), each(&asked.subresources), each(&asked.paths));
            let lists = [verbs, kinds, subresources, namespaces.clone(), names.clone(), paths, signers];
            Self { of: asked, lists }
        };
        // Signers do not limit other verbs.
        let parts = [part(for_signers, signers), part(others, vec![None])];
        parts.into_iter().filter(|part| !part.lists[VERBS].is_empty()).collect()
    }

    /// The parts of it that another grant does not cover.
    fn without(mut self, given: &Given<'_>) -> Vec<Self> {
        if !given.reaches(self.of) {
            return vec![self];
        }
        let split = |list: usize| -> (Vec<_>, Vec<_>) {
            self.lists[list].iter().partition(|value| given.covers(self.of, list, **value))
        };
        let splits: [(Values<'_>, Values<'_>); N_LISTS] = std::array::from_fn(split);
        if splits.iter().any(|(covered, _)| covered.is_empty()) {
            return vec![self];
        }
        let mut rest = Vec::new();
        for (list, (covered, uncovered)) in splits.into_iter().enumerate() {
            if !uncovered.is_empty() {
                self.lists[list] = uncovered;
                rest.push(Self { of: self.of, lists: self.lists.clone() });
            }
            self.lists[list] = covered;
        }
        rest
    }

    fn to_grant(&self) -> Grant {
        let list = |list: usize| self.lists[list].iter().flatten().map(|value| (*value).to_owned()).collect();
        let adopt = self.of.adopt && self.lists[VERBS].contains(&Some(ADOPTING));
        // Only an adoption lists all names explicitly.
        let names: Vec<String> = list(NAMES);
        let names = if adopt || names != ["*"] { names } else { Vec::new() };
        let signers: Vec<String> = list(SIGNERS);
        Grant {
            verbs: list(VERBS),
            kinds: list(KINDS),
            subresources: list(SUBRESOURCES),
            namespaces: list(NAMESPACES),
            names,
            paths: list(PATHS),
            signers: if signers == ["*"] { Vec::new() } else { signers },
            of: self.of.of,
            adopt,
        }
    }
}

/// The distinct values of a list.
fn each(values: &[String]) -> Values<'_> {
    let mut seen = HashSet::new();
    let values: Vec<_> = values.iter().map(|value| Some(value.as_str())).filter(|value| seen.insert(*value)).collect();
    if values.is_empty() { vec![None] } else { values }
}

/// A grant of the operator, prepared for lookups.
struct Given<'g> {
    of: &'g Grant,
    lists: [HashSet<&'g str>; N_LISTS],
}

impl<'g> Given<'g> {
    fn new(given: &'g Grant) -> Self {
        let lists = given.lists().map(|(_, values)| values.iter().map(String::as_str).collect());
        Self { of: given, lists }
    }

    /// Whether it applies to such requests at all.
    fn reaches(&self, asked: &Grant) -> bool {
        (self.of.of == Of::Any || self.of.of == asked.of)
            && self.of.paths.is_empty() == asked.paths.is_empty()
            && self.of.subresources.is_empty() == asked.subresources.is_empty()
    }

    fn covers(&self, asked: &Grant, list: usize, value: Option<&str>) -> bool {
        let ours = &self.lists[list];
        let all = || ours.contains("*");
        match (list, value) {
            (VERBS, Some(verb)) if Grant::SPECIAL_VERBS.contains(&verb) => ours.contains(verb),
            (SUBRESOURCES, Some(subresource)) if must_be_listed(subresource) => ours.contains(subresource),
            (VERBS, Some(ADOPTING)) if asked.adopt && self.of.of != Of::Any && !self.of.adopt => false,
            // A cluster-scoped key reaches only the listed namespaces.
            (NAMESPACES, Some(value)) if self.of.of == Of::Controlled => all() || ours.contains(value),
            (NAMESPACES | NAMES | SIGNERS, Some(value)) => ours.is_empty() || all() || ours.contains(value),
            (NAMESPACES | NAMES, None) => ours.is_empty() || all(),
            (PATHS, Some(value)) => ours.contains(value) || ours.iter().any(|given| covers_path(given, value)),
            (_, Some(value)) => all() || ours.contains(value),
            // Both lists are empty.
            (_, None) => true,
        }
    }
}

fn covers_path(given: &str, asked: &str) -> bool {
    match given.strip_suffix('*') {
        Some(prefix) => asked.strip_suffix('*').unwrap_or(asked).starts_with(prefix),
        None => given == asked,
    }
}
