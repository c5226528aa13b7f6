//! Which kinds a subscription reads at the moment, and where they are kept.

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

/// A manifest with its watches, prepared.
pub(crate) struct PreparedManifest {
    pub(crate) manifest: Arc<Manifest>,
    /// One for each watch of the manifest.
    pub(crate) watches: Vec<PreparedWatch>,
    /// The tick keys that rules lead to.
    pub(crate) ticks: BTreeSet<Key>,
}

/// A watch of the manifest, prepared.
pub(crate) struct PreparedWatch {
    pub(crate) watch: Watch,
    pub(crate) demand: Arc<Demand>,
    pub(crate) rules: Rules,
    /// What an empty selector of its objects matches.
    pub(crate) empty_selector: EmptySelector,
    /// Which of its kind's objects it shows.
    pub(crate) selection: Selection,
    /// Rules of a watch of every kind may look at fields that are not read: to them, objects do not have those.
    pub(crate) rules_look_further: bool,
}

impl PreparedManifest {
    pub(crate) fn new(manifest: Arc<Manifest>) -> Arc<Self> {
        let watches = manifest.watches.iter().filter_map(|watch| match PreparedWatch::new(watch, &manifest) {
            Ok(watch) => Some(watch),
            Err(why) => {
                // The manifest's own check refuses such paths at load.
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
        // What rules look at has to be kept, whether or not the plugin asked for it.
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
            // Of every kind, only metadata is read.
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
    /// Place of the watch in the manifest.
    pub(crate) watch: usize,
    pub(crate) namespaced: bool,
    pub(crate) source: KindSource,
}

/// Where the objects of a kind come from.
#[derive(Clone)]
pub(crate) enum KindSource {
    /// An informer.
    Informer { scope: Scope, store: StoreId, listener: Arc<Listener> },
    /// The server has no such kind: there are no objects.
    Absent,
    /// The watch is limited to a namespace, and objects of the kind are in none.
    Clusterwide,
    /// It is not known whether the server has the kind.
    Unknown,
}

/// All kinds of a subscription, ordered.
#[derive(Default)]
pub(crate) struct KindTable {
    pub(crate) bound: Vec<KindBinding>,
    by_kind: HashMap<Kind, usize>,
}

impl KindBinding {
    /// Whether reads give all there is.
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

    /// What its informer reads.
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

    /// The store, if it was filled with what this subscription needs.
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

    /// The kind of this group and name, in whatever version it is read.
    pub(crate) fn find_any_version(&self, group: &str, name: &str) -> Option<(usize, &KindBinding)> {
        // Ordered by group first, then version: kinds of one group are few.
        let from = self.bound.partition_point(|bound| *bound.kind.group < *group);
        let of_group = self.bound[from..].iter().enumerate().take_while(|(_, bound)| *bound.kind.group == *group);
        of_group.map(|(i, bound)| (from + i, bound)).find(|(_, bound)| *bound.kind.name == *name)
    }
}
