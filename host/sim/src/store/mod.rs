//! The objects of the cluster, their versions and the log for watches.
//!
//! *Flow*: verbs prepare an object without a lock and [`Store`] commits it: it assigns the resourceVersion, serializes
//! once, appends to the kind's log and wakes watchers.
//!
//! ```text
//! verb ── create / replace / remove ──> tables: storage -> "namespace/name" -> Entry
//!                                       log: storage -> the last events ──> cursors of watches, lists in the past
//! ```
//!
//! *Invariants*: 1. one counter numbers every write of the cluster, as etcd does; 2. an [`Entry`] never changes, a write makes a new one;
//! 3. a table's log holds every event after its floor; 4. the write history, when kept, has every write in order.
//!
//! *Not here*: validation of objects (`server`), served kinds (`discovery`).
//!
//! *Source*: etcd's revisions and the API server's watch cache; here the log is both, and a list in the past is the
//! present with the log undone.

mod end;
mod history;
mod version;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use parking_lot::RwLock;
use serde_json::Value;

pub use history::{WriteRecord, WriteVerb};
pub(crate) use version::partial_object;
pub use version::{Entry, Version};

use self::end::{End, EndReader};
use crate::discovery::Resource;
use crate::server::status::ApiError;

/// The type of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventType {
    /// It is new.
    Added,
    /// It has another version.
    Modified,
    /// It is deleted; the event holds its last state with the version of the removal.
    Deleted,
}

/// One entry of a table's log.
#[derive(Debug)]
pub struct Event {
    /// The type of the event.
    pub kind: EventType,
    /// The state after the write.
    pub object: Arc<Version>,
    /// The state before the write, none for a new object.
    pub previous: Option<Arc<Version>>,
}

impl Event {
    /// The resourceVersion of the write.
    pub fn rv(&self) -> u64 {
        self.object.rv
    }
}

/// The committer's record of a write, for fault scripts and the history.
pub(crate) struct WriteContext<'a> {
    pub(crate) resource: &'a Resource,
    pub(crate) subresource: Option<&'a str>,
    pub(crate) verb: WriteVerb,
    pub(crate) user_agent: &'a str,
    pub(crate) faults: &'a crate::faults::FaultScript,
    pub(crate) now: jiff::Timestamp,
}

/// Sizes that bound the store.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoreLimits {
    /// Most events kept per table; a watch or a list further back gets 410.
    pub(crate) log_events: usize,
    /// Most writes kept in the history, 0 for none.
    pub(crate) history_writes: usize,
}

/// The only owner of objects.
pub(crate) struct Store {
    inner: RwLock<Inner>,
    limits: StoreLimits,
}

/// The state of the store during one commit or read.
pub(crate) struct Inner {
    rv: u64,
    tables: HashMap<Arc<str>, Table>,
    history: history::History,
}

#[derive(Debug)]
struct Table {
    /// "namespace/name", or "name" for cluster-scoped kinds.
    objects: BTreeMap<Arc<str>, Entry>,
    log: VecDeque<Arc<Event>>,
    /// Sequence number of the first event in the log.
    first: u64,
    /// resourceVersion of the last event that left the log.
    floor: u64,
    /// Sequence number after the last event; watches hold readers, and the table's end closes them.
    end: End,
}

impl Table {
    fn new(floor: u64) -> Self {
        Self { objects: BTreeMap::new(), log: VecDeque::new(), first: 0, floor, end: End::default() }
    }

    fn append(&mut self, event: Event, limit: usize) {
        self.log.push_back(Arc::new(event));
        while self.log.len() > limit {
            self.forget_first();
        }
        let end = self.first + self.log.len() as u64;
        self.end.set(end);
    }

    fn forget_first(&mut self) {
        if let Some(event) = self.log.pop_front() {
            self.first += 1;
            self.floor = event.rv();
        }
    }
}

/// The position of one watch in a table's log.
#[derive(Debug)]
pub(crate) struct Cursor {
    storage: Arc<str>,
    next: u64,
    end: EndReader,
}

impl Cursor {
    /// Waits for events that [`Store::read`] has not returned yet; false when the table is closed.
    pub(crate) async fn changed(&mut self) -> bool {
        self.end.beyond(self.next).await
    }
}

/// Result of reading the log for a watch.
pub(crate) enum Read {
    /// Events since the last read; empty when there are none.
    Events(Vec<Arc<Event>>),
    /// Events were lost; the watch must end.
    Lagged,
    /// The kind is no longer served.
    Gone,
}

