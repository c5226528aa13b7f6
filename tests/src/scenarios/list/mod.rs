//! The scenarios.

mod aggregation;
pub(super) mod autoscalers;
mod budgets;
mod collection;
mod cronjob;
mod daemon_sets;
mod deployment;
mod ephemeral;
mod finished;
mod jobs;
mod namespace;
mod nodes;
mod pod_collection;
mod protection;
mod replicas;
mod rollout;
mod stateful;

use std::time::Duration;

use anyhow::Result;

use super::{Chance, Scenario, Stage};
use crate::eventually;

/// In how many steps a ReplicaSet is scaled.
const STEPS: Chance = Chance { steps: true, ..Chance::NONE };

/// Why [`STEPS`] are chance.
const MANY_AT_ONCE: &str = "as many Pods as become ready between two runs of the Deployment controller make one step";

/// All scenarios.
pub fn all() -> Vec<Scenario> {
    [
        deployment::SCENARIOS,
        rollout::SCENARIOS,
        replicas::SCENARIOS,
        collection::SCENARIOS,
        namespace::SCENARIOS,
        finished::SCENARIOS,
        protection::claims::SCENARIOS,
        protection::volumes::SCENARIOS,
        protection::classes::SCENARIOS,
        protection::groups::SCENARIOS,
        aggregation::SCENARIOS,
        nodes::SCENARIOS,
        ephemeral::SCENARIOS,
        pod_collection::SCENARIOS,
        cronjob::SCENARIOS[0],
        cronjob::SCENARIOS[1],
        cronjob::SCENARIOS[2],
        daemon_sets::placement::SCENARIOS,
        daemon_sets::rollout::SCENARIOS,
        daemon_sets::lifecycle::SCENARIOS,
        jobs::completion::SCENARIOS,
        jobs::failure::SCENARIOS,
        jobs::indexes::SCENARIOS,
        jobs::pods::SCENARIOS,
        autoscalers::limits::SCENARIOS,
        autoscalers::metrics::SCENARIOS,
        autoscalers::targets::SCENARIOS,
        autoscalers::other_metrics::SCENARIOS,
        budgets::counting::SCENARIOS,
        budgets::evictions::SCENARIOS,
        budgets::pods::SCENARIOS,
        stateful::scaling::SCENARIOS,
        stateful::updates::SCENARIOS,
        stateful::claims::SCENARIOS,
    ]
    .concat()
}

/// How long one thing that a scenario waits for may take.
const DEADLINE: Duration = Duration::from_secs(300);

/// Waits until nothing is at the path.
async fn until_gone(s: &Stage, path: &str) -> Result<()> {
    eventually(DEADLINE, format!("{path} to be gone"), async || Ok(s.client.find(path).await?.is_none().then_some(())))
        .await
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

    #[test]
    fn what_is_left_to_chance_has_a_reason_and_a_file() {
        for scenario in super::all() {
            let declared = scenario.chance != super::Chance::NONE;
            assert_eq!(declared, !scenario.reason.is_empty(), "{}", scenario.name);
            assert!(crate::workspace_dir().join(scenario.source).is_file(), "{}: {}", scenario.name, scenario.source);
        }
    }
}
