//! The used parts of the cluster's ranges.
//!
//! *Invariant*: unless `is_shared`, no two of the ranges that occupy parts (those of Services and of Nodes) overlap in a
//! part, so that each can be released alone.

use pintle_sdk::{Error, Outcome};
use plugin_lib::cidr::{self, Allocator, IpNet, Parts};
use serde::{Deserialize, Serialize};

use crate::metrics::Changes;
use crate::settings::{Settings, parse};

/// The part of the state that all Nodes share.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Kept {
    /// The settings with which it was made.
    pub(crate) settings: String,
    pools: Vec<Parts>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_shared: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_exhausted: bool,
}

/// The ranges of the cluster, one of each family, with their used parts.
#[doc(alias = "rangeAllocator")]
pub(crate) struct Pools {
    pools: Vec<Pool>,
    services: Vec<IpNet>,
    /// Whether ranges may overlap in a part.
    pub(crate) is_shared: bool,
    /// Whether Nodes may wait for a free part.
    pub(crate) is_exhausted: bool,
}

/// One range.
struct Pool {
    parts: Allocator,
    changes: Changes,
}

impl Pools {
    /// Pools in which only the ranges of Services are used.
    ///
    /// # Errors
    /// Terminal: a range cannot be divided into such parts.
    pub(crate) fn new(settings: &Settings) -> Result<Self, Error> {
        let mut pools = Self::unused(settings)?;
        pools.filter_out_service_ranges();
        for pool in &mut pools.pools {
            pool.changes.n_max = Some(pool.parts.n_parts());
        }
        Ok(pools)
    }

    /// The pools as earlier runs have left them.
    ///
    /// # Errors
    /// As for `new`.
    pub(crate) fn resume(settings: &Settings, kept: &Kept) -> Result<Self, Error> {
        let mut pools = Self::unused(settings)?;
        (pools.is_shared, pools.is_exhausted) = (kept.is_shared, kept.is_exhausted);
        for (pool, parts) in pools.pools.iter_mut().zip(&kept.pools) {
            pool.parts = pool.parts.clone().resume(parts);
        }
        Ok(pools)
    }

    fn unused(settings: &Settings) -> Result<Self, Error> {
        let pool = |(range, size): &(IpNet, u8)| {
            let too_big = "New CIDR set failed; the node CIDR size is too big";
            let parts = Allocator::new(*range, *size).map_err(|why| Error::terminal(format!("{too_big}: {why}")));
            parts.map(|parts| Pool { parts, changes: Changes::default() })
        };
        let pools = settings.clusters.iter().map(pool).collect::<Result<_, Error>>()?;
        Ok(Self { pools, services: settings.services.clone(), is_shared: false, is_exhausted: false })
    }

    /// The state for the next run.
    pub(crate) fn kept(&self, settings: &Settings) -> Kept {
        Kept {
            settings: settings.text(),
            pools: self.pools.iter().map(|pool| pool.parts.parts().clone()).collect(),
            is_shared: self.is_shared,
            is_exhausted: self.is_exhausted,
        }
    }

    /// Adds the samples of this run.
    pub(crate) fn observe(&self, outcome: Outcome) -> Outcome {
        self.pools.iter().fold(outcome, |outcome, pool| pool.changes.observe(&pool.parts, outcome))
    }

    /// The range of a pool, for messages; `None` if there is no such pool.
    pub(crate) fn range(&self, index: usize) -> Option<&IpNet> {
        self.pools.get(index).map(|pool| pool.parts.range())
    }

    #[doc(alias = "filterOutServiceRange")]
    fn filter_out_service_ranges(&mut self) {
        for range in self.services.clone() {
            self.occupy(&range);
        }
    }