/// A list at `rv`.
pub(crate) struct Listed {
    pub(crate) rv: u64,
    pub(crate) items: Vec<Arc<Version>>,
    /// The key after which the next page starts.
    pub(crate) next: Option<Arc<str>>,
    /// How many objects of the range are behind `next`.
    pub(crate) remaining: usize,
}

/// The parameters of a list.
pub(crate) struct ListRange<'a> {
    /// `None` for all namespaces or cluster-scoped kinds.
    pub(crate) namespace: Option<&'a str>,
    /// The resourceVersion to read at; `None` for the present.
    pub(crate) at: Option<u64>,
    /// Keys up to and including this one are skipped.
    pub(crate) after: Option<&'a str>,
    pub(crate) limit: Option<usize>,
}

/// The key of an object in its table.
pub(crate) fn object_key(namespace: Option<&str>, name: &str) -> String {
    match namespace {
        Some(namespace) => format!("{namespace}/{name}"),
        None => name.to_owned(),
    }
}

impl Inner {
    /// The object with that key.
    pub(crate) fn get(&self, storage: &str, key: &str) -> Option<&Entry> {
        self.tables.get(storage)?.objects.get(key)
    }

    /// The objects of a namespace, or all.
    pub(crate) fn range<'a>(
        &'a self,
        storage: &str,
        namespace: Option<&str>,
    ) -> impl Iterator<Item = &'a Entry> + use<'a> {
        let prefix = namespace.map(|namespace| format!("{namespace}/")).unwrap_or_default();
        self.tables
            .get(storage)
            .map(|table| {
                table.objects.range::<str, _>((std::ops::Bound::Included(prefix.as_str()), std::ops::Bound::Unbounded))
            })
            .into_iter()
            .flatten()
            .take_while(move |(key, _)| key.starts_with(&prefix))
            .map(|(_, entry)| entry)
    }
}

impl Store {
    pub(crate) fn new(limits: StoreLimits) -> Self {
        let inner = Inner { rv: 1, tables: HashMap::new(), history: history::History::new(limits.history_writes) };
        Self { inner: RwLock::new(inner), limits }
    }

    /// The resourceVersion of the last write.
    pub(crate) fn rv(&self) -> u64 {
        self.inner.read().rv
    }

    /// Creates a table for a newly served kind.
    pub(crate) fn open_table(&self, storage: &Arc<str>) {
        let mut inner = self.inner.write();
        let rv = inner.rv;
        inner.tables.entry(Arc::clone(storage)).or_insert_with(|| Table::new(rv));
    }

    /// Removes a kind with all its objects; its watches end.
    pub(crate) fn close_table(&self, storage: &str) {
        self.inner.write().tables.remove(storage);
    }

    pub(crate) fn get(&self, storage: &str, key: &str) -> Option<Entry> {
        self.inner.read().get(storage, key).cloned()
    }

    /// Reads the store under its lock, which blocks writes.
    pub(crate) fn view<T>(&self, look: impl FnOnce(&Inner) -> T) -> T {
        look(&self.inner.read())
    }

    /// Adds an object. `check` runs atomically with the commit and can reject it.
    pub(crate) fn create(
        &self,
        ctx: &WriteContext<'_>,
        key: &str,
        mut value: Value,
        check: impl FnOnce(&Inner, &Value) -> Result<(), ApiError>,
    ) -> Result<Entry, CommitError> {
        let mut inner = self.inner.write();
        ctx.faults.admit_commit(ctx.user_agent)?;
        let table = inner.tables.get(&ctx.resource.storage).ok_or_else(ApiError::unknown_path)?;
        if table.objects.contains_key(key) {
            return Err(CommitError::Exists);
        }
        check(&inner, &value)?;
        let rv = inner.rv + 1;
        set_rv(&mut value, rv);
        let entry = Entry::new(ctx.resource, key, rv, value)?;
        inner.commit(ctx, EventType::Added, entry.clone(), None, self.limits.log_events);
        Ok(entry)
    }

    /// Replaces the version with number `expected`.
    pub(crate) fn replace(
        &self,
        ctx: &WriteContext<'_>,
        key: &str,
        expected: u64,
        value: Value,
    ) -> Result<Entry, CommitError> {
        self.commit_after(ctx, key, expected, value, EventType::Modified)
    }

