//! Leases of Nodes, and whether their cache is up to date.
//!
//! The cache may be behind the API server: its watch was interrupted, or this process was paused. So the Lease of a
//! Node that seems silent is read once more. If it differs from that of the cache, no Node is judged until the cache has
//! caught up.

use std::collections::{BTreeMap, BTreeSet};

use pintle_sdk::time::Timestamp;
use pintle_sdk::{Error, Lister, Need, Query, Resource, decode, log};
use plugin_lib::listing::fitting;
use serde::{Deserialize, Serialize};

use crate::types::Lease;

/// The namespace of the Leases, each of which has the name of its Node.
#[doc(alias = "NamespaceNodeLease")]
const NAMESPACE: &str = "kube-node-lease";

/// Most Leases that one pass reads from the API server; the next pass, which follows at once, reads others.
const MAX_READ: usize = 256;

/// The part of a Lease that matters.
#[derive(Debug)]
pub(crate) struct Renewal {
    /// Time of the last renewal, in microseconds since 1970; 0 if there was none.
    pub(crate) micros: i64,
    version: String,
}

/// The Leases in the cache, by Node.
pub(crate) struct Leases {
    by_node: BTreeMap<String, Renewal>,
    /// The newest version.
    newest: u64,
}

/// A Lease that the cache does not show yet.
#[doc(alias = "ConsistencyStore")]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Awaited {
    node: String,
    version: u64,
}

/// What the API server has of Nodes that seem silent.
pub(crate) enum Checked {
    /// These are. The others could not be read.
    Silent {
        /// Names of the Nodes.
        nodes: BTreeSet<String>,
        /// Whether Leases are left for another pass, after some have been read by this one.
        is_partial: bool,
    },
    /// The cache is not up to date.
    Stale(Awaited),
}

/// A version as a number; 0 if it is none, which no version is.
fn number(version: &str) -> u64 {
    version.parse().unwrap_or(0)
}

impl Leases {
    pub(crate) fn read(lister: &impl Lister) -> Self {
        let mut leases = Self { by_node: BTreeMap::new(), newest: 0 };
        for lease in fitting::<Lease>(lister, &Query::namespace(NAMESPACE)) {
            let micros = lease.spec.renew_time.map_or(0, Timestamp::as_micros);
            leases.newest = leases.newest.max(number(&lease.metadata.resource_version));
            let renewal = Renewal { micros, version: lease.metadata.resource_version };
            leases.by_node.insert(lease.metadata.name, renewal);
        }
        leases
    }

    pub(crate) fn of(&self, node: &str) -> Option<&Renewal> {
        self.by_node.get(node)
    }

    /// Whether the cache is as new as the awaited Lease. One that is not in the cache may be deleted, so nothing is
    /// awaited of it: each judgement reads anew.
    #[doc(alias = "EnsureReady")]
    pub(crate) fn have_reached(&self, awaited: &Awaited) -> bool {
        self.newest >= awaited.version || !self.by_node.contains_key(&awaited.node)
    }

    /// Reads the Leases of Nodes that seem silent.
    ///
    /// # Errors
    /// [`Error::Needs`] in the first round.
    pub(crate) fn check(&self, lister: &impl Lister, suspects: &[&str]) -> Result<Checked, Error> {
        let mut needs = Vec::new();
        let mut nodes = BTreeSet::new();
        let mut stale: Option<Awaited> = None;
        let mut unread = Vec::new();
        for name in suspects.iter().take(MAX_READ) {
            let need = Need::live_object(&Lease::KIND, NAMESPACE, *name);
            match lister.answer(&need) {
                None => needs.push(need),
                Some(Err(error)) if error.code == 404 => nodes.extend([(*name).to_owned()]),
                Some(Err(error)) => unread.push(format!("{name}: {}", error.message)),
                Some(Ok(text)) => match decode::<Lease>(&Lease::KIND, &text) {
                    Err(error) => unread.push(format!("{name}: {error}")),
                    Ok(lease) if self.shows(&lease) => nodes.extend([(*name).to_owned()]),
                    Ok(lease) => {
                        let version = number(&lease.metadata.resource_version);
                        if stale.as_ref().is_none_or(|awaited| awaited.version < version) {
                            stale = Some(Awaited { node: (*name).to_owned(), version });
                        }
                    }
                },
            }
        }
        if !needs.is_empty() {
            return Err(Error::Needs(needs));
        }
        if let Some(first) = unread.first() {
            let n = unread.len();
            log::warn(&format!("{n} Nodes are not judged, because their Leases cannot be read; the first is {first}"));
        }
        let is_partial = suspects.len() > MAX_READ && !nodes.is_empty();
        Ok(stale.map_or(Checked::Silent { nodes, is_partial }, Checked::Stale))
    }

    /// Whether the cache has exactly this version of the Lease.
    fn shows(&self, lease: &Lease) -> bool {
        self.of(&lease.metadata.name).is_some_and(|cached| cached.version == lease.metadata.resource_version)
    }
}
