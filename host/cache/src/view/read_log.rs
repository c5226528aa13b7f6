//! Log of a run's reads, for the case that it fails.
//!
//! A view never changes, so it is sufficient to log the queries: a replay has the same results. An entry costs a few
//! references and short texts; objects are looked up only after a failure.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;
use pintle_core::object::id::{Kind, ObjectKey};
use pintle_core::policy::held::{Account, Held};
use pintle_core::ports::view::{OwnedBy, Query};

/// Maximum bytes of a run's log: about ten thousand reads of single objects.
const MAX_BYTES: usize = 1 << 20;
/// Maximum bytes of an entry: the longest selector, and names.
const MAX_ENTRY_BYTES: usize = 20 << 10;
/// Maximum logged bulk reads: a replay of each may scan all objects of a kind.
const MAX_BULK_READS: usize = 64;
/// Bytes of an entry in addition to its texts.
const ENTRY_BYTES: usize = 128;

/// A read that may return many objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum BulkRead {
    List(Kind, Query),
    /// Objects whose selector matches these labels.
    Selecting {
        kind: Kind,
        namespace: String,
        labels: Vec<(String, String)>,
    },
    Dependents(String),
}

/// The logged reads of a run.
#[derive(Clone, Debug, Default)]
pub(super) struct LoggedReads {
    /// In read order, without immediate repetitions.
    pub(super) objects: Vec<(Kind, ObjectKey)>,
    pub(super) uids: Vec<Box<str>>,
    /// Without duplicates.
    pub(super) bulk_reads: Vec<BulkRead>,
    pub(super) state: BTreeSet<Box<str>>,
    pub(super) resources: bool,
    /// Whether entries were dropped because of a bound.
    pub(super) is_incomplete: bool,
}

/// The log of a run.
#[derive(Debug, Default)]
pub(super) struct ReadLog(Mutex<Log>);

#[derive(Debug, Default)]
struct Log {
    reads: LoggedReads,
    n_bytes: usize,
    /// Bytes in the plugin's account.
    held: Option<Held>,
}

impl ReadLog {
    /// Creates an empty log that is counted in this account.
    pub(super) fn new(account: Option<&Arc<Account>>) -> Self {
        Self(Mutex::new(Log { held: account.map(Account::open), ..Log::default() }))
    }

    pub(super) fn reads(&self) -> LoggedReads {
        self.0.lock().reads.clone()
    }

    pub(super) fn object(&self, kind: &Kind, object: &ObjectKey) {
        let n_bytes = kind.n_bytes() + object.n_bytes();
        let mut log = self.0.lock();
        let is_last = log.reads.objects.last().is_some_and(|(of, last)| last == object && of == kind);
        if !is_last && log.has_room(n_bytes) {
            log.reads.objects.push((kind.clone(), object.clone()));
        }
    }

    pub(super) fn uid(&self, uid: &str) {
        let mut log = self.0.lock();
        if log.has_room(uid.len()) {
            log.reads.uids.push(uid.into());
        }
    }

    pub(super) fn bulk_read(&self, bulk_read: BulkRead) {
        let mut log = self.0.lock();
        if log.reads.bulk_reads.contains(&bulk_read) {
            return;
        }
        if log.reads.bulk_reads.len() == MAX_BULK_READS {
            log.reads.is_incomplete = true;
        } else if log.has_room(bulk_read.n_bytes()) {
            log.reads.bulk_reads.push(bulk_read);
        }
    }

    pub(super) fn state(&self, name: &str) {
        let mut log = self.0.lock();
        if !log.reads.state.contains(name) && log.has_room(name.len()) {
            log.reads.state.insert(name.into());
        }
    }

    pub(super) fn resources(&self) {
        self.0.lock().reads.resources = true;
    }
}

impl Log {
    /// Reserves room for an entry with texts of this length; returns false if there is none.
    fn has_room(&mut self, n_bytes: usize) -> bool {
        let n_bytes = n_bytes + ENTRY_BYTES;
        let fits = n_bytes <= MAX_ENTRY_BYTES && self.n_bytes + n_bytes <= MAX_BYTES;
        let is_room = fits && self.held.as_mut().is_none_or(|held| held.grow(n_bytes as u64));
        if is_room {
            self.n_bytes += n_bytes;
        } else {
            self.reads.is_incomplete = true;
        }
        is_room
    }
}