    /// Removes the version with number `expected`; `last` is its final state.
    pub(crate) fn remove(
        &self,
        ctx: &WriteContext<'_>,
        key: &str,
        expected: u64,
        last: Value,
    ) -> Result<Entry, CommitError> {
        self.commit_after(ctx, key, expected, last, EventType::Deleted)
    }

    /// Commits the state after the version with number `expected`.
    fn commit_after(
        &self,
        ctx: &WriteContext<'_>,
        key: &str,
        expected: u64,
        mut value: Value,
        kind: EventType,
    ) -> Result<Entry, CommitError> {
        let mut inner = self.inner.write();
        ctx.faults.admit_commit(ctx.user_agent)?;
        let before = inner.get(&ctx.resource.storage, key).ok_or(CommitError::Missing)?;
        if before.version.rv != expected {
            return Err(CommitError::Changed);
        }
        let before = Arc::clone(&before.version);
        let rv = inner.rv + 1;
        set_rv(&mut value, rv);
        let entry = Entry::new(ctx.resource, key, rv, value)?;
        inner.commit(ctx, kind, entry.clone(), Some(before), self.limits.log_events);
        Ok(entry)
    }

    /// Lists a range, now or at an earlier resourceVersion, with the objects that match `wanted`.
    ///
    /// # Errors
    /// 410 when the log does not reach back far enough.
    pub(crate) fn list(
        &self,
        storage: &str,
        range: &ListRange<'_>,
        wanted: impl Fn(&Version) -> bool,
    ) -> Result<Listed, ApiError> {
        let inner = self.inner.read();
        let table = inner.tables.get(storage).ok_or_else(ApiError::unknown_path)?;
        let rv = range.at.unwrap_or(inner.rv);
        if rv > inner.rv {
            return Err(ApiError::too_large(rv, inner.rv));
        }
        let prefix = range.namespace.map(|namespace| format!("{namespace}/")).unwrap_or_default();
        let undone = undone(table, rv)?;
        let mut keys = MergedKeys { table, undone: &undone, prefix: &prefix };
        let mut listed = Listed { rv, items: Vec::new(), next: None, remaining: 0 };
        let mut last: Option<Arc<str>> = None;
        for (key, version) in keys.iter(range.after) {
            if range.limit.is_some_and(|limit| listed.items.len() >= limit) {
                if listed.next.is_none() {
                    listed.next = last.clone();
                }
                listed.remaining += 1;
                continue;
            }
            last = Some(Arc::clone(key));
            if wanted(&version) {
                listed.items.push(version);
            }
        }
        Ok(listed)
    }

    /// A cursor at the end of the log and the current objects of the range, atomically.
    pub(crate) fn watch_from_now(
        &self,
        storage: &Arc<str>,
        namespace: Option<&str>,
        wanted: impl Fn(&Version) -> bool,
    ) -> Result<(Cursor, u64, Vec<Arc<Version>>), ApiError> {
        let inner = self.inner.read();
        let table = inner.tables.get(storage).ok_or_else(ApiError::unknown_path)?;
        let items = inner
            .range(storage, namespace)
            .map(|entry| &entry.version)
            .filter(|version| wanted(version))
            .cloned()
            .collect();
        let cursor = Cursor {
            storage: Arc::clone(storage),
            next: table.first + table.log.len() as u64,
            end: table.end.reader(),
        };
        Ok((cursor, inner.rv, items))
    }

    /// A cursor after the last event that is not newer than `rv`.
    pub(crate) fn watch_from(&self, storage: &Arc<str>, rv: u64) -> Result<Cursor, ApiError> {
        let inner = self.inner.read();
        let table = inner.tables.get(storage).ok_or_else(ApiError::unknown_path)?;
        if rv < table.floor {
            return Err(ApiError::too_old(rv, table.floor));
        }
        if rv > inner.rv {
            return Err(ApiError::too_large(rv, inner.rv));
        }
        let seen = table.log.partition_point(|event| event.rv() <= rv);
        Ok(Cursor { storage: Arc::clone(storage), next: table.first + seen as u64, end: table.end.reader() })
    }

    /// The events after the cursor, at most `limit`, and the resourceVersion up to which the watch is then complete.
    pub(crate) fn read(&self, cursor: &mut Cursor, limit: usize) -> (Read, u64) {
        let inner = self.inner.read();
        // A table that was closed and opened again is another one with the same name.
        let Some(table) = inner.tables.get(&cursor.storage).filter(|table| table.end.is_of(&cursor.end)) else {
            return (Read::Gone, inner.rv);
        };
        if cursor.next < table.first {
            return (Read::Lagged, inner.rv);
        }
        let from = (cursor.next - table.first) as usize;
        let events: Vec<_> = table.log.iter().skip(from).take(limit).cloned().collect();
        cursor.next += events.len() as u64;
        let seen =
            if from + events.len() == table.log.len() { inner.rv } else { events.last().map_or(0, |event| event.rv()) };
        (Read::Events(events), seen)
    }

