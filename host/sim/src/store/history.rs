//! Every write in order, for tests that check invariants over a whole run.

use std::collections::VecDeque;
use std::sync::Arc;

use jiff::Timestamp;

use super::{EventType, Version, WriteContext};

/// The client's verb.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WriteVerb {
    /// POST of an object, a binding or an eviction.
    Create,
    /// PUT.
    Update,
    /// PATCH of any type.
    Patch,
    /// DELETE.
    Delete,
    /// DELETE of a collection.
    DeleteCollection,
}

/// One write that took effect.
#[derive(Clone, Debug)]
pub struct WriteRecord {
    /// 1 for the first write of the cluster.
    pub n: u64,
    /// Time by the cluster's clock.
    pub at: Timestamp,
    /// The client's verb.
    pub verb: WriteVerb,
    /// Its effect on the object.
    pub effect: EventType,
    /// Group, empty for core.
    pub group: String,
    /// Plural name.
    pub resource: String,
    /// `status`, `scale`, ...
    pub subresource: Option<String>,
    /// The client's `User-Agent`, or `pintle-sim` for the server's own writes.
    pub user_agent: String,
    /// State before, none for a new object.
    pub before: Option<Arc<Version>>,
    /// State after; for a removal the last state.
    pub after: Arc<Version>,
}

#[derive(Debug)]
pub(super) struct History {
    records: VecDeque<Arc<WriteRecord>>,
    limit: usize,
    n: u64,
}

impl History {
    pub(super) fn new(limit: usize) -> Self {
        Self { records: VecDeque::new(), limit, n: 0 }
    }

    pub(super) fn record(
        &mut self,
        ctx: &WriteContext<'_>,
        effect: EventType,
        before: Option<Arc<Version>>,
        after: Arc<Version>,
    ) -> Arc<WriteRecord> {
        self.n += 1;
        let record = Arc::new(WriteRecord {
            n: self.n,
            at: ctx.now,
            verb: ctx.verb,
            effect,
            group: ctx.resource.group.clone(),
            resource: ctx.resource.plural.clone(),
            subresource: ctx.subresource.map(str::to_owned),
            user_agent: ctx.user_agent.to_owned(),
            before,
            after,
        });
        if self.limit > 0 {
            if self.records.len() == self.limit {
                self.records.pop_front();
            }
            self.records.push_back(Arc::clone(&record));
        }
        record
    }

    pub(super) fn records(&self) -> Vec<Arc<WriteRecord>> {
        self.records.iter().cloned().collect()
    }

    pub(super) fn n_writes(&self) -> u64 {
        self.n
    }
}
