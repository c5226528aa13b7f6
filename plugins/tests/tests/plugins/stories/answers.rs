//! A lister with answers to needs that a case cannot have.

use std::time::Duration;

use pintle_sdk::{ApiError, ApiResource, Kind, Lister, MutationFailure, Need, ObjectKey, Query};

/// A lister that answers needs by a function, once they were asked.
pub(crate) struct Answers<'a, L, F> {
    pub(crate) lister: &'a L,
    pub(crate) answer: F,
}

impl<L: Lister, F: Fn(&Need) -> Result<String, ApiError>> Lister for Answers<'_, L, F> {
    fn answer(&self, need: &Need) -> Option<Result<String, ApiError>> {
        self.lister.answer(need).map(|_| (self.answer)(need))
    }

    fn now_text(&self) -> String {
        self.lister.now_text()
    }

    fn uptime(&self) -> Duration {
        self.lister.uptime()
    }

    fn get_json(&self, kind: &Kind, object: &ObjectKey) -> Option<String> {
        self.lister.get_json(kind, object)
    }

    fn list_json(&self, kind: &Kind, query: &Query) -> Vec<String> {
        self.lister.list_json(kind, query)
    }

    fn count(&self, kind: &Kind, query: &Query) -> u32 {
        self.lister.count(kind, query)
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
        self.lister.state(name)
    }

    fn attempt(&self) -> u32 {
        self.lister.attempt()
    }

    fn failures(&self) -> Vec<MutationFailure> {
        self.lister.failures()
    }
}
