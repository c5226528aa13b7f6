//! The resources that the API server serves, by kind.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use pintle_core::contract::manifest::Every;
use pintle_core::object::id::Kind;
use pintle_core::ports::api::{ApiResource, Discovery};

/// Resources of the API server.
#[derive(Debug, Default)]
pub(crate) struct Resources {
    all: Arc<[ApiResource]>,
    by_kind: HashMap<Kind, Arc<ApiResource>>,
    /// `group/version`s without an answer so far.
    unknown: HashSet<String>,
}

impl Resources {
    /// Merges a discovery result with the previous resources of groups without an answer.
    pub(crate) fn new(found: Discovery, before: Option<&Self>) -> Self {
        let failed: HashSet<String> = found.failed.into_iter().collect();
        let mut all = found.resources;
        let kept =
            before.iter().flat_map(|before| before.all.iter()).filter(|r| failed.contains(&r.kind.api_version()));
        all.extend(kept.cloned().collect::<Vec<_>>());
        let mut by_kind = HashMap::new();
        for resource in all.iter().filter(|resource| !resource.plural.contains('/')) {
            by_kind.entry(resource.kind.clone()).or_insert_with(|| Arc::new(resource.clone()));
        }
        Self { all: all.into(), by_kind, unknown: failed }
    }

    pub(crate) fn n_kinds(&self) -> usize {
        self.by_kind.len()
    }

    pub(crate) fn all(&self) -> &Arc<[ApiResource]> {
        &self.all
    }

    /// The resource of exactly this kind.
    pub(crate) fn exactly(&self, kind: &Kind) -> Option<&Arc<ApiResource>> {
        self.by_kind.get(kind)
    }

    /// The resource of this kind, or of another version of it (preferably the preferred one).
    pub(crate) fn of(&self, kind: &Kind) -> Option<&Arc<ApiResource>> {
        self.exactly(kind).or_else(|| {
            let others = self.by_kind.values().filter(|resource| resource.kind.is_any_version_of(kind));
            others.max_by(|a, b| (a.preferred, &a.kind).cmp(&(b.preferred, &b.kind)))
        })
    }

    /// Whether the kind may exist although it is not listed.
    pub(crate) fn is_uncertain(&self, kind: &Kind) -> bool {
        self.unknown.contains(&kind.api_version())
    }

    /// Every matching kind, once per group, in its preferred version if that has it.
    pub(crate) fn every(&self, every: &Every) -> Vec<Arc<ApiResource>> {
        let mut chosen: HashMap<(Arc<str>, Arc<str>), Arc<ApiResource>> = HashMap::new();
        let has = |resource: &ApiResource, verb: &str| resource.verbs.iter().any(|has| has == verb);
        for resource in self.by_kind.values() {
            let Kind { group, name, .. } = &resource.kind;
            let fits =
                has(resource, "list") && has(resource, "watch") && every.verbs.iter().all(|verb| has(resource, verb));
            if !fits || every.except.iter().any(|kind| kind.is_any_version_of(&resource.kind)) {
                continue;
            }
            let better = |known: &Arc<ApiResource>| {
                (resource.preferred, &resource.kind.version) > (known.preferred, &known.kind.version)
            };
            let place = (group.clone(), name.clone());
            if chosen.get(&place).is_none_or(better) {
                chosen.insert(place, resource.clone());
            }
        }
        let mut chosen: Vec<_> = chosen.into_values().collect();
        chosen.sort_by(|a, b| a.kind.cmp(&b.kind));
        chosen
    }

    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.all == other.all && self.unknown == other.unknown
    }
}