impl BulkRead {
    /// Bytes of its texts.
    fn n_bytes(&self) -> usize {
        match self {
            Self::List(kind, Query { namespace, label_selector, owner, index, whole: _ }) => {
                let owner = owner.as_ref().map(OwnedBy::uid);
                let (index, value) = index.as_ref().map(|(index, value)| (index.as_str(), value.as_str())).unzip();
                let texts = [namespace.as_deref(), label_selector.as_deref(), owner, index, value];
                kind.n_bytes() + texts.into_iter().flatten().map(str::len).sum::<usize>() + ENTRY_BYTES
            }
            Self::Selecting { kind, namespace, labels } => {
                let labels = labels.iter().map(|(key, value)| key.len() + value.len() + ENTRY_BYTES);
                kind.n_bytes() + namespace.len() + labels.sum::<usize>()
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
    fn the_log_is_bounded_in_bytes() {
        let log = ReadLog::default();
        let fitting = MAX_BYTES / (ENTRY_BYTES + "v1Pod".len() + 8);
        for i in 0..fitting {
            let object = ObjectKey::new("ns", &format!("{i:06}"));
            log.object(&pod(), &object);
            // An immediate repetition counts as one read.
            log.object(&pod(), &object);
        }
        assert_eq!((log.reads().objects.len(), log.reads().is_incomplete), (fitting, false));
        log.object(&pod(), &ObjectKey::new("ns", "one-too-many"));
        assert_eq!((log.reads().objects.len(), log.reads().is_incomplete), (fitting, true));
    }

    #[test]
    fn the_log_is_counted_in_the_account_until_the_run_ends() {
        let account = Account::new(100 << 10);
        let (one, other) = (ReadLog::new(Some(&account)), ReadLog::new(Some(&account)));
        let long = |i: usize| format!("{i}{}", "x".repeat(16 << 10));
        (0..3).for_each(|i| one.state(&long(i)));
        (0..3).for_each(|i| other.state(&long(i)));
        let complete = (false, 3 * (16 << 10));
        let of = |log: &ReadLog| {
            let LoggedReads { is_incomplete, state, .. } = log.reads();
            (is_incomplete, state.iter().map(|name| name.len() - 1).sum::<usize>())
        };
        assert_eq!((of(&one), of(&other)), (complete, complete));
        assert_eq!(account.n_bytes(), 6 * (16 * 1024 + 1 + ENTRY_BYTES as u64));
        other.state(&long(3));
        assert_eq!(of(&other), (true, complete.1), "the account is full");
        drop(one);
        other.state(&long(4));
        assert_eq!(of(&other).1, 4 * (16 << 10));
        // An entry is at most as long as the longest read that can find an object.
        other.uid(&"x".repeat(MAX_ENTRY_BYTES));
        assert_eq!(other.reads().uids.len(), 0);
        drop(other);
        assert_eq!(account.n_bytes(), 0);
    }

    #[test]
    fn every_text_of_a_small_read_counts() {
        let long = "x".repeat(MAX_BYTES);
        let reads: [&dyn Fn(&ReadLog); 5] = [
            &|log| log.object(&Kind::new("", "v1", &long), &ObjectKey::new("ns", "name")),
            &|log| log.object(&pod(), &ObjectKey::new(&long, "name")),
            &|log| log.object(&pod(), &ObjectKey::new("ns", &long)),
            &|log| log.uid(&long),
            &|log| log.state(&long),
        ];
        for (i, read) in reads.into_iter().enumerate() {
            let log = ReadLog::default();
            read(&log);
            let reads = log.reads();
            assert_eq!((reads.objects.len(), reads.uids.len(), reads.state.len()), (0, 0, 0), "{i}");
            assert!(reads.is_incomplete, "{i}");
        }
    }

    #[test]
    fn every_text_of_a_bulk_read_counts() {
        let long = || "x".repeat(MAX_BYTES);
        let query = Query::default;
        let lists = [
            Query { namespace: Some(long()), ..query() },
            Query { label_selector: Some(long()), ..query() },
            Query { owner: Some(OwnedBy::Controller(long())), ..query() },
            Query { owner: Some(OwnedBy::ControllerOrOrphan(long())), ..query() },
            Query { owner: Some(OwnedBy::Any(long())), ..query() },
            Query { index: Some((long(), String::new())), ..query() },
            Query { index: Some((String::new(), long())), ..query() },
        ];
        let selecting = |kind, namespace: String, labels| BulkRead::Selecting { kind, namespace, labels };
        let others = [
            BulkRead::List(Kind::new("", "v1", &long()), query()),
            selecting(Kind::new(&long(), "v1", "A"), String::new(), Vec::new()),
            selecting(pod(), long(), Vec::new()),
            selecting(pod(), String::new(), vec![(long(), String::new())]),
            selecting(pod(), String::new(), vec![(String::new(), long())]),
            BulkRead::Dependents(long()),
        ];
        for (i, bulk_read) in lists.map(|query| BulkRead::List(pod(), query)).into_iter().chain(others).enumerate() {
            let log = ReadLog::default();
            log.bulk_read(bulk_read);
            assert_eq!((log.reads().bulk_reads.len(), log.reads().is_incomplete), (0, true), "{i}");
        }
    }

    #[test]
    fn bulk_reads_are_logged_once_and_bounded_in_number() {
        let log = ReadLog::default();
        let bulk_read =
            |i: usize| BulkRead::List(pod(), Query { label_selector: Some(format!("a={i}")), ..Query::default() });
        for i in (0..MAX_BULK_READS).chain(0..MAX_BULK_READS) {
            log.bulk_read(bulk_read(i));
        }
        assert_eq!((log.reads().bulk_reads.len(), log.reads().is_incomplete), (MAX_BULK_READS, false));
        log.bulk_read(bulk_read(MAX_BULK_READS));
        assert_eq!((log.reads().bulk_reads.len(), log.reads().is_incomplete), (MAX_BULK_READS, true));
    }
}
