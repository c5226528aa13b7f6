//! The expected number of Pods: the sum of the sizes of the Pods' owners.
//!
//! *Invariants*
//! 1. Each owner counts once, by its uid; the ReplicaSets of a Deployment count as that Deployment.
//! 2. A Pod without a controller adds nothing, and is reported.
//! 3. A missing controller is an error, because the budget could allow too much.
//! 4. The reads of a run are bounded, even if each Pod has another owner: then several runs read the sizes.

use std::collections::{BTreeMap, BTreeSet};

use pintle_sdk::{Error, Lister, Need};

use crate::owners::{Owner, Resources, cached, live};
use crate::types::CountedPod;

/// Most owners whose size one run reads from the API server: it has six rounds of 256 reads, and one for the discovery.
/// The next runs read the rest.
const MAX_LIVE: usize = 1_500;

/// Sizes of owners, by their uids.
pub(crate) type Sizes = BTreeMap<String, i32>;

/// The reason why a budget has no numbers.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The status reports it.
    Failed(String),
    /// Only these owner sizes have been read.
    Partial(Sizes),
    /// The run ends: a read is needed first, or an object does not fit its type.
    Run(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Run(error)
    }
}

/// The expected number of Pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Expected {
    pub(crate) pods: i32,
    /// Whether some Pods have no controller.
    pub(crate) has_unmanaged: bool,
}

/// The sum of the sizes of the owners.
///
/// `known` has the sizes from earlier runs.
///
/// # Errors
/// Upstream's error; or reads are needed first; or one run cannot read all owners.
#[doc(alias = "getExpectedScale")]
pub(crate) fn expected_scale(pods: &[CountedPod], known: &Sizes, lister: &impl Lister) -> Result<Expected, Stop> {
    let mut sizes = Sizes::new();
    let mut owners = BTreeSet::new();
    let mut needs: Vec<Need> = Vec::new();
    let mut n_live = 0;
    let mut is_partial = false;
    let mut failed = None;
    let mut expected = Expected::default();
    let resources = Resources::new(lister);
    for pod in pods {
        let Some(owner) = Owner::of_pod(pod) else {
            expected.has_unmanaged = true;
            continue;
        };
        if sizes.contains_key(owner.uid) || !owners.insert(owner) {
            continue;
        }
        let mut answer = cached(&owner, lister);
        if matches!(answer, Ok(None)) {
            if let Some(size) = known.get(owner.uid) {
                sizes.insert(owner.uid.to_owned(), *size);
                continue;
            }
            n_live += 1;
            if n_live > MAX_LIVE {
                is_partial = true;
                break;
            }
            answer = live(&owner, &resources, lister);
        }
        match answer {
            Ok(Some(size)) => {
                sizes.insert(size.uid, size.replicas);
            }
            Ok(None) => {
                let error = format!("found no controllers for pod {:?}", pod.metadata.name);
                failed.get_or_insert(Stop::Failed(error));
            }
            Err(Stop::Run(Error::Needs(more))) => {
                for need in more {
                    if !needs.contains(&need) {
                        needs.push(need);
                    }
                }
            }
            Err(error) => {
                failed.get_or_insert(error);
            }
        }
    }
    // Errors are reported only after all reads: that of the first Pod counts.
    if !needs.is_empty() {
        return Err(Stop::Run(Error::Needs(needs)));
    }
    if let Some(failed) = failed {
        return Err(failed);
    }
    if is_partial {
        return Err(Stop::Partial(known.clone().into_iter().chain(sizes).collect()));
    }
    expected.pods = sizes.values().fold(0, |sum: i32, size| sum.saturating_add(*size));
    Ok(expected)
}
