//! A change as the rules of one watch see it. What several of them ask is found out once.

use std::borrow::Cow;
use std::cell::{OnceCell, RefCell};

use super::{Delta, RuleCache};
use crate::object::Object;
use crate::object::field::Projector;

/// One of the two states of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum State {
    Old,
    New,
}

/// A change, and what the rules know about it so far.
pub(super) struct Sight<'d> {
    pub(super) delta: &'d Delta,
    pub(super) cache: &'d dyn RuleCache,
    /// Everything that any rule compares.
    compared: Option<&'d Projector>,
    texts: [OnceCell<Option<Cow<'d, str>>>; 2],
    comparison: OnceCell<Comparison>,
    /// Whether the fields of each mask differ.
    differs: RefCell<Vec<Option<bool>>>,
}

/// Both states in all fields that any rule compares.
enum Comparison {
    Equal,
    Different {
        old: String,
        new: String,
    },
    /// A text is missing or malformed.
    Unknown,
}

impl<'d> Sight<'d> {
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

    /// A text of the state with the fields that the rules look at.
    pub(super) fn text(&self, state: State) -> Option<&str> {
        let text = &self.texts[state as usize];
        text.get_or_init(|| self.cache.text(&self.delta.kind, self.object(state)?)).as_deref()
    }

    /// Whether any of these fields, which are numbered as a mask, differs between the states.
    pub(super) fn differs(&self, fields: &Projector, mask: usize) -> bool {
        let known = self.differs.borrow()[mask];
        known.unwrap_or_else(|| {
            let differs = match self.comparison.get_or_init(|| self.compare()) {
                Comparison::Equal => false,
                Comparison::Unknown => true,
                Comparison::Different { old, new } => match (fields.project(old), fields.project(new)) {
                    (Ok(old), Ok(new)) => old != new,
                    _ => true,
                },
            };
            self.differs.borrow_mut()[mask] = Some(differs);
            differs
        })
    }

    fn compare(&self) -> Comparison {
        let project = |state| self.compared?.project(self.text(state)?).ok();
        match (project(State::Old), project(State::New)) {
            (Some(old), Some(new)) if old == new => Comparison::Equal,
            (Some(old), Some(new)) => Comparison::Different { old, new },
            _ => Comparison::Unknown,
        }
    }
}
