//! Inputs and decisions of one run of a StatefulSet.

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
    /// Failed writes of the previous run.
    pub(crate) failures: &'a [MutationFailure],
    pub(crate) now: Timestamp,
    pub(crate) writes: Writes,
}
