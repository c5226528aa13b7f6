//! Reads of a run, answered from its snapshot.
//!
//! Invariants:
//! 1. A view never changes and never waits.
//! 2. It shows only kinds that the manifest watches, in the projections that it declares.

mod read_log;
mod read_set;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pintle_core::contract::outcome::{MutationFailure, Need, NeedError};
use pintle_core::lifecycle::read_set::ReadSet;
use pintle_core::object::id::{Kind, ObjectKey};
use pintle_core::object::selector::Selector;
use pintle_core::object::version::Uid;
use pintle_core::object::work::Work;
use pintle_core::object::{Meta, Object};
use pintle_core::policy::rules::RuleCache;
use pintle_core::ports::api::ApiResource;
use pintle_core::ports::view::{OwnedBy, Query, View, ViewError};
use pintle_core::text::cut;

use self::read_log::{BulkRead, ReadLog};
use crate::bindings::{KindBinding, PreparedWatch};
use crate::informer::Listener;
use crate::reader::{ObjectReader, Texts};
use crate::snapshot::{Snapshot, selecting};
use crate::store::Store;
use crate::types::RunContext;

/// Maximum bytes of a label selector that a plugin passes.
const MAX_SELECTOR_BYTES: usize = 16 << 10;
/// Maximum bytes of an invalid selector in an error message.
const MAX_SHOWN_BYTES: usize = 256;
/// Maximum requirements of a label selector that a plugin passes.
const MAX_REQUIREMENTS: usize = 64;

impl Snapshot {
    /// The view of a run.
    pub fn view(&self, context: RunContext) -> Arc<dyn View> {
        Arc::new(RunView {
            snapshot: self.clone(),
            read_log: ReadLog::new(context.account.as_ref()),
            context,
            reads_dependents: AtomicBool::new(false),
        })
    }
}

/// A snapshot with the other inputs of a run.
struct RunView {
    snapshot: Snapshot,
    context: RunContext,
    read_log: ReadLog,
    /// Whether dependents were read.
    reads_dependents: AtomicBool,
}

/// The objects that a read found, and their reader; no reader if there are none.
type Found<'s> = (Option<&'s ObjectReader>, Vec<&'s Arc<Object>>);

/// A kind that may be read; no listener and store if there are no objects.
struct Readable<'s> {
    bound: &'s KindBinding,
    watched: &'s PreparedWatch,
    objects: Option<(&'s Listener, &'s Store)>,
}

/// Conditions on owner references.
enum Owner {
    Controller(Uid),
    ControllerOrOrphan(Uid),
    Any(Uid),
}

impl RunView {
    /// The watched version of a kind; the given one, if it is watched.
    fn in_any_version(&self, kind: &Kind) -> Option<&Kind> {
        let watched = self.snapshot.kind(kind).map(|(bound, _)| &bound.kind);
        watched.or_else(|| self.snapshot.watched(&kind.group, &kind.name))
    }

