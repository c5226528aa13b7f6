//! Faults that a test injects into the writes of plugins.

use crate::types::{Kind, ObjectKey};

/// A rejection by the API server: the fields of its `Status`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rejection {
    pub(super) code: u32,
    pub(super) reason: String,
    pub(super) message: String,
    pub(super) causes: Vec<String>,
}

impl Rejection {
    pub(super) fn new(code: u32, reason: &str, message: impl Into<String>) -> Self {
        Self { code, reason: reason.to_owned(), message: message.into(), causes: Vec::new() }
    }

    pub(super) fn not_found(kind: &Kind, object: &ObjectKey) -> Self {
        Self::new(404, "NotFound", format!("{kind} {object} not found"))
    }

    pub(super) fn conflict(message: impl Into<String>) -> Self {
        Self::new(409, "Conflict", message)
    }

    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self::new(422, "Invalid", message)
    }
}

#[derive(Clone, Debug)]
pub(super) enum Effect {
    Reject(Rejection),
    Crash,
}

/// A fault in some writes of plugins, see [`Cluster::inject`](super::Cluster::inject).
///
/// Without conditions it applies to every write. Conditions narrow it down, and all of them must hold.
///
/// ```
/// use pintle_sdk::Kind;
/// use pintle_sdk::testing::Fault;
///
/// const POD: Kind = Kind::new("", "v1", "Pod");
/// let third_create = Fault::reject(500, "InternalError", "etcd is away").verb("create").kind(&POD).skip(2).times(1);
/// let quota = Fault::reject(403, "Forbidden", "exceeded quota").verb("create").kind(&POD).from_objects(10);
/// ```
#[derive(Clone, Debug)]
pub struct Fault {
    pub(super) effect: Effect,
    verb: Option<String>,
    kind: Option<Kind>,
    from_objects: Option<usize>,
    one_in: Option<u64>,
    n_skipped: u32,
    n_times: Option<u32>,
}

impl Fault {
    fn new(effect: Effect, n_times: Option<u32>) -> Self {
        Self { effect, verb: None, kind: None, from_objects: None, one_in: None, n_skipped: 0, n_times }
    }

    /// The API server rejects the write with this HTTP status code, reason and message, each time.
    pub fn reject(code: u32, reason: &str, message: &str) -> Self {
        Self::new(Effect::Reject(Rejection::new(code, reason, message)), None)
    }

    /// The host stops just before the write, once, and restarts: the rest of the outcome is lost, and so are the state
    /// of plugins, attempts and failures.
    pub fn crash() -> Self {
        Self::new(Effect::Crash, Some(1))
    }

    /// Adds a cause to the rejection, for example `NamespaceTerminating`. No effect on a crash.
    #[must_use]
    pub fn cause(mut self, cause: &str) -> Self {
        if let Effect::Reject(rejection) = &mut self.effect {
            rejection.causes.push(cause.to_owned());
        }
        self
    }

    /// Only writes of this verb: `create`, `update`, `patch`, `delete` or `delete-collection`.
    #[must_use]
    pub fn verb(mut self, verb: &str) -> Self {
        self.verb = Some(verb.to_owned());
        self
    }

    /// Only writes of objects of this kind.
    #[must_use]
    pub fn kind(mut self, kind: &Kind) -> Self {
        self.kind = Some(kind.clone());
        self
    }

    /// Only while the cluster has at least this many objects of the written kind, as with a quota.
    #[must_use]
    pub fn from_objects(mut self, n_objects: usize) -> Self {
        self.from_objects = Some(n_objects);
        self
    }

    /// Only one of `n_writes` writes, chosen by the seed.
    #[must_use]
    pub fn one_in(mut self, n_writes: u64) -> Self {
        self.one_in = Some(n_writes);
        self
    }

    /// Skips the first `n_writes` writes that the other conditions select.
    #[must_use]
    pub fn skip(mut self, n_writes: u32) -> Self {
        self.n_skipped = n_writes;
        self
    }

    /// At most this many times.
    #[must_use]
    pub fn times(mut self, n_times: u32) -> Self {
        self.n_times = Some(n_times);
        self
    }

    pub(super) fn is_used_up(&self) -> bool {
        self.n_times == Some(0)
    }

    /// Whether the fault applies to this write; if so, counts the write.
    pub(super) fn strikes(
        &mut self,
        verb: &str,
        kind: &Kind,
        n_objects: usize,
        random: &mut impl FnMut(u64) -> u64,
    ) -> bool {
        let is_selected = !self.is_used_up()
            && self.verb.as_ref().is_none_or(|own| own == verb)
            && self.kind.as_ref().is_none_or(|own| own == kind)
            && self.from_objects.is_none_or(|least| n_objects >= least)
            && self.one_in.is_none_or(|n| random(n) == 0);
        if !is_selected {
            return false;
        }
        if self.n_skipped > 0 {
            self.n_skipped -= 1;
            return false;
        }
        if let Some(left) = &mut self.n_times {
            *left -= 1;
        }
        true
    }
}
