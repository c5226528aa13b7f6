//! The kinds that a subscription currently reads, and their stores.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use pintle_core::contract::manifest::{EmptySelector, Manifest, Watch};
use pintle_core::object::field::{FieldMask, FieldPath, FieldPathError};
use pintle_core::object::id::{Key, Kind};
use pintle_core::policy::rules::Rules;
use pintle_core::policy::selection::Selection;
use tracing::error;

use crate::informer::plan::Demand;
use crate::informer::{Informers, Listener, Scope};
use crate::store::Store;
use crate::store::set::StoreId;

/// A manifest with its compiled watches.
pub(crate) struct PreparedManifest {
    pub(crate) manifest: Arc<Manifest>,
    /// One per watch of the manifest.
    pub(crate) watches: Vec<PreparedWatch>,
    /// The tick keys that rules lead to.
    pub(crate) ticks: BTreeSet<Key>,
}

/// A compiled watch of the manifest.
pub(crate) struct PreparedWatch {
    pub(crate) watch: Watch,
    pub(crate) demand: Arc<Demand>,
    pub(crate) rules: Rules,
    /// Meaning of an empty selector of its objects.
    pub(crate) empty_selector: EmptySelector,
    /// Selects the objects of the kind that it shows.
    pub(crate) selection: Selection,
    /// Rules of an `every` watch may use fields that are not read: for them, objects do not have these fields.
    pub(crate) rules_look_further: bool,
}

impl PreparedManifest {
    pub(crate) fn new(manifest: Arc<Manifest>) -> Arc<Self> {
        let watches = manifest.watches.iter().filter_map(|watch| match PreparedWatch::new(watch, &manifest) {
            Ok(watch) => Some(watch),
            Err(why) => {
                // Manifest validation rejects such paths at load.
                error!(plugin = manifest.name, %why, "watch left out");
                None
            }
        });
        let watches = watches.collect();
        let ticks = manifest.ticks_of_rules();
        Arc::new(Self { manifest, watches, ticks })
    }
}

impl PreparedWatch {
    /// # Errors
    /// If a field path does not parse; retrying does not help.
    pub(crate) fn new(watch: &Watch, manifest: &Manifest) -> Result<Self, FieldPathError> {
        let rules = Rules::new(watch, manifest)?;
        let mut fields: Vec<FieldPath> = watch.fields.iter().map(|path| path.parse()).collect::<Result<_, _>>()?;
        // Fields that rules read are always kept, even if the plugin did not declare them.
        fields.extend(rules.fields().paths().cloned());
        let mut indexes = Vec::with_capacity(watch.indexes.len());
        for index in &watch.indexes {
            indexes.push((index.name.as_str().into(), index.field.parse()?));
        }
        let selects = match &watch.selects {
            Some(selects) => Some((selects.field.parse()?, selects.form)),
            None => None,
        };
        let mut demand = Demand { fields: FieldMask::new(fields), whole: watch.whole, indexes, selects };
        if watch.every.is_some() {
            // An `every` watch reads only metadata.
            demand.fields = FieldMask::new(demand.fields.paths().filter(|path| path.in_metadata()).cloned());
            demand.whole = false;
            demand.indexes.retain(|(_, path)| path.in_metadata());
            demand.selects = None;
        }
        let rules_look_further = !demand.fields.covers_all(rules.fields());
        let selection = Selection::new(watch.label_selector.as_deref(), watch.field_selector.as_deref());
        let empty_selector = watch.selects.as_ref().map(|selects| selects.empty).unwrap_or_default();
        let (watch, demand) = (watch.clone(), Arc::new(demand));
        Ok(Self { watch, demand, rules, empty_selector, selection, rules_look_further })
    }
}

/// One kind of a subscription.
#[derive(Clone)]
pub(crate) struct KindBinding {
    pub(crate) kind: Kind,
    /// Index of the watch in the manifest.
    pub(crate) watch: usize,
    pub(crate) namespaced: bool,
    pub(crate) source: KindSource,
}

/// The source of a kind's objects.
#[derive(Clone)]
pub(crate) enum KindSource {
    /// An informer.
    Informer { scope: Scope, store: StoreId, listener: Arc<Listener> },
    /// The server does not have the kind: there are no objects.
    Absent,
    /// The watch is limited to a namespace, but the kind is cluster-scoped.
    Clusterwide,
    /// It is unknown whether the server has the kind.
    Unknown,
}

/// All kinds of a subscription, ordered.
#[derive(Default)]
pub(crate) struct KindTable {
    pub(crate) bound: Vec<KindBinding>,
    by_kind: HashMap<Kind, usize>,
}

impl KindBinding {
    /// Whether reads return all existing objects.
    pub(crate) fn is_ready(&self) -> bool {
        match &self.source {
            KindSource::Informer { listener, .. } => listener.is_ready(),
            KindSource::Absent | KindSource::Clusterwide => true,
            KindSource::Unknown => false,
        }
    }

    pub(crate) fn store(&self) -> Option<StoreId> {
        match &self.source {
            KindSource::Informer { store, .. } => Some(*store),
            KindSource::Absent | KindSource::Clusterwide | KindSource::Unknown => None,
        }
    }

    /// The scope of its informer.
    pub(crate) fn scope(&self) -> Option<&Scope> {
        match &self.source {
            KindSource::Informer { scope, .. } => Some(scope),
            KindSource::Absent | KindSource::Clusterwide | KindSource::Unknown => None,
        }
    }

    pub(crate) fn listener(&self) -> Option<&Listener> {
        match &self.source {
            KindSource::Informer { listener, .. } => Some(listener),
            KindSource::Absent | KindSource::Clusterwide | KindSource::Unknown => None,
        }
    }

    /// The store, if it was filled with everything that this subscription needs.
    pub(crate) fn usable<'s>(&self, store: Option<&'s Arc<Store>>) -> Option<&'s Arc<Store>> {
        let needed = self.listener()?.generation;
        store.filter(|store| store.generation() >= needed)
    }

    pub(crate) fn register(&self, informers: &Informers) {
        if let KindSource::Informer { scope, listener, .. } = &self.source
            && let Some(informer) = informers.get(scope)
        {
            informer.register(listener);
        }
    }

    pub(crate) fn leave(&self, informers: &mut Informers) {
        if let KindSource::Informer { scope, listener, .. } = &self.source
            && informers.get(scope).is_some_and(|informer| informer.leave(listener))
        {
            informers.remove(scope);
        }
    }
}

impl KindTable {
    pub(crate) fn new(mut bound: Vec<KindBinding>) -> Self {
        bound.sort_by(|a, b| a.kind.cmp(&b.kind));
        let by_kind = bound.iter().enumerate().map(|(i, bound)| (bound.kind.clone(), i)).collect();
        Self { bound, by_kind }
    }

    pub(crate) fn find(&self, kind: &Kind) -> Option<(usize, &KindBinding)> {
        self.by_kind.get(kind).map(|&at| (at, &self.bound[at]))
    }

    /// The kind with this group and name, in the version that is read.
    pub(crate) fn find_any_version(&self, group: &str, name: &str) -> Option<(usize, &KindBinding)> {
        // Kinds are ordered by group, then version; a group has few kinds.
        let from = self.bound.partition_point(|bound| *bound.kind.group < *group);
        let of_group = self.bound[from..].iter().enumerate().take_while(|(_, bound)| *bound.kind.group == *group);
        of_group.map(|(i, bound)| (from + i, bound)).find(|(_, bound)| *bound.kind.name == *name)
    }
}