    fn readable<'s>(&'s self, kind: &Kind, namespace: Option<&str>) -> Result<Readable<'s>, ViewError> {
        let plugin = self.snapshot.plugin();
        let Some((bound, store)) = self.snapshot.kind(kind) else {
            let mut watched: Vec<String> = plugin.manifest.kinds().map(ToString::to_string).collect();
            if plugin.manifest.watches.iter().any(|watch| watch.every.is_some()) {
                // The kind matches the watch, but the server does not serve it (any more, or in this version).
                watched.push("every kind of the server".into());
            }
            return Err(ViewError::NotWatched { kind: kind.clone(), watched: watched.join(", ") });
        };
        let watched = &plugin.watches[bound.watch];
        if let (Some(ours), Some(asked)) = (watched.watch.namespace.as_deref(), namespace)
            && ours != asked
        {
            return Err(ViewError::NotGranted(format!("{kind} in namespace {asked:?} (the watch is of {ours:?})")));
        }
        let objects = bound.listener().zip(store.map(|store| &**store));
        Ok(Readable { bound, watched, objects })
    }

    fn select<'s>(&'s self, kind: &Kind, query: &Query, work: &Work) -> Result<Found<'s>, ViewError> {
        let readable = self.readable(kind, query.namespace.as_deref())?;
        let watch = &readable.watched.watch;
        if query.whole && !watch.whole {
            return Err(ViewError::NotWhole(kind.clone()));
        }
        if let Some((name, _)) = &query.index
            && watch.indexes.iter().all(|index| index.name != *name)
        {
            return Err(ViewError::NoSuchIndex { kind: kind.clone(), index: name.clone() });
        }
        let selector = match query.label_selector.as_deref() {
            None => None,
            Some(text) => Some(parse(text)?),
        };
        let Some((listener, store)) = readable.objects else { return Ok((None, Vec::new())) };
        let reader = if query.whole { listener.whole.as_ref() } else { Some(&listener.fields) };
        let namespace = query.namespace.as_deref();
        let owner = query.owner.as_ref().map(Owner::new);
        // A kind of `every` declares no fields: it may have fewer indexes than the watch.
        let index = query.index.as_ref().map(|(name, value)| {
            let declared = readable.watched.demand.indexes.iter().find(|(ours, _)| **ours == **name);
            (declared.and_then(|(_, path)| store.plan().index(path)), value.as_str())
        });
        let fits = |object: &Arc<Object>| {
            let meta = &object.meta;
            let n_owners = if owner.is_some() { meta.owners.len() as u64 } else { 0 };
            if !work.charge(1 + n_owners + selector.as_ref().map_or(0, Selector::cost)) {
                return false;
            }
            namespace.is_none_or(|namespace| *meta.key.namespace == *namespace)
                && owner.as_ref().is_none_or(|owner| owner.owns(meta))
                && selector.as_ref().is_none_or(|selector| selector.matches(|key| meta.label(key)))
        };
        let objects: Vec<&Arc<Object>> = match (index, &owner, namespace) {
            (Some((Some(index), value)), _, _) => store.indexed(index, value).filter(|object| fits(object)).collect(),
            (Some((None, _)), _, _) => Vec::new(),
            (None, Some(Owner::Controller(uid) | Owner::Any(uid)), _) => {
                store.owned_by(uid).filter(|object| fits(object)).collect()
            }
            (None, Some(Owner::ControllerOrOrphan(uid)), namespace) => {
                let mut objects: Vec<&Arc<Object>> = store.owned_by(uid).filter(|object| fits(object)).collect();
                // Objects that the uid owns but does not control are in both.
                let n_owned = objects.len();
                match namespace {
                    Some(namespace) => objects.extend(store.orphans_in(namespace).filter(|object| fits(object))),
                    None => objects.extend(store.orphans().filter(|object| fits(object))),
                }
                if n_owned > 0 && objects.len() > n_owned {
                    objects.sort_by(|a, b| a.meta.key.cmp(&b.meta.key));
                    objects.dedup_by(|a, b| Arc::ptr_eq(a, b));
                }
                objects
            }
            (None, None, Some(namespace)) => store.in_namespace(namespace).filter(|object| fits(object)).collect(),
            (None, None, None) => store.iter().filter(|object| fits(object)).collect(),
        };
        if work.is_exhausted() { Err(ViewError::TooMuchWork) } else { Ok((reader, objects)) }
    }

    fn texts(&self, (reader, objects): Found<'_>, work: &Work) -> Result<Vec<Arc<str>>, ViewError> {
        let mut texts = Texts::new(work, self.context.max_read_bytes);
        if let Some(reader) = reader {
            reader.read_all(&objects, &mut texts)?;
        }
        Ok(texts.texts)
    }

    /// Objects whose own selector matches the labels.
    fn selecting_objects<'s>(
        &'s self,
        kind: &Kind,
        namespace: &str,
        labels: &[(String, String)],
        work: &Work,
    ) -> Result<Found<'s>, ViewError> {
        let readable = self.readable(kind, Some(namespace))?;
        let Some(selects) = &readable.watched.demand.selects else {
            return Err(ViewError::NoSelector(readable.bound.kind.clone()));
        };
        let Some((listener, store)) = readable.objects else { return Ok((None, Vec::new())) };
        let Some(slot) = store.plan().selector(selects) else { return Ok((None, Vec::new())) };
        let labels: HashMap<&str, &str> = labels.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        let objects =
            selecting(store, slot, readable.watched.empty_selector, namespace, |key| labels.get(key).copied(), work);
        let objects = objects.collect();
        if work.is_exhausted() { Err(ViewError::TooMuchWork) } else { Ok((Some(&listener.fields), objects)) }
    }
}

impl Owner {
    fn new(owner: &OwnedBy) -> Self {
        match owner {
            OwnedBy::Controller(uid) => Self::Controller(Uid::parse(uid)),
            OwnedBy::ControllerOrOrphan(uid) => Self::ControllerOrOrphan(Uid::parse(uid)),
            OwnedBy::Any(uid) => Self::Any(Uid::parse(uid)),
        }
    }

    fn owns(&self, meta: &Meta) -> bool {
        match self {
            Self::Controller(uid) => meta.controller().is_some_and(|owner| owner.uid == *uid),
            Self::ControllerOrOrphan(uid) => meta.controller().is_none_or(|owner| owner.uid == *uid),
            Self::Any(uid) => meta.owners.iter().any(|owner| owner.uid == *uid),
        }
    }
}

fn parse(text: &str) -> Result<Selector, ViewError> {
    let bad = |why: String| ViewError::BadSelector(cut(text, MAX_SHOWN_BYTES).to_owned(), why);
    if text.len() > MAX_SELECTOR_BYTES {
        return Err(bad(format!("it has {} bytes, at most {MAX_SELECTOR_BYTES}", text.len())));
    }
    let selector = Selector::parse(text).map_err(|why| bad(why.to_string()))?;
    match selector.n_requirements() {
        n if n > MAX_REQUIREMENTS => Err(bad(format!("it has {n} requirements, at most {MAX_REQUIREMENTS}"))),
        _ => Ok(selector),
    }
}

