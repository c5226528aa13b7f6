//! Compares the manifest's requests with the operator's grants.
//!
//! Both sides are lists of grants. The requests are split into atoms (one verb, kind, subresource, namespace and name each,
//! where "all" is a value), and a single grant of the operator must cover each atom. So only "all" covers "all", never a list
//! that happens to be complete today.

use super::denial::{line, place};
use super::{Grants, PathPattern};
use crate::contract::manifest::{Grant, Manifest, Of, Watch};

/// Requests that are not granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// The grants that are missing.
    pub grant: Grant,
    /// Whether a watch of the manifest needs one of them: without it the plugin could not see its objects.
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

/// What `discovery: true` requests.
pub(super) fn of_discovery() -> Grant {
    Grant { verbs: vec!["get".into()], paths: vec!["/api".into(), "/apis".into()], ..Grant::default() }
}

/// What a manifest requests that records events.
fn of_events() -> Grant {
    Grant { verbs: vec!["create".into(), "patch".into()], kinds: vec!["v1/Event".into()], ..Grant::default() }
}

/// Whether the operator's grants allow discovery.
pub fn gives_discovery(given: &[Grant]) -> bool {
    uncovered(&of_discovery(), given).is_empty()
}

/// Whether the operator's grants allow events, which are never limited to some namespaces or to objects of the key.
pub(super) fn gives_events(given: &[Grant]) -> bool {
    uncovered(&of_events(), given).is_empty()
}

/// The grant of events, as an entry of a YAML list, and where an operator adds it.
pub fn events_line(plugin: &str) -> String {
    format!("add `{}` to {}", line(&of_events()), place(plugin))
}

fn of_watch(watch: &Watch) -> Grant {
    // Of one name, as the API server sees it too.
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
        let lines: Vec<String> = missing.iter().map(|one| format!("`{}`", line(&one.grant))).collect();
        format!("plugin {plugin} asks for more than it is given; add {} to {}", lines.join(" and "), place(plugin))
    }
}

impl Grants {
    /// The manifest's requests that the operator's grants do not cover. This includes requests that would only be denied one
    /// by one at run time, so that an operator learns of them before the plugin is loaded. Events are not among them: a plugin
    /// works without.
    pub fn missing(manifest: &Manifest, given: &[Grant]) -> Vec<Missing> {
        let watches = manifest.watches.iter().map(|watch| (of_watch(watch), true));
        let grants = manifest.grants.iter().map(|grant| (grant.clone(), false));
        let mut missing: Vec<Missing> = Vec::new();
        let discovery = manifest.discovery.then(|| (of_discovery(), false));
        for (asked, watch) in watches.chain(grants).chain(discovery) {
            for grant in uncovered(&asked, given) {
                let one = Missing { grant, watch };
                if !missing.contains(&one) {
                    missing.push(one);
                }
            }
        }
        missing
    }
}

/// The verb that adopts.
const ADOPTING: &str = "patch";

/// The parts of a grant that no grant of the operator covers, merged into few.
fn uncovered(asked: &Grant, given: &[Grant]) -> Vec<Grant> {
    let mut parts: Vec<Grant> = Vec::new();
    for atom in atoms(asked) {
        if given.iter().any(|given| covers(given, &atom)) {
            continue;
        }
        // Atoms that differ only in the verb are adjacent: they become one line.
        match parts.last_mut().filter(|part| Grant { verbs: atom.verbs.clone(), ..(*part).clone() } == atom) {
            Some(part) => part.verbs.extend(atom.verbs),
            None => parts.push(atom),
        }
    }
    for part in &mut parts {
        part.adopt &= part.verbs.iter().any(|verb| verb == ADOPTING);
    }
    let mut joined: Vec<Grant> = Vec::new();
    for part in parts {
        let same = |other: &&mut Grant| Grant { kinds: part.kinds.clone(), ..(**other).clone() } == part;
        match joined.iter_mut().find(same) {
            Some(other) => other.kinds.extend(part.kinds),
            None => joined.push(part),
        }
    }
    joined
}

