//! Reconstructs the read set of a run from its read log.

use std::collections::HashSet;
use std::sync::Arc;

use pintle_core::lifecycle::read_set::{Form, ReadObject, ReadSet};
use pintle_core::object::Object;
use pintle_core::object::field::FieldPath;
use pintle_core::object::selector::SelectorForm;
use pintle_core::object::version::Uid;
use pintle_core::object::work::Work;

use super::RunView;
use super::read_log::BulkRead;
use crate::bindings::KindBinding;
use crate::snapshot::Snapshot;
use crate::store::Store;

/// Maximum bytes of the objects and answers of one run: a larger case is not useful for debugging.
pub(super) const MAX_BYTES: usize = 4 << 20;

/// The replay of all reads of a run may take this fraction of the work of one read, so that it delays no other work.
const LESS_WORK: u64 = 8;

/// State of the replay.
struct Replay<'v> {
    snapshot: &'v Snapshot,
    read_set: ReadSet,
    /// Addresses of the objects, because several reads may return the same one.
    known: HashSet<*const Object>,
    forms: Vec<Arc<Form>>,
    n_bytes: usize,
    is_full: bool,
    work: Work,
}

impl RunView {
    /// Repeats the logged reads on the snapshot.
    pub(super) fn replay(&self) -> ReadSet {
        let reads = self.read_log.reads();
        let mut replay = Replay::new(&self.snapshot, self.context.max_work / LESS_WORK);
        replay.read_set.is_incomplete = reads.is_incomplete;
        for (kind, key) in &reads.objects {
            if let Some((bound, Some(store))) = self.snapshot.kind(kind) {
                replay.add(bound, store, store.get(&key.namespace, &key.name));
            }
        }
        for uid in &reads.uids {
            let uid = Uid::parse(uid);
            let of_kind = self.snapshot.kinds().find_map(|(bound, store)| Some((bound, store, store.by_uid(&uid)?)));
            if let Some((bound, store, object)) = of_kind {
                replay.add(bound, store, Some(object));
            }
        }
        for bulk_read in &reads.bulk_reads {
            self.replay_bulk_read(bulk_read, &mut replay);
        }
        replay.answers(self);
        let ReadSet { resources, state, .. } = &mut replay.read_set;
        if reads.resources {
            *resources = self.snapshot.resources().map(|resources| resources.all().clone());
        }
        for name in &reads.state {
            if let Some((name, value)) = self.context.state.get_key_value(&**name) {
                state.insert(name.clone(), value.clone());
            }
        }
        replay.read_set
    }

    fn replay_bulk_read(&self, bulk_read: &BulkRead, replay: &mut Replay<'_>) {
        // A rejected read returned nothing.
        let (kind, objects) = match bulk_read {
            BulkRead::List(kind, query) => (kind, self.select(kind, query, &replay.work)),
            BulkRead::Selecting { kind, namespace, labels } => {
                (kind, self.selecting_objects(kind, namespace, labels, &replay.work))
            }
            BulkRead::Dependents(uid) => {
                let uid = Uid::parse(uid);
                for (bound, store) in self.snapshot.kinds() {
                    replay.add(bound, store, store.owned_by(&uid));
                }
                return;
            }
        };
        if let (Some((bound, Some(store))), Ok((_, objects))) = (self.snapshot.kind(kind), objects) {
            replay.add(bound, store, objects);
        }
        replay.read_set.is_incomplete |= replay.work.is_exhausted();
    }
}

impl<'v> Replay<'v> {
    fn new(snapshot: &'v Snapshot, max_work: u64) -> Self {
        Self {
            snapshot,
            read_set: ReadSet::default(),
            known: HashSet::new(),
            forms: Vec::new(),
            n_bytes: 0,
            is_full: false,
            work: Work::new(max_work),
        }
    }

    fn add<'o>(&mut self, bound: &KindBinding, store: &Store, objects: impl IntoIterator<Item = &'o Arc<Object>>) {
        let Some(listener) = bound.listener() else { return };
        let form = self.form(bound, store);
        for object in objects {
            // No further objects fit.
            if self.is_full {
                return;
            }
            if !self.known.insert(Arc::as_ptr(object)) {
                continue;
            }
            if !self.work.charge(listener.fullest().cost(object)) {
                self.read_set.is_incomplete = true;
                return;
            }
            let Some(text) = listener.fullest().read(object) else { continue };
            let object = ReadObject::new(form.clone(), object, text);
            if self.has_room(object.n_bytes()) {
                self.read_set.objects.push(object);
            }
        }
    }

    /// The form of a bound kind.
    fn form(&mut self, bound: &KindBinding, store: &Store) -> Arc<Form> {
        let of_kind = |form: &&Arc<Form>| form.kind == bound.kind;
        if let Some(form) = self.forms.iter().find(of_kind) {
            return form.clone();
        }
        let watched = &self.snapshot.plugin().watches[bound.watch];
        let (demand, plan) = (&watched.demand, store.plan());
        let selector =
            |selects: &(FieldPath, SelectorForm)| Some((selects.0.clone(), selects.1, plan.selector(selects)?));
        let form = Arc::new(Form {
            kind: bound.kind.clone(),
            indexes: demand.indexes.iter().filter_map(|(_, path)| Some((path.clone(), plan.index(path)?))).collect(),
            selector: demand.selects.as_ref().and_then(selector),
            field_selector: watched.watch.field_selector.clone(),
        });
        self.forms.push(form.clone());
        form
    }

    fn answers(&mut self, view: &RunView) {
        for (need, answer) in &view.context.answers {
            if self.has_room(answer.as_ref().map_or(0, |text| text.len())) {
                self.read_set.answers.push((need.clone(), answer.clone()));
            }
        }
    }

    fn has_room(&mut self, n_bytes: usize) -> bool {
        if self.n_bytes + n_bytes > MAX_BYTES {
            self.is_full = true;
            self.read_set.is_incomplete = true;
            return false;
        }
        self.n_bytes += n_bytes;
        true
    }
}
