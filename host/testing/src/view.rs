//! The view of a run, without caches.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use pintle_core::contract::manifest::EmptySelector;
use pintle_core::contract::outcome::{Answers, MutationFailure, Need, NeedError};
use pintle_core::object::id::{Kind, ObjectKey};
use pintle_core::object::{Meta, Object};
use pintle_core::ports::api::ApiResource;
use pintle_core::ports::view::{Query, View, ViewError};

/// A view that shows nothing to guests, and these objects to the host.
#[derive(Default)]
pub struct FakeView {
    /// RFC 3339.
    pub now: String,
    /// Time since the host started.
    pub uptime: Duration,
    /// The plugin's configuration.
    pub config: Arc<str>,
    /// The plugin's keyed state.
    pub state: BTreeMap<Arc<str>, Arc<str>>,
    /// Consecutive failures of the key.
    pub attempt: u32,
    /// Failures of the key's previous outcome.
    pub failures: Arc<[MutationFailure]>,
    /// Answers to the needs of the run's previous round.
    pub answers: Answers,
    /// Objects in the host's caches.
    pub objects: Vec<(Kind, Arc<Object>)>,
    /// Meaning of an empty selector.
    pub empty_selector: EmptySelector,
}

impl FakeView {
    /// A view that shows these objects to the host.
    pub fn showing(objects: Vec<(Kind, Arc<Object>)>) -> Self {
        Self { objects, ..Self::default() }
    }
}

impl View for FakeView {
    fn now(&self) -> &str {
        &self.now
    }
    fn uptime(&self) -> Duration {
        self.uptime
    }
    fn get(&self, _: &Kind, _: &ObjectKey) -> Result<Option<Arc<str>>, ViewError> {
        Ok(None)
    }
    fn list(&self, _: &Kind, _: &Query) -> Result<Vec<Arc<str>>, ViewError> {
        Ok(Vec::new())
    }
    fn count(&self, _: &Kind, _: &Query) -> Result<usize, ViewError> {
        Ok(0)
    }
    fn selecting(&self, _: &Kind, _: &str, _: &[(String, String)]) -> Result<Vec<Arc<str>>, ViewError> {
        Ok(Vec::new())
    }
    fn dependents(&self, _: &str) -> Result<Vec<Arc<str>>, ViewError> {
        Ok(Vec::new())
    }
    fn by_uid(&self, _: &str) -> Result<Option<Arc<str>>, ViewError> {
        Ok(None)
    }
    fn resources(&self) -> Result<Arc<[ApiResource]>, ViewError> {
        Err(ViewError::NoDiscovery)
    }
    fn config(&self) -> Arc<str> {
        self.config.clone()
    }
    fn state(&self, name: &str) -> Option<Arc<str>> {
        self.state.get(name).cloned()
    }
    fn attempt(&self) -> u32 {
        self.attempt
    }
    fn failures(&self) -> &[MutationFailure] {
        &self.failures
    }
    fn answer(&self, need: &Need) -> Option<Result<Arc<str>, NeedError>> {
        self.answers.iter().find(|(other, _)| other == need).map(|(_, answer)| answer.clone())
    }
    /// By the object's only selector, whatever the watch declares.
    fn selects(&self, kind: &Kind, object: &ObjectKey, selected: &Meta) -> bool {
        let object = self.object(kind, object);
        let selector = object.as_ref().and_then(|object| object.selectors.first()?.as_ref());
        self.empty_selector.matches(selector, |key| selected.label(key))
    }
    fn object(&self, kind: &Kind, object: &ObjectKey) -> Option<Arc<Object>> {
        let found = self.objects.iter().find(|(other, cached)| other == kind && cached.meta.key == *object);
        found.map(|(_, cached)| cached.clone())
    }
}