    /// Drops every event up to and including `rv`, as etcd's compaction does.
    pub(crate) fn compact(&self, rv: u64) {
        let mut inner = self.inner.write();
        let rv = rv.min(inner.rv);
        for table in inner.tables.values_mut() {
            while table.log.front().is_some_and(|event| event.rv() <= rv) {
                table.forget_first();
            }
            table.floor = table.floor.max(rv);
        }
    }

    /// The writes that are kept, oldest first.
    pub(crate) fn history(&self) -> Vec<Arc<WriteRecord>> {
        self.inner.read().history.records()
    }

    /// Number of writes since the start.
    pub(crate) fn n_writes(&self) -> u64 {
        self.inner.read().history.n_writes()
    }
}

impl Inner {
    fn commit(
        &mut self,
        ctx: &WriteContext<'_>,
        kind: EventType,
        entry: Entry,
        previous: Option<Arc<Version>>,
        limit: usize,
    ) {
        self.rv = entry.version.rv;
        let object = Arc::clone(&entry.version);
        if let Some(table) = self.tables.get_mut(&ctx.resource.storage) {
            match kind {
                EventType::Deleted => {
                    table.objects.remove(&object.key);
                }
                EventType::Added | EventType::Modified => {
                    table.objects.insert(Arc::clone(&object.key), entry);
                }
            }
            table.append(Event { kind, object: Arc::clone(&object), previous: previous.clone() }, limit);
        }
        let record = self.history.record(ctx, kind, previous, object);
        ctx.faults.committed(&record);
    }
}

/// The reason why a commit failed.
#[derive(Debug)]
pub(crate) enum CommitError {
    /// The name exists.
    Exists,
    /// The object does not exist (any more).
    Missing,
    /// The object has another version than the one the change is based on.
    Changed,
    /// Rejected.
    Api(ApiError),
}

impl From<ApiError> for CommitError {
    fn from(error: ApiError) -> Self {
        Self::Api(error)
    }
}

fn set_rv(value: &mut Value, rv: u64) {
    if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert("resourceVersion".into(), Value::String(rv.to_string()));
    }
}

/// The earlier states, at `rv`, of objects changed since: key -> state, `None` when it did not exist.
fn undone(table: &Table, rv: u64) -> Result<BTreeMap<Arc<str>, Option<Arc<Version>>>, ApiError> {
    if rv < table.floor {
        return Err(ApiError::expired("The resourceVersion for the provided list is too old."));
    }
    let mut changes = BTreeMap::new();
    for event in table.log.iter().rev().take_while(|event| event.rv() > rv) {
        changes.insert(Arc::clone(&event.object.key), event.previous.clone());
    }
    Ok(changes)
}

struct MergedKeys<'a> {
    table: &'a Table,
    undone: &'a BTreeMap<Arc<str>, Option<Arc<Version>>>,
    prefix: &'a str,
}

impl<'a> MergedKeys<'a> {
    /// The objects of the range in order, after the key `after`.
    fn iter(&mut self, after: Option<&str>) -> Vec<(&'a Arc<str>, Arc<Version>)> {
        use std::ops::Bound::{Excluded, Included, Unbounded};
        let start = match after {
            Some(after) => Excluded(after),
            None => Included(self.prefix),
        };
        let undone = self.undone;
        let prefix = self.prefix;
        let present = self
            .table
            .objects
            .range::<str, _>((start, Unbounded))
            .take_while(|(key, _)| key.starts_with(prefix))
            .filter(|(key, _)| !undone.contains_key(*key))
            .map(|(key, entry)| (key, Arc::clone(&entry.version)));
        if undone.is_empty() {
            return present.collect();
        }
        let past = undone
            .range::<str, _>((start, Unbounded))
            .take_while(|(key, _)| key.starts_with(prefix))
            .filter_map(|(key, version)| Some((key, version.clone()?)));
        let mut all: Vec<_> = present.chain(past).collect();
        all.sort_by(|left, right| left.0.cmp(right.0));
        all
    }
}

#[cfg(test)]
mod tests;
