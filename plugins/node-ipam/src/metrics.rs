//! Samples of a range's use.

use pintle_sdk::Outcome;
use plugin_lib::cidr::Allocator;

/// Changes of one range in one run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Changes {
    /// Number of parts, if this run has read the Nodes for the first time.
    pub(crate) n_max: Option<u32>,
    pub(crate) n_allocated: u32,
    pub(crate) n_released: u32,
    /// Number of used parts that an allocation passed.
    pub(crate) tries: Option<u32>,
}

impl Changes {
    /// Adds the samples, which count whether or not the patch succeeds, as upstream.
    pub(crate) fn observe(&self, parts: &Allocator, outcome: Outcome) -> Outcome {
        let n_parts = f64::from(parts.n_parts());
        let usage = || (n_parts - f64::from(parts.n_free())) / n_parts;
        let has_changed = self.n_max.is_some() || self.n_allocated + self.n_released > 0;
        let counted = |n: u32| (n > 0).then(|| f64::from(n));
        let samples = [
            ("node_ipam_controller_cirdset_max_cidrs", self.n_max.map(f64::from)),
            ("node_ipam_controller_cidrset_cidrs_allocations_total", counted(self.n_allocated)),
            ("node_ipam_controller_cidrset_cidrs_releases_total", counted(self.n_released)),
            ("node_ipam_controller_cidrset_usage_cidrs", has_changed.then(usage)),
            ("node_ipam_controller_cidrset_allocation_tries_per_request", self.tries.map(f64::from)),
        ];
        let label = parts.range().to_string();
        let given = samples.into_iter().filter_map(|(name, value)| Some((name, value?)));
        given.fold(outcome, |outcome, (name, value)| outcome.observe(name, vec![label.clone()], value))
    }
}