/// One grant per combination of values. An empty list of subresources, namespaces or names stays empty, which is the same as all;
/// but of controlled objects, all namespaces are more than no list.
fn atoms(asked: &Grant) -> Vec<Grant> {
    let any = |values: &[String]| values.iter().any(|value| value == "*");
    let verbs: Vec<String> = if any(&asked.verbs) {
        let meant = |verb: &&str| asked.of == Of::Any || !Grant::OF_MANY.contains(verb);
        Grant::VERBS
            .iter()
            .filter(|verb| asked.paths.is_empty() && meant(verb) || **verb == "get")
            .map(|verb| (*verb).to_owned())
            .collect()
    } else {
        asked.verbs.clone()
    };
    let each = |values: &[String], empty_is_any: bool| -> Vec<Vec<String>> {
        if values.is_empty() || (empty_is_any && any(values)) {
            return vec![Vec::new()];
        }
        values.iter().map(|value| vec![value.clone()]).collect()
    };
    let namespaces = match asked.of {
        Of::Controlled if any(&asked.namespaces) => vec![vec!["*".to_owned()]],
        Of::Any | Of::Key | Of::Controlled => each(&asked.namespaces, true),
    };
    let mut atoms = Vec::new();
    for kinds in each(&asked.kinds, false) {
        for subresources in each(&asked.subresources, false) {
            for namespaces in &namespaces {
                for names in each(&asked.names, true) {
                    for paths in each(&asked.paths, false) {
                        for verb in &verbs {
                            atoms.push(Grant {
                                verbs: vec![verb.clone()],
                                kinds: kinds.clone(),
                                subresources: subresources.clone(),
                                namespaces: namespaces.clone(),
                                names: names.clone(),
                                paths: paths.clone(),
                                of: asked.of,
                                adopt: asked.adopt,
                            });
                        }
                    }
                }
            }
        }
    }
    atoms
}

fn covers(given: &Grant, atom: &Grant) -> bool {
    // Requests have one value, or none.
    let named = |given: &[String], asked: &[String]| {
        given.iter().any(|value| value == "*") || asked.iter().all(|asked| given.contains(asked))
    };
    let optional = |given: &[String], asked: &[String]| match asked {
        [] => given.is_empty() || given.iter().any(|value| value == "*"),
        asked => given.is_empty() || named(given, asked),
    };
    let namespaces = match given.of {
        // A cluster-scoped key reaches only the listed ones.
        Of::Controlled if !atom.namespaces.is_empty() => named(&given.namespaces, &atom.namespaces),
        Of::Any | Of::Key | Of::Controlled => optional(&given.namespaces, &atom.namespaces),
    };
    let adopts = atom.adopt && atom.verbs.iter().any(|verb| verb == ADOPTING);
    named(&given.verbs, &atom.verbs)
        && given.paths.is_empty() == atom.paths.is_empty()
        && named(&given.kinds, &atom.kinds)
        && given.subresources.is_empty() == atom.subresources.is_empty()
        && named(&given.subresources, &atom.subresources)
        && namespaces
        && optional(&given.names, &atom.names)
        && atom.paths.iter().all(|asked| given.paths.iter().any(|given| covers_path(given, asked)))
        && (given.of == Of::Any || given.of == atom.of && (given.adopt || !adopts))
}

fn covers_path(given: &str, asked: &str) -> bool {
    match (PathPattern::new(given), PathPattern::new(asked)) {
        (PathPattern::Prefix(given), PathPattern::Prefix(asked) | PathPattern::Exact(asked)) => {
            asked.starts_with(&given)
        }
        (PathPattern::Exact(given), PathPattern::Exact(asked)) => given == asked,
        (PathPattern::Exact(_), PathPattern::Prefix(_)) => false,
    }
}
