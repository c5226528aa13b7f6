//! A lister with answers that a case cannot have.

use std::time::Duration;

use pintle_sdk::{ApiError, ApiResource, Kind, Lister, MutationFailure, Need, ObjectKey, Query};

/// Answers needs.
type ToNeeds<'a> = &'a dyn Fn(&Need) -> Result<String, ApiError>;

/// Returns the values of the state.
type ToState<'a> = &'a dyn Fn(&str) -> Option<String>;

/// A lister whose functions override some answers.
pub(crate) struct Answers<'a, L> {
    lister: &'a L,
    answer: Option<ToNeeds<'a>>,
    state: Option<ToState<'a>>,
    /// Kinds, and the lister that has their cache.
    older: Option<(&'a [Kind], &'a L)>,
    now: Option<String>,
}

impl<'a, L: Lister> Answers<'a, L> {
    /// Answers needs with the function, once they were requested.
    pub(crate) fn to_needs(lister: &'a L, answer: ToNeeds<'a>) -> Self {
        Self { lister, answer: Some(answer), state: None, older: None, now: None }
    }

    /// Returns the values of the state with the function.
    pub(crate) fn with_state(lister: &'a L, state: ToState<'a>) -> Self {
        Self { lister, answer: None, state: Some(state), older: None, now: None }
    }

    /// Reads some kinds from the cache of an older lister. Needs are answered by the API server as it is now.
    pub(crate) fn with_older(lister: &'a L, kinds: &'a [Kind], older: &'a L) -> Self {
        Self { lister, answer: None, state: None, older: Some((kinds, older)), now: None }
    }

    /// Sets the wall clock.
    pub(crate) fn at(self, now: String) -> Self {
        Self { now: Some(now), ..self }
    }

    /// The lister with the cache of a kind.
    fn of(&self, kind: &Kind) -> &L {
        self.older.filter(|(older, _)| older.contains(kind)).map_or(self.lister, |(_, older)| older)
    }
}

impl<L: Lister> Lister for Answers<'_, L> {
    fn answer(&self, need: &Need) -> Option<Result<String, ApiError>> {
        let found = self.lister.answer(need)?;
        Some(self.answer.map_or(found, |answer| answer(need)))
    }

    fn now_text(&self) -> String {
        self.now.clone().unwrap_or_else(|| self.lister.now_text())
    }

    fn uptime(&self) -> Duration {
        self.lister.uptime()
    }

    fn get_json(&self, kind: &Kind, object: &ObjectKey) -> Option<String> {
        self.of(kind).get_json(kind, object)
    }

    fn list_json(&self, kind: &Kind, query: &Query) -> Vec<String> {
        self.of(kind).list_json(kind, query)
    }

    fn count(&self, kind: &Kind, query: &Query) -> u32 {
        self.of(kind).count(kind, query)
    }

    fn selecting_json(&self, kind: &Kind, namespace: &str, labels: &[(String, String)]) -> Vec<String> {
        self.lister.selecting_json(kind, namespace, labels)
    }

    fn dependents_json(&self, uid: &str) -> Vec<String> {
        self.lister.dependents_json(uid)
    }

    fn by_uid_json(&self, uid: &str) -> Option<String> {
        self.lister.by_uid_json(uid)
    }

    fn resources(&self) -> Vec<ApiResource> {
        self.lister.resources()
    }

    fn resources_of(&self, group: &str, name: &str) -> Vec<ApiResource> {
        self.lister.resources_of(group, name)
    }

    fn config_json(&self) -> String {
        self.lister.config_json()
    }

    fn state(&self, name: &str) -> Option<String> {
        self.state.map_or_else(|| self.lister.state(name), |state| state(name))
    }

    fn attempt(&self) -> u32 {
        self.lister.attempt()
    }

    fn failures(&self) -> Vec<MutationFailure> {
        self.lister.failures()
    }
}