    /// Occupies a range in every pool that it overlaps, whatever its place in the list of its Node: an address must not
    /// be in two ranges. Returns whether a part of it was used already.
    #[doc(alias = "occupyCIDRs")]
    pub(crate) fn occupy(&mut self, range: &IpNet) -> bool {
        let mut was_used = false;
        for pool in &mut self.pools {
            was_used |= pool.parts.is_used(range);
            // An error is that of a range outside of the pool.
            pool.changes.n_allocated += pool.parts.occupy(range).unwrap_or_default();
        }
        self.is_shared |= was_used;
        was_used
    }

    /// Releases ranges. `others`: all that Nodes hold beside them, which is read only if ranges overlap.
    #[doc(alias = "ReleaseCIDR")]
    pub(crate) fn release(&mut self, ranges: &[String], others: impl FnOnce() -> Vec<String>) {
        if self.is_shared {
            return self.occupy_only(&others());
        }
        for range in ranges.iter().filter_map(|text| parse(text)) {
            for pool in &mut self.pools {
                pool.changes.n_released += pool.parts.release(&range).unwrap_or_default();
            }
        }
    }

    /// Occupies these ranges and those of Services, and nothing else.
    fn occupy_only(&mut self, ranges: &[String]) {
        let before: Vec<(u32, Changes)> =
            self.pools.iter().map(|pool| (pool.parts.n_free(), pool.changes.clone())).collect();
        self.is_shared = false;
        self.pools.iter_mut().for_each(|pool| pool.parts.clear());
        self.filter_out_service_ranges();
        for range in ranges.iter().filter_map(|text| parse(text)) {
            self.occupy(&range);
        }
        // Only the difference is a change.
        for (pool, (n_free, changes)) in self.pools.iter_mut().zip(before) {
            pool.changes = changes;
            pool.changes.n_released += pool.parts.n_free().saturating_sub(n_free);
        }
    }

    /// Allocates a part of each pool, or none at all.
    ///
    /// # Errors
    /// The first pool without a free part.
    #[doc(alias = "AllocateOrOccupyCIDR")]
    pub(crate) fn allocate(&mut self) -> Result<Vec<String>, usize> {
        if let Some(full) = self.pools.iter().position(|pool| pool.parts.n_free() == 0) {
            return Err(full);
        }
        let mut ranges = Vec::new();
        for (index, pool) in self.pools.iter_mut().enumerate() {
            let range = pool.parts.allocate().ok_or(index)?;
            pool.changes.n_allocated += 1;
            pool.changes.tries = Some(pool.parts.n_tries());
            ranges.push(range.to_string());
        }
        Ok(ranges)
    }

    /// Whether this run has released a part.
    pub(crate) fn has_released(&self) -> bool {
        self.pools.iter().any(|pool| pool.changes.n_released > 0)
    }

    /// Number of Nodes for which there are free parts.
    pub(crate) fn n_free(&self) -> u32 {
        self.pools.iter().map(|pool| pool.parts.n_free()).min().unwrap_or_default()
    }

    /// Whether these ranges are what `allocate` returns: a part of each pool.
    pub(crate) fn fit(&self, ranges: &[String]) -> bool {
        let is_part = |(text, pool): (&String, &Pool)| parse(text).is_some_and(|range| pool.parts.has_part(&range));
        ranges.len() == self.pools.len() && ranges.iter().zip(&self.pools).all(is_part)
    }

    /// Why a range is not one of the pool with its index, in upstream's words; `None` if it is.
    #[doc(alias = "getBeginningAndEndIndices")]
    pub(crate) fn refusal(&self, node: &str, index: usize, range: &IpNet) -> Option<String> {
        let Some(pool) = self.range(index) else {
            return Some(format!(
                "node:{node} has an allocated cidr: {range} at index:{index} that does not exist in cluster cidrs configuration"
            ));
        };
        (!cidr::overlaps(pool, range)).then(|| {
            format!(
                "failed to mark cidr[{range}] at idx [{index}] as occupied for node: {node}: cidr {range} is out the range of cluster cidr {pool}"
            )
        })
    }
}