impl View for RunView {
    fn now(&self) -> &str {
        &self.context.now
    }

    fn uptime(&self) -> Duration {
        self.context.uptime
    }

    fn get(&self, kind: &Kind, object: &ObjectKey) -> Result<Option<Arc<str>>, ViewError> {
        self.read_log.object(kind, object);
        let readable = self.readable(kind, Some(&object.namespace).map(|n| &**n).filter(|n| !n.is_empty()))?;
        Ok(readable
            .objects
            .and_then(|(listener, store)| listener.fullest().read(store.get(&object.namespace, &object.name)?)))
    }

    fn list(&self, kind: &Kind, query: &Query) -> Result<Vec<Arc<str>>, ViewError> {
        self.read_log.bulk_read(BulkRead::List(kind.clone(), query.clone()));
        let work = Work::new(self.context.max_work);
        self.select(kind, query, &work).and_then(|found| self.texts(found, &work))
    }

    fn count(&self, kind: &Kind, query: &Query) -> Result<usize, ViewError> {
        self.read_log.bulk_read(BulkRead::List(kind.clone(), query.clone()));
        let everything = Query { whole: query.whole, ..Query::default() };
        if *query == everything {
            let readable = self.readable(kind, None)?;
            return Ok(readable.objects.map_or(0, |(_, store)| store.len()));
        }
        Ok(self.select(kind, query, &Work::new(self.context.max_work))?.1.len())
    }

    fn selecting(&self, kind: &Kind, namespace: &str, labels: &[(String, String)]) -> Result<Vec<Arc<str>>, ViewError> {
        self.read_log.bulk_read(BulkRead::Selecting {
            kind: kind.clone(),
            namespace: namespace.to_owned(),
            labels: labels.to_vec(),
        });
        let work = Work::new(self.context.max_work);
        self.selecting_objects(kind, namespace, labels, &work).and_then(|found| self.texts(found, &work))
    }

    fn dependents(&self, uid: &str) -> Result<Vec<Arc<str>>, ViewError> {
        self.read_log.bulk_read(BulkRead::Dependents(uid.to_owned()));
        self.reads_dependents.store(true, Ordering::Release);
        let uid = Uid::parse(uid);
        let work = Work::new(self.context.max_work);
        let mut texts = Texts::new(&work, self.context.max_read_bytes);
        for (bound, store) in self.snapshot.kinds() {
            let Some(listener) = bound.listener() else { continue };
            let objects: Vec<&Arc<Object>> = store.owned_by(&uid).collect();
            listener.fields.read_all(&objects, &mut texts)?;
        }
        Ok(texts.texts)
    }

    fn by_uid(&self, uid: &str) -> Result<Option<Arc<str>>, ViewError> {
        self.read_log.uid(uid);
        let uid = Uid::parse(uid);
        Ok(self.snapshot.kinds().find_map(|(bound, store)| bound.listener()?.fields.read(store.by_uid(&uid)?)))
    }

    fn resources(&self) -> Result<Arc<[ApiResource]>, ViewError> {
        if !self.snapshot.plugin().manifest.discovery {
            return Err(ViewError::NoDiscovery);
        }
        self.read_log.resources();
        Ok(self.snapshot.resources().map_or_else(|| Arc::from([]), |resources| resources.all().clone()))
    }

    fn config(&self) -> Arc<str> {
        self.context.config.clone()
    }

    fn state(&self, name: &str) -> Option<Arc<str>> {
        self.read_log.state(name);
        self.context.state.get(name).cloned()
    }

    fn attempt(&self) -> u32 {
        self.context.attempt
    }

    fn failures(&self) -> &[MutationFailure] {
        &self.context.failures
    }

    fn object(&self, kind: &Kind, object: &ObjectKey) -> Option<Arc<Object>> {
        RuleCache::object(&self.snapshot, self.in_any_version(kind)?, object)
    }

    fn selects(&self, kind: &Kind, object: &ObjectKey, selected: &Meta) -> bool {
        let found = self.in_any_version(kind).and_then(|kind| self.snapshot.kind(kind));
        let Some((bound, Some(store))) = found else { return false };
        let watched = &self.snapshot.plugin().watches[bound.watch];
        let selector = watched.demand.selects.as_ref().and_then(|selects| {
            let slot = store.plan().selector(selects)?;
            store.get(&object.namespace, &object.name)?.selectors.get(slot)?.as_ref()
        });
        watched.empty_selector.matches(selector, |key| selected.label(key))
    }

    fn answer(&self, need: &Need) -> Option<Result<Arc<str>, NeedError>> {
        self.context.answers.iter().find(|(ours, _)| ours == need).map(|(_, answer)| answer.clone())
    }

    fn incomplete_dependents(&self) -> Option<&Kind> {
        self.snapshot.unlisted().filter(|_| self.reads_dependents.load(Ordering::Acquire))
    }

    fn read_set(&self) -> ReadSet {
        self.replay()
    }
}
