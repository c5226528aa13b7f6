//! A change as seen by the rules of one watch. Results that several rules need are computed once.

use std::borrow::Cow;
use std::cell::{OnceCell, RefCell};

use super::{Delta, RuleCache};
use crate::object::Object;
use crate::object::project::Projector;

/// One of the two states of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum State {
    Old,
    New,
}

/// A change, with the results computed so far.
pub(super) struct ChangeContext<'d> {
    pub(super) delta: &'d Delta,
    pub(super) cache: &'d dyn RuleCache,
    /// All fields that any rule compares.
    compared: Option<&'d Projector>,
    texts: [OnceCell<Option<Cow<'d, str>>>; 2],
    comparison: OnceCell<Comparison>,
    /// Whether the fields of each mask differ.
    differs: RefCell<Vec<Option<bool>>>,
}

/// The comparison of both states in all fields that any rule compares.
enum Comparison {
    Equal,
    Different {
        old: String,
        new: String,
    },
    /// A text is missing or malformed.
    Unknown,
}

impl<'d> ChangeContext<'d> {
    pub(super) fn new(
        delta: &'d Delta,
        cache: &'d dyn RuleCache,
        compared: Option<&'d Projector>,
        n_masks: usize,
    ) -> Self {
        let texts = [OnceCell::new(), OnceCell::new()];
        let differs = RefCell::new(vec![None; n_masks]);
        Self { delta, cache, compared, texts, comparison: OnceCell::new(), differs }
    }

    pub(super) fn object(&self, state: State) -> Option<&'d Object> {
        match state {
            State::Old => self.delta.old.as_deref(),
            State::New => self.delta.new.as_deref(),
        }
    }

    /// A text of the state with the fields that the rules read.
    pub(super) fn text(&self, state: State) -> Option<&str> {
        let text = &self.texts[state as usize];
        text.get_or_init(|| self.cache.text(&self.delta.kind, self.object(state)?)).as_deref()
    }

    /// Whether any of these fields differs between the states; `mask` is the number of the set.
    pub(super) fn differs(&self, fields: &Projector, mask: usize) -> bool {
        let known = self.differs.borrow()[mask];
        known.unwrap_or_else(|| {
            let differs = match self.comparison.get_or_init(|| self.compare()) {
                Comparison::Equal => false,
                Comparison::Unknown => true,
                Comparison::Different { old, new } => match (project(fields, old), project(fields, new)) {
                    (Some(old), Some(new)) => old != new,
                    _ => true,
                },
            };
            self.differs.borrow_mut()[mask] = Some(differs);
            differs
        })
    }

    fn compare(&self) -> Comparison {
        let projected = |state| project(self.compared?, self.text(state)?);
        match (projected(State::Old), projected(State::New)) {
            (Some(old), Some(new)) if old == new => Comparison::Equal,
            (Some(old), Some(new)) => Comparison::Different { old, new },
            _ => Comparison::Unknown,
        }
    }
}

/// Extracts these fields from a text; `None` if it is malformed.
fn project(fields: &Projector, text: &str) -> Option<String> {
    #[cfg(test)]
    tests::N_PROJECTED.with(|n| n.set(n.get() + 1));
    fields.project(text).ok()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::Arc;

    use super::*;
    use crate::object::Meta;
    use crate::object::field::FieldMask;
    use crate::object::id::{Kind, ObjectKey};
    use crate::object::version::Uid;

    thread_local! {
        pub(super) static N_PROJECTED: Cell<usize> = const { Cell::new(0) };
    }

    /// Has no objects; returns the first text of an object.
    struct Texts;

    impl RuleCache for Texts {
        fn watched(&self, _: &str, _: &str) -> Option<&Kind> {
            None
        }

        fn namespaced(&self, _: &Kind) -> bool {
            true
        }

        fn object(&self, _: &Kind, _: &ObjectKey) -> Option<Arc<Object>> {
            None
        }

        fn keys_in(&self, _: &Kind, _: Option<&str>) -> Vec<ObjectKey> {
            Vec::new()
        }

        fn selecting(&self, _: &Kind, _: &Meta) -> Vec<ObjectKey> {
            Vec::new()
        }

        fn indexed(&self, _: &Kind, _: &str, _: &[String], _: Option<&str>) -> Vec<ObjectKey> {
            Vec::new()
        }

        fn by_uid(&self, _: &Uid) -> Option<(&Kind, &Arc<Object>)> {
            None
        }

        fn dependents(&self, _: &Uid) -> Vec<(Kind, ObjectKey)> {
            Vec::new()
        }

        fn text<'o>(&self, _: &Kind, object: &'o Object) -> Option<Cow<'o, str>> {
            object.texts.first().map(|text| Cow::Borrowed(&**text))
        }
    }

    #[test]
    fn both_states_are_cut_once_for_all_rules_and_once_for_each_mask() {
        let state = |a: u32| {
            let text = format!(r#"{{"spec":{{"a":{a},"b":1,"c":{a}}}}}"#);
            Some(Arc::new(Object {
                meta: Meta::default(),
                text_set: Arc::default(),
                texts: [text.as_str().into()].into(),
                index_values: Box::default(),
                selectors: Box::default(),
            }))
        };
        let mask = |fields: &[&str]| Projector::new(&FieldMask::new(fields.iter().map(|path| path.parse().unwrap())));
        let (compared, a, b) = (mask(&["spec.a", "spec.b"]), mask(&["spec.a"]), mask(&["spec.b"]));
        let n_projected = |old, new| {
            let before = N_PROJECTED.get();
            let delta = Delta { kind: Kind::new("", "v1", "Pod"), old: state(old), new: state(new), initial: false };
            let change = ChangeContext::new(&delta, &Texts, Some(&compared), 2);
            let differ = (0..64).map(|_| (change.differs(&a, 0), change.differs(&b, 1))).collect::<Vec<_>>();
            assert_eq!(differ, [(old != new, false); 64]);
            N_PROJECTED.get() - before
        };
        assert_eq!((n_projected(1, 2), n_projected(1, 1)), (6, 2));
    }
}
