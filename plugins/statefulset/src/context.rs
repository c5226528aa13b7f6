//! What one run of a StatefulSet knows, and what it has decided so far.

use pintle_sdk::MutationFailure;
use pintle_sdk::time::Timestamp;

use crate::history::Revisions;
use crate::replicas::Replicas;
use crate::set::Set;
use crate::writes::Writes;

/// One run.
pub(crate) struct Context<'a, L> {
    pub(crate) lister: &'a L,
    pub(crate) set: &'a Set,
    pub(crate) revisions: &'a Revisions,
    pub(crate) replicas: &'a Replicas<'a>,
    /// Writes of the previous run that failed.
    pub(crate) failures: &'a [MutationFailure],
    pub(crate) now: Timestamp,
    pub(crate) writes: Writes,
}
