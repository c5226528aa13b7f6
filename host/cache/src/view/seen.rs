//! What a run has read, found again by its notes.

use std::collections::HashSet;
use std::sync::Arc;

use pintle_core::contract::manifest::SelectorForm;
use pintle_core::lifecycle::seen::{Form, Seen, SeenObject};
use pintle_core::object::Object;
use pintle_core::object::field::FieldPath;
use pintle_core::object::version::Uid;

use super::RunView;
use super::notes::Question;
use crate::bindings::KindBinding;
use crate::snapshot::Snapshot;
use crate::store::Store;

/// Objects and answers of one run that are kept. A list of all Pods of a large cluster is no case that anybody would look through.
pub(super) const MAX_BYTES: usize = 4 << 20;

/// What has been found so far.
struct Found<'v> {
    snapshot: &'v Snapshot,
    seen: Seen,
    /// Addresses of the objects: one is found by many reads.
    known: HashSet<*const Object>,
    forms: Vec<Arc<Form>>,
    n_bytes: usize,
    is_full: bool,
}

impl RunView {
    /// Finds again what the run has read.
    pub(super) fn found_again(&self) -> Seen {
        let notes = self.notebook.notes();
        let mut found = Found::new(&self.snapshot);
        found.seen.is_incomplete = notes.is_incomplete;
        for (kind, key) in &notes.objects {
            if let Some((bound, Some(store))) = self.snapshot.kind(kind) {
                found.add(bound, store, store.get(&key.namespace, &key.name));
            }
        }
        for uid in &notes.uids {
            let uid = Uid::parse(uid);
            let of_kind = self.snapshot.kinds().find_map(|(bound, store)| Some((bound, store, store.by_uid(&uid)?)));
            if let Some((bound, store, object)) = of_kind {
                found.add(bound, store, Some(object));
            }
        }
        for question in &notes.questions {
            self.ask_again(question, &mut found);
        }
        found.answers(self);
        let Seen { resources, state, .. } = &mut found.seen;
        if notes.resources {
            *resources = self.snapshot.resources().map(|resources| resources.all().clone());
        }
        for name in &notes.state {
            if let Some((name, value)) = self.context.state.get_key_value(&**name) {
                state.insert(name.clone(), value.clone());
            }
        }
        found.seen
    }

    fn ask_again(&self, question: &Question, found: &mut Found<'_>) {
        // A read that was refused has given nothing.
        let (kind, objects) = match question {
            Question::List(kind, query) => (kind, self.select(kind, query)),
            Question::Selecting { kind, namespace, labels } => (kind, self.selecting_objects(kind, namespace, labels)),
            Question::Dependents(uid) => {
                let uid = Uid::parse(uid);
                for (bound, store) in self.snapshot.kinds() {
                    found.add(bound, store, store.owned_by(&uid));
                }
                return;
            }
        };
        if let (Some((bound, Some(store))), Ok((_, objects))) = (self.snapshot.kind(kind), objects) {
            found.add(bound, store, objects);
        }
    }
}

impl<'v> Found<'v> {
    fn new(snapshot: &'v Snapshot) -> Self {
        Self { snapshot, seen: Seen::default(), known: HashSet::new(), forms: Vec::new(), n_bytes: 0, is_full: false }
    }

    fn add<'o>(&mut self, bound: &KindBinding, store: &Store, objects: impl IntoIterator<Item = &'o Arc<Object>>) {
        let Some(listener) = bound.listener() else { return };
        let form = self.form(bound, store);
        for object in objects {
            // Nothing is looked for any more that could not be kept.
            if self.is_full {
                return;
            }
            if !self.known.insert(Arc::as_ptr(object)) {
                continue;
            }
            let Some(text) = listener.fullest().read(object) else { continue };
            let object = SeenObject { form: form.clone(), object: object.clone(), text };
            if self.has_room(object.n_bytes()) {
                self.seen.objects.push(object);
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
                self.seen.answers.push((need.clone(), answer.clone()));
            }
        }
    }

    fn has_room(&mut self, n_bytes: usize) -> bool {
        if self.n_bytes + n_bytes > MAX_BYTES {
            self.is_full = true;
            self.seen.is_incomplete = true;
            return false;
        }
        self.n_bytes += n_bytes;
        true
    }
}
