//! The scenarios.

mod collection;
mod deployment;
mod replicas;
mod rollout;

use super::{Chance, Scenario};

/// How many Pods become ready between two looks of the Deployment controller decides how many steps it takes.
const STEPS: Chance = Chance { steps: true, ..Chance::NONE };

/// All scenarios.
pub fn all() -> Vec<Scenario> {
    [deployment::SCENARIOS, rollout::SCENARIOS, replicas::SCENARIOS, collection::SCENARIOS].concat()
}

#[cfg(test)]
mod tests {
    #[test]
    fn names_are_unique() {
        let mut names: Vec<&str> = super::all().iter().map(|s| s.name).collect();
        let n = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), n);
        assert!(n >= 25, "only {n} scenarios");
    }
}
