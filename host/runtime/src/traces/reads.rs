//! Counts the reads of a call, by kind.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use pintle_core::contract::outcome::{MutationFailure, Need, NeedError};
use pintle_core::lifecycle::read_set::ReadSet;
use pintle_core::object::id::{Kind, ObjectKey};
use pintle_core::object::{Meta, Object};
use pintle_core::ports::api::ApiResource;
use pintle_core::ports::trace::{KindReads, MAX_READ_KINDS, OTHER_READS};
use pintle_core::ports::view::{Query, View, ViewError};

/// A view that counts its reads, for a recorded run. Every method delegates to the inner view.
pub(crate) struct CountingView {
    view: Arc<dyn View>,
    counts: Mutex<Counts>,
}

#[derive(Default)]
struct Counts {
    /// In the order of the first reads.
    by_kind: Vec<(Kind, KindReads)>,
    others: KindReads,
}

impl CountingView {
    pub(crate) fn new(view: Arc<dyn View>) -> Arc<Self> {
        Arc::new(Self { view, counts: Mutex::default() })
    }

    /// The reads so far.
    pub(crate) fn reads(&self) -> Vec<KindReads> {
        let counts = self.counts.lock();
        let named = counts.by_kind.iter().map(|(kind, reads)| KindReads { kind: kind.to_string(), ..reads.clone() });
        let others = KindReads { kind: OTHER_READS.to_owned(), ..counts.others.clone() };
        named.chain((others.n_reads > 0).then_some(others)).collect()
    }

    fn count(&self, kind: Option<&Kind>, n_objects: usize, n_bytes: usize) {
        let mut counts = self.counts.lock();
        let Counts { by_kind, others } = &mut *counts;
        let known = kind.and_then(|kind| by_kind.iter().position(|(known, _)| known == kind));
        let reads = match (known, kind) {
            (Some(known), _) => by_kind.get_mut(known).map_or(others, |(_, reads)| reads),
            (None, Some(kind)) if by_kind.len() < MAX_READ_KINDS => {
                by_kind.push((kind.clone(), KindReads::default()));
                by_kind.last_mut().map_or(others, |(_, reads)| reads)
            }
            (None, _) => others,
        };
        reads.n_reads += 1;
        reads.n_objects += n_objects as u64;
        reads.n_bytes += n_bytes as u64;
    }

    fn counted(
        &self,
        kind: Option<&Kind>,
        found: Result<Vec<Arc<str>>, ViewError>,
    ) -> Result<Vec<Arc<str>>, ViewError> {
        let texts = found.as_deref().unwrap_or_default();
        self.count(kind, texts.len(), texts.iter().map(|text| text.len()).sum());
        found
    }

    fn counted_one(
        &self,
        kind: Option<&Kind>,
        found: Result<Option<Arc<str>>, ViewError>,
    ) -> Result<Option<Arc<str>>, ViewError> {
        let text = found.as_ref().ok().and_then(Option::as_ref);
        self.count(kind, usize::from(text.is_some()), text.map_or(0, |text| text.len()));
        found
    }
}

impl View for CountingView {
    fn now(&self) -> &str {
        self.view.now()
    }

    fn uptime(&self) -> Duration {
        self.view.uptime()
    }

    fn get(&self, kind: &Kind, object: &ObjectKey) -> Result<Option<Arc<str>>, ViewError> {
        self.counted_one(Some(kind), self.view.get(kind, object))
    }

    fn list(&self, kind: &Kind, query: &Query) -> Result<Vec<Arc<str>>, ViewError> {
        self.counted(Some(kind), self.view.list(kind, query))
    }

    fn count(&self, kind: &Kind, query: &Query) -> Result<usize, ViewError> {
        let found = self.view.count(kind, query);
        self.count(Some(kind), found.as_ref().copied().unwrap_or_default(), 0);
        found
    }

    fn selecting(&self, kind: &Kind, namespace: &str, labels: &[(String, String)]) -> Result<Vec<Arc<str>>, ViewError> {
        self.counted(Some(kind), self.view.selecting(kind, namespace, labels))
    }

    fn dependents(&self, uid: &str) -> Result<Vec<Arc<str>>, ViewError> {
        self.counted(None, self.view.dependents(uid))
    }

    fn by_uid(&self, uid: &str) -> Result<Option<Arc<str>>, ViewError> {
        self.counted_one(None, self.view.by_uid(uid))
    }

    fn resources(&self) -> Result<Arc<[ApiResource]>, ViewError> {
        self.view.resources()
    }

    fn config(&self) -> Arc<str> {
        self.view.config()
    }

    fn state(&self, name: &str) -> Option<Arc<str>> {
        self.view.state(name)
    }

    fn attempt(&self) -> u32 {
        self.view.attempt()
    }

    fn failures(&self) -> &[MutationFailure] {
        self.view.failures()
    }

    fn answer(&self, need: &Need) -> Option<Result<Arc<str>, NeedError>> {
        self.view.answer(need)
    }

    fn object(&self, kind: &Kind, object: &ObjectKey) -> Option<Arc<Object>> {
        self.view.object(kind, object)
    }

    fn incomplete_dependents(&self) -> Option<&Kind> {
        self.view.incomplete_dependents()
    }

    fn selects(&self, kind: &Kind, object: &ObjectKey, selected: &Meta) -> bool {
        self.view.selects(kind, object, selected)
    }

    fn read_set(&self) -> ReadSet {
        self.view.read_set()
    }
}
