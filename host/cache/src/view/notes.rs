//! What a run reads, noted in case it fails.
//!
//! A view never changes, so it is enough to note what was asked: what was answered can be found out again. A note costs a run some
//! references and short texts; objects are looked for only after a failure.

use std::collections::BTreeSet;

use parking_lot::Mutex;
use pintle_core::object::id::{Kind, ObjectKey};
use pintle_core::ports::view::Query;

/// What the notes of a run may cost; some ten thousand reads of single objects.
const MAX_BYTES: usize = 1 << 20;
/// Reads of many objects that are noted: each may have to look at all objects of a kind again.
const MAX_QUESTIONS: usize = 64;
/// What a note costs besides its texts: itself and the references in it.
const NOTE_BYTES: usize = 128;

/// A read that may give many objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Question {
    List(Kind, Query),
    /// Who selects these labels.
    Selecting {
        kind: Kind,
        namespace: String,
        labels: Vec<(String, String)>,
    },
    Dependents(String),
}

/// All notes of a run.
#[derive(Clone, Debug, Default)]
pub(super) struct Notes {
    /// As often as they were read, but for twice in a row.
    pub(super) objects: Vec<(Kind, ObjectKey)>,
    pub(super) uids: Vec<Box<str>>,
    /// Each once.
    pub(super) questions: Vec<Question>,
    pub(super) state: BTreeSet<Box<str>>,
    pub(super) resources: bool,
    /// There was no room for all.
    pub(super) is_incomplete: bool,
    n_bytes: usize,
}

/// Notes that a run takes.
#[derive(Debug, Default)]
pub(super) struct Notebook(Mutex<Notes>);

impl Notebook {
    pub(super) fn notes(&self) -> Notes {
        self.0.lock().clone()
    }

    pub(super) fn object(&self, kind: &Kind, object: &ObjectKey) {
        let n_bytes = object.namespace.len() + object.name.len();
        let mut notes = self.0.lock();
        let is_last = notes.objects.last().is_some_and(|(of, last)| last == object && of == kind);
        if !is_last && notes.has_room(n_bytes) {
            notes.objects.push((kind.clone(), object.clone()));
        }
    }

    pub(super) fn uid(&self, uid: &str) {
        let mut notes = self.0.lock();
        if notes.has_room(uid.len()) {
            notes.uids.push(uid.into());
        }
    }

    pub(super) fn question(&self, question: Question) {
        let mut notes = self.0.lock();
        if notes.questions.contains(&question) {
            return;
        }
        if notes.questions.len() == MAX_QUESTIONS {
            notes.is_incomplete = true;
        } else if notes.has_room(question.n_bytes()) {
            notes.questions.push(question);
        }
    }

    pub(super) fn state(&self, name: &str) {
        let mut notes = self.0.lock();
        if !notes.state.contains(name) && notes.has_room(name.len()) {
            notes.state.insert(name.into());
        }
    }

    pub(super) fn resources(&self) {
        self.0.lock().resources = true;
    }
}

impl Notes {
    /// Whether there is room for another note with texts of this length, which is counted then.
    fn has_room(&mut self, n_bytes: usize) -> bool {
        let n_bytes = n_bytes + NOTE_BYTES;
        if self.n_bytes + n_bytes > MAX_BYTES {
            self.is_incomplete = true;
            return false;
        }
        self.n_bytes += n_bytes;
        true
    }
}

impl Question {
    /// Of its texts.
    fn n_bytes(&self) -> usize {
        match self {
            Self::List(_, Query { namespace, label_selector, index, .. }) => {
                let texts = [namespace.as_ref(), label_selector.as_ref(), index.as_ref().map(|(_, value)| value)];
                texts.into_iter().flatten().map(String::len).sum::<usize>() + NOTE_BYTES
            }
            Self::Selecting { namespace, labels, .. } => {
                let labels = labels.iter().map(|(key, value)| key.len() + value.len() + NOTE_BYTES);
                namespace.len() + labels.sum::<usize>()
            }
            Self::Dependents(uid) => uid.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod() -> Kind {
        Kind::new("", "v1", "Pod")
    }

    #[test]
    fn notes_are_bounded_in_bytes() {
        let book = Notebook::default();
        let fitting = MAX_BYTES / (NOTE_BYTES + 8);
        for i in 0..fitting {
            let object = ObjectKey::new("ns", &format!("{i:06}"));
            book.object(&pod(), &object);
            // The same in a row is one read.
            book.object(&pod(), &object);
        }
        assert_eq!((book.notes().objects.len(), book.notes().is_incomplete), (fitting, false));
        book.uid(&"x".repeat(MAX_BYTES));
        book.state(&"x".repeat(MAX_BYTES));
        book.question(Question::Dependents("x".repeat(MAX_BYTES)));
        let notes = book.notes();
        assert_eq!((notes.uids.len(), notes.state.len(), notes.questions.len()), (0, 0, 0));
        assert!(notes.is_incomplete);
    }

    #[test]
    fn questions_are_noted_once_and_bounded_in_number() {
        let book = Notebook::default();
        let question =
            |i: usize| Question::List(pod(), Query { label_selector: Some(format!("a={i}")), ..Query::default() });
        for i in (0..MAX_QUESTIONS).chain(0..MAX_QUESTIONS) {
            book.question(question(i));
        }
        assert_eq!((book.notes().questions.len(), book.notes().is_incomplete), (MAX_QUESTIONS, false));
        book.question(question(MAX_QUESTIONS));
        assert_eq!((book.notes().questions.len(), book.notes().is_incomplete), (MAX_QUESTIONS, true));
    }
}
